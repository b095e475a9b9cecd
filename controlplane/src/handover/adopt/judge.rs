//! pure: judges whether a running broker can take topics of a mirror, and what a person should know before.

use super::broker::Broker;
use crate::handover::facts::{Facts, Topic, epoch_max};
use crate::handover::preflight::{Finding, topics::SHARE_GROUP_STATE};
use crate::mirror::internal;
use twinlog_proto::error_code::ErrorCode;

/// The lowest version of Fetch that brokers of 4.0 and later answer; older ones answer older versions too.
const FETCH_OF_4_0: i16 = 4;
/// Records of metadata that one CreateTopics request may make.
const RECORDS_MAX: usize = 10_000;
/// Space that the broker needs besides, bytes.
const FREE_BYTES_MIN: u64 = 64 << 20;
/// Space that a partition may need besides its segments: markers, small files, blocks of new indexes.
const FREE_BYTES_A_PARTITION: u64 = 64 << 10;

/// What the destination says of the topics.
#[derive(Debug, Default)]
pub struct Destination {
    /// Topics that it has.
    pub existing: Vec<String>,
    /// Directories of such names in the log directory.
    pub leftovers: Vec<String>,
    /// What it says against making them.
    pub refused: Vec<(String, ErrorCode, String)>,
}

/// Adds what blocks and what is to be known.
pub fn judge(
    facts: &Facts,
    left: usize,
    broker: &Broker,
    destination: &Destination,
    blockers: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) {
    self::broker(broker, blockers, warnings);
    let own: Vec<&Topic> = facts.topics.iter().filter(|topic| !internal::is_internal_name(&topic.name)).collect();
    topics(&own, destination, broker, blockers);
    directory(facts, &own, broker, blockers, warnings);
    if facts.resolution.as_ref().is_ok_and(|resolution| resolution.is_more_committed) {
        blockers.push(Finding::new(
            "groups have committed more offsets in these topics than are carried over one by one",
            "hand some topics over at a time with --topic, or hand the mirror over to a standby node (--to)",
        ));
    }
    if facts.topics.iter().any(|topic| topic.name == SHARE_GROUP_STATE) {
        warnings.push(Finding::new(
            "the source has share groups, and where they are is not carried over",
            "set their offsets at the broker afterwards (kafka-share-groups --reset-offsets)",
        ));
    }
    if !facts.quotas.is_empty() {
        warnings.push(Finding::new(
            format!("{} quotas of clients at the source are not given to the broker: they would hold for its own topics too", facts.quotas.len()),
            "set those by hand that it is to have (kafka-configs --entity-type users, clients, ips)",
        ));
    }
    let restamped =
        own.iter().filter(|topic| topic.partitions.iter().any(|partition| epoch_max(partition) > 0)).count();
    if restamped > 0 {
        warnings.push(Finding::new(
            format!("{restamped} topics become restamped copies: their batches get leader epoch 0, as the broker's new topics have"),
            "nothing: the mirror's own files stay as they are; a standby node (--to) keeps the epochs",
        ));
    }
    warnings.push(Finding::new(
        "the topics get new ids, and the broker knows neither the producers nor the transactional ids of the source",
        "restart producers and consumers against the broker: idempotent and transactional ones begin anew there",
    ));
    if left > 0 {
        let what = format!("{left} topics of the mirror stay with it");
        warnings.push(Finding::new(what, "hand them over later by the same command with other --topic"));
    }
}

/// It is the one that it should be, and may be used.
fn broker(broker: &Broker, blockers: &mut Vec<Finding>, warnings: &mut Vec<Finding>) {
    let (address, dir) = (&broker.address, broker.log_dir.path.display());
    let mut block = |what: String, remedy: &str| blockers.push(Finding::new(what, remedy));
    match &broker.meta {
        Err(why) => block(
            format!("{dir} is no log directory of a broker: {why}"),
            "give --log-dir one of the log.dirs of the broker at --adopt",
        ),
        Ok((cluster, id)) => {
            if broker.cluster_id.as_ref() != Some(cluster) {
                let other = broker.cluster_id.as_deref().unwrap_or("none");
                block(
                    format!("{dir} belongs to cluster {cluster}, and the broker at {address} to cluster {other}"),
                    "give the address of the broker whose log directory that is",
                );
            }
            if let Err(why) = &broker.is_the_node {
                block(
                    format!("the broker at {address} is not node {id}, whose log directory {dir} is: {why}"),
                    "give the address of that node itself",
                );
            }
            match broker.brokers.iter().find(|(known, ..)| known == id) {
                Some((.., false)) => {}
                Some((.., true)) => block(
                    format!("node {id} is fenced, so it leads no partition"),
                    "look into its log why it does not reach its controller",
                ),
                None => block(
                    format!("node {id} is no broker of the cluster of {address}"),
                    "wait until it has registered, or give the address of the right cluster",
                ),
            }
        }
    }
    used_dir(broker, blockers);
    if broker.log_dirs.len() > 1 {
        warnings.push(Finding::new(
            format!("the broker has {} log directories; it is told to take the topics in {dir}", broker.log_dirs.len()),
            "nothing: it is checked where they are afterwards",
        ));
    }
    if broker.settings.get("auto.create.topics.enable").is_none_or(|value| value != "false") {
        warnings.push(Finding::new(
            "the broker makes topics when clients ask for them (auto.create.topics.enable): a client may be faster than this command",
            "keep clients of these topics away until it has ended; a topic that was made by one is refused, and nothing is lost",
        ));
    }
}

