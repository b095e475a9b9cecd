//! A source broker in threads: honest by default, and told by a script what to do wrong.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use twinlog_proto::api;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::frame::{decode_request_header, encode_response};
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::Message;
use twinlog_proto::messages::api_versions::{ApiVersion, ApiVersionsResponse};
use twinlog_proto::messages::fetch::encode::{Endpoint, FetchFrame};
use twinlog_proto::messages::fetch::{PartitionHead, PartitionTail, ResponseHead, TopicRef};
use twinlog_proto::messages::fetch_request::FetchRequest;
use twinlog_proto::messages::list_offsets::{
    ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use twinlog_proto::messages::metadata::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use twinlog_proto::reader::Reader;

use crate::batches::SourceLog;

pub(crate) const TOPIC: &str = "orders";
pub(crate) const TOPIC_ID: Uuid = Uuid([7; 16]);

/// What the script does with one partition's part of a Fetch answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Part {
    pub(crate) error: i16,
    pub(crate) records: Vec<u8>,
    /// Where the source claims to begin, if that is not where it does.
    pub(crate) log_start: Option<i64>,
    pub(crate) tail: PartitionTail,
}

/// What the script does with a whole Fetch answer.
#[derive(Debug, Clone)]
pub(crate) enum Twist {
    /// Nothing.
    Honest,
    /// These bytes instead, then the connection is closed.
    Garbage(Vec<u8>),
    /// Only so many bytes of the answer, then the connection is closed.
    CutAt(usize),
    /// Only so many bytes of the first answer that is longer, then silence.
    StallAt(usize),
    /// Another correlation id.
    WrongCorrelation,
    /// An error for the whole answer.
    Whole(i16),
    /// A partition that nobody asked for comes first.
    Stranger,
}

/// The cluster's state, which tests change while it serves.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) logs: Vec<SourceLog>,
    pub(crate) topic_id: Uuid,
    pub(crate) leader: usize,
    pub(crate) epoch: i32,
    pub(crate) ports: Vec<u16>,
    pub(crate) twists: Vec<Twist>,
    /// Answers so far in which a partition was changed by `change`.
    pub(crate) fetches: usize,
    pub(crate) change: fn(&mut Cluster, index: i32, offset: i64, part: &mut Part),
    pub(crate) seen: Vec<FetchRequest>,
    pub(crate) node_endpoints: bool,
}

/// A cluster of as many brokers as asked for, on ports of this machine.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) cluster: Arc<Mutex<Cluster>>,
}

impl Source {
    pub(crate) fn start(logs: Vec<SourceLog>, brokers: usize) -> Self {
        let listeners: Vec<_> = (0..brokers).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports = listeners.iter().map(|l| l.local_addr().unwrap().port()).collect();
        let cluster = Arc::new(Mutex::new(Cluster {
            logs,
            topic_id: TOPIC_ID,
            leader: 0,
            epoch: 3,
            ports,
            twists: Vec::new(),
            fetches: 0,
            change: |_, _, _, _| {},
            seen: Vec::new(),
            node_endpoints: true,
        }));
        for (broker, listener) in listeners.into_iter().enumerate() {
            let cluster = Arc::clone(&cluster);
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let cluster = Arc::clone(&cluster);
                    std::thread::spawn(move || Link { stream, cluster, broker, sessions: HashMap::new() }.serve());
                }
            });
        }
        Self { cluster }
    }

    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Cluster) -> R) -> R {
        change(&mut self.cluster.lock().unwrap())
    }

    pub(crate) fn bootstrap(&self) -> String {
        self.change(|cluster| format!("127.0.0.1:{}", cluster.ports[0]))
    }
}

struct Link {
    stream: TcpStream,
    cluster: Arc<Mutex<Cluster>>,
    broker: usize,
    /// What the session remembers, by partition.
    sessions: HashMap<i32, Cached>,
}

/// A partition of a session.
struct Cached {
    offset: i64,
    epoch: i32,
    max_bytes: usize,
    /// It was in an answer since it joined; from then on only news of it are told.
    told: bool,
}

