//! Puts the parts together: replay, attach, listen, serve, stop.

use crate::config::Config;
use crate::driver::{self, Driver, Parts};
use crate::error::Fatal;
use crate::files;
use crate::follow;
use crate::limits::{
    ANSWERS_BYTES_MAX, CONNECTION_IDLE, CONNECTIONS_OF_ADDRESS_MAX, FRAME_TIMEOUT, FRAMES_BYTES_MAX, FRAMES_BYTES_WAIT,
    HTTP_CONNECTIONS_MAX,
};
use crate::memory::Memory;
use crate::mirror::authorizer::Authorizer;
use crate::mirror::catalog::Catalog;
use crate::plane::attachment::Link;
use crate::plane::sender::Sender;
use crate::plane::view::Slots;
use crate::random;
use crate::rpc::Endpoint;
use crate::rpc::authorize::{ANONYMOUS, Who};
use crate::server::budget::Budget;
use crate::server::conn::{self, Desk, Identity};
use crate::server::counters::Counters;
use crate::server::gate::{Gate, Ticket};
use crate::server::http;
use crate::server::listener;
use crate::server::pages::Pages;
use crate::server::{descriptors, dispatch};
use crate::statelog::durable::Durable;
use crate::statelog::load::{Loaded, load};
use crate::statelog::recovery_point::RecoveryPoint;
use crate::statelog::writer;
use crate::steps::{self, Step};
use crate::sync;
use crate::watch;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::rc::Rc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tracing::warn;
use twinlog_proto::ids::Uuid;
use twinlog_proto::security::authorizer::Caller;

/// Held while a control plane uses STATE.
const LOCK_FILE: &str = "controlplane.lock";
/// Our own cluster's id, made once.
const CLUSTER_ID_FILE: &str = "cluster.id";
/// There is one control plane for now.
const NODE_ID: i32 = 1;

/// A control plane that is ready to serve.
#[derive(Debug)]
pub struct Node {
    config: Config,
    driver: Driver,
    task: driver::DriverTask,
    link: Rc<Link>,
    sender: Rc<Sender>,
    identity: Identity,
    kafka: TcpListener,
    http: TcpListener,
    _lock: File,
}

impl Node {
    /// Locks STATE, replays the state log, brings assignments in line with it, and binds both ports.
    ///
    /// # Errors
    /// Whatever is in the way, with its remedy.
    pub async fn open(config: Config) -> Result<Self, Fatal> {
        let lock = lock(&config.state)?;
        // Ports first: nothing is written when the process cannot serve.
        let kafka = listener::bind(config.listen, "--listen").await?;
        let http = listener::bind(config.metrics, "--metrics").await?;
        let Loaded { catalog, replayed, compacted_bytes } = load(&config.state, Memory::of_this_process())?;
        let link = Rc::new(Link::new(&config.state));
        let sender = Rc::new(Sender::new(&config.state, Rc::clone(&link)));
        // Before the log is touched: a torn tail that had been answered is no torn tail.
        if let Some((file, version)) = sender.newer_than(&catalog, replayed.next_offset) {
            return Err(lost_changes(&config.state, &file, version));
        }
        let point = RecoveryPoint::read(&config.state)?;
        point.check(replayed.next_offset)?;
        let (offset, torn_bytes) = (replayed.next_offset, replayed.torn_bytes);
        if torn_bytes > 0 {
            warn!(offset, torn_bytes, "cutting off what a crash left of an unfinished write");
        }
        steps::passed(Step::StartReplayed);
        let log = Durable::new(config.state.clone(), writer::open(&config.state, &replayed)?, point, compacted_bytes);
        steps::passed(Step::StartOpened);
        let identity = Identity {
            cluster_id: cluster_id(&config.state)?,
            node_id: NODE_ID,
            authorizer: Rc::new(config.authorizer.clone()),
        };
        warn_if_nobody_may_anything(&config.authorizer, &catalog);
        sender.restore(&catalog).map_err(|cause| {
            let remedy = files::remedy(&cause);
            Fatal::new("cannot write the assignments below --state", cause, remedy)
        })?;
        steps::passed(Step::StartRestored);
        let slots: Rc<dyn Slots> = Rc::<Link>::clone(&link);
        let directories = config.data.iter().map(|folder| folder.to_string_lossy().into_owned()).collect();
        let parts = Parts { catalog, log, directories, sender: Rc::clone(&sender), slots };
        let (driver, task) = driver::new(parts);
        Ok(Self { config, driver, task, link, sender, identity, kafka, http, _lock: lock })
    }

