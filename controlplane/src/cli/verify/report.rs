//! What was found, as a table with a verdict for people and as one document for scripts.

use super::compare::{Difference, Tally};
use crate::cli::output;
use crate::failure::Failure;
use serde::Serialize;
use twinlog_proto::records::batch::BatchHeader;

/// How many findings of a partition are kept; the rest is counted.
pub(super) const FINDINGS_MAX: usize = 20;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Severity {
    /// It is wrong.
    Damage,
    /// Good to know.
    Note,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    /// How bad it is.
    pub(super) severity: Severity,
    /// The file's name.
    pub(super) file: String,
    /// The byte of the file, if it is about one.
    pub(super) position: Option<u64>,
    /// What was found.
    pub(super) what: String,
}

/// A partition that was checked offline.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Checked {
    /// Its directory.
    pub(super) directory: String,
    /// The topic.
    pub(super) topic: String,
    /// The partition.
    pub(super) partition: i32,
    /// Segment files.
    pub(super) segments: usize,
    /// Where the log starts.
    pub(super) log_start_offset: i64,
    /// One after its last offset.
    pub(super) log_end_offset: i64,
    /// Batches that are right.
    pub(super) batches: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// How often something is wrong.
    pub(super) damages: u64,
    /// What was found, the first few.
    pub(super) findings: Vec<Finding>,
}

impl Checked {
    /// Remembers that something is wrong.
    pub(super) fn damage(&mut self, file: &str, position: impl Into<Option<u64>>, what: impl Into<String>) {
        self.damages += 1;
        self.find(Severity::Damage, file, position.into(), what.into());
    }

    /// Remembers what is good to know.
    pub(super) fn note(&mut self, file: &str, position: impl Into<Option<u64>>, what: impl Into<String>) {
        self.find(Severity::Note, file, position.into(), what.into());
    }

    fn find(&mut self, severity: Severity, file: &str, position: Option<u64>, what: String) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { severity, file: file.to_owned(), position, what });
        }
    }
}

/// All that was checked offline.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfflineReport {
    verdict: &'static str,
    batches: u64,
    bytes: u64,
    damages: u64,
    /// Findings about data directories themselves.
    findings: Vec<Finding>,
    partitions: Vec<Checked>,
}

impl OfflineReport {
    pub(super) fn new(findings: Vec<Finding>, partitions: Vec<Checked>) -> Self {
        let damages = partitions.iter().map(|partition| partition.damages).sum::<u64>() + findings.len() as u64;
        Self {
            verdict: if damages == 0 { "sound" } else { "damaged" },
            batches: partitions.iter().map(|partition| partition.batches).sum(),
            bytes: partitions.iter().map(|partition| partition.bytes).sum(),
            damages,
            findings,
            partitions,
        }
    }

    /// Whether nothing is wrong.
    pub(super) fn is_well(&self) -> bool {
        self.damages == 0
    }

    /// Prints it.
    ///
    /// # Errors
    /// When stdout is gone.
    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            return output::json(self);
        }
        let rows: Vec<Vec<String>> = self.partitions.iter().map(offline_row).collect();
        output::table(&["PARTITION", "#SEGMENTS", "#START", "#END", "#BATCHES", "#BYTES", "RESULT"], &rows)?;
        for finding in &self.findings {
            print_finding("", finding)?;
        }
        for partition in &self.partitions {
            for finding in &partition.findings {
                print_finding(&format!("{}/", partition.directory), finding)?;
            }
            let shown = partition.findings.iter().filter(|f| f.severity == Severity::Damage).count() as u64;
            if partition.damages > shown {
                output::line(&format!("{}: {} more of damage", partition.directory, partition.damages - shown))?;
            }
        }
        let (batches, bytes) = (self.batches, self.bytes);
        match self.damages {
            0 => output::line(&format!("verdict: sound ({batches} batches, {bytes} bytes)")),
            damages => output::line(&format!(
                "verdict: DAMAGED ({damages} findings; {batches} batches, {bytes} bytes are right)"
            )),
        }
    }
}

fn offline_row(partition: &Checked) -> Vec<String> {
    vec![
        format!("{}-{}", partition.topic, partition.partition),
        partition.segments.to_string(),
        partition.log_start_offset.to_string(),
        partition.log_end_offset.to_string(),
        partition.batches.to_string(),
        partition.bytes.to_string(),
        if partition.damages == 0 { "sound".to_owned() } else { format!("DAMAGED ({})", partition.damages) },
    ]
}

fn print_finding(folder: &str, finding: &Finding) -> Result<(), Failure> {
    let severity = match finding.severity {
        Severity::Damage => "damage",
        Severity::Note => "note",
    };
    let position = finding.position.map(|position| format!(" at byte {position}")).unwrap_or_default();
    output::line(&format!("{severity}: {folder}{}{position}: {}", finding.file, finding.what))
}

/// A range of offsets, the end excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Range {
    /// The first.
    pub(super) from: i64,
    /// One after the last.
    pub(super) to: i64,
}

/// A partition that was compared with its source.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Compared {
    /// The topic.
    pub(super) topic: String,
    /// The partition.
    pub(super) partition: i32,
    /// Its directory.
    pub(super) directory: String,
    /// `identical`, `compactedAtSource` or `different`.
    pub(super) verdict: &'static str,
    /// What was compared.
    pub(super) compared: Range,
    /// Batches with the same bytes.
    pub(super) batches: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Batches that the source has forgotten by compaction.
    pub(super) forgotten_batches: u64,
    /// Batches that compaction left with fewer records at the source.
    pub(super) rewritten_batches: u64,
    /// Outside of what was compared, at the source.
    pub(super) only_at_source: Vec<Range>,
    /// Outside of what was compared, here.
    pub(super) only_here: Vec<Range>,
    /// The first difference.
    pub(super) difference: Option<Differing>,
}

