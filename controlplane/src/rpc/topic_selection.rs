//! pure: which topics of a mirror a request is about, and what is wrong with those that it names.
//!
//! Shared by stop, pause and resume, and by the requests that look at partitions. Names and patterns are alternatives; a
//! topic or partition that is asked for twice is one.

use crate::limits::ANSWER_TEXT_CHARS_MAX;
use crate::mirror::catalog::{Catalog, Mirror, Topic};
use crate::mirror::patterns::Patterns;
use crate::rpc::Refusal;
use std::collections::{BTreeMap, BTreeSet};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::Uuid;

/// Why a mirror cannot have a topic. The other one is not named: a right to the topic gives none to describe its mirror.
pub const ELSEWHERE: &str =
    "another mirror has a topic of this name, and a name exists once; look for it with `twinlog mirrors describe`";

/// A topic that was found, in its mirror, or why it was not.
pub type Selected<'c> = BTreeMap<String, Result<(&'c str, &'c Topic), Refusal>>;

/// The topics with these ids (zero = not known) and names of `mirror`; of whatever mirror has them when there is no
/// mirror name, as in the first layout of pause and resume.
#[must_use]
pub fn by_name<'c, 'r>(
    catalog: &'c Catalog,
    mirror: Option<&str>,
    asked: impl Iterator<Item = (Uuid, &'r str)>,
) -> Selected<'c> {
    asked.map(|(id, name)| (name.to_owned(), find(catalog, mirror, id, name))).collect()
}

/// The topics of `mirror` that match.
#[must_use]
pub fn by_pattern<'c>(catalog: &'c Catalog, mirror: &str, patterns: &Patterns) -> Selected<'c> {
    let Some((mirror, known)) = catalog.mirrors().find(|(name, _)| *name == mirror) else { return Selected::new() };
    let matching = known.topics.iter().filter(|(name, _)| patterns.matches(name));
    matching.map(|(name, topic)| (name.clone(), Ok((mirror, topic.as_ref())))).collect()
}

fn find<'c>(catalog: &'c Catalog, mirror: Option<&str>, id: Uuid, name: &str) -> Result<(&'c str, &'c Topic), Refusal> {
    let Some((owner, topic)) = catalog.owner_of(name) else {
        let message = format!("topic {name}: no mirror has it; `twinlog mirrors describe` shows which there are");
        return Err(Refusal::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, message));
    };
    if mirror.is_some_and(|mirror| mirror != owner) {
        let message = format!("topic {name}: {ELSEWHERE}, and name that one");
        return Err(Refusal::new(ErrorCode::TOPIC_NOT_IN_CLUSTER_MIRROR, message));
    }
    if !id.is_zero() && id != topic.facts.id {
        let message = format!("topic {name}: its id here is {}, not {id}; was it created again?", topic.facts.id);
        return Err(Refusal::new(ErrorCode::INCONSISTENT_TOPIC_ID, message));
    }
    Ok((owner, topic))
}

/// Checks that the directories of a topic are ours.
///
/// # Errors
/// When a broker has them.
pub fn not_handed_over(name: &str, topic: &Topic) -> Result<(), Refusal> {
    let Some(to) = &topic.handed_over else { return Ok(()) };
    let message = format!(
        "topic {name}: it is handed over to {to}; take it back with `twinlog reclaim`, or before that broker was started with \
         `twinlog promote --undo`"
    );
    Err(Refusal::new(ErrorCode::INVALID_CLUSTER_MIRROR_STATES, message))
}

/// A topic and those of its partitions that a request asks about.
#[derive(Debug)]
pub struct AskedTopic<'c> {
    /// As it was asked for.
    pub name: String,
    /// `None` when the mirror has no such topic.
    pub topic: Option<&'c Topic>,
    /// Partitions, known or not.
    pub partitions: BTreeSet<i32>,
}

/// The partitions of `mirror` that `asked` is about, topics in its order: no topics asks for all, and no partitions for
/// all partitions of the topic.
#[must_use]
pub fn partitions<'c>(mirror: &'c Mirror, asked: impl Iterator<Item = (String, Vec<i32>)>) -> Vec<AskedTopic<'c>> {
    let (mut found, mut at) = (Vec::new(), BTreeMap::new());
    for (name, mut indexes) in asked {
        let topic = mirror.topics.get(&name).map(AsRef::as_ref);
        if let (Some(topic), true) = (topic, indexes.is_empty()) {
            indexes = topic.partitions.keys().copied().collect();
        }
        let place = *at.entry(name.clone()).or_insert(found.len());
        if place == found.len() {
            found.push(AskedTopic { name, topic, partitions: BTreeSet::new() });
        }
        found[place].partitions.extend(indexes);
    }
    if found.is_empty() {
        let every = |(name, topic): (&String, &'c std::sync::Arc<Topic>)| AskedTopic {
            name: name.clone(),
            topic: Some(topic.as_ref()),
            partitions: topic.partitions.keys().copied().collect(),
        };
        found = mirror.topics.iter().map(every).collect();
    }
    found
}

/// The texts of all refusals in one line, as many as an answer can carry; `None` when there are none.
pub fn joined<'a>(refusals: impl Iterator<Item = &'a Refusal>) -> Option<String> {
    let mut refusals = refusals.map(|refusal| refusal.message.as_str()).peekable();
    let mut joined = refusals.next()?.to_owned();
    let mut chars = joined.chars().count();
    while let Some(text) = refusals.next_if(|text| chars + text.chars().count() <= ANSWER_TEXT_CHARS_MAX) {
        chars += text.chars().count();
        joined.push_str("; ");
        joined.push_str(text);
    }
    match refusals.count() {
        0 => {}
        more => joined.push_str(&format!("; and {more} more are refused")),
    }
    Some(joined)
}