/// The log directory is the broker's, and may be used; the broker is of a release that was looked at.
fn used_dir(broker: &Broker, blockers: &mut Vec<Finding>) {
    let (address, dir) = (&broker.address, broker.log_dir.path.display());
    let mut block = |what: String, remedy: &str| blockers.push(Finding::new(what, remedy));
    if !broker.log_dir.is_locked {
        block(
            format!("no broker runs on {dir} on this host: the lock on its file .lock is free"),
            "run this on the broker's host; a node that does not run is handed over to with --to",
        );
    }
    match broker.log_dirs.iter().find(|(named, _)| *named == broker.log_dir.path) {
        Some((_, ErrorCode::NONE)) => {}
        Some((_, code)) => block(format!("the broker cannot use {dir}: {code}"), "mend it and restart the broker"),
        None => {
            let named: Vec<String> = broker.log_dirs.iter().map(|(named, _)| named.display().to_string()).collect();
            block(
                format!(
                    "{dir} is none of the log directories of the broker at {address}, which are {}",
                    named.join(", ")
                ),
                "give --log-dir one of these",
            );
        }
    }
    if broker.log_dir.is_data {
        block(format!("{dir} is a data directory of the mirror"), "give --log-dir a log directory of the broker");
    }
    if broker.fetch_from.is_none_or(|from| from < FETCH_OF_4_0) {
        block(
            format!("the broker at {address} is older than release 4.0"),
            "upgrade it: how older ones take directories was never looked at",
        );
    }
}

fn topics(own: &[&Topic], destination: &Destination, broker: &Broker, blockers: &mut Vec<Finding>) {
    for name in &destination.existing {
        blockers.push(Finding::new(
            format!("topic {name} exists at the destination already"),
            "delete it there if nobody needs it, or leave it out with --topic",
        ));
    }
    for name in &destination.leftovers {
        let remedy = match (name.ends_with("-delete"), name.ends_with("-stray")) {
            (true, _) => "wait until the broker has removed it (file.delete.delay.ms)",
            (_, true) => "look what it holds, and move it away",
            _ => "move it away, or finish what it is of",
        };
        let what = format!("{} holds the directory {name} already", broker.log_dir.path.display());
        blockers.push(Finding::new(what, remedy));
    }
    for (name, code, words) in &destination.refused {
        if !destination.existing.contains(name) {
            blockers.push(Finding::new(
                format!("the destination would not make topic {name}: {words} ({})", code.name()),
                "mend what it names: the mirror's setting by `twinlog mirrors sync` or at the source, or the destination",
            ));
        }
    }
    for topic in own {
        let records = 1 + topic.configs.len() + topic.partitions.len();
        if records > RECORDS_MAX {
            blockers.push(Finding::new(
                format!(
                    "topic {} takes {records} records of metadata, and a broker makes at most {RECORDS_MAX} at once",
                    topic.name
                ),
                "hand it over to a standby node (--to)",
            ));
        }
        for partition in &topic.partitions {
            let end = partition.files.as_ref().map_or(i64::MAX, |files| files.end);
            if partition.flushed.is_some_and(|flushed| flushed > end) {
                blockers.push(Finding::new(
                    format!(
                        "the files of {}-{} end at {end}, but more was written: a segment is cut short",
                        topic.name, partition.index
                    ),
                    "look with `twinlog verify`, then mirror the topic from scratch",
                ));
            }
        }
        let indexes = topic.partitions.iter().map(|partition| partition.index);
        if !indexes.eq(0..i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX)) {
            blockers.push(Finding::new(
                format!("not all partitions of topic {} are known", topic.name),
                "wait until the source was asked, or leave it out with --topic",
            ));
        }
    }
}

/// What the log directory and the files are like.
fn directory(facts: &Facts, own: &[&Topic], broker: &Broker, blockers: &mut Vec<Finding>, warnings: &mut Vec<Finding>) {
    let dir = &broker.log_dir;
    if !dir.is_writable {
        blockers.push(Finding::new(
            format!("{} cannot be written by this user", dir.path.display()),
            "run this as the user of the broker, or as root",
        ));
    }
    if facts.user != 0 && facts.user != dir.owner.0 {
        blockers.push(Finding::new(
            format!(
                "{} belongs to user {}, and what user {} copies into it could not be changed by the broker",
                dir.path.display(),
                dir.owner.0,
                facts.user
            ),
            "run this as that user or as root, which gives the copies to that user",
        ));
    }
    if let Err(why) = &broker.stage_in {
        blockers.push(Finding::new(
            format!("there is no place for copies on the file system of {}: {why}", dir.path.display()),
            "give one with --stage: a folder on that file system, which is no log directory",
        ));
    }
    let files = || own.iter().flat_map(|topic| topic.files());
    let bytes: u64 = files().map(|(_, files)| files.bytes).sum();
    let needed = bytes + FREE_BYTES_MIN + FREE_BYTES_A_PARTITION * files().count() as u64;
    if dir.free_bytes < needed {
        blockers.push(Finding::new(
            format!(
                "{}: {} bytes are free, and copies of these topics need {needed}",
                dir.path.display(),
                dir.free_bytes
            ),
            "make space on its file system, or hand over fewer topics with --topic",
        ));
    }
    if files().any(|(_, files)| files.device != dir.device) {
        let what =
            format!("{} is on another file system than the mirror's data: all bytes are copied", dir.path.display());
        warnings.push(Finding::new(what, "nothing, but it takes its time while the topics are stopped"));
    }
}

#[cfg(test)]
mod tests;
