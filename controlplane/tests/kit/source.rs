//! A source: one thread that answers ApiVersions, Metadata and DescribeConfigs like a stock broker.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use twinlog_proto::api;
use twinlog_proto::frame;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::Message;
use twinlog_proto::messages::api_versions::{ApiVersion, ApiVersionsResponse};
use twinlog_proto::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult,
};
use twinlog_proto::messages::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponsePartition, MetadataResponseTopic,
};
use twinlog_proto::reader::Reader;

/// A topic of the source.
#[derive(Clone)]
pub(crate) struct Topic {
    pub(crate) name: &'static str,
    pub(crate) id: u8,
    pub(crate) partitions: i32,
    pub(crate) internal: bool,
}

/// What the source is; may be changed while it runs.
pub(crate) struct Cluster {
    pub(crate) id: String,
    pub(crate) topics: Vec<Topic>,
}

/// A running source.
pub(crate) struct Source {
    pub(crate) address: String,
    pub(crate) cluster: Arc<Mutex<Cluster>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Source {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Source {
    /// Starts one with these topics (name, partitions).
    pub(crate) fn start(topics: &[(&'static str, i32)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self::serve(listener, topics)
    }

    /// Starts one on an address that was kept free for it.
    pub(crate) fn serve(listener: TcpListener, topics: &[(&'static str, i32)]) -> Self {
        let address = listener.local_addr().unwrap().to_string();
        let topic = |(id, (name, partitions)): (u8, &(&'static str, i32))| Topic {
            name,
            id,
            partitions: *partitions,
            internal: name.starts_with("__"),
        };
        let topics = (1..).zip(topics).map(topic).collect();
        let cluster = Arc::new(Mutex::new(Cluster { id: "the-source-cluster-id".to_owned(), topics }));
        let (shared, over) = (Arc::clone(&cluster), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&over);
        listener.set_nonblocking(true).unwrap();
        let thread = thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let Ok((stream, _)) = listener.accept() else {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                };
                stream.set_nonblocking(false).unwrap();
                let cluster = Arc::clone(&shared);
                thread::spawn(move || serve(stream, &cluster));
            }
        });
        Self { address, cluster, over, thread: Some(thread) }
    }
}

fn serve(mut stream: TcpStream, cluster: &Mutex<Cluster>) -> Option<()> {
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length).ok()?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut frame).ok()?;
        let mut r = Reader::new("request", &frame);
        let header = frame::decode_request_header(&mut r).unwrap();
        let (version, correlation_id) = (header.api_version, header.correlation_id);
        let mut out = Vec::new();
        let cluster = cluster.lock().unwrap();
        match header.api_key {
            api::API_VERSIONS => {
                // As a broker of 3.7: version 4 is not known yet.
                let (version, error_code) = if version > 3 { (0, 35) } else { (version, 0) };
                let row = |api_key, min_version, max_version| ApiVersion { api_key, min_version, max_version };
                let api_keys =
                    vec![row(api::METADATA, 0, 12), row(api::API_VERSIONS, 0, 3), row(api::DESCRIBE_CONFIGS, 0, 4)];
                let answer = ApiVersionsResponse { error_code, api_keys, ..Default::default() };
                frame::encode_response(&mut out, version, correlation_id, &answer).unwrap();
            }
            api::METADATA => {
                let request = MetadataRequest::decode(&mut r, version).unwrap();
                frame::encode_response(&mut out, version, correlation_id, &metadata(&request, &cluster)).unwrap();
            }
            api::DESCRIBE_CONFIGS => {
                let request = DescribeConfigsRequest::decode(&mut r, version).unwrap();
                frame::encode_response(&mut out, version, correlation_id, &configs(&request)).unwrap();
            }
            other => panic!("the control plane asked a source {}", api::name(other)),
        }
        drop(cluster);
        stream.write_all(&out).ok()?;
    }
}

fn metadata(request: &MetadataRequest, cluster: &Cluster) -> MetadataResponse {
    assert!(!request.allow_auto_topic_creation, "a mirror must not create topics at its source");
    let known = |topic: &Topic| MetadataResponseTopic {
        name: Some(topic.name.to_owned()),
        topic_id: Uuid([topic.id; 16]),
        is_internal: topic.internal,
        partitions: (0..topic.partitions)
            .map(|partition_index| MetadataResponsePartition { partition_index, ..Default::default() })
            .collect(),
        ..Default::default()
    };
    let topics = match &request.topics {
        None => cluster.topics.iter().map(known).collect(),
        Some(asked) => asked
            .iter()
            .map(|asked| {
                let name = asked.name.clone().unwrap();
                cluster.topics.iter().find(|topic| topic.name == name).map_or_else(
                    || MetadataResponseTopic { error_code: 3, name: Some(name.clone()), ..Default::default() },
                    known,
                )
            })
            .collect(),
    };
    MetadataResponse { cluster_id: Some(cluster.id.clone()), topics, ..Default::default() }
}

fn configs(request: &DescribeConfigsRequest) -> DescribeConfigsResponse {
    let config = |name: &str, value: &str| DescribeConfigsResourceResult {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        ..Default::default()
    };
    let results = request.resources.iter().map(|resource| DescribeConfigsResult {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        configs: vec![config("segment.bytes", "1048576"), config("cleanup.policy", "compact,delete")],
        ..Default::default()
    });
    DescribeConfigsResponse { results: results.collect(), ..Default::default() }
}
