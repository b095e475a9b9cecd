//! pure: ListMirrors: the mirrors with their sources and how many topics flow.

use crate::mirror::catalog::{Catalog, Desired, Mirror};
use crate::mirror::internal::is_internal_name;
use crate::mirror::settings::BOOTSTRAP_SERVERS;
use twinlog_proto::messages::list_mirrors::{ListMirrorsRequest, ListMirrorsResponse, ListedMirror};

/// The answer.
#[must_use]
pub fn handle(request: &ListMirrorsRequest, catalog: &Catalog) -> ListMirrorsResponse {
    let listed = |(name, mirror): (&str, &Mirror)| {
        // Those of the cluster itself come along and are not counted.
        let own = || mirror.topics.iter().filter(|(name, _)| !is_internal_name(name));
        let with = |wanted: fn(Desired) -> bool| own().filter(move |(_, topic)| wanted(topic.facts.desired));
        let names = with(|desired| desired != Desired::Stop).filter(|_| request.include_topic_names);
        ListedMirror {
            mirror_name: name.to_owned(),
            source_bootstrap: mirror.facts.settings.get(BOOTSTRAP_SERVERS).cloned().unwrap_or_default(),
            source_cluster_id: mirror.facts.source_cluster_id.clone(),
            topic_count: i32::try_from(with(|desired| desired == Desired::Mirror).count()).unwrap_or(i32::MAX),
            topic_names: names.map(|(name, _)| name.clone()).collect(),
        }
    };
    ListMirrorsResponse { mirrors: catalog.mirrors().map(listed).collect(), ..ListMirrorsResponse::default() }
}
