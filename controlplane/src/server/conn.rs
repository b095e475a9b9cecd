//! One client connection: a frame in, its answer out, one request at a time.
//!
//! Whatever the peer sends or leaves out, a connection holds no more than what has arrived, takes no more than its share of the
//! budget, and ends with a counted cause. Nothing here looks into a request; that is for `dispatch.rs`.

use crate::limits::{ANSWER_BYTES_A_TIMEOUT, FRAME_BYTES_FREE, REQUEST_BYTES_MAX};
use crate::mirror::authorizer::Authorizer;
use crate::server::budget::{Budget, Held};
use crate::server::counters::{Cause, Counters};
use crate::server::gate::Ticket;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::debug;

/// Who we are, whatever address a client uses.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Our own cluster's id.
    pub cluster_id: String,
    /// Our node id.
    pub node_id: i32,
    /// How callers are judged.
    pub authorizer: Rc<Authorizer>,
}

/// What all connections share.
#[derive(Debug)]
pub struct Desk {
    /// Bytes in progress.
    pub budget: Budget,
    /// Why connections ended.
    pub counters: Rc<Counters>,
    /// Longest time without a request.
    pub idle: Duration,
    /// Longest time for a started frame to arrive, and for an answer (each 8 MiB of it) to be taken.
    pub frame: Duration,
}

/// How a connection ended.
#[derive(Debug)]
pub enum End {
    /// The peer closed it between two requests.
    ByPeer,
    /// This side did.
    For(Cause, String),
}

impl End {
    fn broken(cause: &io::Error) -> Self {
        Self::For(Cause::Broken, cause.to_string())
    }
}

/// Serves a connection until either side ends it; `answer` makes an answer of a frame, both without thought of the other
/// connections.
pub async fn serve(
    mut stream: TcpStream,
    peer: SocketAddr,
    ticket: &Ticket,
    desk: &Desk,
    answer: impl AsyncFn(&[u8]) -> Result<Vec<u8>, (Cause, String)>,
) {
    if let Err(cause) = stream.set_nodelay(true) {
        debug!(%peer, %cause, "a connection waits for its acknowledgements");
    }
    let end = loop {
        if let Err(end) = one(&mut stream, ticket, desk, &answer).await {
            break end;
        }
    };
    if let End::For(cause, why) = end {
        desk.counters.count(cause);
        // At debug level only: a port scanner must not fill the log.
        debug!(%peer, cause = cause.name(), why, "closed a connection");
    }
}

/// One request and its answer.
async fn one(
    stream: &mut TcpStream,
    ticket: &Ticket,
    desk: &Desk,
    answer: &impl AsyncFn(&[u8]) -> Result<Vec<u8>, (Cause, String)>,
) -> Result<(), End> {
    let mut first = [0];
    match timeout(desk.idle, stream.read(&mut first)).await {
        Err(_elapsed) => return Err(End::For(Cause::Idle, "no request for long".to_owned())),
        Ok(Ok(0)) => return Err(End::ByPeer),
        Ok(Ok(_)) => {}
        Ok(Err(cause)) => return Err(End::broken(&cause)),
    }
    // The frame's own memory and budget end with this request: an idle connection holds neither.
    let mut held = desk.budget.frame();
    let arrived = timeout(desk.frame, frame(stream, first[0], &mut held)).await;
    let slow = |_elapsed| End::For(Cause::SlowFrame, "the request did not arrive in time".to_owned());
    let frame = arrived.map_err(slow)??;
    ticket.serves();
    let bytes = answer(&frame).await.map_err(|(cause, why)| End::For(cause, why))?;
    drop((frame, held));
    let unread = |why: &str| End::For(Cause::Unread, why.to_owned());
    let waiting = desk.budget.answer(bytes.len()).ok_or_else(|| unread("too many answers wait to be taken"))?;
    let large = u32::try_from(bytes.len() / ANSWER_BYTES_A_TIMEOUT).unwrap_or(u32::MAX);
    let sent = timeout(desk.frame.saturating_mul(large.saturating_add(1)), stream.write_all(&bytes)).await;
    drop(waiting);
    sent.map_err(|_elapsed| unread("the answer was not taken in time"))?.map_err(|cause| End::broken(&cause))?;
    ticket.waits();
    Ok(())
}

/// The frame whose length begins with `first`; memory and budget grow with the bytes that arrive, not with that length.
async fn frame(stream: &mut TcpStream, first: u8, held: &mut Held<'_>) -> Result<Vec<u8>, End> {
    let half = |cause: io::Error| match cause.kind() {
        io::ErrorKind::UnexpectedEof => End::For(Cause::HalfFrame, "it ended within a frame".to_owned()),
        _ => End::broken(&cause),
    };
    let mut rest = [0; 3];
    stream.read_exact(&mut rest).await.map_err(half)?;
    let claimed = i32::from_be_bytes([first, rest[0], rest[1], rest[2]]);
    let length = usize::try_from(claimed).ok().filter(|length| *length <= REQUEST_BYTES_MAX).ok_or_else(|| {
        End::For(Cause::Length, format!("a frame of {claimed} bytes, at most {REQUEST_BYTES_MAX} are taken"))
    })?;
    let mut frame = Vec::new();
    while frame.len() < length {
        let filled = frame.len();
        let until = length.min((2 * filled).max(FRAME_BYTES_FREE));
        if until > FRAME_BYTES_FREE && !held.more(until - filled).await {
            return Err(End::For(Cause::NoBudget, "too many bytes of requests are in progress".to_owned()));
        }
        frame.reserve_exact(until - filled);
        frame.resize(until, 0);
        stream.read_exact(&mut frame[filled..]).await.map_err(half)?;
    }
    Ok(frame)
}

#[cfg(test)]
#[path = "conn_tests.rs"]
mod tests;
