//! pure: exclude wins: a topic that comes to match an exclude pattern is stopped, however it was started.

use crate::mirror::catalog::{Desired, Mirror};
use crate::mirror::event::MirrorEvent;
use crate::mirror::internal::is_internal_name;
use crate::mirror::machine::Event;
use crate::mirror::patterns::Patterns;

/// Stops of the topics that match. Internal topics come and go with the others and not by pattern.
#[must_use]
pub fn stops(name: &str, mirror: &Mirror, exclude: &Patterns) -> Vec<MirrorEvent> {
    let flows = mirror.topics.iter().filter(|(_, topic)| topic.facts.desired != Desired::Stop);
    let excluded = flows.filter(|(topic, _)| !is_internal_name(topic) && exclude.matches(topic));
    excluded.map(|(topic, _)| stop(name, topic)).collect()
}

/// Stops of the internal topics, for a mirror that is not for a standby any more.
#[must_use]
pub fn internal_stops(name: &str, mirror: &Mirror) -> Vec<MirrorEvent> {
    let flows = mirror.topics.iter().filter(|(_, topic)| topic.facts.desired != Desired::Stop);
    flows.filter(|(topic, _)| is_internal_name(topic)).map(|(topic, _)| stop(name, topic)).collect()
}

fn stop(mirror: &str, topic: &str) -> MirrorEvent {
    let (mirror, topic) = (mirror.to_owned(), topic.to_owned());
    MirrorEvent::Wanted { mirror, topic, desired: Desired::Stop, event: Event::Stop }
}
