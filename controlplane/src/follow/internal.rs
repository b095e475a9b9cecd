//! pure: the source's internal topics that a standby needs: its groups, its transactions, its share groups.
//!
//! They come with the mirror's topics and not by pattern, end when the last of these is stopped, and are never counted among them.

use crate::mirror::catalog::{Catalog, Desired, Mirror, Topic};
use crate::mirror::event::{MirrorEvent, SourceTopic};
use crate::mirror::settings::{INTERNAL_TOPICS, Settings};
use crate::source::topics::Answer;

/// Kafka's own topics begin so, and so do those of its tools.
pub const PREFIX: &str = "__";
/// The internal topics that are mirrored for a standby.
pub const FOLLOWED: [&str; 3] = ["__consumer_offsets", "__share_group_state", "__transaction_state"];

/// Whether the topic is a cluster's own.
#[must_use]
pub fn is_internal(topic: &SourceTopic) -> bool {
    topic.internal || is_internal_name(&topic.name)
}

/// Whether a topic of this name is a cluster's own.
#[must_use]
pub fn is_internal_name(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Whether the mirror is for a standby, which needs them.
#[must_use]
pub fn are_followed(settings: &Settings) -> bool {
    settings.get(INTERNAL_TOPICS).is_none_or(|value| value.trim().eq_ignore_ascii_case("standby"))
}

/// Whether a topic that is not internal is mirrored or paused.
#[must_use]
pub fn has_topics(mirror: &Mirror) -> bool {
    mirror.topics.iter().any(|(name, topic)| !is_internal_name(name) && topic.facts.desired != Desired::Stop)
}

/// Starts of internal topics that the source has, with partitions that fit, and what people should know of the others. Those that
/// were stopped start again only with the mirror's `first` topic.
#[must_use]
pub fn starts(
    catalog: &Catalog,
    mirror: &str,
    answer: &Answer,
    first: bool,
    slots_free: &mut usize,
    goes_on: impl Fn(&Topic) -> bool,
) -> (Vec<MirrorEvent>, Vec<String>) {
    let (mut events, mut notes) = (Vec::new(), Vec::new());
    for name in FOLLOWED {
        let Some(Ok(topic)) = answer.topics.get(name) else { continue };
        let owner = catalog.owner_of(name);
        if let Some((other, _)) = owner.filter(|(other, _)| *other != mirror) {
            notes.push(format!(
                "{name} is mirrored by {other}, and a name exists once; set {INTERNAL_TOPICS}=none for one of the two"
            ));
            continue;
        }
        let have = match owner {
            Some((_, known)) => {
                let again = first && known.facts.desired == Desired::Stop && known.facts.id == topic.id;
                if !again || !goes_on(known) {
                    continue;
                }
                known.partitions.len()
            }
            None => 0,
        };
        let more = (topic.partition_count as usize).saturating_sub(have);
        if more > *slots_free {
            notes.push(format!(
                "topic {name} waits: {more} partitions and {slots_free} free slots; raise the data plane's"
            ));
            continue;
        }
        *slots_free -= more;
        events.push(MirrorEvent::Started { mirror: mirror.to_owned(), topic: topic.clone() });
    }
    (events, notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_is_for_a_standby_unless_it_says_none() {
        let with = |value: &str| Settings::from([(INTERNAL_TOPICS.to_owned(), value.to_owned())]);
        assert!(are_followed(&Settings::default()) && are_followed(&with("Standby")) && !are_followed(&with("none")));
    }
}
