//! Whom an `https` upstream is believed by: the system's authorities, or one of the operator's own.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::config;

#[derive(Debug, thiserror::Error)]
pub enum UpstreamsError {
    #[error("{}: {why}", path.display())]
    Authority { path: PathBuf, why: String },
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// One configuration for each list of protocols that may be offered; they share their sessions.
#[derive(Clone)]
pub struct Trust {
    pub either: Arc<ClientConfig>,
    pub http1: Arc<ClientConfig>,
    pub http2: Arc<ClientConfig>,
}

impl Trust {
    pub fn read(tls: &config::UpstreamTls) -> Result<Self, UpstreamsError> {
        let roots = match &tls.ca {
            Some(path) => own(path)?,
            None => native(),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let base = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let offering = |protocols: &[&str]| {
            let mut config = base.clone();
            config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().into()).collect();
            Arc::new(config)
        };
        Ok(Self {
            either: offering(&["h2", "http/1.1"]),
            http1: offering(&["http/1.1"]),
            http2: offering(&["h2"]),
        })
    }
}

fn own(path: &PathBuf) -> Result<RootCertStore, UpstreamsError> {
    let wrong = |why: String| UpstreamsError::Authority { path: path.clone(), why };
    let mut roots = RootCertStore::empty();
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(wrong("there is no certificate in it".into())),
        false => Ok(roots),
    }
}

/// A system without any is no mistake: most upstreams are plain HTTP, and those that are not say
/// why they cannot be reached.
fn native() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let errors = found.errors;
        tracing::warn!(?errors, "this system trusts no authority; set upstream_tls.ca for https");
    }
    roots
}
