//! Never more connections than allowed, over all threads, and everybody gets a turn.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicUsize;
use std::sync::{Barrier, Mutex};

use futures_util::future::join_all;
use tokio::sync::Notify;

use super::servers::{OK, Server, read_request, read_to_end, says, write};
use super::*;

/// Runs one future on each front thread, all at once.
fn on_front_threads<F: Future<Output = ()>>(threads: usize, work: impl Fn(usize) -> F + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.unwrap().block_on(work(thread));
            });
        }
    });
}

/// Remembers every socket, and at each new one counts those whose client has not closed them: the
/// client's end is reached before the next connection of the same client.
#[derive(Clone, Default)]
struct Census(Arc<Mutex<(HashMap<usize, TcpStream>, usize)>>);

impl Census {
    async fn count(&self, number: usize, socket: TcpStream, max: usize) {
        self.0.lock().unwrap().0.insert(number, socket);
        while !self.is_settled(max) {
            tokio::task::yield_now().await;
        }
    }

    fn is_settled(&self, max: usize) -> bool {
        let (sockets, most) = &mut *self.0.lock().unwrap();
        let mut unread = false;
        sockets.retain(|_, socket| match socket.peek(&mut [0]) {
            Ok(0) => false,
            // Whether it is closed behind that is seen once the server has read it.
            Ok(_) => {
                unread = true;
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        });
        if sockets.len() > max && unread {
            return false;
        }
        *most = sockets.len().max(*most);
        true
    }

    fn forget(&self, number: usize) {
        self.0.lock().unwrap().0.remove(&number);
    }

    fn most(&self) -> usize {
        self.0.lock().unwrap().1
    }
}

fn cap_holds(http2: Http2, max: u32, threads: usize) {
    let mut background = tokio::runtime::Builder::new_multi_thread();
    let background = background.worker_threads(1).enable_all().build().unwrap();
    let census = Census::default();
    let counted = census.clone();
    let server = background.block_on(Server::follow(move |stream, number| {
        let census = counted.clone();
        let socket = stream.as_fd().try_clone_to_owned().unwrap().into();
        let serving = super::servers::serve(stream, |_| async {
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
            says("ok")
        });
        async move {
            let serving = async {
                serving.await;
                census.forget(number);
            };
            tokio::join!(census.count(number, socket, max as usize), serving);
        }
    }));
    let upstreams = upstreams(Connections { max, http2, ..connections() }, threads);
    let upstream = upstreams.get(&configured(&[format!("http://{}", server.address)]));
    let executed = AtomicUsize::new(0);
    // All runtimes live until the end, or their connections would be gone before that.
    let together = Barrier::new(threads);
    on_front_threads(threads, |thread| {
        let (upstream, executed, together) = (&upstream, &executed, &together);
        async move {
            for _ in 0..15 {
                let sent = join_all((0..8).map(|_| async {
                    let response = upstream.send(thread, post("/")).await.unwrap();
                    assert_eq!(text(response).await, "ok");
                    executed.fetch_add(1, Ordering::SeqCst);
                }));
                within(sent).await;
                assert!(upstream.open() <= max as usize);
            }
            // Until then others may want this thread's connections closed.
            within(async {
                while executed.load(Ordering::SeqCst) < threads * 15 * 8 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
            .await;
            together.wait();
        }
    });
    assert_eq!(executed.load(Ordering::SeqCst), threads * 15 * 8);
    assert!(census.most() <= max as usize, "{} sockets were open at once", census.most());
    assert_eq!(upstream.connections().1, 0);
}

#[test]
fn the_cap_holds_over_all_threads() {
    cap_holds(Http2::Auto, 2, 2);
    cap_holds(Http2::Auto, 1, 3);
    cap_holds(Http2::Auto, 5, 2);
}

#[test]
fn the_cap_holds_for_shared_connections_too() {
    cap_holds(Http2::PriorKnowledge, 1, 3);
    cap_holds(Http2::PriorKnowledge, 3, 2);
}

#[tokio::test]
async fn an_idle_connection_of_another_thread_makes_room() {
    let server = Server::http(|_| async { says("ok") }).await;
    let upstreams = upstreams(Connections { max: 2, ..connections() }, 2);
    let upstream = upstreams.get(&configured(&[format!("http://{}", server.address)]));
    let (first, second) =
        tokio::try_join!(upstream.send(0, post("/")), upstream.send(0, post("/"))).unwrap();
    text(first).await;
    text(second).await;
    assert_eq!(upstream.connections(), (2, 0));
    text(within(upstream.send(1, post("/"))).await.unwrap()).await;
    assert_eq!(upstream.connections(), (2, 0));
    assert_eq!(upstream.fronts[0].retain_idle(|_| true), 1);
    assert_eq!(upstream.fronts[1].retain_idle(|_| true), 1);
    assert_eq!(server.accepted(), 3);
}

#[tokio::test]
async fn who_waits_gets_the_connection_when_the_answer_before_has_ended() {
    let go_on = Arc::new(Notify::new());
    let may = go_on.clone();
    let server = Server::follow(move |mut stream, _| {
        let may = may.clone();
        async move {
            read_request(&mut stream).await.unwrap();
            write(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nha").await;
            may.notified().await;
            write(&mut stream, "lf").await;
            read_request(&mut stream).await.unwrap();
            write(&mut stream, OK).await;
            read_to_end(stream).await;
        }
    })
    .await;
    let upstream = upstream(Connections { max: 1, ..connections() }, server.address);
    let first = upstream.send(0, post("/first")).await.unwrap();
    assert_eq!(upstream.connections(), (0, 1));
    let mut second = Box::pin(upstream.send(0, post("/second")));
    assert!(futures_util::poll!(&mut second).is_pending());
    go_on.notify_one();
    assert_eq!(text(first).await, "half");
    assert_eq!(text(within(second).await.unwrap()).await, "ok");
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn who_waits_too_long_is_told_that_all_are_busy() {
    let server = Server::follow(|mut stream, _| async move {
        read_request(&mut stream).await.unwrap();
        write(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nha").await;
        read_to_end(stream).await;
    })
    .await;
    for acquire_timeout in [Duration::ZERO, Duration::from_millis(30)] {
        let limits = Connections { max: 1, acquire_timeout, ..connections() };
        let upstream = upstream(limits, server.address);
        let first = upstream.send(0, post("/")).await.unwrap();
        let second = within(upstream.send(0, post("/"))).await.map(drop);
        assert_eq!(second, Err(SendError::Busy));
        drop(first);
        assert!(within(upstream.send(0, post("/"))).await.is_ok());
    }
    assert_eq!(server.accepted(), 4);
}
