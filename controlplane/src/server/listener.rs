//! Accepts connections, as many as the gate lets in, and gives each a task.

use crate::error::Fatal;
use crate::server::gate::{Gate, Ticket};
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tracing::warn;

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

/// Serves connections for ever; what the gate does not let in is closed at once, and what it asks to leave is closed where
/// it waits.
pub async fn serve<F, Served>(listener: TcpListener, gate: Rc<Gate>, handle: F)
where
    F: Fn(TcpStream, SocketAddr, Rc<Ticket>) -> Served + 'static,
    Served: Future<Output = ()> + 'static,
{
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(cause) => {
                warn!(%cause, "cannot accept a connection");
                // Out of descriptors, one that only waits gives up its own.
                gate.evict();
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(ticket) = gate.enter(peer.ip().to_canonical()).map(Rc::new) else { continue };
        let served = handle(stream, peer, Rc::clone(&ticket));
        tokio::task::spawn_local(async move {
            tokio::select! {
                biased;
                () = ticket.asked_to_leave() => {}
                () = served => {}
            }
        });
    }
}
