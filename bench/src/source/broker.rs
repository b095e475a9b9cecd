//! Listens and serves: one thread per connection, one request at a time, as a stock broker takes them.

use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use twinlog_proto::api;
use twinlog_proto::frame;
use twinlog_proto::messages::Message;
use twinlog_proto::messages::fetch_request::FetchRequest;
use twinlog_proto::reader::Reader;

use super::answers::{self, Cluster};
use super::batches::{Batches, Shape, ShapeError, seeded_uuid};
use super::fetch::{self, Key};
use super::outgoing::Outgoing;
use super::session::Sessions;
use super::store::{Store, Topic};
use crate::limits::{CONNECTIONS_MAX, PARTITIONS_MAX, REQUEST_BYTES_MAX};

const REQUEST_BUFFER_BYTES: usize = 64 << 10;

/// What to serve.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The name of the only topic, or what the names of all topics begin with.
    pub topic: String,
    /// Number of topics.
    pub topics: u32,
    /// How many of them (the first ones) hold data.
    pub topics_with_data: u32,
    /// Number of partitions of each topic; 1 to [`PARTITIONS_MAX`] in all topics together.
    pub partitions: u32,
    /// Batches that every partition of a topic with data holds at the start.
    pub batches_each: u64,
    /// What the batches look like.
    pub shape: Shape,
    /// Core that serving threads are pinned to, if any.
    pub core: Option<usize>,
}

/// A source that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No batch looks like this.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The number of partitions is out of bounds.
    #[error("{topics} topics of {partitions} partitions cannot be served; choose 1 to {PARTITIONS_MAX} in all")]
    Partitions {
        /// The topics.
        topics: u32,
        /// The partitions of each.
        partitions: u32,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {cause}; choose another address or port 0")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        cause: io::Error,
    },
}

/// A running source. Dropping it closes the listener and every connection.
#[derive(Debug)]
pub struct Broker {
    shared: Arc<Shared>,
    address: SocketAddr,
}

#[derive(Debug)]
struct Shared {
    cluster: Cluster,
    sessions: Mutex<Sessions<Key>>,
    core: Option<usize>,
    stopping: AtomicBool,
    connected: AtomicUsize,
    sockets: Mutex<Vec<TcpStream>>,
}

impl Broker {
    /// Binds and starts to serve.
    ///
    /// # Errors
    /// When the shape is out of bounds or the address is taken.
    pub fn start(config: Config) -> Result<Self, StartError> {
        let (topics, partitions) = (config.topics, config.partitions);
        if !topics.checked_mul(partitions).is_some_and(|all| (1..=PARTITIONS_MAX).contains(&all)) {
            return Err(StartError::Partitions { topics, partitions });
        }
        let batches = Batches::new(config.shape)?;
        let refused = |cause| StartError::Listen { address: config.listen, cause };
        let listener = TcpListener::bind(config.listen).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let seed = config.shape.seed;
        let names = (0..topics).map(|number| topic_name(&config.topic, topics, number));
        let named = names.map(|name| Topic { id: seeded_uuid(seed, &name), name }).collect();
        let filled = (config.topics_with_data, config.batches_each);
        let cluster = Cluster {
            id: seeded_uuid(seed, "cluster").to_string(),
            host: address.ip().to_string(),
            port: address.port(),
            store: Store::of_topics(named, batches, partitions, filled),
        };
        let shared = Arc::new(Shared {
            cluster,
            sessions: Mutex::default(),
            core: config.core,
            stopping: AtomicBool::new(false),
            connected: AtomicUsize::new(0),
            sockets: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || accept(&serving, &listener));
        Ok(Self { shared, address })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The cluster it plays.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.shared.cluster
    }

    /// Its topics.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.shared.cluster.store
    }
}

/// The name of topic `number` of `topics`: `name` itself when there is only one.
#[must_use]
pub fn topic_name(name: &str, topics: u32, number: u32) -> String {
    if topics == 1 { name.to_owned() } else { format!("{name}-{number:05}") }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for socket in self.shared.sockets().drain(..) {
            // A peer that is gone already is what was wanted.
            socket.shutdown(Shutdown::Both).unwrap_or_default();
        }
        // Wakes the thread that accepts, which then sees that it is over.
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    fn sockets(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pin(&self) {
        if let Some(core) = self.core {
            core_affinity::set_for_current(core_affinity::CoreId { id: core });
        }
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    for socket in listener.incoming() {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(socket) = socket else { continue };
        if shared.connected.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
            continue;
        }
        let Ok(twin) = socket.try_clone() else { continue };
        shared.sockets().push(twin);
        shared.connected.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            shared.pin();
            if let Err(cause) = serve(&shared, &socket) {
                tracing::debug!(%cause, "connection closed");
            }
            forget(&shared, &socket);
        });
    }
}

fn forget(shared: &Shared, socket: &TcpStream) {
    shared.connected.fetch_sub(1, Ordering::Relaxed);
    let peer = socket.peer_addr().ok();
    shared.sockets().retain(|kept| kept.peer_addr().ok() != peer);
}

fn serve(shared: &Shared, mut socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    // Pacing by estimated bandwidth (bbr) makes no sense on loopback; where cubic is missing, the default stays.
    rustix::net::sockopt::set_tcp_congestion(socket, "cubic").unwrap_or_default();
    let mut requests = BufReader::with_capacity(REQUEST_BUFFER_BYTES, socket);
    let (mut request, mut response, mut outgoing) = (Vec::new(), Vec::new(), Outgoing::default());
    while read_request(&mut requests, &mut request)? {
        let mut reader = Reader::new("request", &request);
        let header = frame::decode_request_header(&mut reader).map_err(io::Error::other)?;
        if header.api_key == api::FETCH && answers::is_served(header.api_key, header.api_version) {
            let asked = FetchRequest::decode(&mut reader, header.api_version).map_err(io::Error::other)?;
            let place = (header.api_version, header.correlation_id);
            let answer = fetch::answer(&shared.cluster.store, &shared.sessions, place, &asked)?;
            answer.send(&mut socket, &mut outgoing, &shared.cluster.store)?;
        } else {
            response.clear();
            answers::answer(&shared.cluster, &header, &mut reader, &mut response).map_err(io::Error::other)?;
            socket.write_all(&response)?;
        }
    }
    Ok(())
}

/// Reads the next request without its length; false when the client is done.
fn read_request(from: &mut impl io::Read, request: &mut Vec<u8>) -> io::Result<bool> {
    let mut length = [0; 4];
    if let Err(cause) = from.read_exact(&mut length) {
        return if cause.kind() == io::ErrorKind::UnexpectedEof { Ok(false) } else { Err(cause) };
    }
    let length = u32::from_be_bytes(length);
    if length > REQUEST_BYTES_MAX {
        return Err(io::Error::other(format!("a request of {length} bytes; at most {REQUEST_BYTES_MAX} are read")));
    }
    request.clear();
    // Grows as bytes arrive, not as the length claims.
    if from.take(length.into()).read_to_end(request)? < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(true)
}
