//! A small blocking client that asks a source for its topics and reads a partition again.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;

use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::frame::{decode_response, encode_request};
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::fetch::walker::{FetchEvent, FetchWalker};
use twinlog_proto::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use twinlog_proto::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use twinlog_proto::messages::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use twinlog_proto::messages::{Message, Request};

use crate::limits::{SOURCE_ANSWER_BYTES_MAX, SOURCE_SILENCE_MAX};

const METADATA_VERSION: i16 = 10;
const LIST_OFFSETS_VERSION: i16 = 6;
const FETCH_VERSION: i16 = 12;
const FETCH_BYTES: i32 = 8 << 20;
const EARLIEST: i64 = -2;
const LATEST: i64 = -1;
const PREFIX_BYTES: usize = 12;
const CLIENT: &str = "twinlog-bench";

/// One partition of a real source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its topic.
    pub topic: String,
    /// The topic's id.
    pub topic_id: Uuid,
    /// Its number.
    pub partition: i32,
    /// `HOST:PORT` of its leader.
    pub leader: String,
    /// Where it starts.
    pub start: i64,
    /// Where it ends now.
    pub end: i64,
}

/// Asks the cluster at `bootstrap` for the partitions of `topics`, or of all that are not internal.
///
/// # Errors
/// When it does not answer, or a topic is missing or has no leader.
pub fn partitions(bootstrap: &str, topics: &[String]) -> io::Result<Vec<Remote>> {
    let asked = topics.iter().map(|name| MetadataRequestTopic { name: Some(name.clone()), ..Default::default() });
    let request = MetadataRequest {
        topics: (!topics.is_empty()).then(|| asked.collect()),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let metadata = ask(&mut connect(bootstrap)?, METADATA_VERSION, &request)?;
    let mut found = remotes(&metadata)?;
    let mut sockets = HashMap::new();
    for remote in &mut found {
        let socket = match sockets.remove(&remote.leader) {
            Some(socket) => socket,
            None => connect(&remote.leader)?,
        };
        let socket = sockets.entry(remote.leader.clone()).or_insert(socket);
        remote.start = list_offset(socket, remote, EARLIEST)?;
        remote.end = list_offset(socket, remote, LATEST)?;
    }
    Ok(found)
}

fn remotes(metadata: &MetadataResponse) -> io::Result<Vec<Remote>> {
    let mut found = Vec::new();
    for topic in metadata.topics.iter().filter(|topic| !topic.is_internal) {
        let name = topic.name.clone().unwrap_or_default();
        check(topic.error_code, &name)?;
        for partition in &topic.partitions {
            let leader = metadata.brokers.iter().find(|broker| broker.node_id == partition.leader_id);
            let leader = leader
                .ok_or_else(|| io::Error::other(format!("{name}-{} has no leader", partition.partition_index)))?;
            found.push(Remote {
                topic: name.clone(),
                topic_id: topic.topic_id,
                partition: partition.partition_index,
                leader: format!("{}:{}", leader.host, leader.port),
                start: 0,
                end: 0,
            });
        }
    }
    Ok(found)
}

fn list_offset(socket: &mut TcpStream, of: &Remote, timestamp: i64) -> io::Result<i64> {
    let partitions = vec![ListOffsetsPartition { partition_index: of.partition, timestamp, ..Default::default() }];
    let topics = vec![ListOffsetsTopic { name: of.topic.clone(), partitions }];
    let answer = ask(socket, LIST_OFFSETS_VERSION, &ListOffsetsRequest { topics, ..Default::default() })?;
    let found = answer.topics.first().and_then(|topic| topic.partitions.first());
    let found = found.ok_or_else(|| io::Error::other("an empty answer to ListOffsets"))?;
    check(found.error_code, &of.topic)?;
    Ok(found.offset)
}

fn check(code: i16, what: &str) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::other(format!("the source says {} of {what}", ErrorCode(code)))) }
}

/// Reads a partition batch by batch, in ascending order.
#[derive(Debug)]
pub struct Refetch {
    socket: TcpStream,
    remote: Remote,
    records: Vec<u8>,
    taken: usize,
}

