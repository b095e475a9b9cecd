//! The node that was the source once: its topics come to the mirror as if they had been handed over to it, which ended where the other
//! side says that mirroring ended. From then on they are taken back as all others are.

use super::broker_files::{checkpointed, cleaners};
use super::peer::Peer;
use super::progress::Taken;
use super::{Order, Preflight};
use crate::client::Client;
use crate::clock::now_ms;
use crate::failure::Failure;
use crate::handover::journal::{self, Journal, Partition, Step, Topic};
use crate::handover::layout::{Asked, Layout};
use crate::handover::node::Node;
use crate::handover::preflight::{Finding, Mode};
use crate::handover::promote::absolute;
use crate::handover::{control, segments, survey};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::describe_mirrors::{DescribeMirrorsRequest, DescribedMirror, TopicPartitions};
use twinlog_proto::messages::record_hand_over::{EndedPartition, RecordHandOverRequest, TopicData};
use twinlog_proto::storage::names;

/// Asks the other side, and judges whether it is the one that took over from this node.
///
/// # Errors
/// When it cannot be asked, or does not have a topic that was named.
pub(super) fn ask(order: &Order, address: &str, node: &Node, blockers: &mut Vec<Finding>) -> Result<Peer, Failure> {
    let peer = Peer::ask(address, &order.mirror)?;
    let own = cluster_of(node);
    let source = peer.mirror.source_cluster_id.as_deref();
    if source != own.as_deref() {
        let (source, own) = (source.unwrap_or("no cluster"), own.as_deref().unwrap_or("no cluster"));
        blockers.push(Finding::new(
            format!(
                "mirror {} at {address} had cluster {source} as its source, and {} is of {own}",
                order.mirror,
                node.properties.display()
            ),
            "give the address of the control plane that mirrored from this node, and the properties file of the node that it mirrored from",
        ));
    }
    peer.topics(&order.topics)?.into_iter().for_each(|topic| peer.judge(topic, blockers));
    Ok(peer)
}

fn cluster_of(node: &Node) -> Option<String> {
    Layout::look(node, &Asked::default()).cluster_id
}

/// The journal of a hand-over that never was: the topics of the node as the mirror would have given them to it.
///
/// # Errors
/// When the mirror here is not known, or a directory cannot be read.
pub(super) fn journal(
    order: &Order,
    peer: &Peer,
    node: &Node,
    blockers: &mut Vec<Finding>,
) -> Result<Journal, Failure> {
    let mut client = control::connect(&order.control)?;
    let (mirror, data) = described(&mut client, order)?;
    let mut journal = Journal::begin(&order.mirror, Mode::Forced, now_ms());
    journal.step = Step::Promoted;
    journal.to = absolute(&order.from)?;
    journal.node_id = node.id;
    journal.cluster_id = cluster_of(node).unwrap_or_default();
    journal.log_dirs.clone_from(&node.log_dirs);
    journal.metadata_log_dir.clone_from(&node.metadata_log_dir);
    journal.handed_over_to = journal::node_in_words(node.id, &journal.cluster_id, &journal.log_dirs);
    reads_from(&mirror, &journal, peer, blockers);
    let known = survey::read_assignment(&order.state, &order.mirror).unwrap_or_default();
    let mut places = Places { data, counts: BTreeMap::new() };
    for topic in peer.topics(&order.topics)? {
        let placed = |index| {
            let known = known.topics.iter().find(|known| known.name == topic.topic_name);
            let partition = known.and_then(|known| known.partitions.iter().find(|known| known.index == index));
            partition.map(|partition| PathBuf::from(&partition.data_directory))
        };
        journal.topics.push(self::topic(topic, peer, node, &placed, &mut places)?);
    }
    Ok(journal)
}

/// The mirror here, and the data directories.
fn described(client: &mut Client, order: &Order) -> Result<(DescribedMirror, Vec<PathBuf>), Failure> {
    let request = DescribeMirrorsRequest {
        mirror_names: Some(vec![order.mirror.clone()]),
        include_node: true,
        ..DescribeMirrorsRequest::default()
    };
    let mut answer = client.ask(&request)?;
    let mirror = answer.mirrors.pop().filter(|mirror| mirror.error_code != ErrorCode::UNKNOWN_CLUSTER_MIRROR.0);
    let Some(mirror) = mirror.filter(|_| answer.error_code == 0) else {
        return Err(Failure::new(
            format_args!("topics cannot be given to mirror {} at {}", order.mirror, order.control),
            "there is no such mirror",
            format_args!(
                "create it, and start nothing yet: twinlog mirrors create {} --source HOST:PORT, of the broker that took over",
                order.mirror
            ),
        ));
    };
    let state = absolute(&order.state)?;
    let disks = answer.nodes.iter().flat_map(|node| &node.disks).map(|disk| PathBuf::from(&disk.path));
    Ok((mirror, disks.filter(|path| *path != state).collect()))
}

