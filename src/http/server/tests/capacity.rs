//! How many connections there may be, and that many of them cost little.

use super::*;

#[tokio::test]
async fn at_the_cap_the_next_connection_waits_for_one_to_end() {
    let server = Running::start(Limits { max_connections: 2, ..limits() });
    let (mut first, mut second) = (server.connect().await, server.connect().await);
    get(&mut first, "/").await;
    get(&mut second, "/").await;
    let mut third = server.connect().await;
    send(&mut third, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    get(&mut second, "/").await;
    let early = timeout(Duration::from_millis(50), third.read_u8()).await;
    assert!(early.is_err() && server.front.connections() == 2);
    drop(first);
    assert!(answer(&mut third).await.ends_with("hello"));
    assert_eq!(server.front.connections(), 2);
}

#[tokio::test]
async fn a_higher_cap_lets_those_in_who_wait() {
    let server = Running::start(Limits { max_connections: 1, ..limits() });
    let (mut first, mut second) = (server.connect().await, server.connect().await);
    get(&mut first, "/").await;
    send(&mut second, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    get(&mut first, "/").await;
    server.front.set_limits(Limits { max_connections: 2, ..limits() });
    assert!(answer(&mut second).await.ends_with("hello"));
}

#[tokio::test]
async fn the_cap_is_for_all_threads_of_a_listener_together() {
    let front = Front::new(Limits { max_connections: 3, ..limits() }, None);
    let stop = Stop::new();
    let script = || {
        let (entered, released) = (Semaphore::new(0), Semaphore::new(0));
        Script(Arc::new(Steps { entered, released, body_idle_timeout: SOON }))
    };
    let listeners = listen("127.0.0.1:0".parse().unwrap(), 2).unwrap();
    let address = listeners[0].local_addr().unwrap();
    let mut threads = Vec::new();
    for listener in listeners {
        let serving = (front.clone(), script(), stop.clone());
        threads.push(std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let (front, script, stop) = serving;
                serve(TcpListener::from_std(listener).unwrap(), front, script, stop).await;
            });
        }));
    }
    // Spread over both by the kernel, ten get their turn three at a time.
    let mut clients: Vec<_> = Vec::new();
    for _ in 0..10 {
        clients.push(tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            get(&mut stream, "/").await
        }));
    }
    for client in clients {
        assert!(client.await.unwrap().ends_with("hello"));
    }
    stop.softly();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(front.connections(), 0);
}

/// Two sockets each: not more than this process may open.
fn affordable(connections: usize) -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let files = files.and_then(|line| line.split_whitespace().next()?.parse().ok());
    files.map_or(connections, |files: usize| connections.min(files / 4))
}

#[tokio::test]
async fn two_thousand_idle_connections_are_served_and_ended() {
    let server = Running::start(limits());
    let mut idle = Vec::new();
    let count = affordable(2000);
    for _ in 0..count {
        let mut stream = server.connect().await;
        get(&mut stream, "/").await;
        idle.push(stream);
    }
    assert_eq!(server.front.connections() as usize, count);
    for stream in idle.iter_mut().step_by(100) {
        assert!(get(stream, "/").await.ends_with("hello"));
    }
    server.stop.softly();
    for stream in &mut idle {
        assert_eq!(rest(stream).await, b"");
    }
    server.ended().await;
}
