//! pure: the metrics of each mirror, sums and largest values over its partitions.

use super::tally::{Asked, Tally};
use super::text::{Kind, Page};
use crate::overview::Overview;
use std::fmt::Display;

type Pick = fn(&Overview) -> Option<f64>;

fn seconds(ms: Option<i64>) -> Option<f64> {
    ms.map(|ms| ms as f64 / 1e3)
}

fn number(value: Option<i64>) -> Option<f64> {
    value.map(|value| value as f64)
}

/// Gauges with the mirror as their only label. A value that is not known has no sample.
const GAUGES: [(&str, &str, Pick); 16] = [
    ("twinlog_mirror_topics", "Topics of a mirror", |m| Some(m.topics as f64)),
    ("twinlog_mirror_lag_records", "Records still to come, sum", |m| number(m.lag_records.sum)),
    ("twinlog_mirror_lag_records_max", "Records still to come, of the partition with most", |m| {
        number(m.lag_records.max)
    }),
    ("twinlog_mirror_lag_bytes", "Bytes still to come, estimated, sum", |m| number(m.lag_bytes.sum)),
    ("twinlog_mirror_lag_bytes_max", "Bytes still to come, estimated, of the partition with most", |m| {
        number(m.lag_bytes.max)
    }),
    ("twinlog_mirror_lag_seconds_max", "How long ago the end of the stalest partition was its source's end", |m| {
        seconds(m.lag_ms.max)
    }),
    ("twinlog_mirror_lag_unknown_partitions", "Partitions that should mirror and whose lag is not known", |m| {
        Some(m.lag_unknown as f64)
    }),
    ("twinlog_mirror_lso_lag_records", "Records at the source that open transactions hold back, sum", |m| {
        number(m.lso_lag_records.sum)
    }),
    (
        "twinlog_mirror_lso_lag_records_max",
        "Records at the source that open transactions hold back, of one partition",
        |m| number(m.lso_lag_records.max),
    ),
    ("twinlog_mirror_bytes_per_second", "Bytes of batches mirrored in a second, over the last 5 to 60 s", |m| {
        number(m.bytes_per_second.sum)
    }),
    ("twinlog_mirror_behind_partitions", "Partitions that are behind for more than 5 s", |m| Some(m.behind as f64)),
    ("twinlog_mirror_not_catching_up_partitions", "Partitions that are behind and come no nearer", |m| {
        Some(m.not_closing as f64)
    }),
    ("twinlog_mirror_catch_up_ratio", "How far the partitions are that are behind, 0 to 1", Overview::caught_up_share),
    ("twinlog_mirror_catch_up_eta_seconds", "When the last of those that come nearer has everything", |m| {
        seconds(m.eta_ms)
    }),
    ("twinlog_mirror_retries", "Automatic retries of the partitions that are failed or have just come back", |m| {
        Some(m.retries as f64)
    }),
    ("twinlog_mirror_not_retried_partitions", "Failed partitions that wait for a person", |m| {
        Some(m.not_retried as f64)
    }),
];

pub(super) fn write(page: &mut Page, overviews: &[Overview], tally: &Tally) {
    page.one("twinlog_mirrors", Kind::Gauge, "Mirrors", overviews.len());
    let mut states = page.family("twinlog_partitions", Kind::Gauge, "Partitions by mirror and state");
    for overview in overviews {
        for (state, count) in &overview.states {
            states.sample(&[("mirror", &overview.mirror), ("state", &state.name())], count);
        }
    }
    let help = "Partitions by what they suffer from while they go on trying";
    let mut suffering = page.family("twinlog_mirror_suffering_partitions", Kind::Gauge, help);
    for overview in overviews {
        for (fault, count) in &overview.suffering {
            suffering.sample(&[("mirror", &overview.mirror), ("fault", &fault.name())], count);
        }
    }
    for (name, help, pick) in GAUGES {
        let mut family = page.family(name, Kind::Gauge, help);
        for overview in overviews {
            if let Some(value) = pick(overview) {
                family.sample(&[("mirror", &overview.mirror)], value);
            }
        }
    }
    sources(page, overviews, tally);
}

/// What came of the control plane's own questions to the sources.
fn sources(page: &mut Page, overviews: &[Overview], tally: &Tally) {
    let asked: Vec<(&str, Asked)> =
        overviews.iter().filter_map(|m| Some((m.mirror.as_str(), tally.source(&m.mirror)?))).collect();
    let mut asks = page.family("twinlog_source_asks_total", Kind::Counter, "Questions to a source, by outcome");
    for (mirror, asked) in &asked {
        for (outcome, count) in [("answered", asked.answered), ("failed", asked.failed)] {
            let outcome: &dyn Display = &outcome;
            asks.sample(&[("mirror", mirror), ("outcome", outcome)], count);
        }
    }
    let mut answers = page.family("twinlog_source_up", Kind::Gauge, "Whether a source answered the last question");
    for (mirror, asked) in &asked {
        answers.sample(&[("mirror", mirror)], i64::from(asked.answers));
    }
    let name = "twinlog_source_last_answer_timestamp_seconds";
    let mut last = page.family(name, Kind::Gauge, "When a source last answered, since 1970");
    for (mirror, asked) in &asked {
        if let Some(at) = seconds(asked.answered_at_ms) {
            last.sample(&[("mirror", mirror)], at);
        }
    }
}
