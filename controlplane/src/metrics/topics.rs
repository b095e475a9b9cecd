//! pure: the metrics of each topic and each partition, which the configuration asks for or not.

use super::text::{Kind, Page};
use crate::mirror::catalog::Catalog;
use crate::plane::lag::{lag_bytes, lag_records, lso_lag_records};
use crate::plane::pace::Pace;
use crate::plane::view::View;
use twinlog_proto::channel::progress::PartitionProgress;

type Pick = fn(&PartitionProgress, &Pace) -> Option<f64>;

/// How the values of a topic's partitions become one.
#[derive(Clone, Copy)]
enum Fold {
    Sum,
    Max,
}

const TOPIC_GAUGES: [(&str, &str, Fold, Pick); 4] = [
    ("twinlog_topic_lag_records", "Records still to come, sum", Fold::Sum, |seen, _| number(lag_records(seen))),
    ("twinlog_topic_lag_bytes", "Bytes still to come, estimated, sum", Fold::Sum, |seen, _| number(lag_bytes(seen))),
    ("twinlog_topic_lag_seconds_max", "How long ago the end of the stalest partition was its source's", Fold::Max, lag),
    ("twinlog_topic_bytes_per_second", "Bytes of batches mirrored in a second, of late", Fold::Sum, |_, pace| {
        number(pace.bytes_per_second)
    }),
];

const PARTITION_GAUGES: [(&str, &str, Pick); 9] = [
    ("twinlog_partition_source_offset", "High watermark at the source", |seen, _| known(seen.source_high_watermark)),
    ("twinlog_partition_destination_offset", "Log end here", |seen, _| known(seen.leo)),
    ("twinlog_partition_flushed_offset", "Log end on stable storage", |seen, _| known(seen.flushed)),
    ("twinlog_partition_log_start_offset", "First offset kept here", |seen, _| known(seen.log_start)),
    ("twinlog_partition_lag_records", "Records still to come", |seen, _| number(lag_records(seen))),
    ("twinlog_partition_lag_bytes", "Bytes still to come, estimated", |seen, _| number(lag_bytes(seen))),
    ("twinlog_partition_lag_seconds", "How long ago our end was the source's", lag),
    ("twinlog_partition_lso_lag_records", "Records that open transactions hold back", |seen, _| {
        number(lso_lag_records(seen))
    }),
    ("twinlog_partition_bytes_per_second", "Bytes of batches mirrored in a second, of late", |_, pace| {
        number(pace.bytes_per_second)
    }),
];

pub(super) fn write_topics(page: &mut Page, catalog: &Catalog, view: &View<'_>) {
    for (name, help, fold, pick) in TOPIC_GAUGES {
        let mut family = page.family(name, Kind::Gauge, help);
        for (mirror, topic_name, topic) in catalog.topics() {
            let seen = topic.partitions.keys().filter_map(|index| view.moves(topic, *index));
            let values = seen.filter_map(|(seen, pace)| pick(&seen, &pace));
            let value = match fold {
                Fold::Sum => values.reduce(|a, b| a + b),
                Fold::Max => values.reduce(f64::max),
            };
            if let Some(value) = value {
                family.sample(&[("mirror", &mirror), ("topic", &topic_name)], value);
            }
        }
    }
}

pub(super) fn write_partitions(page: &mut Page, catalog: &Catalog, view: &View<'_>) {
    for (name, help, pick) in PARTITION_GAUGES {
        let mut family = page.family(name, Kind::Gauge, help);
        for (mirror, topic_name, topic, index, _) in catalog.partitions() {
            let value = view.moves(topic, index).and_then(|(seen, pace)| pick(&seen, &pace));
            if let Some(value) = value {
                family.sample(&[("mirror", &mirror), ("topic", &topic_name), ("partition", &index)], value);
            }
        }
    }
}

fn lag(_: &PartitionProgress, pace: &Pace) -> Option<f64> {
    pace.lag_ms.map(|ms| ms as f64 / 1e3)
}

fn known(value: i64) -> Option<f64> {
    (value >= 0).then_some(value as f64)
}

fn number(value: Option<i64>) -> Option<f64> {
    value.map(|value| value as f64)
}