/// The mirror here must read from the cluster that took over.
fn reads_from(mirror: &DescribedMirror, journal: &Journal, peer: &Peer, blockers: &mut Vec<Finding>) {
    let source = mirror.source_cluster_id.as_deref().unwrap_or_default();
    let remedy = "alter bootstrap.servers of the mirror, or delete it and create it anew with the broker that took over as its source";
    if source == journal.cluster_id {
        let what = format!("mirror {} reads from cluster {source}, which is that of the node", mirror.mirror_name);
        blockers.push(Finding::new(what, remedy));
        return;
    }
    let other = peer.mirror.topics.iter().filter_map(|topic| topic.handed_over_to.as_deref());
    let of_cluster = |words: &str| words.split_once(" of cluster ").map(|(_, rest)| rest.to_owned());
    let other = other.filter_map(of_cluster).find(|rest| rest.split(' ').next() != Some(source));
    if let Some(other) = other {
        let other = other.split(' ').next().unwrap_or_default().to_owned();
        blockers.push(Finding::new(
            format!(
                "mirror {} reads from cluster {source}, but cluster {other} took over from this node",
                mirror.mirror_name
            ),
            remedy,
        ));
    }
}

fn topic(
    topic: &TopicPartitions,
    peer: &Peer,
    node: &Node,
    placed: &dyn Fn(i32) -> Option<PathBuf>,
    places: &mut Places,
) -> Result<Topic, Failure> {
    let mut partitions = Vec::with_capacity(topic.partitions.len());
    for index in topic.partitions.iter().map(|partition| partition.partition_index) {
        let name = names::partition_dir(&topic.topic_name, index);
        let to = node.log_dirs.iter().position(|dir| dir.join(&name).is_dir()).unwrap_or(0);
        let dir = node.log_dirs[to].join(&name);
        let unreadable = |cause: io::Error| {
            Failure::new(format_args!("{} cannot be read", dir.display()), cause, "run this as the broker's user")
        };
        let segments = if dir.is_dir() { segments::list(&dir).map_err(unreadable)? } else { Vec::new() };
        let (offset, epoch) = peer.cuts.get(&(topic.topic_name.clone(), index)).copied().unwrap_or((0, -1));
        let log_start =
            checkpointed(&node.log_dirs[to], names::LOG_STARTS, &topic.topic_name, index).map_err(unreadable)?;
        partitions.push(Partition {
            partition: index,
            from: placed(index).unwrap_or_else(|| places.take(&node.log_dirs[to])),
            to,
            log_start_offset: log_start.unwrap_or(0).min(offset),
            last_mirrored_offset: offset,
            last_mirror_epoch: epoch,
            epoch_max: epoch,
            end_offset: None,
            samples: Vec::new(),
            segments,
        });
    }
    Ok(Topic {
        topic: topic.topic_name.clone(),
        topic_id: topic.topic_id.to_string(),
        flowed: false,
        configs: BTreeMap::new(),
        carried: BTreeMap::new(),
        partitions,
    })
}

/// Data directories for partitions: one on the file system of the log directory, with the fewest so far.
struct Places {
    data: Vec<PathBuf>,
    counts: BTreeMap<PathBuf, usize>,
}

impl Places {
    fn take(&mut self, log_dir: &Path) -> PathBuf {
        let device = survey::device_of(log_dir).ok();
        let fits = |data: &&PathBuf| survey::device_of(data).ok() == device;
        let count = |data: &&PathBuf| self.counts.get(*data).copied().unwrap_or(0);
        let fewest = self.data.iter().filter(fits).min_by_key(count).or(self.data.first());
        // What does not fit is refused by name, with both directories.
        let chosen = fewest.cloned().unwrap_or_default();
        *self.counts.entry(chosen.clone()).or_default() += 1;
        chosen
    }
}

/// What the control plane is told of topics that come, or come back: where mirroring ended, and where the node's directories will lie.
pub(super) fn request(journal: &Journal, taken: &[Taken]) -> RecordHandOverRequest {
    let ended = |topic: &Topic| {
        let of_topic = taken.iter().filter(|taken| taken.topic == topic.topic);
        let one = |taken: &Taken| {
            let known = topic.partitions.iter().find(|known| known.partition == taken.partition);
            EndedPartition {
                partition_index: taken.partition,
                data_directory: known.map(|known| known.from.display().to_string()).unwrap_or_default(),
                last_mirrored_offset: taken.last_mirrored_offset,
                last_mirror_epoch: taken.last_mirror_epoch,
            }
        };
        TopicData {
            topic_id: topic.topic_id.parse().unwrap_or_default(),
            topic_name: topic.topic.clone(),
            partitions: of_topic.map(one).collect(),
        }
    };
    let topics = journal.topics.iter().map(ended).filter(|topic| !topic.partitions.is_empty());
    RecordHandOverRequest {
        mirror_name: journal.mirror.clone(),
        topics: topics.collect(),
        handed_over_to: journal.handed_over_to.clone(),
        ..RecordHandOverRequest::default()
    }
}