impl Refetch {
    /// Connects to the leader.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn new(remote: Remote) -> io::Result<Self> {
        let mut socket = connect(&remote.leader)?;
        let start = list_offset(&mut socket, &remote, EARLIEST)?;
        Ok(Self { socket, remote: Remote { start, ..remote }, records: Vec::new(), taken: 0 })
    }

    /// Where the partition starts now.
    #[must_use]
    pub fn log_start(&self) -> i64 {
        self.remote.start
    }

    /// The batch that follows the one returned before, or that holds `offset` after a first or empty read; none at the end.
    ///
    /// # Errors
    /// When the source does not answer or refuses.
    pub fn batch_at(&mut self, offset: i64) -> io::Result<Option<&[u8]>> {
        if self.whole_batch().is_none() {
            self.fetch(offset.max(self.remote.start))?;
        }
        let Some(size) = self.whole_batch() else { return Ok(None) };
        let batch = &self.records[self.taken..self.taken + size];
        self.taken += size;
        Ok(Some(batch))
    }

    fn whole_batch(&self) -> Option<usize> {
        let rest = &self.records[self.taken..];
        let length = i32::from_be_bytes(*rest.get(8..PREFIX_BYTES)?.first_chunk()?);
        let size = usize::try_from(length).ok()?.checked_add(PREFIX_BYTES)?;
        (size <= rest.len()).then_some(size)
    }

    fn fetch(&mut self, offset: i64) -> io::Result<()> {
        let partition = FetchPartition {
            partition: self.remote.partition,
            fetch_offset: offset,
            partition_max_bytes: FETCH_BYTES,
            ..Default::default()
        };
        let request = FetchRequest {
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: FETCH_BYTES,
            session_epoch: -1,
            topics: vec![FetchTopic {
                topic: self.remote.topic.clone(),
                partitions: vec![partition],
                ..Default::default()
            }],
            ..Default::default()
        };
        send(&mut self.socket, FETCH_VERSION, &request)?;
        let frame = receive(&mut self.socket)?;
        let mut walker = FetchWalker::new(FETCH_VERSION, frame.len()).map_err(io::Error::other)?;
        let mut rest = &frame[..];
        (self.taken, self.records) = (0, Vec::new());
        loop {
            let (taken, event) = walker.feed(rest).map_err(io::Error::other)?;
            rest = &rest[taken..];
            match event {
                FetchEvent::Response(head) => check(head.error.0, &self.remote.topic)?,
                FetchEvent::Partition(head) => check(head.error.0, &self.remote.topic)?,
                FetchEvent::Records(bytes) => self.records.extend_from_slice(bytes),
                FetchEvent::End { .. } | FetchEvent::NeedMore => return Ok(()),
                FetchEvent::PartitionEnd(_) | FetchEvent::Node(_) => {}
            }
        }
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let failed = |cause: io::Error| io::Error::new(cause.kind(), format!("{address}: {cause}"));
    let socket = TcpStream::connect(address).map_err(failed)?;
    socket.set_read_timeout(Some(SOURCE_SILENCE_MAX))?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

fn ask<R: Request>(socket: &mut TcpStream, version: i16, request: &R) -> io::Result<R::Response> {
    send(socket, version, request)?;
    let (_, answer) = decode_response(&receive(socket)?, version).map_err(io::Error::other)?;
    Ok(answer)
}

fn send<M: Message>(socket: &mut TcpStream, version: i16, request: &M) -> io::Result<()> {
    let mut out = Vec::new();
    encode_request(&mut out, version, 1, Some(CLIENT), request).map_err(io::Error::other)?;
    socket.write_all(&out)
}

fn receive(socket: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > SOURCE_ANSWER_BYTES_MAX {
        return Err(io::Error::other(format!("an answer of {length} bytes")));
    }
    let mut frame = Vec::new();
    if socket.take(length.into()).read_to_end(&mut frame)? < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::batches::Shape;
    use crate::source::broker::{Broker, Config};

    #[test]
    fn a_partition_is_read_again_batch_by_batch_to_its_end() {
        let source = Broker::start(Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            topic: "t".into(),
            topics: 1,
            topics_with_data: 1,
            partitions: 2,
            batches_each: 9,
            shape: Shape { seed: 1, batch_bytes: 3_000_000, record_bytes: 1000, leader_epoch: 0 },
            core: None,
        })
        .unwrap();
        let found = partitions(&source.address().to_string(), &[]).unwrap();
        assert_eq!((found.len(), found[1].partition, found[1].end), (2, 1, source.store().high_watermark(1).unwrap()));
        let mut again = Refetch::new(found[1].clone()).unwrap();
        for index in 0..9 {
            let mut expected = Vec::new();
            source.store().batches().append_batch(1, index, &mut expected);
            let offset = source.store().batches().base_offset(index);
            assert!(again.batch_at(offset).unwrap() == Some(&expected[..]));
        }
        assert!(again.batch_at(found[1].end).unwrap().is_none());
        assert!(partitions(&source.address().to_string(), &["missing".into()]).is_err());
    }
}
