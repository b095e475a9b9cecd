//! `twinlog status`: what an operator looks at first. What is wrong comes first, then the planes, then the mirrors.

mod render;
mod screen;
mod watch;

use super::args::Status;
use super::connect;
use super::describe::{self, Mirror};
use super::output;
use super::sums::Sums;
use crate::client::Client;
use crate::clock::now_ms;
use crate::failure::Failure;
use serde::Serialize;
use std::collections::BTreeMap;
use twinlog_proto::messages::describe_mirrors::{DescribeMirrorsRequest, NodeDetail};

/// Everything that is shown.
#[derive(Debug, Serialize)]
struct Snapshot {
    node: Option<Node>,
    mirrors: Vec<Summary>,
}

/// The node that answered.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    version: String,
    healthy: bool,
    ready: bool,
    reasons: Vec<String>,
    warnings: Vec<String>,
    planes: Vec<Plane>,
    disks: Vec<Disk>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Plane {
    plane: String,
    pid: i64,
    started_at_ms: Option<i64>,
    restarts: Option<i64>,
    resident_bytes: Option<i64>,
    open_files: Option<i64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Disk {
    path: String,
    size_bytes: i64,
    free_bytes: i64,
}

/// One mirror in short.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    mirror: String,
    source_cluster_id: Option<String>,
    source_bootstrap: Option<String>,
    /// Whether the source answered the control plane's last question; `None` when it was not asked yet.
    source_up: Option<bool>,
    source_answered_at_ms: Option<i64>,
    topics: usize,
    /// How many topics each broker has that took some over.
    handed_over: BTreeMap<String, usize>,
    #[serde(flatten)]
    sums: Sums,
    syncs: Vec<super::sync::Sync>,
    /// Partitions that something is wrong with.
    wrong: Vec<Wrong>,
}

/// A partition that something is wrong with.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Wrong {
    topic: String,
    partition: i32,
    state: String,
    /// Automatic retries so far; -1 when it is not tried again.
    retry_attempt: i16,
    why: String,
}

/// Shows it once, or again and again.
///
/// # Errors
/// When the control plane does not answer.
pub(super) fn run(args: &Status) -> Result<(), Failure> {
    if args.watch {
        return watch::run(args);
    }
    let snapshot = take(&mut connect(&args.ask)?)?;
    if args.ask.json {
        return output::json(&snapshot);
    }
    let colours = output::has_colours();
    for line in render::lines(&snapshot, now_ms()) {
        output::line(&line.text(colours))?;
    }
    Ok(())
}

/// Asks for everything, in one question.
fn take(client: &mut Client) -> Result<Snapshot, Failure> {
    let answer = client.ask(&DescribeMirrorsRequest { include_node: true, ..DescribeMirrorsRequest::default() })?;
    describe::refuse(answer.error_code, answer.error_message.as_deref(), "the status is not told")?;
    let mirrors = answer.mirrors.into_iter().map(|mirror| {
        let source = (mirror.source_bootstrap.clone(), mirror.source_up, mirror.source_answered_at_ms);
        summary(Mirror::from(mirror), source)
    });
    Ok(Snapshot { mirrors: mirrors.collect(), node: answer.nodes.into_iter().next().map(Node::from) })
}

fn summary(mirror: Mirror, (source_bootstrap, source_up, answered_at_ms): (Option<String>, i8, i64)) -> Summary {
    let wrong = mirror.topics.iter().flat_map(|topic| {
        topic.partitions.iter().filter_map(|p| {
            let why = p.error_message.clone()?;
            let (topic, state) = (topic.topic.clone(), p.state.clone());
            Some(Wrong { topic, partition: p.partition, state, retry_attempt: p.retry_attempt, why })
        })
    });
    let mut handed_over = BTreeMap::new();
    for to in mirror.topics.iter().filter_map(|topic| topic.handed_over_to.clone()) {
        *handed_over.entry(to).or_insert(0) += 1;
    }
    Summary {
        wrong: wrong.collect(),
        handed_over,
        source_bootstrap,
        source_up: (source_up >= 0).then_some(source_up > 0),
        source_answered_at_ms: (answered_at_ms >= 0).then_some(answered_at_ms),
        topics: mirror.topics.len(),
        mirror: mirror.mirror,
        source_cluster_id: mirror.source_cluster_id,
        sums: mirror.summary,
        syncs: mirror.syncs,
    }
}

impl From<NodeDetail> for Node {
    fn from(node: NodeDetail) -> Self {
        let known = |value: i64| (value >= 0).then_some(value);
        let plane = |plane: twinlog_proto::messages::describe_mirrors::PlaneDetail| Plane {
            plane: plane.name,
            pid: plane.pid,
            started_at_ms: known(plane.started_at_ms),
            restarts: known(plane.restarts),
            resident_bytes: known(plane.resident_bytes),
            open_files: known(plane.open_files),
        };
        let disk = |disk: twinlog_proto::messages::describe_mirrors::DiskDetail| Disk {
            path: disk.path,
            size_bytes: disk.size_bytes,
            free_bytes: disk.free_bytes,
        };
        Self {
            version: node.software_version,
            healthy: node.healthy,
            ready: node.ready,
            reasons: node.reasons,
            warnings: node.warnings,
            planes: node.planes.into_iter().map(plane).collect(),
            disks: node.disks.into_iter().map(disk).collect(),
        }
    }
}
