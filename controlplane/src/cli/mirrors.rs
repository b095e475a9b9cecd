//! `twinlog mirrors create | list | describe | alter | delete`.

use super::args::{Ask, Mirrors};
use super::sums::{self, Sums};
use super::{connect, describe, output, sync, units};
use crate::failure::Failure;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use twinlog_proto::messages::create_mirror::{CreateMirrorRequest, MirrorConfig};
use twinlog_proto::messages::delete_mirror::DeleteMirrorRequest;
use twinlog_proto::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use twinlog_proto::messages::list_mirrors::ListMirrorsRequest;
use twinlog_proto::properties;

/// With more partitions than this, `describe` shows a row for each topic.
const PARTITION_ROWS_MAX: usize = 200;
/// Resource type of a mirror in requests about settings.
const RESOURCE_MIRROR: i8 = 64;
/// Gives a setting a value.
const OPERATION_SET: i8 = 0;
/// Gives a setting its default again.
const OPERATION_DELETE: i8 = 1;

/// Runs one of them.
///
/// # Errors
/// When the control plane refuses or does not answer, or a file or setting cannot be read.
pub(super) fn run(verb: &Mirrors) -> Result<(), Failure> {
    match verb {
        Mirrors::Create { name, source, mirror_config, set, ask } => {
            create(name, settings(source.as_deref(), mirror_config.as_deref(), set)?, ask)
        }
        Mirrors::List { ask } => list(ask),
        Mirrors::Describe { name, topic, partitions, ask } => show(name.as_deref(), topic, *partitions, ask),
        Mirrors::Alter { name, set, ask } => alter(name, set, ask),
        Mirrors::Delete { name, handed_over, ask } => delete(name, *handed_over, ask),
        Mirrors::Sync(args) => sync::run(args),
    }
}

fn create(name: &str, settings: Vec<(String, String)>, ask: &Ask) -> Result<(), Failure> {
    let config = settings.into_iter().map(|(name, value)| MirrorConfig { name, value: Some(value) }).collect();
    let answer = connect(ask)?.ask(&CreateMirrorRequest { mirror_name: name.to_owned(), config })?;
    describe::refuse(answer.error_code, answer.error_message.as_deref(), &format!("mirror {name} is not created"))?;
    if ask.json {
        output::json(&serde_json::json!({ "mirror": name }))
    } else {
        output::line(&format!("mirror {name} created"))
    }
}

fn alter(name: &str, set: &[String], ask: &Ask) -> Result<(), Failure> {
    let mut configs = Vec::new();
    for setting in set {
        let (key, value) = pair(setting)?;
        let config_operation = if value.is_empty() { OPERATION_DELETE } else { OPERATION_SET };
        let value = (!value.is_empty()).then(|| value.to_owned());
        configs.push(AlterableConfig { name: key.to_owned(), config_operation, value });
    }
    let resource = AlterConfigsResource { resource_type: RESOURCE_MIRROR, resource_name: name.to_owned(), configs };
    let answer =
        connect(ask)?.ask(&IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false })?;
    for response in &answer.responses {
        let message = response.error_message.as_deref();
        describe::refuse(response.error_code, message, &format!("mirror {name} is not altered"))?;
    }
    if ask.json {
        output::json(&serde_json::json!({ "mirror": name }))
    } else {
        output::line(&format!("mirror {name} altered"))
    }
}

fn delete(name: &str, even_handed_over: bool, ask: &Ask) -> Result<(), Failure> {
    let answer = connect(ask)?.ask(&DeleteMirrorRequest { mirror_name: name.to_owned(), even_handed_over })?;
    describe::refuse(answer.error_code, answer.error_message.as_deref(), &format!("mirror {name} is not deleted"))?;
    if ask.json {
        return output::json(&serde_json::json!({ "mirror": name, "leftAcls": answer.left_acls }));
    }
    output::line(&format!("mirror {name} deleted"))?;
    if !answer.left_acls.is_empty() {
        output::line("these access rules stay at the destination, take them away there when nobody needs them:")?;
    }
    answer.left_acls.iter().try_for_each(|rule| output::line(&format!("  {rule}")))
}

