//! TLS: both protocols by ALPN, and certificates that change under a running server.

use std::path::Path;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::config;

fn files(folder: &TempDir) -> config::Tls {
    config::Tls { cert: folder.path().join("cert.pem"), key: folder.path().join("key.pem") }
}

/// A new certificate in these files.
fn renew(files: &config::Tls) -> CertificateDer<'static> {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["gate.test".to_owned()]).unwrap();
    write(&files.cert, &cert.pem());
    write(&files.key, &signing_key.serialize_pem());
    cert.der().clone()
}

fn write(file: &Path, text: &str) {
    std::fs::write(file, text).unwrap();
}

async fn connect(
    server: &Running,
    trusted: &CertificateDer<'static>,
    protocols: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = rustls::crypto::ring::default_provider();
    let mut client = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("gate.test").unwrap();
    TlsConnector::from(Arc::new(client)).connect(name, server.connect().await).await
}

#[tokio::test]
async fn both_protocols_are_spoken_over_tls_as_alpn_says() {
    let folder = TempDir::new().unwrap();
    let certificate = renew(&files(&folder));
    let server = Running::start_with(limits(), Some(Tls::load(&files(&folder)).unwrap()));

    for protocols in [&["http/1.1"][..], &[]] {
        let mut stream = connect(&server, &certificate, protocols).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), protocols.first().map(|it| it.as_bytes()));
        assert!(get(&mut stream, "/").await.ends_with("hello"));
        assert!(get(&mut stream, "/peer").await.contains("https 127.0.0.1:"));
    }
    let stream = connect(&server, &certificate, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut sender = http2(stream).await;
    assert_eq!(text(sender.send_request(request("/")).await.unwrap()).await, "hello");
    let big = text(sender.send_request(request("/big")).await.unwrap()).await;
    assert_eq!(big.len(), 64 * MIB);
}

#[tokio::test]
async fn new_connections_see_a_new_certificate_and_old_ones_go_on() {
    let folder = TempDir::new().unwrap();
    let files = files(&folder);
    let before = renew(&files);
    let server = Running::start_with(limits(), Some(Tls::load(&files).unwrap()));
    let mut old = connect(&server, &before, &[]).await.unwrap();

    let after = renew(&files);
    server.front.tls().unwrap().reload().unwrap();
    let mut new = connect(&server, &after, &[]).await.unwrap();
    assert!(connect(&server, &before, &[]).await.is_err());
    assert!(get(&mut new, "/").await.ends_with("hello"));
    assert!(get(&mut old, "/").await.ends_with("hello"));

    write(&files.cert, "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n");
    let error = server.front.tls().unwrap().reload().unwrap_err();
    assert!(error.to_string().contains("cert.pem"), "{error}");
    let mut still = connect(&server, &after, &[]).await.unwrap();
    assert!(get(&mut still, "/").await.ends_with("hello"));
}

#[test]
fn what_is_wrong_with_the_files_is_said() {
    let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (files, others) = (files(&folder), files(&other));
    let error = |files: &config::Tls| Tls::load(files).err().unwrap().to_string();
    assert!(error(&files).contains("cert.pem cannot be read"));
    renew(&files);
    renew(&others);
    Tls::load(&files).unwrap();
    let mixed = config::Tls { key: others.key.clone(), ..files.clone() };
    assert!(error(&mixed).contains("does not belong to the certificate"));
    let swapped = config::Tls { cert: files.key.clone(), key: files.cert.clone() };
    assert!(error(&swapped).contains("holds no certificate"), "{}", error(&swapped));
    let no_key = config::Tls { key: files.cert.clone(), ..files.clone() };
    assert!(error(&no_key).contains("holds no private key"), "{}", error(&no_key));
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_cut() {
    let folder = TempDir::new().unwrap();
    renew(&files(&folder));
    let tls = Some(Tls::load(&files(&folder)).unwrap());
    let limits = Limits { header_timeout: Duration::from_millis(100), ..limits() };
    let server = Running::start_with(limits, tls);
    let mut stream = server.connect().await;
    stream.write_all(&[22, 3, 1]).await.unwrap();
    assert_eq!(rest(&mut stream).await, b"");
}
