//! pure: a snapshot of the cluster's metadata (`*.checkpoint`), also the one that a new node begins with.
//!
//! ```text
//! control batch at offset 0: SnapshotHeader [, KRaftVersion, Voters]
//! data batches
//! control batch: SnapshotFooter                      offsets go on from batch to batch without a gap
//! ```
//! Values are kept as they are, so that what is read is written with the same bytes whatever release wrote it.

use super::batch::Batch;
use super::control::ControlRecord;
use crate::error::DecodeError;
use crate::messages::kraft_records::{KRaftVersionRecord, VotersRecord};
use crate::records::plain;

const WHAT: &str = "metadata snapshot";
/// Key and value of the record that begins a snapshot of nothing.
const HEADER: (&[u8], &[u8]) = (&[0, 0, 0, 3], &[0; 11]);
/// Key and value of the record that ends a snapshot.
const FOOTER: (&[u8], &[u8]) = (&[0, 0, 0, 4], &[0; 3]);
/// Key and value of the record that says that voters are kept in the log.
const KRAFT_VERSION_1: (&[u8], &[u8]) = (&[0, 0, 0, 5], &[0, 0, 0, 1, 0]);
/// Key of the record of the voters.
const VOTERS_KEY: &[u8] = &[0, 0, 0, 6];
/// Data records in one batch that [`Snapshot::push`] makes.
const BATCH_RECORDS_MAX: usize = 1_000;
/// Bytes of values in one batch that [`Snapshot::push`] makes; a single larger value has a batch of its own.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// A whole snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    sections: Vec<Section>,
}

/// One batch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Section {
    timestamp_ms: i64,
    leader_epoch: i32,
    records: Records,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Records {
    /// Keys and values.
    Control(Vec<(Vec<u8>, Vec<u8>)>),
    /// Values.
    Data { values: Vec<Vec<u8>>, bytes: usize },
}

impl Records {
    fn len(&self) -> usize {
        match self {
            Self::Control(pairs) => pairs.len(),
            Self::Data { values, .. } => values.len(),
        }
    }
}

impl Snapshot {
    /// A snapshot without records, made at `timestamp_ms`.
    #[must_use]
    pub fn empty(timestamp_ms: i64) -> Self {
        let control = |(key, value): (&[u8], &[u8])| Records::Control(vec![(key.to_vec(), value.to_vec())]);
        let section = |records| Section { timestamp_ms, leader_epoch: 0, records };
        Self { sections: vec![section(control(HEADER)), section(control(FOOTER))] }
    }

    /// [`Snapshot::empty`] of a quorum that keeps its voters in its log: `voters` is the value of their record.
    #[must_use]
    pub fn with_voters(timestamp_ms: i64, voters: &[u8]) -> Self {
        let mut snapshot = Self::empty(timestamp_ms);
        if let Records::Control(pairs) = &mut snapshot.sections[0].records {
            pairs.push((KRAFT_VERSION_1.0.to_vec(), KRAFT_VERSION_1.1.to_vec()));
            pairs.push((VOTERS_KEY.to_vec(), voters.to_vec()));
        }
        snapshot
    }

