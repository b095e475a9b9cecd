//! Accepts connections, as many as the limit allows, and gives each a task.

use crate::error::Fatal;
use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tracing::{debug, warn};

/// After an accept that failed (no descriptors left, mostly) the next one waits.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Binds a listener.
///
/// # Errors
/// A port that is taken, or an address that is not ours.
pub async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, Fatal> {
    TcpListener::bind(address).await.map_err(|cause| {
        Fatal::new(
            format_args!("cannot listen on {address}"),
            cause,
            format_args!("stop what uses that port, or choose another one with {flag} IP:PORT"),
        )
    })
}

/// Serves connections for ever, at most `connections_max` at a time; one too many is closed at once.
pub async fn serve<F, Served>(listener: TcpListener, connections_max: usize, open: Rc<Cell<usize>>, handle: F)
where
    F: Fn(TcpStream, SocketAddr) -> Served + 'static,
    Served: Future<Output = ()> + 'static,
{
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(cause) => {
                warn!(%cause, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if open.get() >= connections_max {
            debug!(%peer, connections_max, "closed a connection above the limit");
            continue;
        }
        let counted = Counted::new(&open);
        let served = handle(stream, peer);
        tokio::task::spawn_local(async move {
            served.await;
            drop(counted);
        });
    }
}

/// Counts a connection for as long as it lives.
struct Counted(Rc<Cell<usize>>);

impl Counted {
    fn new(open: &Rc<Cell<usize>>) -> Self {
        open.set(open.get() + 1);
        Self(Rc::clone(open))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
