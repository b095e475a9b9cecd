//! One client connection: a frame in, its answer out, one request at a time.

use crate::driver::Driver;
use crate::frames;
use crate::limits::{CONNECTION_IDLE, FRAME_TIMEOUT, REQUEST_BYTES_MAX};
use crate::rpc::Endpoint;
use crate::rpc::authorize::{ANONYMOUS, Authorizer, Who};
use crate::server::dispatch;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::debug;
use twinlog_proto::security::authorizer::Caller;

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

/// Serves a connection until either side ends it.
pub async fn serve(stream: TcpStream, peer: SocketAddr, driver: Driver, identity: Rc<Identity>) {
    if let Err(cause) = serve_frames(stream, peer, &driver, &identity).await {
        // At debug level only: a port scanner must not fill the log.
        debug!(%peer, %cause, "closed a connection");
    }
}

async fn serve_frames(mut stream: TcpStream, peer: SocketAddr, driver: &Driver, identity: &Identity) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // The address that the client reached us at is the one that it can reach us at again.
    let local = stream.local_addr()?;
    let us = Endpoint {
        cluster_id: identity.cluster_id.clone(),
        node_id: identity.node_id,
        host: local.ip().to_string(),
        port: i32::from(local.port()),
    };
    // Nothing on a connection says who is there, so the address is all that callers differ in.
    let caller = Caller { principal: ANONYMOUS.to_owned(), host: peer.ip().to_canonical().to_string() };
    let who = Who { caller: Rc::new(caller), authorizer: Rc::clone(&identity.authorizer) };
    let mut frame = Vec::new();
    loop {
        let Ok(length) = timeout(CONNECTION_IDLE, frames::read_length(&mut stream)).await else { return Ok(()) };
        let Some(length) = length? else { return Ok(()) };
        timeout(FRAME_TIMEOUT, frames::read_body(&mut stream, &mut frame, length, REQUEST_BYTES_MAX)).await??;
        let answer = dispatch::serve(driver, &us, &who, &frame).await.map_err(io::Error::other)?;
        timeout(FRAME_TIMEOUT, stream.write_all(&answer)).await??;
    }
}
