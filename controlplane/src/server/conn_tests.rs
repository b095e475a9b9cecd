//! Hostile peers on real sockets. What a pass proves: each ends with its own cause, holds no more than it has sent, and keeps
//! nobody else waiting.

use super::*;
use crate::server::gate::Gate;
use crate::server::listener;
use std::cell::RefCell;
use std::future::Future;
use tokio::net::TcpListener;

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(60);
/// A frame of this first byte is answered with so many bytes that no socket buffer takes them.
const LARGE: u8 = b'L';
const LARGE_BYTES: usize = 32 << 20;
/// A frame of this first byte is answered when it is its turn.
const IN_TURN: u8 = b'T';

struct Server {
    address: SocketAddr,
    desk: Rc<Desk>,
    gate: Rc<Gate>,
    /// The first bytes of the frames, in the order in which they were answered.
    order: Rc<RefCell<Vec<u8>>>,
}

/// Runs `test` against a listener that sends back what it is sent.
fn with_server<T: Future<Output = ()>>(
    (connections_max, frames_max, answers_max): (usize, usize, usize),
    (idle, frame): (Duration, Duration),
    test: impl FnOnce(Server) -> T,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counters = Rc::new(Counters::default());
        let gate = Gate::new(connections_max, usize::MAX, Rc::clone(&counters));
        let desk = Rc::new(Desk { budget: Budget::new(frames_max, SHORT, answers_max), counters, idle, frame });
        let shared = Rc::clone(&desk);
        let order = Rc::new(RefCell::new(Vec::new()));
        let answered = Rc::clone(&order);
        let served = listener::serve(listener, Rc::clone(&gate), move |stream, peer, ticket| {
            let (desk, order) = (Rc::clone(&shared), Rc::clone(&answered));
            async move {
                let echo = async |frame: &[u8]| {
                    let first = frame.first().copied();
                    let _turn = if first == Some(IN_TURN) { desk.budget.turn().await } else { None };
                    order.borrow_mut().extend(first);
                    Ok(if first == Some(LARGE) { vec![0; LARGE_BYTES] } else { frame.to_vec() })
                };
                serve(stream, peer, &ticket, &desk, echo).await;
            }
        });
        tokio::task::spawn_local(served);
        test(Server { address, desk, gate, order }).await;
    });
}

impl Server {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        stream
    }

    fn count(&self, cause: Cause) -> u64 {
        self.desk.counters.of(cause)
    }
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
    frame.extend_from_slice(body);
    frame
}

/// Sends a frame and takes the echo.
async fn echoes(stream: &mut TcpStream, bytes: usize) -> bool {
    let body = vec![7; bytes];
    if stream.write_all(&framed(&body)).await.is_err() {
        return false;
    }
    let mut echo = vec![0; bytes];
    stream.read_exact(&mut echo).await.is_ok_and(|_| echo == body)
}

/// Waits for the other side to close.
async fn closed(stream: &mut TcpStream) {
    let mut piece = [0; 4 << 10];
    while stream.read(&mut piece).await.is_ok_and(|bytes| bytes > 0) {}
}

#[test]
fn a_length_that_cannot_be_and_a_frame_that_breaks_off_end_the_connection_by_their_causes() {
    with_server((9, 1 << 20, 1 << 20), (LONG, LONG), |server| async move {
        for length in [-1, i32::MIN, i32::MAX, 1 << 30, i32::try_from(REQUEST_BYTES_MAX).unwrap() + 1] {
            closed(&mut server.send(&length.to_be_bytes()).await).await;
        }
        assert_eq!(server.count(Cause::Length), 5);
        for half in [&[0][..], &[0, 0, 0], &[0, 0, 0, 5], &[0, 0, 0, 5, 1, 2]] {
            let mut stream = server.send(half).await;
            stream.shutdown().await.unwrap();
            closed(&mut stream).await;
        }
        assert_eq!(server.count(Cause::HalfFrame), 4);
        let mut stream = server.connect().await;
        for bytes in [1, 4_096, 4_097, 300_000] {
            assert!(echoes(&mut stream, bytes).await, "{bytes} bytes");
        }
        assert_eq!(server.gate.open(), 1);
    });
}

#[test]
fn bytes_that_drip_and_connections_without_a_request_end_in_time_while_others_are_served() {
    with_server((9, 1 << 20, 1 << 20), (SHORT * 3, SHORT), |server| async move {
        let mut dripping = server.send(&[0, 0, 0, 50]).await;
        let mut idle = server.connect().await;
        let mut other = server.connect().await;
        let drip = async {
            while dripping.write_all(&[1]).await.is_ok() && server.count(Cause::SlowFrame) == 0 {
                tokio::time::sleep(SHORT / 5).await;
                assert!(echoes(&mut other, 10).await);
            }
        };
        drip.await;
        closed(&mut dripping).await;
        closed(&mut idle).await;
        assert_eq!(server.count(Cause::SlowFrame), 1);
        // On a busy machine the other one has no request for as long meanwhile.
        assert!((1..=2).contains(&server.count(Cause::Idle)), "{}", server.count(Cause::Idle));
    });
}

