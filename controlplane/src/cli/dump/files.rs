//! Indexes, producer snapshots, checkpoints and the small text files of a log directory.

use super::{Fields, Page, Stop};
use serde_json::json;
use twinlog_proto::error::DecodeError;
use twinlog_proto::storage::leader_epochs::LeaderEpochs;
use twinlog_proto::storage::meta_properties::MetaProperties;
use twinlog_proto::storage::offset_index::{self, OffsetIndex};
use twinlog_proto::storage::time_index::{self, TimeIndex};
use twinlog_proto::storage::txn_index::TxnIndex;
use twinlog_proto::storage::{checkpoint, clean_shutdown, partition_metadata, producer_snapshot};

impl Page<'_> {
    pub(super) fn offset_index(&mut self, base_offset: i64) -> Result<(), Stop> {
        let bytes = self.read()?;
        let (entries, padding) = without_padding(&bytes, offset_index::ENTRY_BYTES);
        let readable = readable(entries, |bytes| OffsetIndex::parse(bytes, base_offset).map(drop));
        let index = OffsetIndex::parse(&entries[..readable.0], base_offset).map_err(|why| self.wrong(&why))?;
        for entry in index.iter() {
            let fields = [("offset", json!(entry.offset)), ("position", json!(entry.position))];
            self.entry("offsetIndexEntry", fields)?;
        }
        self.end(padding, readable.1)
    }

    pub(super) fn time_index(&mut self, base_offset: i64) -> Result<(), Stop> {
        let bytes = self.read()?;
        let (entries, padding) = without_padding(&bytes, time_index::ENTRY_BYTES);
        let readable = readable(entries, |bytes| TimeIndex::parse(bytes, base_offset).map(drop));
        let index = TimeIndex::parse(&entries[..readable.0], base_offset).map_err(|why| self.wrong(&why))?;
        for entry in index.iter() {
            self.entry("timeIndexEntry", [("timestamp", json!(entry.timestamp)), ("offset", json!(entry.offset))])?;
        }
        self.end(padding, readable.1)
    }

    pub(super) fn txn_index(&mut self, base_offset: i64) -> Result<(), Stop> {
        let bytes = self.read()?;
        let readable = readable(&bytes, |bytes| TxnIndex::parse(bytes, base_offset).map(drop));
        let index = TxnIndex::parse(&bytes[..readable.0], base_offset).map_err(|why| self.wrong(&why))?;
        for entry in index.iter() {
            let fields = [
                ("producerId", json!(entry.producer_id)),
                ("firstOffset", json!(entry.first_offset)),
                ("lastOffset", json!(entry.last_offset)),
                ("lastStableOffset", json!(entry.last_stable_offset)),
            ];
            self.entry("abortedTransaction", fields)?;
        }
        self.end(0, readable.1)
    }

    pub(super) fn producer_snapshot(&mut self) -> Result<(), Stop> {
        for entry in producer_snapshot::decode(&self.read()?).map_err(|why| self.wrong(&why))? {
            let fields = [
                ("producerId", json!(entry.producer_id)),
                ("producerEpoch", json!(entry.epoch)),
                ("lastSequence", json!(entry.last_sequence)),
                ("lastOffset", json!(entry.last_offset)),
                ("offsetDelta", json!(entry.offset_delta)),
                ("lastTimestamp", json!(entry.timestamp)),
                ("coordinatorEpoch", json!(entry.coordinator_epoch)),
                ("currentTxnFirstOffset", json!(entry.txn_first_offset)),
            ];
            self.entry("producer", fields)?;
        }
        Ok(())
    }

    pub(super) fn leader_epochs(&mut self) -> Result<(), Stop> {
        let epochs = LeaderEpochs::parse(&self.read()?).map_err(|why| self.wrong(&why))?;
        for entry in epochs.entries() {
            self.entry("leaderEpoch", [("epoch", json!(entry.epoch)), ("startOffset", json!(entry.start_offset))])?;
        }
        Ok(())
    }

    pub(super) fn offset_checkpoint(&mut self) -> Result<(), Stop> {
        for entry in checkpoint::parse(&self.read()?).map_err(|why| self.wrong(&why))? {
            let fields =
                [("topic", json!(entry.topic)), ("partition", json!(entry.partition)), ("offset", json!(entry.offset))];
            self.entry("partitionOffset", fields)?;
        }
        Ok(())
    }

    pub(super) fn partition_metadata(&mut self) -> Result<(), Stop> {
        let topic_id = partition_metadata::parse(&self.read()?).map_err(|why| self.wrong(&why))?;
        self.entry("partitionMetadata", [("topicId", json!(topic_id.to_string()))])
    }

    pub(super) fn meta_properties(&mut self) -> Result<(), Stop> {
        let meta = MetaProperties::parse(&self.read()?).map_err(|why| self.wrong(&why))?;
        let fields = [
            ("clusterId", json!(meta.cluster_id)),
            ("nodeId", json!(meta.node_id)),
            ("directoryId", json!(meta.directory_id.map(|id| id.to_string()))),
        ];
        self.entry("metaProperties", fields)
    }

    pub(super) fn clean_shutdown(&mut self) -> Result<(), Stop> {
        let epoch = clean_shutdown::parse(&self.read()?).map_err(|why| self.wrong(&why))?;
        self.entry("cleanShutdown", [("brokerEpoch", json!(epoch))])
    }

    pub(super) fn entry<const N: usize>(
        &mut self,
        kind: &'static str,
        fields: [(&'static str, serde_json::Value); N],
    ) -> Result<(), Stop> {
        let mut all = vec![("kind", json!(kind))];
        all.extend(fields);
        self.print(Fields(all))
    }

    pub(super) fn wrong(&self, why: &DecodeError) -> Stop {
        self.damaged(why.at as u64, why)
    }

    fn end(&mut self, padding: usize, wrong: Option<DecodeError>) -> Result<(), Stop> {
        if padding > 0 {
            self.entry("zeroTail", [("bytes", json!(padding))])?;
        }
        wrong.map_or(Ok(()), |why| Err(self.wrong(&why)))
    }
}

/// The entries of an index without the zero entries at its end, which an active index is allocated with; how many bytes those are.
pub(in crate::cli) fn without_padding(bytes: &[u8], entry_bytes: usize) -> (&[u8], usize) {
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let kept = used.next_multiple_of(entry_bytes).min(bytes.len());
    (&bytes[..kept], bytes.len() - kept)
}

/// How many bytes can be read before the first error, and that error.
fn readable(bytes: &[u8], parse: impl Fn(&[u8]) -> Result<(), DecodeError>) -> (usize, Option<DecodeError>) {
    match parse(bytes) {
        Ok(()) => (bytes.len(), None),
        Err(why) => {
            // A torn entry is named by the end of the file, an entry that is wrong by its own start.
            let good = (0..=why.at.min(bytes.len())).rev().find(|at| parse(&bytes[..*at]).is_ok());
            (good.unwrap_or(0), Some(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_whole_zero_entries_at_the_end() {
        let mut bytes = vec![0, 0, 0, 5, 0, 0, 1, 0];
        assert_eq!(without_padding(&bytes, 8), (&bytes[..], 0));
        bytes.extend([0; 24]);
        assert_eq!(without_padding(&bytes, 8), (&bytes[..8], 24));
        assert_eq!(without_padding(&[0; 16], 8), (&[][..], 16));
    }

    #[test]
    fn entries_before_the_first_wrong_one_are_readable() {
        let bytes = [0, 0, 0, 5, 0, 0, 1, 0, 0, 0, 0, 4, 0, 0, 2, 0];
        let (good, why) = readable(&bytes, |bytes| OffsetIndex::parse(bytes, 0).map(drop));
        assert_eq!((good, why.unwrap().at), (8, 8));
        let (good, why) = readable(&bytes[..11], |bytes| OffsetIndex::parse(bytes, 0).map(drop));
        assert_eq!((good, why.unwrap().at), (8, 11));
    }
}
