//! pure: what keeps topics from being handed over, and what a person should know of them.

use super::{Clamped, Finding, Loss, Mode, OpenTransaction, Wishes};
use crate::handover::facts::{Facts, Partition, Topic};
use crate::mirror::internal;
use twinlog_proto::handover::resolve::{ClampedOffset, ResolvedTransaction};
use twinlog_proto::storage::coordinator::{CONSUMER_OFFSETS, TRANSACTION_STATE};

/// Where the share coordinators keep how far their groups are.
pub const SHARE_GROUP_STATE: &str = "__share_group_state";
/// Transactions, partitions and notes that are named one by one.
const NAMED_MAX: usize = 20;

/// Adds what blocks and what is to be known.
pub(super) fn judge(facts: &Facts, blockers: &mut Vec<Finding>, warnings: &mut Vec<Finding>) {
    for topic in &facts.topics {
        if let Some(to) = &topic.handed_over_to {
            blockers.push(Finding::new(
                format!("topic {} is handed over to {to} already", topic.name),
                "take it back with `twinlog reclaim`, or leave it out with --topic",
            ));
            continue;
        }
        if topic.partitions.is_empty() {
            blockers.push(Finding::new(
                format!("topic {} has no known partitions", topic.name),
                "wait until its source was asked, or leave it out with --topic",
            ));
        }
        if topic.configs.get("remote.storage.enable").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            blockers.push(Finding::new(
                format!(
                    "topic {} is in remote storage (remote.storage.enable=true): a broker without one applies none of the topic's settings, \
                     and deletes as its own retention says",
                    topic.name
                ),
                "hand it over as a local topic: set remote.storage.enable=false on it here (`kafka-configs --alter --entity-type topics` \
                 with the address of `twinlog up`), or leave it out with --topic",
            ));
        }
        topic.partitions.iter().for_each(|partition| self::partition(topic, partition, blockers, warnings));
    }
    internal_topics(facts, warnings);
    if let Err(why) = &facts.resolution {
        blockers.push(Finding::new(
            format!("what becomes of open transactions and of offsets of groups cannot be told: {why}"),
            "mend it, or hand over without internal topics (mirror.internal.topics=none)",
        ));
    }
    warnings.extend(retention_not_known(&facts.topics));
    warnings.extend(passwords(&facts.scram_users));
    if !facts.quotas_known {
        warnings.push(Finding::new(
            "the source's quotas of clients and its SCRAM users are not known: the node has no quotas",
            "let them be synced while the source answers (`twinlog mirrors sync MIRROR --what quotas`), or set them at the node by hand",
        ));
    }
    if !facts.left.is_empty() {
        warnings.push(Finding::new(
            format!("{} topics of the mirror stay with it: {}", facts.left.len(), few(&facts.left)),
            "leave out --topic to hand all over; a node that runs does not take more later",
        ));
    }
}

/// Groups and transactions that do not go on, for what the mirror or the node lacks.
fn internal_topics(facts: &Facts, warnings: &mut Vec<Finding>) {
    let has = |name: &str| facts.topics.iter().any(|topic| topic.name == name);
    if !has(CONSUMER_OFFSETS) {
        warnings.push(Finding::new(
            "__consumer_offsets is not mirrored: groups begin where their clients' auto.offset.reset says",
            "set mirror.internal.topics=standby before, or set offsets by hand after",
        ));
    }
    if !has(TRANSACTION_STATE) {
        warnings.push(Finding::new(
            "__transaction_state is not mirrored: transactions that are open are aborted, whatever their producers decided",
            "set mirror.internal.topics=standby before",
        ));
    }
    if has(SHARE_GROUP_STATE) && !facts.node.share_groups {
        warnings.push(Finding::new(
            "the source has share groups, and the node's feature levels have none: their members get nothing until share.version is raised there",
            "give --release 4.2 or later for a node that nobody formatted, or run `kafka-features upgrade --release-version 4.2` against it after the start",
        ));
    }
}

