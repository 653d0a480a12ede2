//! `https` upstreams: whom to believe, and which HTTP to speak.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use super::servers::{Server, says, serve};
use super::*;

struct Authority {
    pem: tempfile::NamedTempFile,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let pem = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(pem.path(), issuer.pem()).unwrap();
        Self { pem, issuer }
    }

    async fn server(&self, names: &[&str], protocols: &'static [&'static str]) -> Server {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().into()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Server::follow(move |stream, _| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                serve(stream, |request| async move {
                    let host = request.headers().get("host").cloned();
                    says(format!("{:?} {} {host:?}", request.version(), request.uri()))
                })
                .await;
            }
        })
        .await
    }

    fn upstream(&self, http2: Http2, url: String) -> Arc<Upstream> {
        let tls = UpstreamTls { ca: Some(self.pem.path().into()) };
        let upstreams = Upstreams::new(Connections { http2, ..connections() }, &tls, 1).unwrap();
        upstreams.get(&configured(&[url]))
    }
}

const HTTP1: &str = "HTTP/1.1 /a Some(\"shop.example\")";
const HTTP2: &str = "HTTP/2.0 https://shop.example/a None";

#[tokio::test]
async fn the_server_says_which_http_is_spoken() {
    let authority = Authority::new();
    for (protocols, http2, seen, accepted) in [
        (&["h2", "http/1.1"][..], Http2::Auto, HTTP2, 1),
        (&["h2"], Http2::PriorKnowledge, HTTP2, 1),
        (&[], Http2::PriorKnowledge, HTTP2, 1),
        (&["h2", "http/1.1"], Http2::Never, HTTP1, 1),
        // The first connection was to find out.
        (&["http/1.1"], Http2::Auto, HTTP1, 2),
        (&[], Http2::Auto, HTTP1, 2),
    ] {
        let server = authority.server(&["127.0.0.1"], protocols).await;
        let upstream = authority.upstream(http2, format!("https://{}", server.address));
        for _ in 0..3 {
            let response = within(upstream.send(0, post("/a"))).await.unwrap();
            assert_eq!(text(response).await, seen, "{protocols:?} {http2:?}");
        }
        assert_eq!(server.accepted(), accepted, "{protocols:?} {http2:?}");
    }
}

#[tokio::test]
async fn an_upgrade_is_asked_for_in_http1_even_where_http2_is_spoken() {
    let authority = Authority::new();
    let server = authority.server(&["127.0.0.1"], &["h2", "http/1.1"]).await;
    let upstream = authority.upstream(Http2::Auto, format!("https://{}", server.address));
    assert_eq!(text(upstream.send(0, post("/a")).await.unwrap()).await, HTTP2);
    let mut upgrade = post("/a");
    upgrade.headers_mut().insert("connection", "upgrade".parse().unwrap());
    upgrade.headers_mut().insert("upgrade", "websocket".parse().unwrap());
    assert_eq!(text(upstream.send(0, upgrade).await.unwrap()).await, HTTP1);
    assert_eq!(text(upstream.send(0, post("/a")).await.unwrap()).await, HTTP2);
}

#[tokio::test]
async fn names_are_verified_and_strangers_are_not_believed() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let named = authority.server(&["localhost"], &[]).await;
    let url = |host: &str| format!("https://{host}:{}", named.address.port());
    let upstream = authority.upstream(Http2::Never, url("localhost"));
    assert_eq!(text(upstream.send(0, post("/a")).await.unwrap()).await, HTTP1);

    for upstream in [
        authority.upstream(Http2::Auto, url("127.0.0.1")),
        stranger.upstream(Http2::Auto, url("localhost")),
        upstreams(connections(), 1).get(&configured(&[url("localhost")])),
    ] {
        let error = upstream.send(0, post("/a")).await.map(drop).unwrap_err();
        let told = error.to_string();
        assert!(matches!(error, SendError::Unreachable(_)), "{told}");
        assert!(told.contains("certificate"), "{told}");
        assert_eq!(upstream.open(), 0);
    }
}

#[test]
fn an_authority_that_cannot_be_read_is_told_with_its_path() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    for path in [empty.path(), std::path::Path::new("/does/not/exist.pem")] {
        let tls = UpstreamTls { ca: Some(path.into()) };
        let error = Upstreams::new(connections(), &tls, 1).map(drop).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
}