    /// The addresses that are listened on: the Kafka protocol, and metrics.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn addresses(&self) -> std::io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.kafka.local_addr()?, self.http.local_addr()?))
    }

    /// Serves until `stop` is done; must run within a `LocalSet`.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Self { config, driver, task, link, sender, identity, kafka, http, _lock } = self;
        spawn_local(task.run());
        spawn_local(Rc::clone(&link).keep());
        spawn_local(watch::board(driver.clone(), Rc::clone(&link), Rc::clone(&sender), config.retry));
        let own = Rc::from(identity.cluster_id.as_str());
        spawn_local(follow::task::run(driver.clone(), own, config.refresh_interval));
        spawn_local(watch::paces(Rc::clone(&link)));
        spawn_local(sync::run::keep(driver.clone()));
        let identity = Rc::new(identity);
        let counters = Rc::new(Counters::default());
        let gate = Gate::new(descriptors::connections_max(), CONNECTIONS_OF_ADDRESS_MAX, Rc::clone(&counters));
        let desk = Rc::new(Desk {
            budget: Budget::new(FRAMES_BYTES_MAX, FRAMES_BYTES_WAIT, ANSWERS_BYTES_MAX),
            counters: Rc::clone(&counters),
            idle: CONNECTION_IDLE,
            frame: FRAME_TIMEOUT,
        });
        let folders = config.data.iter().chain([&config.state]).cloned().collect();
        let pages = Pages {
            driver: driver.clone(),
            link,
            sender,
            clients: Rc::clone(&gate),
            ended: counters,
            folders,
            detail: config.metrics_detail,
        };
        let node = pages.clone();
        driver.set_node(Rc::new(move |sees| node.detail(sees)));
        let clients = listener::serve(kafka, gate, move |stream, peer, ticket| {
            let (driver, identity, desk) = (driver.clone(), Rc::clone(&identity), Rc::clone(&desk));
            async move { client(stream, peer, &ticket, &driver, &identity, &desk).await }
        });
        let scrapers_gate = Gate::new(HTTP_CONNECTIONS_MAX, usize::MAX, Rc::default());
        let scrapers = listener::serve(http, scrapers_gate, move |stream, peer, _ticket| {
            let pages = pages.clone();
            http::serve(stream, peer, move |page| pages.render(page))
        });
        spawn_local(clients);
        spawn_local(scrapers);
        stop.await;
    }
}

/// One client of the Kafka protocol.
async fn client(
    stream: TcpStream,
    peer: SocketAddr,
    ticket: &Ticket,
    driver: &Driver,
    identity: &Identity,
    desk: &Desk,
) {
    // The address that the client reached us at is the one that it can reach us at again.
    let Ok(local) = stream.local_addr() else { return };
    let us = Endpoint {
        cluster_id: identity.cluster_id.clone(),
        node_id: identity.node_id,
        host: local.ip().to_string(),
        port: i32::from(local.port()),
    };
    // Nothing on a connection says who is there, so the address is all that callers differ in.
    let caller = Caller { principal: ANONYMOUS.to_owned(), host: peer.ip().to_canonical().to_string() };
    let who = Who { caller: Rc::new(caller), authorizer: Rc::clone(&identity.authorizer) };
    let answer = async |frame: &[u8]| {
        let answer = dispatch::serve(driver, &us, &who, &desk.budget, frame).await;
        answer.map_err(|close| (close.cause(), close.to_string()))
    };
    conn::serve(stream, peer, ticket, desk, answer).await;
}

/// Entries can still be made with the authorizer off; with it on and none there, nobody can.
fn warn_if_nobody_may_anything(authorizer: &Authorizer, catalog: &Catalog) {
    let Authorizer::Acl { super_users } = authorizer else { return };
    if catalog.acls().here().is_empty() && !super_users.contains(ANONYMOUS) {
        warn!(
            "every request will be refused: the authorizer is on, there are no access control entries, and {ANONYMOUS}, as which \
             all clients connect, is no super user; to make entries start once with authorizer = \"none\""
        );
    }
}

fn lock(state: &Path) -> Result<File, Fatal> {
    let unusable = |cause: std::io::Error| {
        let remedy = files::remedy(&cause);
        Fatal::new(format_args!("the state directory {} is not usable", state.display()), cause, remedy)
    };
    std::fs::create_dir_all(state).map_err(unusable)?;
    let path = state.join(LOCK_FILE);
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map_err(unusable)?;
    files::make_private(state).map_err(unusable)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Fatal::new(
            format_args!("the state directory {} is in use", state.display()),
            "another control plane runs on it",
            "stop that one, or give this one a --state of its own",
        )),
        Err(cause) => Err(unusable(cause.into())),
    }
}

fn lost_changes(state: &Path, assignment: &Path, version: i64) -> Fatal {
    let file = assignment.display();
    Fatal::new(
        format_args!("the state log {} has lost changes that were answered", writer::log_path(state).display()),
        format_args!("{file} has version {version}, which the log does not know"),
        format_args!("restore the log from a newer copy, or move {file} away to go on with what the log says"),
    )
}

fn cluster_id(state: &Path) -> Result<String, Fatal> {
    let path = state.join(CLUSTER_ID_FILE);
    let fatal = |cause: &dyn std::fmt::Display| {
        let what = format!("cannot read or write {}", path.display());
        Fatal::new(what, cause, "check the owner and free space of --state")
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => match text.trim().parse::<Uuid>() {
            Ok(id) => Ok(id.to_string()),
            Err(cause) => {
                let remedy = "restore it from a copy, or remove it: this node is a new cluster to its clients then";
                Err(Fatal::new(format_args!("{} holds no cluster id", path.display()), cause, remedy))
            }
        },
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            let id = random::uuid().to_string();
            files::replace(&path, format!("{id}\n").as_bytes()).map_err(|cause| fatal(&cause))?;
            Ok(id)
        }
        Err(cause) => Err(fatal(&cause)),
    }
}
