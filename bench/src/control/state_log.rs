//! A state log as a control plane would have left it: a mirror, its topics, where their partitions live, and then their states
//! over and over.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::Message;
use twinlog_proto::messages::state_log::{
    HOST_PARTITION, HostPartitionKey, HostPartitionValue, LAST_MIRROR_EPOCHS, LastMirrorEpochsKey,
    LastMirrorEpochsPartition, LastMirrorEpochsTopic, LastMirrorEpochsValue, MIRROR, MIRROR_PARTITION_STATE,
    MIRROR_TOPIC, MirrorKey, MirrorPartitionStateKey, MirrorPartitionStateValue, MirrorSetting, MirrorTopicKey,
    MirrorTopicValue, MirrorValue,
};
use twinlog_proto::writer::Writer;

use super::Size;
use crate::source::batches::{seeded_uuid, split_mix};

const FOLDER: &str = "__mirror_state";
const FILE: &str = "00000000000000000000.log";
const MIRROR_NAME: &str = "bench";
/// Records of one batch: a commit of a busy control plane.
const BATCH_RECORDS: usize = 500;
const CRC_FROM: usize = 21;

/// Writes a log of `records` records below `state`; gives its size in bytes.
///
/// # Errors
/// As the file system says.
pub fn write(state: &Path, size: Size, records: u64) -> io::Result<u64> {
    fs::create_dir_all(state.join(FOLDER))?;
    let file = File::create(state.join(FOLDER).join(FILE))?;
    let mut log = Log { out: BufWriter::new(file), batch: Vec::new(), count: 0, records: 0, size_bytes: 0 };
    let own = MirrorValue {
        source_cluster_id: "the-cluster-of-the-bench".to_owned(),
        settings: vec![MirrorSetting { name: "bootstrap.servers".to_owned(), value: Some("127.0.0.1:1".to_owned()) }],
        ..MirrorValue::default()
    };
    log.add(MIRROR, &MirrorKey { mirror_name: MIRROR_NAME.to_owned() }, &own)?;
    for topic in 0..size.topics {
        add_topic(&mut log, size, topic)?;
    }
    let mut random = size.seed;
    while log.records < records {
        random = split_mix(random);
        let (topic, partition) = (random % u64::from(size.topics), (random >> 32) % u64::from(size.partitions));
        add_state(&mut log, size, topic as u32, (partition as u32).cast_signed(), random)?;
    }
    log.end_batch()?;
    log.out.into_inner()?.sync_all()?;
    Ok(log.size_bytes)
}

/// Bytes of the log below `state` now.
///
/// # Errors
/// As the file system says.
pub fn size(state: &Path) -> io::Result<u64> {
    Ok(fs::metadata(state.join(FOLDER).join(FILE))?.len())
}

fn topic_id(size: Size, topic: u32) -> Uuid {
    seeded_uuid(size.seed, &size.topic(topic))
}

fn add_topic(log: &mut Log, size: Size, topic: u32) -> io::Result<()> {
    let (mirror_name, topic_name) = (MIRROR_NAME.to_owned(), size.topic(topic));
    let value = MirrorTopicValue {
        topic_id: topic_id(size, topic),
        desired_state: 2,
        num_partitions: size.partitions.cast_signed(),
        segment_bytes: 1 << 30,
        segment_ms: 604_800_000,
        segment_index_bytes: 10 << 20,
        index_interval_bytes: 4096,
        max_compaction_lag_ms: i64::MAX,
        ..MirrorTopicValue::default()
    };
    log.add(MIRROR_TOPIC, &MirrorTopicKey { mirror_name, topic_name }, &value)?;
    for partition in 0..size.partitions.cast_signed() {
        let key = HostPartitionKey {
            host_id: "local".to_owned(),
            mirror_name: MIRROR_NAME.to_owned(),
            topic_name: size.topic(topic),
            partition,
        };
        let slot = topic.cast_signed() * size.partitions.cast_signed() + partition;
        let data_directory = "/var/lib/twinlog/data".to_owned();
        log.add(HOST_PARTITION, &key, &HostPartitionValue { slot, data_directory, ..HostPartitionValue::default() })?;
    }
    Ok(())
}

/// Mostly a state; now and then where mirroring ended.
fn add_state(log: &mut Log, size: Size, topic: u32, partition: i32, random: u64) -> io::Result<()> {
    let mirror_name = MIRROR_NAME.to_owned();
    if random.is_multiple_of(64) {
        let ended = LastMirrorEpochsPartition {
            partition_index: partition,
            last_mirror_epoch: 3,
            last_mirrored_offset: (random >> 33).cast_signed(),
        };
        let topics = vec![LastMirrorEpochsTopic { name: size.topic(topic), partitions: vec![ended] }];
        let key = LastMirrorEpochsKey { mirror_name };
        return log.add(LAST_MIRROR_EPOCHS, &key, &LastMirrorEpochsValue { topics });
    }
    let value = MirrorPartitionStateValue {
        topic_name: size.topic(topic),
        partition,
        state: [0, 2, 3, 4, 5, 6][(random >> 8) as usize % 6],
        topic_id: topic_id(size, topic),
        state_epoch: (log.records as u32).cast_signed(),
        ..MirrorPartitionStateValue::default()
    };
    log.add(MIRROR_PARTITION_STATE, &MirrorPartitionStateKey { mirror_name }, &value)
}

struct Log {
    out: BufWriter<File>,
    batch: Vec<u8>,
    count: usize,
    records: u64,
    size_bytes: u64,
}

impl Log {
    fn add<K: Message, V: Message>(&mut self, kind: i16, key: &K, value: &V) -> io::Result<()> {
        let (key, value) = (prefixed(kind, key)?, prefixed(0, value)?);
        let mut record = Vec::with_capacity(key.len() + value.len() + 16);
        let mut w = Writer::new(&mut record);
        w.write_i8(0);
        w.write_varlong(0);
        w.write_varint(self.count as i32);
        for bytes in [&key, &value] {
            w.write_varint(bytes.len() as i32);
            w.write_slice(bytes);
        }
        w.write_varint(0);
        let mut w = Writer::new(&mut self.batch);
        w.write_varint(record.len() as i32);
        w.write_slice(&record);
        self.count += 1;
        self.records += 1;
        if self.count == BATCH_RECORDS { self.end_batch() } else { Ok(()) }
    }

    fn end_batch(&mut self) -> io::Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(self.batch.len() + 64);
        let mut w = Writer::new(&mut bytes);
        let count = self.count as i32;
        w.write_i64(self.records.cast_signed() - i64::from(count));
        let length = w.begin_length();
        w.write_i32(0); // leader epoch
        w.write_i8(2);
        w.write_u32(0); // CRC, below
        w.write_i16(0);
        w.write_i32(count - 1);
        w.write_i64(1_700_000_000_000);
        w.write_i64(1_700_000_000_000);
        w.write_i64(-1); // no producer
        w.write_i16(-1);
        w.write_i32(-1);
        w.write_i32(count);
        w.write_slice(&self.batch);
        w.end_length(length);
        let crc = crc32c::crc32c(&bytes[CRC_FROM..]);
        bytes[CRC_FROM - 4..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
        self.out.write_all(&bytes)?;
        self.size_bytes += bytes.len() as u64;
        self.batch.clear();
        self.count = 0;
        Ok(())
    }
}

fn prefixed<M: Message>(prefix: i16, message: &M) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes);
    w.write_i16(prefix);
    message.encode(&mut w, 0).map_err(io::Error::other)?;
    Ok(bytes)
}
