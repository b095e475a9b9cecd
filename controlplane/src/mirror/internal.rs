//! pure: the internal topics of a cluster: which there are, which of them a standby needs, and whether a mirror is for one.

use crate::mirror::catalog::{Desired, Mirror};
use crate::mirror::event::SourceTopic;
use crate::mirror::settings::{INTERNAL_TOPICS, Settings};

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

/// Whether the mirror has topics, and a broker has all of them. Internal ones come along with others and are not asked for.
#[must_use]
pub fn is_handed_over(mirror: &Mirror) -> bool {
    let mut own = mirror.topics.iter().filter(|(name, _)| !is_internal_name(name)).map(|(_, topic)| topic).peekable();
    own.peek().is_some() && own.all(|topic| topic.handed_over.is_some())
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