#[test]
fn claimed_lengths_take_no_budget_and_sent_bytes_that_exceed_it_are_refused_while_small_frames_pass() {
    with_server((99, 64 << 10, 1 << 20), (LONG, LONG), |server| async move {
        let claims = i32::try_from(REQUEST_BYTES_MAX).unwrap().to_be_bytes();
        let mut claiming = Vec::new();
        for _ in 0..50 {
            claiming.push(server.send(&claims).await);
        }
        let mut other = server.connect().await;
        assert!(echoes(&mut other, 60 << 10).await, "50 claims of 4 MiB hold nothing");
        // Two that sent half of the budget each, and a third for which none is left.
        let mut halves = Vec::new();
        for _ in 0..2 {
            let mut bytes = (40_u32 << 10).to_be_bytes().to_vec();
            bytes.resize(4 + (17 << 10), 1);
            halves.push(server.send(&bytes).await);
        }
        while server.count(Cause::NoBudget) == 0 {
            assert!(echoes(&mut other, 4 << 10).await, "a small frame needs none");
            halves.push(server.send(&[&(40_u32 << 10).to_be_bytes()[..], &[1; 20 << 10]].concat()).await);
            // It is refused after a wait; many more would be turned out by the next ones before that.
            tokio::time::sleep(2 * SHORT).await;
        }
        drop(halves);
        // It comes back as soon as the server has seen that they are gone.
        while !echoes(&mut server.connect().await, 60 << 10).await {}
    });
}

#[test]
fn an_answer_that_is_not_taken_ends_its_connection_and_many_of_them_are_not_kept() {
    with_server((99, 1 << 20, LARGE_BYTES + 100), (LONG, SHORT), |server| async move {
        let mut lazy = Vec::new();
        for _ in 0..5 {
            lazy.push(server.send(&framed(&[LARGE])).await);
        }
        let mut other = server.connect().await;
        while server.count(Cause::Unread) < 5 {
            assert!(echoes(&mut other, 10).await);
        }
    });
    with_server((99, 1 << 20, 1), (LONG, LONG), |server| async move {
        let mut eager = server.send(&framed(&[LARGE])).await;
        let mut taken = vec![0; LARGE_BYTES];
        eager.read_exact(&mut taken).await.unwrap();
    });
}

#[test]
fn at_the_limit_idle_connections_and_slow_senders_give_way_to_those_that_ask() {
    with_server((20, 1 << 20, 1 << 20), (LONG, LONG), |server| async move {
        let mut slow = Vec::new();
        for at in 0..20 {
            slow.push(if at % 2 == 0 { server.connect().await } else { server.send(&[0, 0, 0, 9, 1]).await });
        }
        let mut asking = Vec::new();
        for _ in 0..20 {
            asking.push(server.connect().await);
            assert!(echoes(asking.last_mut().unwrap(), 10).await);
        }
        assert_eq!(server.count(Cause::Evicted), 20);
        assert!(server.gate.open() <= 20);
        closed(&mut slow[0]).await;
    });
}

#[test]
fn who_asks_for_little_is_answered_between_those_who_ask_for_everything() {
    with_server((99, 1 << 20, 1 << 20), (LONG, LONG), |server| async move {
        let large: u8 = 50;
        let mut everything = Vec::new();
        for _ in 0..large {
            let mut stream = server.connect().await;
            // So that it is served by now, and its request is all that is missing.
            assert!(echoes(&mut stream, 1).await);
            everything.push(stream);
        }
        let mut little = server.connect().await;
        assert!(echoes(&mut little, 1).await);
        server.order.borrow_mut().clear();
        // All requests lie in the sockets before the first is read; the small one came last.
        for stream in &everything {
            assert_eq!(stream.try_write(&framed(&[IN_TURN])).unwrap(), 5);
        }
        assert_eq!(little.try_write(&framed(&[7])).unwrap(), 5);
        for stream in everything.iter_mut().chain([&mut little]) {
            stream.read_exact(&mut [0]).await.unwrap();
        }
        let order = server.order.borrow();
        let before = order.iter().take_while(|first| **first == IN_TURN).count();
        assert!(order.len() == 51 && before <= 2, "{before} of {large} large answers came first");
    });
}
