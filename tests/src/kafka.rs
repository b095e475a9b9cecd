//! Stock brokers from their jars: started, stopped, killed and restarted as an operator would, and their command-line tools.

mod tools;

pub use tools::{class_path, dump_complaints, dump_log, java_tool, run};

use crate::place;
use crate::process::{log_to, mortal, signal, until, wait};
use rustix::process::Signal;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

const START_LIMIT: Duration = Duration::from_secs(90);
const STOP_LIMIT: Duration = Duration::from_secs(60);
const HEAP: &str = "-Xmx512m";

/// What a node is to be like.
#[derive(Debug, Clone)]
pub struct Spec {
    version: String,
    dir: PathBuf,
    node: i32,
    log_dirs: Vec<PathBuf>,
    cluster_id: Option<String>,
    controller: Option<(i32, u16)>,
    format: Format,
    properties: Vec<(String, String)>,
}

/// What happens to new log folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Static,
    Standalone,
    Left,
}

impl Spec {
    /// A node of its own (broker and controller) in `dir`, with one log folder `dir/data`.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        let log_dirs = vec![dir.join("data")];
        let version = place::KAFKA_VERSION.to_owned();
        let (cluster_id, controller, format) = (None, None, Format::Static);
        Self { version, dir, node: 1, log_dirs, cluster_id, controller, format, properties: Vec::new() }
    }

    /// Another release than the default one.
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.version);
        self
    }

    /// Other log folders than `dir/data`.
    #[must_use]
    pub fn log_dirs(mut self, dirs: Vec<PathBuf>) -> Self {
        self.log_dirs = dirs;
        self
    }

    /// Two log folders.
    #[must_use]
    pub fn two_log_dirs(mut self) -> Self {
        self.log_dirs = ["data", "more"].map(|name| self.dir.join(name)).into();
        self
    }

    /// A fixed cluster id (22 base64url characters).
    #[must_use]
    pub fn cluster_id(mut self, id: &str) -> Self {
        self.cluster_id = Some(id.to_owned());
        self
    }

    /// A broker without a controller of its own, in the cluster of `first`.
    #[must_use]
    pub fn joining(mut self, first: &Broker, node: i32) -> Self {
        self.node = node;
        self.controller = Some((first.spec.node, first.controller_port));
        self.cluster_id = Some(first.cluster_id());
        self
    }

    /// A dynamic quorum of this node alone, formatted with `--standalone`.
    #[must_use]
    pub fn standalone(mut self) -> Self {
        self.format = Format::Standalone;
        self
    }

    /// New log folders are left as they are.
    #[must_use]
    pub fn unformatted(mut self) -> Self {
        self.format = Format::Left;
        self
    }

    /// A line of server.properties; replaces the kit's own.
    #[must_use]
    pub fn property(mut self, key: &str, value: &str) -> Self {
        self.properties.push((key.to_owned(), value.to_owned()));
        self
    }
}

/// A running or stopped stock node.
#[derive(Debug)]
pub struct Broker {
    spec: Spec,
    port: u16,
    controller_port: u16,
    child: Option<Child>,
}