/// A source tells who has a password, and never what it is checked by.
fn passwords(users: &[String]) -> Option<Finding> {
    (!users.is_empty()).then(|| {
        Finding::new(
            format!("the SCRAM passwords of {} users do not come along: {}", users.len(), few(users)),
            "set them at the node after its start, with `kafka-configs --alter --add-config 'SCRAM-SHA-512=[password=...]' --entity-type users --entity-name USER`",
        )
    })
}

/// What is said of topics whose source was never asked.
fn retention_not_known(topics: &[Topic]) -> Option<Finding> {
    let by_default = kept_by_default(topics);
    (!by_default.is_empty()).then(|| {
        Finding::new(
            format!(
                "of {} topics the source's retention is not known, so the node's defaults say what it deletes, at once after its start: {}",
                by_default.len(),
                few(&by_default)
            ),
            "let the settings be synced once more while the source answers (`twinlog mirrors sync MIRROR --what configs`), give the node the source's \
             log.retention.*, or set retention.ms and retention.bytes on the topics",
        )
    })
}

/// Topics whose records a broker deletes by settings of its own.
fn kept_by_default(topics: &[Topic]) -> Vec<String> {
    let by_default = topics.iter().filter(|topic| {
        let internal = internal::FOLLOWED.contains(&topic.name.as_str());
        let has = |key: &str| topic.configs.contains_key(key) || topic.inherited.contains_key(key);
        let inherited = topic.inherited.get("cleanup.policy").map(|inherited| &inherited.value);
        let compacts_only = topic.configs.get("cleanup.policy").or(inherited).is_some_and(|policy| policy == "compact");
        let says_itself = has("retention.ms") && has("retention.bytes");
        !(internal || compacts_only || says_itself)
    });
    by_default.map(|topic| topic.name.clone()).collect()
}

fn few(names: &[String]) -> String {
    let mut text = names.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > NAMED_MAX {
        text.push_str(", ...");
    }
    text
}

fn partition(topic: &Topic, partition: &Partition, blockers: &mut Vec<Finding>, warnings: &mut Vec<Finding>) {
    let name = format!("{}-{}", topic.name, partition.index);
    let files = match &partition.files {
        Ok(files) => files,
        Err(why) => {
            blockers.push(Finding::new(
                format!("{name} cannot be handed over: {why}"),
                "mend it and mirror on, or leave its topic out with --topic",
            ));
            return;
        }
    };
    match files.topic_id {
        Some(id) if id == topic.id => {}
        Some(id) => blockers.push(Finding::new(
            format!(
                "{}/partition.metadata says topic id {id}, but the mirror's topic has {}",
                files.directory.display(),
                topic.id
            ),
            "these are files of another topic: move them away and mirror it anew",
        )),
        None => blockers.push(Finding::new(
            format!(
                "{}/partition.metadata is missing, so a broker would not take the directory",
                files.directory.display()
            ),
            "let the mirror open it once more (`twinlog topics start`), or look with `twinlog verify`",
        )),
    }
    if let Some((last, _)) =
        partition.last_mirrored.filter(|(last, _)| partition.state == "STOPPED" && *last != files.end)
    {
        blockers.push(Finding::new(
            format!("{} ends at offset {}, but mirroring ended at {last}", files.directory.display(), files.end),
            "a segment is cut short or was written to: look with `twinlog verify`, then take the topic back or mirror it anew",
        ));
    }
    if partition.state == "FAILED" {
        let why = partition.error.as_deref().unwrap_or("for a reason that was not told");
        warnings.push(Finding::new(
            format!("{name} is FAILED ({why}); it would be handed over as it is, up to offset {}", files.end),
            "mend it first when the source is still there",
        ));
    }
}

/// The open transactions, with what becomes of each.
#[must_use]
pub fn open_transactions(facts: &Facts) -> Vec<OpenTransaction> {
    let resolved = facts.resolution.as_ref().map_or(&[][..], |resolution| &resolution.transactions);
    resolved.iter().map(transaction).collect()
}

fn transaction(open: &ResolvedTransaction) -> OpenTransaction {
    let end = if open.commit { "it is committed" } else { "it is aborted" };
    OpenTransaction {
        topic: open.topic.clone(),
        partition: open.partition,
        first_offset: open.first_offset,
        producer_id: open.producer_id,
        producer_epoch: open.producer_epoch,
        transactional_id: open.transactional_id.clone(),
        what: format!("{end}: {}", open.why),
        remedy: "end it at the source first when that answers; otherwise its producer starts it again".to_owned(),
    }
}

