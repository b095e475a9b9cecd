//! pure: what the source of a mirror is asked at each refresh, and when the next one is due.

use crate::limits::RESOLVE_RETRY;
use crate::mirror::catalog::{Desired, Mirror, Topic};
use crate::mirror::internal;
use crate::mirror::patterns::Patterns;
use crate::mirror::settings::{self, REFRESH_INTERVAL};
use crate::source::topics::Wanted;
use std::time::Duration;
use twinlog_proto::mirror_state::MirrorState;

/// A question to a source, and what it is about.
#[derive(Debug, Clone)]
pub struct Question {
    /// Where.
    pub servers: Vec<String>,
    /// What.
    pub wanted: Wanted,
    /// The topics among them that were started while the source could not be asked.
    pub waiting: Vec<String>,
}

/// How long after the last question the next one is due; `None` when there is nothing to ask.
#[must_use]
pub fn due_after(mirror: &Mirror, default: Duration) -> Option<Duration> {
    if mirror.topics.values().any(|topic| waits(topic)) {
        return Some(RESOLVE_RETRY.min(interval(mirror, default)));
    }
    let something = !mirror.facts.include.is_empty() || mirror.topics.values().any(|topic| flows(topic));
    something.then(|| interval(mirror, default))
}

/// The question; `None` when there is nothing to ask.
#[must_use]
pub fn question(mirror: &Mirror) -> Option<Question> {
    let named = |wanted: fn(&Topic) -> bool| {
        let found = mirror.topics.iter().filter(move |(_, topic)| wanted(topic));
        found.map(|(name, _)| name.clone()).collect::<Vec<String>>()
    };
    let waiting = named(waits);
    let mut names: Vec<String> = named(flows).into_iter().chain(waiting.iter().cloned()).collect();
    if internal::are_followed(&mirror.facts.settings) && internal::has_topics(mirror) {
        let more = internal::FOLLOWED.iter().filter(|name| !mirror.topics.contains_key(**name));
        names.extend(more.map(|name| (*name).to_owned()));
    }
    // Patterns were checked when they came; those of an older release that are not usable any more discover nothing.
    let include = Patterns::compile(&mirror.facts.include).ok().filter(|include| !include.is_empty());
    let wanted = match include {
        Some(include) => Wanted::Matching { names, include },
        None if names.is_empty() => return None,
        None => Wanted::Named(names),
    };
    Some(Question { servers: settings::bootstrap_servers(&mirror.facts.settings), wanted, waiting })
}

/// Between two questions when nothing waits.
pub(super) fn interval(mirror: &Mirror, default: Duration) -> Duration {
    settings::number(&mirror.facts.settings, REFRESH_INTERVAL).map_or(default, Duration::from_millis)
}

fn flows(topic: &Topic) -> bool {
    topic.facts.desired != Desired::Stop && !topic.facts.id.is_zero()
}

fn waits(topic: &Topic) -> bool {
    // Partition 0 stands for a topic that nothing else is known of.
    topic.partitions.get(&0).is_some_and(|partition| partition.standing.state == MirrorState::Initializing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::catalog::MirrorFacts;

    #[test]
    fn the_interval_of_a_mirror_wins_over_the_configured_one_and_without_anything_to_follow_none_is_due() {
        let mut mirror = Mirror::new(MirrorFacts::default());
        let default = Duration::from_secs(30);
        assert_eq!((due_after(&mirror, default), question(&mirror).is_none()), (None, true));
        mirror.facts.include = vec!["a.*".to_owned()];
        assert_eq!((due_after(&mirror, default), question(&mirror).is_some()), (Some(default), true));
        mirror.facts.settings.insert(REFRESH_INTERVAL.to_owned(), "250".to_owned());
        assert_eq!(due_after(&mirror, default), Some(Duration::from_millis(250)));
    }
}
