//! pure: the requests that change which topics are mirrored: ALTER on the mirror and ALTER_CONFIGS on each topic, or nothing is done.
//! A right on the mirror alone must not make somebody else's topic read-only.

use super::{Access, Guard, whole};
use crate::mirror::catalog::Catalog;
use crate::mirror::patterns::Patterns;
use crate::rpc::Refusal;
use twinlog_proto::messages::Request;
use twinlog_proto::messages::add_topics_to_mirror::AddTopicsToMirrorRequest;
use twinlog_proto::messages::pause_mirror_topics::PauseMirrorTopicsRequest;
use twinlog_proto::messages::record_hand_over::RecordHandOverRequest;
use twinlog_proto::messages::remove_topics_from_mirror::RemoveTopicsFromMirrorRequest;
use twinlog_proto::messages::resume_mirror_topics::ResumeMirrorTopicsRequest;
use twinlog_proto::messages::start_mirror_topics::StartMirrorTopicsRequest;
use twinlog_proto::messages::stop_mirror_topics::StopMirrorTopicsRequest;
use twinlog_proto::security::authorizer::Caller;
use twinlog_proto::security::codes::{Operation, ResourceType};

/// The layout of pause and resume that names the mirror.
const NAMED_FROM: i16 = 1;

impl Access<'_> {
    fn need_mirror(&self, mirror: &str) -> Result<(), Refusal> {
        self.need(Operation::Alter, ResourceType::ClusterMirror, mirror)
    }

    fn need_topics<'t>(&self, mut topics: impl Iterator<Item = &'t str>) -> Result<(), Refusal> {
        topics.try_for_each(|topic| self.need(Operation::AlterConfigs, ResourceType::Topic, topic))
    }

    /// Topics of `mirror`; `None` where the layout names none.
    fn need_topics_of<'t>(
        &self,
        mirror: Option<&str>,
        topics: impl Iterator<Item = &'t str>,
        catalog: &Catalog,
    ) -> Result<(), Refusal> {
        match mirror {
            Some(mirror) => self.need_mirror(mirror).and_then(|()| self.need_topics(topics)),
            None => self.need_owners(topics, catalog),
        }
    }

    /// Topics whose mirror is whichever has them.
    fn need_owners<'t>(&self, topics: impl Iterator<Item = &'t str>, catalog: &Catalog) -> Result<(), Refusal> {
        for topic in topics {
            self.need_topics(std::iter::once(topic))?;
            if let Some((mirror, _)) = catalog.owner_of(topic) {
                self.need_mirror(mirror).map_err(|refusal| self.without_name(refusal, mirror, topic))?;
            }
        }
        Ok(())
    }

    /// Who may not describe the mirror learns no name by its topic.
    fn without_name(&self, refusal: Refusal, mirror: &str, topic: &str) -> Refusal {
        if self.may(Operation::Describe, ResourceType::ClusterMirror, mirror) {
            return refusal;
        }
        let Caller { principal, host } = self.caller;
        let message =
            format!("{principal} from {host} lacks ALTER on the mirror of topic {topic}; ask who administers it");
        Refusal::new(refusal.code, message)
    }

    /// The topics that `patterns` stop now; patterns that are no patterns are the handler's to refuse.
    fn need_matching_now(&self, mirror: &str, patterns: &[String], catalog: &Catalog) -> Result<(), Refusal> {
        if !self.is_enforced() {
            return Ok(());
        }
        let patterns = Patterns::compile(patterns).ok();
        let known = catalog.mirror(mirror).into_iter().flat_map(|mirror| mirror.topics.keys());
        let matching = known.map(String::as_str).filter(|name| patterns.as_ref().is_some_and(|all| all.matches(name)));
        self.need_topics(matching)
    }
}

impl Guard for StartMirrorTopicsRequest {
    /// What a start leaves out it stops; what it throws away first is deleted.
    fn refuse(&self, _version: i16, access: &Access<'_>, catalog: &Catalog) -> Option<<Self as Request>::Response> {
        let topics = || access.need_topics(self.topics.iter().map(|topic| topic.topic_name.as_str()));
        let patterns = || self.include_patterns.iter().try_for_each(|pattern| access.need_topics_matching(pattern));
        let stops = || access.need_matching_now(&self.mirror_name, &self.exclude_patterns, catalog);
        let mut thrown = self.topics.iter().filter(|_| self.from_scratch).map(|topic| topic.topic_name.as_str());
        let mut deletes = || thrown.try_for_each(|name| access.need(Operation::Delete, ResourceType::Topic, name));
        let mirror = access.need_mirror(&self.mirror_name);
        whole(mirror.and_then(|()| topics()).and_then(|()| deletes()).and_then(|()| patterns()).and_then(|()| stops()))
    }
}

impl Guard for StopMirrorTopicsRequest {
    /// A pattern stops what matches now; that later topics do not start is only about the mirror.
    fn refuse(&self, _version: i16, access: &Access<'_>, catalog: &Catalog) -> Option<<Self as Request>::Response> {
        let named = self.topics.iter().map(|topic| topic.topic_name.as_str());
        let topics = access.need_topics_of(Some(&self.mirror_name), named, catalog);
        whole(topics.and_then(|()| access.need_matching_now(&self.mirror_name, &self.patterns, catalog)))
    }
}

impl Guard for RecordHandOverRequest {
    fn refuse(&self, _version: i16, access: &Access<'_>, catalog: &Catalog) -> Option<<Self as Request>::Response> {
        let topics = self.topics.iter().map(|topic| topic.topic_name.as_str());
        whole(access.need_topics_of(Some(&self.mirror_name), topics, catalog))
    }
}

impl Guard for PauseMirrorTopicsRequest {
    fn refuse(&self, version: i16, access: &Access<'_>, catalog: &Catalog) -> Option<<Self as Request>::Response> {
        let topics = self.topics.iter().map(|topic| topic.topic_name.as_str());
        let mirror = (version >= NAMED_FROM).then_some(self.mirror_name.as_str());
        whole(access.need_topics_of(mirror, topics, catalog))
    }
}

impl Guard for ResumeMirrorTopicsRequest {
    fn refuse(&self, version: i16, access: &Access<'_>, catalog: &Catalog) -> Option<<Self as Request>::Response> {
        let topics = self.topics.iter().map(|topic| topic.topic_name.as_str());
        let mirror = (version >= NAMED_FROM).then_some(self.mirror_name.as_str());
        whole(access.need_topics_of(mirror, topics, catalog))
    }
}

impl Guard for AddTopicsToMirrorRequest {
    fn refuse(&self, _version: i16, access: &Access<'_>, _catalog: &Catalog) -> Option<<Self as Request>::Response> {
        let mut mirrors = self.topics.iter().map(|topic| topic.mirror_name.as_str());
        let topics = self.topics.iter().map(|topic| topic.topic_name.as_str());
        whole(mirrors.try_for_each(|mirror| access.need_mirror(mirror)).and_then(|()| access.need_topics(topics)))
    }
}

impl Guard for RemoveTopicsFromMirrorRequest {
    fn refuse(&self, _version: i16, access: &Access<'_>, catalog: &Catalog) -> Option<<Self as Request>::Response> {
        whole(access.need_owners(self.topics.iter().map(|topic| topic.topic_name.as_str()), catalog))
    }
}
