//! pure: how large an answer will be, told before it is made.

use crate::mirror::catalog::{Catalog, Mirror};
use twinlog_proto::messages::describe_mirrors::DescribeMirrorsRequest;
use twinlog_proto::messages::last_mirrored_offsets::LastMirroredOffsetsRequest;
use twinlog_proto::messages::metadata::MetadataRequest;
use twinlog_proto::messages::read_mirror_states::ReadMirrorStatesRequest;

/// A request whose answer may tell of every partition there is.
pub trait Weight {
    /// Partitions that the answer tells of at most, as far as they are known.
    fn partitions(&self, catalog: &Catalog) -> usize;
}

impl Weight for MetadataRequest {
    fn partitions(&self, catalog: &Catalog) -> usize {
        match self.topics.as_deref() {
            None | Some([]) => catalog.mirrors().map(|(_, mirror)| of_mirror(mirror)).sum(),
            // Each id is looked for among all topics.
            Some(asked) if asked.iter().any(|topic| !topic.topic_id.is_zero()) => {
                asked.len().saturating_mul(catalog.topics().count())
            }
            Some(asked) => {
                let names = asked.iter().filter_map(|topic| topic.name.as_deref());
                let known = names.filter_map(|name| catalog.owner_of(name));
                known.map(|(_, topic)| topic.partitions.len()).sum()
            }
        }
    }
}

impl Weight for DescribeMirrorsRequest {
    fn partitions(&self, catalog: &Catalog) -> usize {
        match self.mirror_names.as_deref() {
            None | Some([]) => catalog.mirrors().map(|(_, mirror)| of_mirror(mirror)).sum(),
            Some(names) => names.iter().filter_map(|name| catalog.mirror(name)).map(of_mirror).sum(),
        }
    }
}

impl Weight for LastMirroredOffsetsRequest {
    fn partitions(&self, catalog: &Catalog) -> usize {
        let names = self.topics.iter().map(|topic| topic.name.as_str());
        catalog.mirror(&self.mirror_name).map_or(0, |mirror| of_topics(mirror, names))
    }
}

impl Weight for ReadMirrorStatesRequest {
    fn partitions(&self, catalog: &Catalog) -> usize {
        let names = self.topics.iter().map(|topic| topic.name.as_str());
        catalog.mirror(&self.mirror_name).map_or(0, |mirror| of_topics(mirror, names))
    }
}

fn of_mirror(mirror: &Mirror) -> usize {
    mirror.topics.values().map(|topic| topic.partitions.len()).sum()
}

/// Of these topics; of all when none is named.
fn of_topics<'n>(mirror: &Mirror, names: impl Iterator<Item = &'n str>) -> usize {
    let mut names = names.peekable();
    match names.peek() {
        None => of_mirror(mirror),
        Some(_) => names.filter_map(|name| mirror.topics.get(name)).map(|topic| topic.partitions.len()).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::tests::world;
    use twinlog_proto::messages::metadata::MetadataRequestTopic;

    #[test]
    fn who_asks_for_everything_asks_for_more_than_who_names_a_topic() {
        let catalog = world();
        let all = DescribeMirrorsRequest::default().partitions(&catalog);
        let of = |name: &str| DescribeMirrorsRequest { mirror_names: Some(vec![name.into()]), ..Default::default() };
        assert_eq!((all, of("m").partitions(&catalog), of("no").partitions(&catalog)), (5, 4, 0));
        let named = |name: &str| MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
        let asked = |topics| MetadataRequest { topics, ..Default::default() }.partitions(&catalog);
        assert_eq!((asked(None), asked(Some(vec![named("flows"), named("nope")]))), (5, 1));
        let offsets = LastMirroredOffsetsRequest { mirror_name: "m".into(), ..Default::default() };
        let states = ReadMirrorStatesRequest { mirror_name: "other".into(), ..Default::default() };
        assert_eq!((offsets.partitions(&catalog), states.partitions(&catalog)), (4, 1));
    }
}
