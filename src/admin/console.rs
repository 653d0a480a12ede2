//! The console's files, inside the binary: one page that needs nothing from anywhere else.
//!
//! They hold no secret and ask for no token; what they show comes from the API, which does. The
//! policy sent with them lets the page run its own scripts and talk to its own listener, and
//! nothing else, so that a key or an error made by an attacker stays text.

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use sha2::{Digest, Sha256};

use crate::http::Body;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

pub struct File {
    path: &'static str,
    media_type: &'static str,
    text: &'static str,
}

macro_rules! file {
    ($path:literal, $media_type:ident, $name:literal) => {
        File {
            path: $path,
            media_type: $media_type,
            text: include_str!(concat!("console/", $name)),
        }
    };
}

const FILES: &[File] = &[
    file!("/", HTML, "index.html"),
    file!("/console/console.css", STYLE, "console.css"),
    file!("/console/icon.svg", IMAGE, "icon.svg"),
    file!("/console/console.js", SCRIPT, "console.js"),
    file!("/console/api.js", SCRIPT, "api.js"),
    file!("/console/attention.js", SCRIPT, "attention.js"),
    file!("/console/changes.js", SCRIPT, "changes.js"),
    file!("/console/charts.js", SCRIPT, "charts.js"),
    file!("/console/dom.js", SCRIPT, "dom.js"),
    file!("/console/format.js", SCRIPT, "format.js"),
    file!("/console/life.js", SCRIPT, "life.js"),
    file!("/console/overview.js", SCRIPT, "overview.js"),
    file!("/console/record.js", SCRIPT, "record.js"),
    file!("/console/records.js", SCRIPT, "records.js"),
    file!("/console/words.js", SCRIPT, "words.js"),
];

pub fn find(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}

impl File {
    /// A browser keeps it and asks each time whether it is still the same.
    pub fn answer(&self, asked: &HeaderMap) -> Response<Body> {
        let tag = self.tag();
        let known = asked.get_all(IF_NONE_MATCH).iter().any(|tags| has(tags, &tag));
        let mut response = match known {
            true => Response::new(Body::empty()),
            false => Response::new(Body::from(Bytes::from_static(self.text.as_bytes()))),
        };
        if known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let headers = response.headers_mut();
        for (name, value) in [
            (CONTENT_TYPE, self.media_type),
            (CACHE_CONTROL, "no-cache"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (X_FRAME_OPTIONS, "DENY"),
            (REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(ETAG, tag);
        }
        response
    }

    fn tag(&self) -> String {
        let digest = Sha256::digest(self.text.as_bytes());
        let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("\"{hex}\"")
    }
}

fn has(tags: &HeaderValue, tag: &str) -> bool {
    let tags = tags.to_str().unwrap_or_default().split(',').map(str::trim);
    tags.map(|other| other.trim_start_matches("W/")).any(|other| other == tag || other == "*")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_folder_is_served_and_what_the_page_names_is_there() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/admin/console");
        let names = std::fs::read_dir(folder).unwrap().flatten();
        let kept: BTreeSet<_> =
            names.map(|entry| entry.file_name().into_string().unwrap()).collect();
        let served = FILES.iter().map(|file| match file.path {
            "/" => "index.html".to_owned(),
            path => path.trim_start_matches("/console/").to_owned(),
        });
        assert_eq!(served.collect::<BTreeSet<_>>(), kept);

        for file in FILES {
            for (quote, start) in [("\"", "\"/console/"), ("\"", "\"./")] {
                for rest in file.text.split(start).skip(1) {
                    let name = rest.split(quote).next().unwrap();
                    assert!(find(&format!("/console/{name}")).is_some(), "{}: {name}", file.path);
                }
            }
        }
    }

    /// The policy forbids them in a browser; here they are found without one.
    #[test]
    fn nothing_comes_from_elsewhere_and_nothing_is_put_in_as_html() {
        for file in FILES {
            for forbidden in [
                "https://",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
            ] {
                assert!(!file.text.contains(forbidden), "{} has {forbidden}", file.path);
            }
            let elsewhere = file.text.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("http://"), "{} names another site", file.path);
        }
        let page = find("/").unwrap().text;
        for inline in [" style=", " onclick=", "<style", "<script>"] {
            assert!(!page.contains(inline), "the page has {inline}");
        }
    }

    #[test]
    fn a_browser_that_has_the_file_is_told_so() {
        let file = find("/").unwrap();
        let first = file.answer(&HeaderMap::new());
        assert_eq!(first.status(), StatusCode::OK);
        assert_eq!(first.headers()[CONTENT_TYPE], HTML);
        let tag = first.headers()[ETAG].clone();
        for (sent, status) in [
            (tag.to_str().unwrap().to_owned(), 304),
            (format!("\"x\", W/{}", tag.to_str().unwrap()), 304),
            ("\"x\"".to_owned(), 200),
        ] {
            let headers = HeaderMap::from_iter([(IF_NONE_MATCH, sent.parse().unwrap())]);
            assert_eq!(file.answer(&headers).status(), status, "{sent}");
        }
    }
}