impl Broker {
    /// Formats the log folders when they are new and starts the node; returns when it serves.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start(spec: Spec) -> Self {
        let mut broker = Self::prepare(spec);
        broker.resume();
        broker
    }

    /// Writes server.properties and formats the log folders when they are new, without starting anything.
    ///
    /// # Panics
    /// When the format tool refuses.
    #[must_use]
    pub fn prepare(spec: Spec) -> Self {
        let [port, controller_port] = place::free_ports();
        let broker = Self { spec, port, controller_port, child: None };
        std::fs::create_dir_all(&broker.spec.dir).expect("a folder for the broker");
        let properties = broker.dir().join("server.properties");
        std::fs::write(&properties, broker.properties()).expect("server.properties written");
        let formatted = broker.spec.log_dirs.iter().all(|d| d.join("meta.properties").exists());
        if !formatted && broker.spec.format != Format::Left {
            broker.format(&properties);
        }
        broker
    }

    /// The command that starts the node, for a shell; server.properties comes behind it.
    #[must_use]
    pub fn start_command(&self) -> String {
        self.java().iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
    }

    fn java(&self) -> Vec<String> {
        let mut words =
            ["java", "-Xms128m", HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"].map(str::to_owned).to_vec();
        words.extend(tools::class_archive(&self.spec.version));
        words.extend(["-Djava.awt.headless=true".to_owned(), tools::log4j("log4j2-broker.properties")]);
        words.extend(["-cp".to_owned(), class_path(&self.spec.version), "kafka.Kafka".to_owned()]);
        words
    }

    fn format(&self, properties: &Path) {
        let id = self.spec.cluster_id.clone().unwrap_or_else(|| "dHdpbmxvZy1zb3VyY2UtMQ".to_owned());
        let file = properties.to_str().expect("paths of tests are UTF-8");
        let mut arguments = vec!["format", "-t", &id, "-c", file];
        if self.spec.format == Format::Standalone {
            arguments.push("--standalone");
        }
        let out = run(&self.spec.version, "storage", &arguments);
        assert!(out.status.success(), "kafka-storage format failed: {}", tools::text(&out));
    }

    fn properties(&self) -> String {
        let (role, quorum, voter) = match self.spec.controller {
            Some((node, port)) => ("broker", "voters", format!("{node}@127.0.0.1:{port}")),
            None if self.spec.format == Format::Standalone => {
                ("broker,controller", "bootstrap.servers", format!("127.0.0.1:{}", self.controller_port))
            }
            None => ("broker,controller", "voters", format!("{}@127.0.0.1:{}", self.spec.node, self.controller_port)),
        };
        let quorum = format!("controller.quorum.{quorum}");
        let own = format!("PLAINTEXT://127.0.0.1:{}", self.port);
        let listeners = match self.spec.controller {
            Some(_) => own.clone(),
            None => format!("{own},CONTROLLER://127.0.0.1:{}", self.controller_port),
        };
        let dirs: Vec<_> = self.spec.log_dirs.iter().map(|d| d.display().to_string()).collect();
        let (node, dirs) = (self.spec.node.to_string(), dirs.join(","));
        let lines = [
            ("process.roles", role),
            ("node.id", &node),
            (quorum.as_str(), &voter),
            ("listeners", &listeners),
            ("advertised.listeners", &own),
            ("controller.listener.names", "CONTROLLER"),
            ("listener.security.protocol.map", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"),
            ("log.dirs", &dirs),
            ("auto.create.topics.enable", "false"),
            ("offsets.topic.replication.factor", "1"),
            ("offsets.topic.num.partitions", "4"),
            ("transaction.state.log.replication.factor", "1"),
            ("transaction.state.log.min.isr", "1"),
            ("transaction.state.log.num.partitions", "4"),
            ("transaction.max.timeout.ms", "86400000"),
            ("share.coordinator.state.topic.replication.factor", "1"),
            ("share.coordinator.state.topic.min.isr", "1"),
            ("group.initial.rebalance.delay.ms", "0"),
            ("log.cleaner.dedupe.buffer.size", "8388608"),
            ("log.cleaner.backoff.ms", "500"),
            ("log.initial.task.delay.ms", "1000"),
            ("log.retention.check.interval.ms", "1000"),
            ("log.segment.delete.delay.ms", "1000"),
        ];
        let mut out = String::new();
        for (key, value) in lines.iter().filter(|(k, _)| !self.spec.properties.iter().any(|(own, _)| own == k)) {
            writeln!(out, "{key}={value}").expect("writing to a string");
        }
        for (key, value) in &self.spec.properties {
            writeln!(out, "{key}={value}").expect("writing to a string");
        }
        out
    }

    /// Starts the stopped node again, on its ports and folders.
    ///
    /// # Panics
    /// When it runs already or does not start.
    pub fn resume(&mut self) {
        assert!(self.child.is_none(), "the broker runs");
        let begins = self.log().len();
        let java = self.java();
        let mut command = mortal(&java[0]);
        command.args(&java[1..]).arg(self.dir().join("server.properties"));
        log_to(&mut command, &self.dir().join("server.log"));
        let child = command.spawn().expect("java starts");
        self.child = Some(child);
        until("the broker serves", START_LIMIT, || {
            let log = self.log();
            let since = log.get(begins..).unwrap_or_default();
            if since.contains("Kafka Server started") {
                return Ok(());
            }
            let ended = self.child.as_mut().and_then(|c| c.try_wait().ok().flatten());
            let tail: Vec<_> = since.lines().rev().take(12).collect();
            let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
            assert!(ended.is_none(), "the broker of {} ended while starting:\n{tail}", self.dir().display());
            Err(tail)
        });
    }

    /// Clean stop, as an operator does it.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        signal(child.id(), Signal::TERM);
        if let Err(why) = wait(&mut child, STOP_LIMIT) {
            signal(child.id(), Signal::KILL);
            panic!("the broker did not stop: {why}");
        }
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        signal(child.id(), Signal::KILL);
        child.wait().ok();
    }

    /// Clean stop and start: a new leader epoch for every partition.
    pub fn restart(&mut self) {
        self.stop();
        self.resume();
    }

    /// `HOST:PORT` for clients.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Port of clients.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The node's folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.spec.dir
    }

    /// Folder of one partition, in whichever log folder it lies.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn partition_dir(&self, topic: &str, partition: i32) -> PathBuf {
        let name = format!("{topic}-{partition}");
        let found = self.spec.log_dirs.iter().map(|d| d.join(&name)).find(|d| d.is_dir());
        found.unwrap_or_else(|| panic!("the broker has no folder {name}"))
    }

    /// How far the cleaner says that it went in a partition; -1 when it says nothing.
    ///
    /// # Panics
    /// When the node has no such partition.
    #[must_use]
    pub fn cleaned(&self, topic: &str, partition: i32) -> i64 {
        let dir = self.partition_dir(topic, partition);
        let text = std::fs::read_to_string(dir.with_file_name("cleaner-offset-checkpoint")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{topic} {partition} ")));
        line.and_then(|offset| offset.parse().ok()).unwrap_or(-1)
    }

    /// Everything the node wrote to its log so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read(self.dir().join("server.log"))
            .map(|b| String::from_utf8_lossy(&b).into_owned())
            .unwrap_or_default()
    }

    /// `key` of the first log folder's meta.properties.
    ///
    /// # Panics
    /// When the folder is not formatted.
    #[must_use]
    pub fn meta(&self, key: &str) -> String {
        let file = self.spec.log_dirs[0].join("meta.properties");
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let line = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("{} has no {key}", file.display())).to_owned()
    }

    /// The cluster's id.
    #[must_use]
    pub fn cluster_id(&self) -> String {
        self.meta("cluster.id")
    }

    /// Process id while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Runs a tool of this node's release against it (`--bootstrap-server` is added).
    ///
    /// # Panics
    /// When the tool fails.
    #[must_use]
    pub fn tool(&self, tool: &str, arguments: &[&str]) -> String {
        let address = self.address();
        let mut all = vec!["--bootstrap-server", &address];
        all.extend(arguments);
        let out = run(&self.spec.version, tool, &all);
        assert!(out.status.success(), "{tool} {arguments:?} failed: {}", tools::text(&out));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}