/// The file first, then `--source`, then each `--set`; the last one wins.
fn settings(source: Option<&str>, file: Option<&Path>, set: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let mut settings = match file {
        Some(file) => read_properties(file)?,
        None => Vec::new(),
    };
    let mut put = |name: &str, value: &str| {
        settings.retain(|(old, _)| old != name);
        settings.push((name.to_owned(), value.to_owned()));
    };
    if let Some(source) = source {
        put("bootstrap.servers", source);
    }
    for setting in set {
        let (name, value) = pair(setting)?;
        put(name, value);
    }
    if !settings.iter().any(|(name, _)| name == "bootstrap.servers") {
        return Err(Failure::usage(
            "no source is given",
            "add --source HOST:PORT, or bootstrap.servers to the settings",
        ));
    }
    Ok(settings)
}

/// The key and the value of `--set`.
fn pair(setting: &str) -> Result<(&str, &str), Failure> {
    let pair = setting.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
    pair.ok_or_else(|| Failure::usage(format_args!("--set {setting:?} has no `=`"), "write --set key=value"))
}

/// Names and values of a Java properties file, in order.
///
/// # Errors
/// When the file cannot be read or is malformed.
pub(super) fn read_properties(file: &Path) -> Result<Vec<(String, String)>, Failure> {
    let unreadable = |cause: &dyn std::fmt::Display| {
        Failure::new(
            format_args!("the settings in {} cannot be read", file.display()),
            cause,
            "give a Java properties file: one key=value a line",
        )
    };
    let bytes = std::fs::read(file).map_err(|cause| unreadable(&cause))?;
    properties::parse(&bytes).map_err(|cause| unreadable(&cause))
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    mirror: String,
    source_bootstrap: String,
    source_cluster_id: Option<String>,
    topic_count: i32,
}

fn list(ask: &Ask) -> Result<(), Failure> {
    let answer = connect(ask)?.ask(&ListMirrorsRequest::default())?;
    describe::refuse(answer.error_code, answer.error_message.as_deref(), "the mirrors are not listed")?;
    let listed = answer.mirrors.into_iter().map(|mirror| Listed {
        mirror: mirror.mirror_name,
        source_bootstrap: mirror.source_bootstrap,
        source_cluster_id: Some(mirror.source_cluster_id).filter(|id| !id.is_empty()),
        topic_count: mirror.topic_count,
    });
    if ask.json {
        return output::json(&listed.collect::<Vec<_>>());
    }
    let rows: Vec<Vec<String>> = listed
        .map(|m| {
            let cluster = m.source_cluster_id.unwrap_or_else(|| "-".to_owned());
            vec![m.mirror, m.source_bootstrap, cluster, m.topic_count.to_string()]
        })
        .collect();
    if rows.is_empty() {
        return output::line(
            "no mirrors, or none that you may describe; `twinlog mirrors create NAME --source HOST:PORT` makes one",
        );
    }
    output::table(&["MIRROR", "SOURCE", "SOURCE CLUSTER", "#TOPICS"], &rows)
}

fn show(name: Option<&str>, topics: &[String], partitions: bool, ask: &Ask) -> Result<(), Failure> {
    let mirrors = describe::ask(&mut connect(ask)?, name, topics)?;
    if ask.json {
        return output::json(&mirrors);
    }
    let count: usize = mirrors.iter().map(|mirror| mirror.summary.partitions).sum();
    if let (0, Some(topic)) = (count, topics.first()) {
        return Err(Failure::new(
            format_args!("topic {topic} is not described"),
            "no mirror has it",
            "`twinlog mirrors describe` shows the topics of all mirrors",
        ));
    }
    if count == 0 {
        return output::line("no mirrored partitions; `twinlog topics start MIRROR --topic T` starts some");
    }
    if partitions || count <= PARTITION_ROWS_MAX {
        each_partition(&mirrors)?
    } else {
        each_topic(&mirrors)?
    }
    output::line("")?;
    for mirror in &mirrors {
        output::line(&format!("{}: {}", mirror.mirror, in_words(&mirror.summary, mirror.topics.len())))?;
        handed_over(mirror)?;
    }
    sync::table(&mirrors)
}