/// Adds what follows from where the topics would be cut.
///
/// # Errors
/// When the control plane here would not take them.
pub(super) fn judge(order: &Order, peer: &Peer, journal: &Journal, judged: &mut Preflight) -> Result<(), Failure> {
    nothing_mirrored(order, peer, judged);
    shorter(peer, judged);
    cleaners(journal, judged);
    if !journal.was_never_promoted() {
        return Ok(());
    }
    let request = RecordHandOverRequest { validate_only: true, ..request(journal, &judged.partitions) };
    control::ask_to_record(&order.control, &request, "the topics would not be taken up here")
}

/// Logs that end before what the other side has: it has had records that are gone here, or that parted.
fn shorter(peer: &Peer, judged: &mut Preflight) {
    for taken in &judged.partitions {
        let told = peer.cuts.get(&(taken.topic.clone(), taken.partition)).map_or(0, |cut| cut.0);
        if taken.last_mirrored_offset < told {
            let name = names::partition_dir(&taken.topic, taken.partition);
            let cut = taken.last_mirrored_offset;
            judged.warnings.push(Finding::new(
                format!("{} has {name} up to offset {told}, and this node has the same only up to {cut}", peer.address),
                "nothing: offsets from there on are mirrored from the other side",
            ));
        }
    }
}

/// What was never mirrored would be thrown away whole: whoever wants that says so.
fn nothing_mirrored(order: &Order, peer: &Peer, judged: &mut Preflight) {
    for taken in judged.partitions.iter().filter(|taken| !order.allow_empty && taken.bytes > 0) {
        let cut = peer.cuts.get(&(taken.topic.clone(), taken.partition));
        if cut.is_some_and(|cut| cut.0 == 0) {
            let name = names::partition_dir(&taken.topic, taken.partition);
            judged.blockers.push(Finding::new(
                format!(
                    "{} mirrored nothing of {name} (last mirrored offset 0), so all its {} records would be thrown away",
                    peer.address, taken.records
                ),
                "give --allow-empty if that is right (with --save-aside to keep them), or leave the topic out: name the others with --topic",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(to: &str) -> Peer {
        let topic = TopicPartitions { handed_over_to: Some(to.to_owned()), ..TopicPartitions::default() };
        let mirror = DescribedMirror { topics: vec![topic], ..DescribedMirror::default() };
        Peer { address: "b:9192".to_owned(), mirror, cuts: [(("t".to_owned(), 0), (0, -1))].into() }
    }

    #[test]
    fn a_mirror_of_the_node_itself_or_of_another_cluster_than_took_over_is_refused() {
        let mut journal = Journal::begin("dr", Mode::Forced, 0);
        journal.cluster_id = "ours".to_owned();
        let judged = |source: &str, to: &str| {
            let mirror = DescribedMirror { source_cluster_id: Some(source.to_owned()), ..DescribedMirror::default() };
            let mut blockers = Vec::new();
            reads_from(&mirror, &journal, &peer(to), &mut blockers);
            blockers.into_iter().map(|blocker| blocker.what).collect::<String>()
        };
        assert_eq!(judged("theirs", "node 1 of cluster theirs at /logs"), "");
        assert!(judged("ours", "node 1 of cluster theirs at /logs").contains("which is that of the node"));
        assert!(judged("third", "node 1 of cluster theirs at /logs").contains("cluster theirs took over"));
        assert_eq!(judged("theirs", "somebody, in other words"), "");
    }

    #[test]
    fn what_was_never_mirrored_is_thrown_away_only_when_that_is_asked_for() {
        let taken = |records| Taken {
            topic: "t".to_owned(),
            partition: 0,
            log_dir: PathBuf::new(),
            log_start_offset: 0,
            last_mirrored_offset: 0,
            last_mirror_epoch: -1,
            end_offset: records,
            records,
            bytes: records * 100,
            epochs: Vec::new(),
        };
        let judged = |records, allow_empty| {
            let mut judged = Preflight { partitions: vec![taken(records)], ..Preflight::default() };
            let order = Order { allow_empty, ..Order::default() };
            nothing_mirrored(&order, &peer("node 1"), &mut judged);
            judged.blockers.len()
        };
        assert_eq!((judged(5, false), judged(5, true), judged(0, false)), (1, 0, 0));
    }
}
