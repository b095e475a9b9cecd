//! One real core of the data plane in a thread, told what to mirror by the test.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dataplane::checkpoints::Checkpoints;
use dataplane::control::channel::Channel;
use dataplane::core::loader::{self, Mail};
use dataplane::core::shared::CoreSettings;
use dataplane::core::{self, CorePlan};
use dataplane::fault::CoreCause;
use dataplane::housekeeping::Housekeeping;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use twinlog_proto::channel::board::Seen;
use twinlog_proto::channel::page::Counter;
use twinlog_proto::channel::progress::{FaultCode, PartitionProgress, SlotState, mirror_identity};
use twinlog_proto::messages::assignment::{AssignedPartition, AssignedSetting, AssignedTopic, Assignment};

use crate::source::{Source, TOPIC, TOPIC_ID};

pub(crate) struct World {
    pub(crate) data: tempfile::TempDir,
    state: tempfile::TempDir,
    channel: Channel,
    mail: UnboundedSender<Mail>,
    core: Option<JoinHandle<Result<(), CoreCause>>>,
    housekeeping: Option<Housekeeping>,
    pub(crate) assignment: Assignment,
}

/// Time between two flushes, ms.
const FLUSH_MS: u64 = 100;

impl World {
    /// A core that mirrors nothing yet; its assignment names every partition of the source.
    pub(crate) fn new(source: &Source) -> Self {
        let (data, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        Self::over(source, data, state, FLUSH_MS)
    }

    /// A core that is not due to flush anything while a test runs.
    pub(crate) fn without_flushes(source: &Source) -> Self {
        let (data, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        Self::over(source, data, state, 3_600_000)
    }

    fn over(source: &Source, data: tempfile::TempDir, state: tempfile::TempDir, flush_ms: u64) -> Self {
        let dirs = [data.path().to_owned()];
        let (channel, mut seats) = Channel::open(1, 256).unwrap();
        let checkpoints = Checkpoints::load(&dirs).unwrap();
        let (housekeeping, tracker) = Housekeeping::start(channel.own().view(), checkpoints.clone()).unwrap();
        let (mail, letters) = unbounded_channel();
        let (_loader, mut askers) = loader::start(state.path(), vec![mail.clone()]).unwrap();
        let plan = CorePlan {
            settings: CoreSettings {
                number: 0,
                cores: 1,
                flush_interval: Duration::from_millis(flush_ms),
                flush_bytes: 64 << 20,
                connections_per_broker: 2,
                segments_open_max: 1024,
            },
            processor: None,
            pieces: 8,
            direct_io: true,
            seat: seats.remove(0),
            asker: askers.remove(0),
            mail: letters,
            checkpoints: Arc::new(checkpoints),
            tracker,
            news: unbounded_channel().0,
        };
        let core = std::thread::Builder::new().name("core-0".to_owned()).spawn(move || core::run(plan)).unwrap();
        let count = source.change(|cluster| cluster.logs.len());
        let partitions = (0..count as i32).map(|index| AssignedPartition {
            index,
            slot: index,
            data_directory: data.path().display().to_string(),
            ..Default::default()
        });
        let topic = AssignedTopic {
            name: TOPIC.to_owned(),
            topic_id: TOPIC_ID,
            segment_bytes: 1 << 30,
            segment_ms: 1 << 40,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            max_compaction_lag_ms: i64::MAX,
            partitions: partitions.collect(),
            ..Default::default()
        };
        let assignment = Assignment {
            mirror_name: "m".to_owned(),
            source_cluster_id: "source".to_owned(),
            bootstrap_servers: vec![source.bootstrap()],
            topics: vec![topic],
            ..Default::default()
        };
        Self { data, state, channel, mail, core: Some(core), housekeeping: Some(housekeeping), assignment }
    }

    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.assignment.settings.push(AssignedSetting { name: key.to_owned(), value: Some(value.to_owned()) });
    }

    /// Hands the assignment out under its next version.
    pub(crate) fn assign(&mut self) {
        self.assignment.assignment_version += 1;
        self.mail.send(Mail::Assignment(Arc::new(self.assignment.clone()))).unwrap();
    }

    /// Takes the assignment away.
    pub(crate) fn leave(&self) {
        self.mail.send(Mail::Gone { mirror: mirror_identity(&self.assignment.mirror_name) }).unwrap();
    }

    /// Wants this of every partition.
    pub(crate) fn want(&mut self, change: impl Fn(&mut AssignedPartition)) {
        self.assignment.topics[0].partitions.iter_mut().for_each(change);
        self.assign();
    }

    pub(crate) fn progress(&self, slot: u32) -> Option<PartitionProgress> {
        match self.channel.region().view().board().read(slot).unwrap() {
            Seen::Value(progress) => Some(progress),
            _ => None,
        }
    }

    pub(crate) fn counter(&self, counter: Counter) -> u64 {
        self.channel.own().view().page(0).get(counter)
    }

    /// Waits until the partition looks like that.
    pub(crate) fn wait(&self, slot: u32, what: &str, looks: impl Fn(&PartitionProgress) -> bool) -> PartitionProgress {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let progress = self.progress(slot);
            if let Some(progress) = progress.filter(&looks) {
                return progress;
            }
            assert!(Instant::now() < until, "partition {slot} never was {what}: {progress:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn wait_caught_up(&self, source: &Source) {
        for slot in 0..source.change(|cluster| cluster.logs.len()) {
            let end = source.change(|cluster| cluster.logs[slot].end);
            self.wait(slot as u32, "caught up", |p| p.leo == end && p.state == SlotState::Mirroring);
        }
    }

    pub(crate) fn wait_failed(&self, slot: u32, code: FaultCode) -> PartitionProgress {
        self.wait(slot, "failed", |p| p.state == SlotState::Failed && p.fault == code)
    }

    pub(crate) fn dir(&self, index: usize) -> PathBuf {
        self.data.path().join(format!("{TOPIC}-{index}"))
    }

    /// The records of a partition, all segments after each other.
    pub(crate) fn bytes(&self, index: usize) -> Vec<u8> {
        let mut files: Vec<_> =
            std::fs::read_dir(self.dir(index)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        files.sort();
        files.iter().flat_map(|path| std::fs::read(path).unwrap()).collect()
    }

    /// Ends the core as SIGTERM does.
    pub(crate) fn stop(&mut self) {
        if let Some(core) = self.core.take() {
            self.mail.send(Mail::Stop).unwrap();
            core.join().unwrap().unwrap();
            self.housekeeping.take().unwrap().stop().unwrap();
        }
    }

    /// Stops and starts again on the same directories.
    pub(crate) fn restart(mut self, source: &Source) -> Self {
        self.stop();
        let Self { data, state, assignment, .. } = self;
        let mut next = Self::over(source, data, state, FLUSH_MS);
        next.assignment = assignment;
        next
    }

    /// Stops, and compares what is here with what the source has.
    pub(crate) fn stop_and_compare(&mut self, source: &Source) {
        self.stop();
        for (index, log) in source.change(|cluster| cluster.logs.clone()).iter().enumerate() {
            let (ours, theirs) = (self.bytes(index), log.bytes());
            assert_eq!(ours.len(), theirs.len(), "bytes of partition {index}");
            assert!(ours == theirs, "partition {index} differs");
        }
    }
}
