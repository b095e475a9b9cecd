//! What the tests of the real process need: a source that answers three requests, a data plane that publishes what it is
//! told, and the control plane itself as a process.

#![allow(dead_code, reason = "each test binary uses a part of the kit")]

pub(crate) mod plane;
pub(crate) mod source;

use controlplane::client::Client;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use twinlog_proto::messages::Request;
use twinlog_proto::messages::create_mirror::{CreateMirrorRequest, CreateMirrorResponse, MirrorConfig};
use twinlog_proto::messages::describe_mirrors::{DescribeMirrorsRequest, PartitionDetail};
use twinlog_proto::messages::start_mirror_topics::{StartMirrorTopicsRequest, StartMirrorTopicsResponse, TopicData};
use twinlog_proto::messages::sync_mirror::SyncMirrorRequest;

/// How long anything may take here.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(20);

/// Waits until `done` gives a value.
pub(crate) fn wait_for<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = done() {
            return value;
        }
        assert!(start.elapsed() < WAIT_MAX, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A control plane process.
pub(crate) struct ControlPlane {
    child: Child,
    /// Its Kafka address.
    pub(crate) listen: String,
    /// Its HTTP address.
    pub(crate) metrics: String,
}

impl ControlPlane {
    /// Starts one on `folder`, on ports that are free.
    pub(crate) fn start(folder: &Path) -> Self {
        Self::start_by(&mut Self::command(folder))
    }

    /// Starts one by this command.
    pub(crate) fn start_by(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let line = BufReader::new(stdout).lines().next().expect("it says that it is ready").unwrap();
        let word = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)).unwrap().to_owned();
        Self { child, listen: word("listen="), metrics: word("metrics=") }
    }

    /// The command that starts one.
    pub(crate) fn command(folder: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_twinlog-controlplane"));
        command.args(["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]);
        command.arg("--data").arg(folder.join("data")).arg("--state").arg(folder.join("state"));
        command.env("TWINLOG_LOG", "debug");
        command
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A connection to it.
    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.listen).unwrap()
    }

    /// One question on a connection of its own.
    pub(crate) fn ask<R: Request>(&self, request: &R) -> R::Response {
        self.client().ask(request).unwrap()
    }

    /// Ends it without a word.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it as an operator would; gives the exit code.
    pub(crate) fn terminate(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }

    /// Creates a mirror of `source`.
    pub(crate) fn create(&self, mirror: &str, source: &str) -> CreateMirrorResponse {
        self.create_with(mirror, &[("bootstrap.servers", source)])
    }

    /// Creates a mirror with these settings.
    pub(crate) fn create_with(&self, mirror: &str, settings: &[(&str, &str)]) -> CreateMirrorResponse {
        let config =
            |(name, value): &(&str, &str)| MirrorConfig { name: (*name).to_owned(), value: Some((*value).to_owned()) };
        let config = settings.iter().map(config).collect();
        self.ask(&CreateMirrorRequest { mirror_name: mirror.to_owned(), config })
    }

    /// Starts topics by name.
    pub(crate) fn start_topics(&self, mirror: &str, topics: &[&str]) -> StartMirrorTopicsResponse {
        let topic = |name: &&str| TopicData { topic_name: (*name).to_owned(), ..TopicData::default() };
        let topics = topics.iter().map(topic).collect();
        self.ask(&StartMirrorTopicsRequest { mirror_name: mirror.to_owned(), topics, ..Default::default() })
    }

    /// What describe says of a partition.
    pub(crate) fn partition(&self, mirror: &str, topic: &str, index: i32) -> Option<PartitionDetail> {
        let names = Some(vec![mirror.to_owned()]);
        let mut answer = self.ask(&DescribeMirrorsRequest { mirror_names: names, ..Default::default() });
        let topics = answer.mirrors.pop()?.topics;
        let topic = topics.into_iter().find(|found| found.topic_name == topic)?;
        topic.partitions.into_iter().find(|found| found.partition_index == index)
    }

    /// Looks at the source of a mirror now; what follows from the look has happened then.
    pub(crate) fn look(&self, mirror: &str) {
        let what = vec!["topics".to_owned()];
        let answer = self.ask(&SyncMirrorRequest { mirror_name: mirror.to_owned(), what, ..Default::default() });
        assert_eq!((answer.error_code, answer.kinds[0].error_code), (0, 0), "{answer:?}");
    }

    /// Waits until a partition is in a state; gives what describe says then.
    pub(crate) fn wait_state(&self, mirror: &str, topic: &str, index: i32, state: &str) -> PartitionDetail {
        wait_for(&format!("{topic}-{index} to be {state}"), || {
            self.partition(mirror, topic, index).filter(|found| found.state == state)
        })
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // Already gone is as good.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
