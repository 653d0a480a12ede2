//! TLS in front: a certificate that can be exchanged while connections go on.
//!
//! Files that cannot be used are an error that names the file; on a reload the old certificate
//! stays, for a gateway without one serves nobody.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config;

pub struct Tls {
    files: config::Tls,
    current: ArcSwap<ServerConfig>,
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{} cannot be read: {source}", file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error(
        "{} holds no certificate: it must be PEM, -----BEGIN CERTIFICATE-----, the server's own \
         first, then those that lead to the authority",
        file.display()
    )]
    NoCertificate { file: PathBuf },
    #[error(
        "{} holds no private key: it must be PEM, -----BEGIN PRIVATE KEY----- (or RSA, EC), not \
         encrypted",
        file.display()
    )]
    NoKey { file: PathBuf },
    #[error("{} is damaged PEM: {source}", file.display())]
    Damaged { file: PathBuf, source: pem::Error },
    #[error("the key in {} does not belong to the certificate in {}", key.display(), cert.display())]
    Mismatch { cert: PathBuf, key: PathBuf },
    #[error("{} and {} cannot be used: {source}", cert.display(), key.display())]
    Unusable { cert: PathBuf, key: PathBuf, source: rustls::Error },
}

impl Tls {
    pub fn load(files: &config::Tls) -> Result<Self, TlsError> {
        Ok(Self { files: files.clone(), current: ArcSwap::new(read(files)?) })
    }

    /// Reads the same files again, for the connections from now on.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.current.store(read(&self.files)?);
        Ok(())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load_full())
    }
}

fn read(files: &config::Tls) -> Result<Arc<ServerConfig>, TlsError> {
    let config::Tls { cert, key } = files;
    let unusable = |source| TlsError::Unusable { cert: cert.clone(), key: key.clone(), source };
    // Named, not the process's default: nothing depends on who was installed first.
    let mut server = ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(certificates(cert)?, private_key(key)?)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::Mismatch { cert: cert.clone(), key: key.clone() }
            }
            error => unusable(error),
        })?;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Sessions are resumed from the client's ticket, not from a table here. A reload brings new
    // ticket keys, so that nobody resumes with the old certificate.
    server.ticketer = ring::Ticketer::new().map_err(unusable)?;
    Ok(Arc::new(server))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = contents(file)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|source| TlsError::Damaged { file: file.into(), source })?;
    match chain.is_empty() {
        true => Err(TlsError::NoCertificate { file: file.into() }),
        false => Ok(chain),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&contents(file)?).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey { file: file.into() },
        source => TlsError::Damaged { file: file.into(), source },
    })
}

fn contents(file: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(file).map_err(|source| TlsError::Unreadable { file: file.into(), source })
}