/// The offsets of groups that are changed.
#[must_use]
pub fn clamped(facts: &Facts) -> Vec<Clamped> {
    let clamped = facts.resolution.as_ref().map_or(&[][..], |resolution| &resolution.clamped);
    let told = |offset: &ClampedOffset| Clamped {
        group: offset.group.clone(),
        topic: offset.topic.clone(),
        partition: offset.partition,
        from: offset.from,
        to: offset.to,
    };
    clamped.iter().map(told).collect()
}

/// Adds what a hand-over now would cost.
pub(super) fn risks(
    facts: &Facts,
    mode: Mode,
    loss: &Loss,
    unknown: usize,
    wishes: &Wishes,
    blockers: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) {
    if let Err(why) = &facts.source.answers {
        let what = format!("the source does not answer ({why}); {}", in_words(loss, unknown));
        let remedy = "bring the source back first when that is possible, or go on and lose what is missing";
        match wishes.no_forced {
            true => blockers.push(Finding::new(what, "leave out --no-forced to go on all the same")),
            false => warnings.push(Finding::new(what, remedy)),
        }
    } else if mode == Mode::Planned {
        warnings.push(Finding::new(
            "whatever is written to the source from the moment of the hand-over on does not come along",
            "stop its producers first",
        ));
        if loss.records != Some(0) {
            warnings.push(Finding::new(
                format!("the mirror is behind; {}", in_words(loss, unknown)),
                "it is waited for (--timeout)",
            ));
        }
    }
    if let Some(told) = facts.resolution.as_ref().ok().filter(|resolution| resolution.is_more_committed) {
        warnings.push(Finding::new(
            format!(
                "there are more than {} offsets of groups; of the others it is not compared after the start whether they came along",
                told.committed.len()
            ),
            "compare them yourself with `kafka-consumer-groups --describe` where they matter; they come along in the files as all do",
        ));
    }
    if wishes.no_forced && mode == Mode::Planned {
        blockers.extend(unfed(facts, |_| true));
    } else {
        // Of a failed one it is told why.
        warnings.extend(unfed(facts, |partition| partition.state != "FAILED"));
    }
    let open = facts.resolution.as_ref().map_or(0, |resolution| resolution.transactions.len());
    if open > 0 {
        warnings.push(Finding::new(
            format!("{open} transactions are open in partitions; they are ended in the files before the broker starts"),
            "see openTransactions; end them at the source first when that answers",
        ));
    }
}

/// Partitions that nothing is fetched for, so that nothing is waited for: the end of their source that is known is the one of then.
fn unfed(facts: &Facts, which: impl Fn(&Partition) -> bool) -> Option<Finding> {
    let partitions = facts.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |p| (topic, p)));
    let stand = partitions.filter(|(_, p)| !p.flows() && which(p));
    let stand: Vec<String> = stand.map(|(topic, p)| format!("{}-{} ({})", topic.name, p.index, p.state)).collect();
    if stand.is_empty() {
        return None;
    }
    let (count, names) = (stand.len(), few(&stand));
    let what = format!("{count} partitions are not mirrored now, and lack what their source got since: {names}");
    Some(Finding::new(what, "resume, start or mend them first, unless they are to be handed over as they are"))
}

/// A loss in one sentence.
#[must_use]
pub fn in_words(loss: &Loss, unknown: usize) -> String {
    let records =
        loss.records.map_or_else(|| "an unknown number of records".to_owned(), |records| format!("{records} records"));
    let bytes = loss.bytes.map_or_else(|| "unknown bytes".to_owned(), |bytes| format!("about {bytes} bytes"));
    let time = loss.ms.map_or_else(|| "an unknown time".to_owned(), |ms| format!("{:.1} s", ms as f64 / 1000.0));
    let more = if unknown > 0 { format!("; of {unknown} partitions nothing is known") } else { String::new() };
    format!("lost if it were gone now: {records}, {bytes}, {time}{more}")
}
