//! What another control plane says of where mirroring ended: the one that mirrored from the cluster of this node, and handed over.

use crate::client::Client;
use crate::failure::Failure;
use crate::handover::preflight::Finding;
use crate::handover::survey;
use std::collections::BTreeMap;
use twinlog_proto::api;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::describe_mirrors::{DescribedMirror, TopicPartitions};
use twinlog_proto::messages::last_mirrored_offsets::{LastMirroredOffsetsRequest, TopicData};

/// The version from which on the epoch is told.
const EPOCH_SINCE: i16 = 1;

/// Where mirroring ended, by topic and partition: the offset and the epoch of the last batch below it.
pub(super) type Cuts = BTreeMap<(String, i32), (i64, i32)>;

/// Its answers.
#[derive(Debug)]
pub(super) struct Peer {
    /// Where it was asked.
    pub(super) address: String,
    /// The mirror there.
    pub(super) mirror: DescribedMirror,
    /// Where mirroring ended.
    pub(super) cuts: Cuts,
}

impl Peer {
    /// Asks it.
    ///
    /// # Errors
    /// When it does not answer, is no control plane, or does not know the mirror.
    pub(super) fn ask(address: &str, mirror: &str) -> Result<Self, Failure> {
        let mut client = connect(address)?;
        if client.version_of(api::LAST_MIRRORED_OFFSETS)? < EPOCH_SINCE {
            return Err(Failure::new(
                format_args!("{address} does not say where mirroring ended by leader epoch"),
                format_args!("it answers LastMirroredOffsets below version {EPOCH_SINCE}"),
                "run a newer twinlog there",
            ));
        }
        let described = survey::describe(&mut client, mirror, &[])?;
        let cuts = cuts(&mut client, mirror, &described)?;
        Ok(Self { address: address.to_owned(), mirror: described, cuts })
    }

    /// The topics called `names`; all of them when there are none.
    ///
    /// # Errors
    /// When it does not have one of them.
    pub(super) fn topics(&self, names: &[String]) -> Result<Vec<&TopicPartitions>, Failure> {
        let all = &self.mirror.topics;
        if let Some(unknown) = names.iter().find(|name| !all.iter().any(|topic| topic.topic_name == **name)) {
            return Err(Failure::new(
                format_args!("topic {unknown} is not taken back"),
                format_args!("mirror {} at {} does not have it", self.mirror.mirror_name, self.address),
                "`twinlog mirrors describe` there shows its topics",
            ));
        }
        Ok(all.iter().filter(|topic| names.is_empty() || names.contains(&topic.topic_name)).collect())
    }

    /// Adds what keeps a topic from being cut by what it says.
    pub(super) fn judge(&self, topic: &TopicPartitions, blockers: &mut Vec<Finding>) {
        let (name, address) = (&topic.topic_name, &self.address);
        if topic.handed_over_to.is_none() {
            let state = topic.partitions.first().map_or("not known", |partition| partition.state.as_str());
            blockers.push(Finding::new(
                format!("topic {name} is {state} at {address} and handed over to nobody there: nothing took over from this node"),
                format!("promote mirror {} there first, or leave the topic out: name the others with --topic", self.mirror.mirror_name),
            ));
            return;
        }
        for partition in &topic.partitions {
            let index = partition.partition_index;
            let cut = self.cuts.get(&(name.clone(), index));
            let recorded = partition.last_mirror_offset >= 0 && partition.state == "STOPPED";
            if !recorded || cut.is_none_or(|cut| cut.0 != partition.last_mirror_offset) {
                blockers.push(Finding::new(
                    format!("{address} does not know where mirroring of {name}-{index} ended ({})", partition.state),
                    "leave the topic out: name the others with --topic",
                ));
            }
        }
    }
}

/// As `control::connect`, of an address that another option gives.
fn connect(address: &str) -> Result<Client, Failure> {
    let connected = Client::connect(address).and_then(|client| client.need_mirrors().map(|()| client));
    connected.map_err(|cause| {
        Failure::new(
            "the other side does not say where mirroring ended",
            cause,
            "give the address of the twinlog control plane there with --lmo-from, HOST:PORT, and look whether it runs",
        )
    })
}

fn cuts(client: &mut Client, mirror: &str, described: &DescribedMirror) -> Result<Cuts, Failure> {
    let topic = |topic: &TopicPartitions| TopicData { name: topic.topic_name.clone(), ..TopicData::default() };
    let topics = described.topics.iter().map(topic).collect();
    let answer = client.ask(&LastMirroredOffsetsRequest { mirror_name: mirror.to_owned(), topics })?;
    if answer.error_code != 0 {
        let words = answer.error_message.unwrap_or_else(|| ErrorCode(answer.error_code).to_string());
        return Err(Failure::told(format_args!("where mirroring ended is not known at {}", client.peer()), words));
    }
    let mut cuts = Cuts::new();
    for topic in answer.topics {
        for one in topic.partitions.iter().filter(|one| one.error_code == 0) {
            let cut = (one.last_mirrored_offset, one.last_mirror_epoch);
            cuts.insert((topic.name.clone(), one.partition_index), cut);
        }
    }
    Ok(cuts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlog_proto::messages::describe_mirrors::PartitionDetail;

    fn peer(state: &str, to: Option<&str>, recorded: i64, cut: i64) -> Peer {
        let partition =
            PartitionDetail { state: state.to_owned(), last_mirror_offset: recorded, ..PartitionDetail::default() };
        let topic = TopicPartitions {
            topic_name: "orders".to_owned(),
            partitions: vec![partition],
            handed_over_to: to.map(ToOwned::to_owned),
            ..TopicPartitions::default()
        };
        let mirror =
            DescribedMirror { mirror_name: "dr".to_owned(), topics: vec![topic], ..DescribedMirror::default() };
        Peer { address: "b:9192".to_owned(), mirror, cuts: [(("orders".to_owned(), 0), (cut, 3))].into() }
    }

    fn judged(peer: &Peer) -> String {
        let mut blockers = Vec::new();
        peer.judge(&peer.mirror.topics[0], &mut blockers);
        blockers.into_iter().map(|blocker| blocker.what).collect()
    }

    #[test]
    fn only_what_was_handed_over_and_has_a_recorded_end_is_cut_by_it() {
        assert_eq!(judged(&peer("STOPPED", Some("node 1"), 40, 40)), "");
        assert_eq!(judged(&peer("STOPPED", Some("node 1"), 0, 0)), "", "whether that is right follows from the log");
        assert!(judged(&peer("MIRRORING", None, -1, 0)).contains("MIRRORING at b:9192 and handed over to nobody"));
        assert!(judged(&peer("STOPPED", None, 40, 40)).contains("handed over to nobody"));
        for unknown in [peer("STOPPED", Some("node 1"), -1, 0), peer("STOPPED", Some("node 1"), 40, 41)] {
            assert!(judged(&unknown).contains("does not know where mirroring of orders-0 ended"));
        }
        let other = peer("STOPPED", Some("node 1"), 40, 40);
        assert!(other.topics(&["nope".to_owned()]).unwrap_err().to_string().contains("does not have it"));
        assert_eq!(other.topics(&[]).unwrap().len(), 1);
    }
}
