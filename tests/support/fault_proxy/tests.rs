//! The proxy's own tests, against a server that echoes: a fault that does not happen would make
//! every test that relies on it pass for nothing.

use super::*;

/// A proxy to a server that answers every byte with the same byte, and a connection to it.
async fn echo() -> (FaultProxy, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let target = listener.local_addr().expect("a bound socket has an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
    });
    let proxy = FaultProxy::start(target).await;
    let client = TcpStream::connect(proxy.addr()).await.expect("the proxy accepts");
    (proxy, client)
}

async fn ask(client: &mut TcpStream, byte: u8) -> io::Result<u8> {
    client.write_u8(byte).await?;
    let answer = tokio::time::timeout(Duration::from_millis(200), client.read_u8());
    answer.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

fn outcome(answer: io::Result<u8>) -> Result<u8, io::ErrorKind> {
    answer.map_err(|e| e.kind())
}

#[tokio::test]
async fn a_blackhole_holds_bytes_back_until_healed() {
    let (proxy, mut client) = echo().await;
    assert_eq!(outcome(ask(&mut client, 1).await), Ok(1));
    proxy.blackhole();
    assert_eq!(outcome(ask(&mut client, 2).await), Err(io::ErrorKind::TimedOut));
    let mut late = TcpStream::connect(proxy.addr()).await.expect("a blackhole accepts");
    assert_eq!(outcome(ask(&mut late, 3).await), Err(io::ErrorKind::TimedOut));
    proxy.heal();
    assert_eq!(outcome(client.read_u8().await), Ok(2));
    assert_eq!(outcome(late.read_u8().await), Ok(3));
}

#[tokio::test]
async fn a_cut_resets_open_and_new_connections() {
    let (proxy, mut client) = echo().await;
    assert_eq!(outcome(ask(&mut client, 1).await), Ok(1));
    proxy.cut();
    assert_eq!(outcome(client.read_u8().await), Err(io::ErrorKind::ConnectionReset));
    let mut late = TcpStream::connect(proxy.addr()).await.expect("the port stays bound");
    assert_eq!(outcome(late.read_u8().await), Err(io::ErrorKind::ConnectionReset));
    proxy.heal();
    let mut later = TcpStream::connect(proxy.addr()).await.expect("the proxy accepts again");
    assert_eq!(outcome(ask(&mut later, 2).await), Ok(2));
}

#[tokio::test]
async fn swallowed_replies_are_counted_and_lost() {
    let (proxy, mut client) = echo().await;
    proxy.swallow_replies();
    assert_eq!(outcome(ask(&mut client, 1).await), Err(io::ErrorKind::TimedOut));
    assert_eq!(proxy.swallowed_bytes(), 1);
    proxy.heal();
    assert_eq!(outcome(ask(&mut client, 2).await), Ok(2));
}

#[tokio::test]
async fn a_delay_counts_in_both_directions() {
    let (proxy, mut client) = echo().await;
    proxy.delay(Duration::from_millis(30));
    let start = Instant::now();
    assert_eq!(outcome(ask(&mut client, 1).await), Ok(1));
    assert!(start.elapsed() >= Duration::from_millis(60));
}
