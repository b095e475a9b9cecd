//! Stock brokers from their jars: started, stopped, killed and restarted as an operator would, and their command-line tools.

use crate::place;
use crate::process::{log_to, mortal, signal, until, wait};
use rustix::process::Signal;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
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
    properties: Vec<(String, String)>,
}

impl Spec {
    /// A node of its own (broker and controller) in `dir`, with one log folder `dir/data`.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        let log_dirs = vec![dir.join("data")];
        let version = place::KAFKA_VERSION.to_owned();
        Self { version, dir, node: 1, log_dirs, cluster_id: None, controller: None, properties: Vec::new() }
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
        if !broker.spec.log_dirs.iter().all(|d| d.join("meta.properties").exists()) {
            broker.format(&properties);
        }
        broker
    }

    fn format(&self, properties: &Path) {
        let id = self.spec.cluster_id.clone().unwrap_or_else(|| "dHdpbmxvZy1zb3VyY2UtMQ".to_owned());
        let file = properties.to_str().expect("paths of tests are UTF-8");
        let out = run(&self.spec.version, "storage", &["format", "-t", &id, "-c", file]);
        assert!(out.status.success(), "kafka-storage format failed: {}", text(&out));
    }

    fn properties(&self) -> String {
        let (role, voter) = match self.spec.controller {
            Some((node, port)) => ("broker", format!("{node}@127.0.0.1:{port}")),
            None => ("broker,controller", format!("{}@127.0.0.1:{}", self.spec.node, self.controller_port)),
        };
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
            ("controller.quorum.voters", &voter),
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
        let mut command = mortal("java");
        command.args(["-Xms128m", HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"]);
        command.arg(log4j("log4j2-broker.properties")).arg("-cp").arg(class_path(&self.spec.version));
        command.arg("kafka.Kafka").arg(self.dir().join("server.properties"));
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
        assert!(out.status.success(), "{tool} {arguments:?} failed: {}", text(&out));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// `kafka-dump-log` of the default release over `files`, records decoded down to the last one. The tool reports mismatches in its
/// output, not by its exit code: see [`dump_complaints`].
///
/// # Panics
/// When the tool itself fails.
#[must_use]
pub fn dump_log(files: &[PathBuf], extra: &[&str]) -> String {
    let list: Vec<_> = files.iter().map(|f| f.to_str().expect("paths of tests are UTF-8")).collect();
    let list = list.join(",");
    let mut arguments = vec!["--files", &list];
    arguments.extend(extra);
    let out = run(place::KAFKA_VERSION, "dump-log", &arguments);
    assert!(out.status.success(), "kafka-dump-log failed: {}", text(&out));
    text(&out)
}

/// The lines of [`dump_log`]'s output that report something wrong. "Non-consecutive offsets" is left out: the tool says so of every gap,
/// and of every segment that does not begin at 0.
#[must_use]
pub fn dump_complaints(output: &str) -> Vec<String> {
    const SIGNS: [&str; 8] = [
        "mismatch",
        "Mismatch",
        "invalid bytes",
        "Found timestamp",
        "out of order",
        "isvalid: false",
        "Exception",
        "corrupt",
    ];
    output.lines().filter(|l| SIGNS.iter().any(|s| l.contains(s))).map(str::to_owned).collect()
}

/// Runs a tool, or any main class, of a stock release.
///
/// # Panics
/// When Java cannot be started.
#[must_use]
pub fn run(version: &str, tool: &str, arguments: &[&str]) -> Output {
    let mut command = java_tool(version);
    command.arg(tool_class(tool)).args(arguments);
    command.output().expect("java starts")
}

/// A Java command line for a short-lived program on the release's class path.
#[must_use]
pub fn java_tool(version: &str) -> Command {
    let mut command = mortal("java");
    command
        .args([HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"])
        .arg(log4j("log4j2-tools.properties"));
    command.arg("-cp").arg(class_path(version));
    command
}

/// Class path of a release.
#[must_use]
pub fn class_path(version: &str) -> String {
    format!("{}/*", place::jars(version).display())
}

fn log4j(file: &str) -> String {
    format!("-Dlog4j2.configurationFile={}", place::repository().join("tests/kafka").join(file).display())
}

/// Main classes of 4.4; older releases moved some of them.
fn tool_class(tool: &str) -> &str {
    match tool {
        "storage" => "kafka.tools.StorageTool",
        "acls" => "org.apache.kafka.tools.AclCommand",
        "topics" => "org.apache.kafka.tools.TopicCommand",
        "configs" => "org.apache.kafka.tools.ConfigCommand",
        "get-offsets" => "org.apache.kafka.tools.GetOffsetShell",
        "delete-records" => "org.apache.kafka.tools.DeleteRecordsCommand",
        "dump-log" => "org.apache.kafka.tools.DumpLogSegments",
        "transactions" => "org.apache.kafka.tools.TransactionsCommand",
        "console-consumer" => "org.apache.kafka.tools.consumer.ConsoleConsumer",
        other => other,
    }
}

fn text(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}
