//! One client connection: a frame in, its answer out, one request at a time.

use crate::driver::Driver;
use crate::frames;
use crate::limits::{CONNECTION_IDLE, FRAME_TIMEOUT, REQUEST_BYTES_MAX};
use crate::rpc::Endpoint;
use crate::server::dispatch;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::io::AsyncWriteExt;
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
}

/// Serves a connection until either side ends it.
pub async fn serve(stream: TcpStream, peer: SocketAddr, driver: Driver, identity: Rc<Identity>) {
    if let Err(cause) = serve_frames(stream, &driver, &identity).await {
        // At debug level only: a port scanner must not fill the log.
        debug!(%peer, %cause, "closed a connection");
    }
}

async fn serve_frames(mut stream: TcpStream, driver: &Driver, identity: &Identity) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // The address that the client reached us at is the one that it can reach us at again.
    let local = stream.local_addr()?;
    let us = Endpoint {
        cluster_id: identity.cluster_id.clone(),
        node_id: identity.node_id,
        host: local.ip().to_string(),
        port: i32::from(local.port()),
    };
    let mut frame = Vec::new();
    loop {
        let Ok(length) = timeout(CONNECTION_IDLE, frames::read_length(&mut stream)).await else { return Ok(()) };
        let Some(length) = length? else { return Ok(()) };
        timeout(FRAME_TIMEOUT, frames::read_body(&mut stream, &mut frame, length, REQUEST_BYTES_MAX)).await??;
        let answer = dispatch::serve(driver, &us, &frame).await.map_err(io::Error::other)?;
        timeout(FRAME_TIMEOUT, stream.write_all(&answer)).await??;
    }
}