/// A difference, for people and scripts.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Differing {
    /// The first differing offset.
    pub(super) offset: i64,
    /// What differs.
    pub(super) what: String,
    /// Our batch there.
    pub(super) here: Option<Header>,
    /// The source's.
    pub(super) source: Option<Header>,
}

/// A batch header.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Header {
    base_offset: i64,
    last_offset: i64,
    leader_epoch: i32,
    size_in_bytes: usize,
    attributes: i16,
    count: i32,
    base_timestamp: i64,
    max_timestamp: i64,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    crc: u32,
}

impl From<BatchHeader> for Header {
    fn from(header: BatchHeader) -> Self {
        Self {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            leader_epoch: header.leader_epoch,
            size_in_bytes: header.size_bytes(),
            attributes: header.attributes,
            count: header.record_count,
            base_timestamp: header.base_timestamp,
            max_timestamp: header.max_timestamp,
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            crc: header.crc,
        }
    }
}

impl From<Difference> for Differing {
    fn from(difference: Difference) -> Self {
        Self {
            offset: difference.offset,
            what: difference.what.text(),
            here: difference.here.map(Header::from),
            source: difference.source.map(Header::from),
        }
    }
}

impl Compared {
    /// Takes what the comparison came to.
    pub(super) fn conclude(&mut self, tally: Tally, difference: Option<Difference>) {
        self.batches = tally.batches;
        self.bytes = tally.bytes;
        self.forgotten_batches = tally.forgotten;
        self.rewritten_batches = tally.rewritten;
        self.difference = difference.map(Differing::from);
        self.verdict = match (&self.difference, tally.forgotten + tally.rewritten) {
            (Some(_), _) => DIFFERENT,
            (None, 0) => IDENTICAL,
            (None, _) => COMPACTED,
        };
    }
}

/// Same bytes in the whole range.
pub(super) const IDENTICAL: &str = "identical";
/// The bytes differ.
pub(super) const DIFFERENT: &str = "different";
/// What the source still has is the same here.
pub(super) const COMPACTED: &str = "compactedAtSource";

/// All that was compared.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SourceReport {
    verdict: &'static str,
    mirror: String,
    batches: u64,
    bytes: u64,
    partitions: Vec<Compared>,
}

impl SourceReport {
    pub(super) fn new(mirror: String, partitions: Vec<Compared>) -> Self {
        let any = |verdict: &str| partitions.iter().any(|partition| partition.verdict == verdict);
        let verdict = [DIFFERENT, COMPACTED].into_iter().find(|verdict| any(verdict)).unwrap_or(IDENTICAL);
        let batches = partitions.iter().map(|partition| partition.batches).sum();
        let bytes = partitions.iter().map(|partition| partition.bytes).sum();
        Self { verdict, mirror, batches, bytes, partitions }
    }

    /// Whether nothing differs.
    pub(super) fn is_well(&self) -> bool {
        self.verdict != DIFFERENT
    }

    /// Prints it.
    ///
    /// # Errors
    /// When stdout is gone.
    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            return output::json(self);
        }
        let rows: Vec<Vec<String>> = self.partitions.iter().map(source_row).collect();
        let heads = ["PARTITION", "#FROM", "#TO", "#BATCHES", "#BYTES", "ONLY AT SOURCE", "ONLY HERE", "RESULT"];
        output::table(&heads, &rows)?;
        for partition in &self.partitions {
            let Some(difference) = &partition.difference else { continue };
            let name = format!("{}-{}", partition.topic, partition.partition);
            output::line(&format!("{name} at offset {}: {}", difference.offset, difference.what))?;
            for (side, header) in [("here", &difference.here), ("source", &difference.source)] {
                let header = header.map_or_else(|| "no batch".to_owned(), |header| format!("{header:?}"));
                output::line(&format!("  {side}: {header}"))?;
            }
        }
        output::line(&self.verdict_line())
    }

    fn verdict_line(&self) -> String {
        let (batches, bytes) = (self.batches, self.bytes);
        let count = |verdict| self.partitions.iter().filter(|partition| partition.verdict == verdict).count();
        match self.verdict {
            IDENTICAL => format!("verdict: identical ({batches} batches, {bytes} bytes)"),
            COMPACTED => {
                let gone: u64 = self.partitions.iter().map(|p| p.forgotten_batches + p.rewritten_batches).sum();
                format!(
                    "verdict: compacted at source ({batches} batches, {bytes} bytes are identical; {gone} batches were compacted there)"
                )
            }
            _ => {
                let differ = count(DIFFERENT);
                format!(
                    "verdict: DIFFERENT ({differ} of {} partitions; {batches} batches, {bytes} bytes are identical)",
                    self.partitions.len()
                )
            }
        }
    }
}

fn source_row(partition: &Compared) -> Vec<String> {
    let ranges = |ranges: &[Range]| {
        let texts: Vec<String> = ranges.iter().map(|range| format!("{}..{}", range.from, range.to)).collect();
        if texts.is_empty() { "-".to_owned() } else { texts.join(", ") }
    };
    let result = match partition.verdict {
        IDENTICAL => "identical".to_owned(),
        COMPACTED => format!(
            "compacted at source ({} gone, {} rewritten)",
            partition.forgotten_batches, partition.rewritten_batches
        ),
        _ => "DIFFERENT".to_owned(),
    };
    vec![
        format!("{}-{}", partition.topic, partition.partition),
        partition.compared.from.to_string(),
        partition.compared.to.to_string(),
        partition.batches.to_string(),
        partition.bytes.to_string(),
        ranges(&partition.only_at_source),
        ranges(&partition.only_here),
        result,
    ]
}