    /// Reads a file. At most as many times its bytes are taken in memory as a record has words of bookkeeping.
    ///
    /// # Errors
    /// When a batch is none, offsets have a gap, a control record is malformed, or the file does not begin with the header and end with the
    /// footer. Values of data records are not looked into.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (mut sections, mut at, mut next) = (Vec::new(), 0, 0);
        let mut ended = false;
        while at < bytes.len() {
            let placed = |cause: DecodeError| DecodeError { at: at + cause.at, ..cause };
            if ended {
                return Err(DecodeError::rule(WHAT, at, "nothing follows the footer"));
            }
            let batch = Batch::decode(&bytes[at..]).map_err(placed)?;
            if batch.header.base_offset != next {
                return Err(DecodeError::rule(WHAT, at, "offsets begin at 0 and have no gap"));
            }
            let section = section(&batch).map_err(placed)?;
            let (begins, ends) = borders(&section).map_err(placed)?;
            if begins != sections.is_empty() {
                return Err(DecodeError::rule(WHAT, at, "a snapshot begins with its one header"));
            }
            sections.push(section);
            (at, next, ended) = (at + batch.header.size_bytes(), batch.header.next_offset(), ends);
        }
        if !ended {
            return Err(DecodeError::rule(WHAT, at, "it ends without its footer"));
        }
        Ok(Self { sections })
    }

    /// The file's bytes.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let (mut out, mut offset) = (Vec::new(), 0);
        for Section { timestamp_ms, leader_epoch, records } in &self.sections {
            let header = |attributes| plain::header(offset, *leader_epoch, attributes, *timestamp_ms);
            match records {
                Records::Control(pairs) => {
                    let pairs = pairs.iter().map(|(key, value)| (Some(&key[..]), Some(&value[..])));
                    plain::encode(&mut out, header(plain::CONTROL), pairs);
                }
                Records::Data { values, .. } => {
                    plain::encode(&mut out, header(0), values.iter().map(|value| (None, Some(&value[..]))));
                }
            }
            offset += records.len() as i64;
        }
        out
    }

    /// The values of its data records, in order.
    pub fn values(&self) -> impl Iterator<Item = &[u8]> {
        self.sections
            .iter()
            .flat_map(|section| match &section.records {
                Records::Data { values, .. } => &values[..],
                Records::Control(_) => &[],
            })
            .map(Vec::as_slice)
    }

    /// How many data records it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values().count()
    }

    /// Whether it has no data records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values().next().is_none()
    }

    /// Keeps the first `count` data records; those after them are left out.
    pub fn truncate(&mut self, count: usize) {
        let mut left = count;
        for section in &mut self.sections {
            if let Records::Data { values, bytes } = &mut section.records {
                values.truncate(left);
                left -= values.len();
                *bytes = values.iter().map(Vec::len).sum();
            }
        }
        self.sections.retain(|section| section.records.len() > 0);
    }

    /// Adds the value of a data record behind all others, in a batch made at `timestamp_ms`: batches stay at 1,000 records and 1 MiB of values.
    ///
    /// Records that were read stay in their batches: the first one pushed begins a new one.
    pub fn push(&mut self, timestamp_ms: i64, value: Vec<u8>) {
        let footer = self.sections.len() - 1;
        let room = |section: &Section| match &section.records {
            Records::Data { values, bytes } => {
                section.timestamp_ms == timestamp_ms
                    && values.len() < BATCH_RECORDS_MAX
                    && bytes + value.len() <= BATCH_BYTES_MAX
            }
            Records::Control(_) => false,
        };
        let at = if room(&self.sections[footer - 1]) { footer - 1 } else { footer };
        if at == footer {
            let records = Records::Data { values: Vec::new(), bytes: 0 };
            self.sections.insert(footer, Section { timestamp_ms, leader_epoch: 0, records });
        }
        if let Records::Data { values, bytes } = &mut self.sections[at].records {
            *bytes += value.len();
            values.push(value);
        }
    }

    /// The control records that could be read, in order.
    pub fn controls(&self) -> impl Iterator<Item = ControlRecord> {
        let pairs = self.sections.iter().flat_map(|section| match &section.records {
            Records::Control(pairs) => &pairs[..],
            Records::Data { .. } => &[],
        });
        pairs.filter_map(|(key, value)| ControlRecord::decode(key, value).ok())
    }

    /// The value of the record of the voters, as it was written.
    #[must_use]
    pub fn voters_value(&self) -> Option<&[u8]> {
        let mut pairs = self.sections.iter().flat_map(|section| match &section.records {
            Records::Control(pairs) => &pairs[..],
            Records::Data { .. } => &[],
        });
        pairs.rfind(|(key, _)| key == VOTERS_KEY).map(|(_, value)| value.as_slice())
    }

    /// The voters that are kept in it; none when each node is told by its settings.
    #[must_use]
    pub fn voters(&self) -> Option<VotersRecord> {
        self.controls()
            .filter_map(|control| match control {
                ControlRecord::Voters(voters) => Some(voters),
                _ => None,
            })
            .last()
    }

    /// The level of kraft.version that it says; 0 when it says none.
    #[must_use]
    pub fn kraft_version(&self) -> i16 {
        let levels = self.controls().filter_map(|control| match control {
            ControlRecord::KRaftVersion(KRaftVersionRecord { kraft_version, .. }) => Some(kraft_version),
            _ => None,
        });
        levels.last().unwrap_or(0)
    }
}

fn section(batch: &Batch<'_>) -> Result<Section, DecodeError> {
    let entries = batch.entries();
    let records = if batch.header.is_control() {
        let pairs = entries.map(|entry| {
            let entry = entry?;
            Ok((entry.key.unwrap_or_default().to_vec(), entry.value.to_vec()))
        });
        Records::Control(pairs.collect::<Result<_, _>>()?)
    } else {
        let values: Vec<_> = entries.map(|entry| Ok(entry?.value.to_vec())).collect::<Result<_, _>>()?;
        let bytes = values.iter().map(Vec::len).sum();
        Records::Data { values, bytes }
    };
    Ok(Section { timestamp_ms: batch.header.base_timestamp, leader_epoch: batch.header.leader_epoch, records })
}

/// Whether the batch begins and whether it ends a snapshot.
fn borders(section: &Section) -> Result<(bool, bool), DecodeError> {
    let Records::Control(pairs) = &section.records else { return Ok((false, false)) };
    let (mut begins, mut ends) = (false, false);
    for (at, (key, value)) in pairs.iter().enumerate() {
        if ends {
            return Err(DecodeError::rule(WHAT, 0, "nothing follows the footer"));
        }
        match ControlRecord::decode(key, value)? {
            ControlRecord::SnapshotHeader(_) if at > 0 => {
                return Err(DecodeError::rule(WHAT, 0, "the header is the first record of its batch"));
            }
            ControlRecord::SnapshotHeader(_) => begins = true,
            ControlRecord::SnapshotFooter(_) => ends = true,
            _ => {}
        }
    }
    if begins && ends {
        return Err(DecodeError::rule(WHAT, 0, "header and footer have a batch each"));
    }
    Ok((begins, ends))
}