impl Link {
    fn serve(mut self) {
        while let Some(frame) = self.frame() {
            let mut reader = Reader::new("request", &frame);
            let header = decode_request_header(&mut reader).unwrap();
            let (version, id) = (header.api_version, header.correlation_id);
            let mut out = Vec::new();
            match header.api_key {
                api::API_VERSIONS => encode_response(&mut out, version, id, &api_versions()).unwrap(),
                api::METADATA => encode_response(&mut out, version, id, &self.metadata()).unwrap(),
                api::LIST_OFFSETS => {
                    let request = ListOffsetsRequest::decode(&mut reader, version).unwrap();
                    encode_response(&mut out, version, id, &self.list_offsets(&request)).unwrap();
                }
                api::FETCH => {
                    let request = FetchRequest::decode(&mut reader, version).unwrap();
                    let Some(answer) = self.fetch(&request, version, id) else { return };
                    out = answer;
                }
                key => panic!("nobody asks a source for {key}"),
            }
            if self.stream.write_all(&out).is_err() {
                return;
            }
        }
    }

    fn frame(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).ok()?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame).ok()?;
        Some(frame)
    }

    fn metadata(&self) -> MetadataResponse {
        let cluster = self.cluster.lock().unwrap();
        let brokers = cluster.ports.iter().enumerate().map(|(id, port)| MetadataResponseBroker {
            node_id: id as i32,
            host: "127.0.0.1".to_owned(),
            port: i32::from(*port),
            ..Default::default()
        });
        let partitions = (0..cluster.logs.len()).map(|index| MetadataResponsePartition {
            partition_index: index as i32,
            leader_id: cluster.leader as i32,
            leader_epoch: cluster.epoch,
            ..Default::default()
        });
        MetadataResponse {
            brokers: brokers.collect(),
            cluster_id: Some("source".to_owned()),
            topics: vec![MetadataResponseTopic {
                name: Some(TOPIC.to_owned()),
                topic_id: cluster.topic_id,
                partitions: partitions.collect(),
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    fn list_offsets(&self, request: &ListOffsetsRequest) -> ListOffsetsResponse {
        let cluster = self.cluster.lock().unwrap();
        let topics = request.topics.iter().map(|topic| ListOffsetsTopicResponse {
            name: topic.name.clone(),
            partitions: topic
                .partitions
                .iter()
                .map(|wanted| {
                    let log = &cluster.logs[wanted.partition_index as usize];
                    ListOffsetsPartitionResponse {
                        partition_index: wanted.partition_index,
                        offset: if wanted.timestamp == -2 { log.start } else { log.end },
                        leader_epoch: cluster.epoch,
                        ..Default::default()
                    }
                })
                .collect(),
        });
        ListOffsetsResponse { topics: topics.collect(), ..Default::default() }
    }

    /// The answer, or `None` when the connection is to be closed.
    fn fetch(&mut self, request: &FetchRequest, version: i16, id: i32) -> Option<Vec<u8>> {
        self.remember(request);
        let mut parts = Vec::new();
        for _look in 0..20 {
            parts = self.parts();
            parts.retain(|(index, part, _)| is_news(part) || !self.sessions[index].told);
            if request.session_epoch == 0 || !parts.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(u64::from(request.max_wait_ms.unsigned_abs()) / 20));
        }
        for (index, _, _) in &parts {
            self.sessions.entry(*index).and_modify(|cached| cached.told = true);
        }
        let mut cluster = self.cluster.lock().unwrap();
        cluster.seen.push(request.clone());
        cluster.fetches += 1;
        let twist = if cluster.twists.is_empty() { Twist::Honest } else { cluster.twists.remove(0) };
        let ports = if cluster.node_endpoints { cluster.ports.clone() } else { Vec::new() };
        let topic_id = cluster.topic_id;
        drop(cluster);
        let id = if matches!(twist, Twist::WrongCorrelation) { id + 1 } else { id };
        match &twist {
            Twist::Whole(error) => return Some(answer(version, id, *error, &[], &ports, topic_id)),
            Twist::Stranger => {
                let log = SourceLog { start: 0, end: 0, batches: Vec::new() };
                parts.insert(0, (99, Part { records: vec![1, 2, 3], ..Part::default() }, log));
            }
            _ => {}
        }
        let whole = answer(version, id, 0, &parts, &ports, topic_id);
        match twist {
            Twist::StallAt(bytes) if whole.len() <= bytes => {
                self.cluster.lock().unwrap().twists.insert(0, twist);
                return Some(whole);
            }
            Twist::Garbage(bytes) => self.last_words(&bytes),
            Twist::CutAt(bytes) => self.last_words(&whole[..bytes.min(whole.len())]),
            Twist::StallAt(bytes) => {
                self.last_words(&whole[..bytes]);
                // Longer than any test.
                std::thread::sleep(Duration::from_secs(600));
            }
            _ => return Some(whole),
        }
        None
    }

    fn last_words(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
        // So that the bytes arrive before the end does.
        std::thread::sleep(Duration::from_millis(20));
    }

    fn remember(&mut self, request: &FetchRequest) {
        if request.session_epoch == 0 {
            self.sessions.clear();
        }
        for partition in request.topics.iter().flat_map(|topic| &topic.partitions) {
            let cached = Cached {
                offset: partition.fetch_offset,
                epoch: partition.current_leader_epoch,
                max_bytes: partition.partition_max_bytes as usize,
                told: self.sessions.get(&partition.partition).is_some_and(|cached| cached.told),
            };
            self.sessions.insert(partition.partition, cached);
        }
        for index in request.forgotten_topics_data.iter().flat_map(|topic| &topic.partitions) {
            self.sessions.remove(index);
        }
    }

    fn parts(&self) -> Vec<(i32, Part, SourceLog)> {
        let mut cluster = self.cluster.lock().unwrap();
        let mut parts = Vec::new();
        for (&index, &Cached { offset, epoch, max_bytes, .. }) in &self.sessions {
            let log = cluster.logs[index as usize].clone();
            let mut part = Part::default();
            if self.broker != cluster.leader {
                part.error = ErrorCode::NOT_LEADER_OR_FOLLOWER.0;
                part.tail.current_leader = Some(twinlog_proto::messages::fetch::CurrentLeader {
                    id: cluster.leader as i32,
                    epoch: cluster.epoch,
                });
            } else if epoch >= 0 && epoch < cluster.epoch {
                part.error = ErrorCode::FENCED_LEADER_EPOCH.0;
            } else if offset < log.start || offset > log.end {
                part.error = ErrorCode::OFFSET_OUT_OF_RANGE.0;
            } else {
                part.records = log.read(offset, max_bytes);
            }
            let change = cluster.change;
            change(&mut cluster, index, offset, &mut part);
            parts.push((index, part, log));
        }
        parts
    }
}

fn is_news(part: &Part) -> bool {
    part.error != 0 || !part.records.is_empty() || part.tail.diverging.is_some()
}

fn answer(
    version: i16,
    id: i32,
    error: i16,
    parts: &[(i32, Part, SourceLog)],
    ports: &[u16],
    topic_id: Uuid,
) -> Vec<u8> {
    let mut out = Vec::new();
    let head = ResponseHead {
        correlation_id: id,
        throttle_ms: 0,
        error: ErrorCode(error),
        session_id: if error == 0 { 4711 } else { 0 },
    };
    let mut frame = FetchFrame::begin(&mut out, version, &head, usize::from(!parts.is_empty())).unwrap();
    let mut places = Vec::new();
    if !parts.is_empty() {
        frame.topic(topic_id, TOPIC, parts.len());
        for (index, part, log) in parts {
            let head = PartitionHead {
                topic: TopicRef::Name,
                index: *index,
                error: ErrorCode(part.error),
                high_watermark: if part.error == 0 { log.end } else { -1 },
                last_stable_offset: log.end,
                log_start_offset: part.log_start.unwrap_or(log.start),
                preferred_read_replica: -1,
                records_bytes: part.records.len() as u32,
            };
            places.push((frame.partition(&head, None), &part.records));
            frame.partition_end(&part.tail);
        }
        frame.topic_end();
    }
    let nodes: Vec<_> = ports.iter().enumerate().map(|(id, port)| (id as i32, *port)).collect();
    let nodes: Vec<_> =
        nodes.iter().map(|(id, port)| Endpoint { id: *id, host: "127.0.0.1", port: *port, rack: None }).collect();
    frame.end(&nodes).unwrap();
    let mut whole = Vec::new();
    let mut from = 0;
    for (at, records) in places {
        whole.extend_from_slice(&out[from..at]);
        whole.extend_from_slice(records);
        from = at;
    }
    whole.extend_from_slice(&out[from..]);
    whole
}

fn api_versions() -> ApiVersionsResponse {
    let versions = [(api::FETCH, 4, 17), (api::LIST_OFFSETS, 1, 9), (api::METADATA, 0, 12), (api::API_VERSIONS, 0, 4)];
    let api_keys = versions.map(|(api_key, min_version, max_version)| ApiVersion { api_key, min_version, max_version });
    ApiVersionsResponse { api_keys: api_keys.into(), ..Default::default() }
}
