//! pure: what a node's settings say of topics that say nothing themselves. Names and defaults are Kafka's, the same from 4.0 to 4.4.

use std::collections::BTreeMap;

/// What a value of a broker's setting is for a topic.
#[derive(Debug, Clone, Copy)]
enum Unit {
    /// The same.
    Same,
    /// So many milliseconds each.
    Times(i64),
}

/// A topic's setting, the broker's settings that stand for it (the first that is there counts), and the default.
type Row = (&'static str, &'static [(&'static str, Unit)], &'static str);

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const FOR_EVER: &str = "9223372036854775807";
const WEEK_MS: &str = "604800000";

/// Those of `mirror/topic_configs.rs` that decide about records.
const ROWS: [Row; 17] = [
    ("cleanup.policy", &[("log.cleanup.policy", Unit::Same)], "delete"),
    ("compression.type", &[("compression.type", Unit::Same)], "producer"),
    ("delete.retention.ms", &[("log.cleaner.delete.retention.ms", Unit::Same)], "86400000"),
    ("index.interval.bytes", &[("log.index.interval.bytes", Unit::Same)], "4096"),
    ("max.compaction.lag.ms", &[("log.cleaner.max.compaction.lag.ms", Unit::Same)], FOR_EVER),
    ("max.message.bytes", &[("message.max.bytes", Unit::Same)], "1048588"),
    ("message.timestamp.after.max.ms", &[("log.message.timestamp.after.max.ms", Unit::Same)], "3600000"),
    ("message.timestamp.before.max.ms", &[("log.message.timestamp.before.max.ms", Unit::Same)], FOR_EVER),
    ("message.timestamp.type", &[("log.message.timestamp.type", Unit::Same)], "CreateTime"),
    ("min.compaction.lag.ms", &[("log.cleaner.min.compaction.lag.ms", Unit::Same)], "0"),
    ("min.insync.replicas", &[("min.insync.replicas", Unit::Same)], "1"),
    ("retention.bytes", &[("log.retention.bytes", Unit::Same)], "-1"),
    (
        "retention.ms",
        &[
            ("log.retention.ms", Unit::Same),
            ("log.retention.minutes", Unit::Times(MINUTE_MS)),
            ("log.retention.hours", Unit::Times(HOUR_MS)),
        ],
        WEEK_MS,
    ),
    ("segment.bytes", &[("log.segment.bytes", Unit::Same)], "1073741824"),
    ("segment.index.bytes", &[("log.index.size.max.bytes", Unit::Same)], "10485760"),
    ("segment.jitter.ms", &[("log.roll.jitter.ms", Unit::Same), ("log.roll.jitter.hours", Unit::Times(HOUR_MS))], "0"),
    ("segment.ms", &[("log.roll.ms", Unit::Same), ("log.roll.hours", Unit::Times(HOUR_MS))], WEEK_MS),
];

/// What holds for a topic of this node without settings of its own. What cannot be told without the broker, as a value that comes from
/// a config provider, is left out.
pub(super) fn topics(pairs: &[(String, String)]) -> BTreeMap<String, String> {
    let set: BTreeMap<&str, &str> = pairs.iter().map(|(name, value)| (name.as_str(), value.trim())).collect();
    ROWS.iter().filter_map(|row| Some((row.0.to_owned(), value(row, &set)?))).collect()
}

fn value((topic, names, default): &Row, set: &BTreeMap<&str, &str>) -> Option<String> {
    let found = names.iter().find_map(|(name, unit)| Some((*set.get(name)?, *unit)));
    let Some((text, unit)) = found.filter(|(text, _)| !text.is_empty()) else { return Some((*default).to_owned()) };
    if text.contains("${") {
        return None;
    }
    match unit {
        // Whatever is below zero keeps for ever.
        Unit::Same if *topic == "retention.ms" && text.starts_with('-') => Some("-1".to_owned()),
        Unit::Same => Some(text.to_owned()),
        Unit::Times(_) if text.starts_with('-') => Some("-1".to_owned()),
        Unit::Times(ms) => Some(text.parse::<i64>().ok()?.checked_mul(ms)?.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::topic_configs::ABOUT_RECORDS;

    fn of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        topics(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>())
    }

    #[test]
    fn every_setting_about_records_has_a_default() {
        assert_eq!(of(&[]).keys().map(String::as_str).collect::<Vec<_>>(), ABOUT_RECORDS);
        assert_eq!(of(&[])["retention.ms"], (7 * 24 * HOUR_MS).to_string());
    }

    #[test]
    fn the_finer_unit_counts_and_what_cannot_be_told_is_left_out() {
        let hours = ("log.retention.hours", "2");
        assert_eq!(of(&[hours])["retention.ms"], "7200000");
        assert_eq!(of(&[hours, ("log.retention.minutes", "3")])["retention.ms"], "180000");
        assert_eq!(of(&[hours, ("log.retention.ms", " 5 ")])["retention.ms"], "5");
        assert_eq!(of(&[("log.retention.hours", "-1")])["retention.ms"], "-1");
        assert_eq!(of(&[("log.roll.hours", "1")])["segment.ms"], "3600000");
        for unknown in ["${env:HOURS}", "many"] {
            assert!(!of(&[("log.retention.hours", unknown)]).contains_key("retention.ms"), "{unknown}");
        }
    }
}