fn each_partition(mirrors: &[describe::Mirror]) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for (mirror, topic) in mirrors.iter().flat_map(|mirror| mirror.topics.iter().map(move |topic| (mirror, topic))) {
        for p in &topic.partitions {
            rows.push(vec![
                mirror.mirror.clone(),
                format!("{}-{}", topic.topic, p.partition),
                p.state.clone(),
                output::number(p.source_offset),
                output::number(p.destination_offset),
                output::number(p.flushed_offset),
                output::number(p.lag_records),
                units::known(p.lag_bytes, units::bytes),
                units::known(p.lag_ms, units::time),
                output::number(p.lso_lag_records),
                sums::catch_up(p.catch_up_percent, p.catching_up, p.eta_ms),
                output::number(p.last_mirrored_offset),
                p.error_message.clone().unwrap_or_default(),
            ]);
        }
    }
    let heads = [
        "MIRROR",
        "PARTITION",
        "STATE",
        "#SOURCE",
        "#HERE",
        "#FLUSHED",
        "#LAG",
        "#LAG BYTES",
        "#LAG TIME",
        "#LSO LAG",
        "CATCH-UP",
        "#LMO",
        "ERROR",
    ];
    output::table(&heads, &rows)
}

fn each_topic(mirrors: &[describe::Mirror]) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for (mirror, topic) in mirrors.iter().flat_map(|mirror| mirror.topics.iter().map(move |topic| (mirror, topic))) {
        let sums = &topic.summary;
        rows.push(vec![
            mirror.mirror.clone(),
            topic.topic.clone(),
            sums.states(),
            output::number(sums.lag_records),
            units::known(sums.lag_bytes, units::bytes),
            units::known(sums.lag_ms, units::time),
            units::known(sums.bytes_per_second, units::rate),
            sums.catch_up(),
        ]);
    }
    output::table(&["MIRROR", "TOPIC", "PARTITIONS", "#LAG", "#LAG BYTES", "#LAG TIME", "#RATE", "CATCH-UP"], &rows)?;
    output::line("(one row a topic; --partitions shows each partition, --topic T those of one topic)")
}

/// Who has topics of a mirror now, a line for each broker.
fn handed_over(mirror: &describe::Mirror) -> Result<(), Failure> {
    let mut by_broker: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for topic in &mirror.topics {
        if let Some(to) = &topic.handed_over_to {
            by_broker.entry(to).or_default().push(&topic.topic);
        }
    }
    by_broker.iter().try_for_each(|(to, topics)| {
        output::line(&format!("{}: handed over to {to}: {}", mirror.mirror, topics.join(", ")))
    })
}

/// A mirror's sums in one line.
fn in_words(sums: &Sums, topics: usize) -> String {
    let mut text = format!("{topics} topics, {} partitions ({})", sums.partitions, sums.states());
    let lag = (output::number(sums.lag_records), units::known(sums.lag_bytes, units::bytes));
    text += &format!("; lag {} records, {}, {} at most", lag.0, lag.1, units::known(sums.lag_ms, units::time));
    if sums.lag_unknown > 0 {
        text += &format!("; lag of {} partitions unknown", sums.lag_unknown);
    }
    if let Some(rate) = sums.bytes_per_second {
        text += &format!("; {}", units::rate(rate));
    }
    if sums.catch_up_percent.is_some() {
        text += &format!("; catch-up {}", sums.catch_up());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_setting_wins_and_a_source_is_needed() {
        let set = ["a=1".to_owned(), "a = 2".to_owned()];
        let settings = settings(Some("h:1"), None, &set).unwrap();
        assert_eq!(settings, [("bootstrap.servers".into(), "h:1".into()), ("a".into(), "2".into())]);
        assert_eq!(super::settings(None, None, &set).unwrap_err().exit(), crate::failure::Exit::Usage);
        assert!(super::settings(Some("h:1"), None, &["a".to_owned()]).is_err());
    }
}
