//! `twinlog lmo`: where mirrored data ended when a topic was stopped.

use super::args::Lmo;
use super::{connect, describe, output};
use crate::failure::Failure;
use serde::Serialize;
use std::collections::BTreeMap;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::last_mirrored_offsets::{LastMirroredOffsetsRequest, PartitionData, TopicData};

/// One line of the answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    mirror: String,
    topic: String,
    partition: i32,
    /// `None` with an error.
    last_mirrored_offset: Option<i64>,
    last_mirror_epoch: Option<i32>,
    error: Option<&'static str>,
}

impl Line {
    /// What an error of a topic as a whole is about is the topic.
    fn name(&self) -> String {
        match self.partition {
            ..0 => self.topic.clone(),
            index => format!("{}-{index}", self.topic),
        }
    }
}

/// Asks for every partition that the command line names, or for all.
///
/// # Errors
/// When the control plane does not answer, or does not know a mirror or partition.
pub(super) fn run(args: &Lmo) -> Result<(), Failure> {
    let wanted = wanted(&args.topic)?;
    let mut client = connect(&args.ask)?;
    let names: Vec<String> = wanted.keys().cloned().collect();
    let mirrors = describe::ask(&mut client, args.mirror.as_deref(), &names)?;
    let mut lines = Vec::new();
    for mirror in &mirrors {
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for topic in &mirror.topics {
            let all = topic.partitions.iter().map(|partition| partition.partition);
            let asked = wanted.get(&topic.topic).filter(|asked| !asked.is_empty());
            topics.insert(&topic.topic, asked.cloned().unwrap_or_else(|| all.collect()));
        }
        for name in names.iter().filter(|_| args.mirror.is_some()) {
            topics.entry(name).or_insert_with(|| wanted.get(name).cloned().unwrap_or_default());
        }
        if !topics.is_empty() {
            lines.extend(ask(&mut client, &mirror.mirror, topics)?);
        }
    }
    print(&lines, args.ask.json)?;
    match unstopped(&mirrors, &wanted) {
        0 => {}
        n => {
            output::note(&format!("{n} partitions have not been stopped since they were started: their 0 says nothing"))
        }
    }
    if let Some(nobodys) = names.iter().find(|name| lines.iter().all(|line| line.topic != **name)) {
        return Err(Failure::new(
            format_args!("topic {nobodys} has no last mirrored offset"),
            "no mirror has it",
            "`twinlog mirrors describe` shows the topics of all mirrors",
        ));
    }
    match lines.iter().find(|line| line.error.is_some()) {
        Some(bad) => Err(Failure::new(
            format_args!("mirror {} has no {}", bad.mirror, bad.name()),
            bad.error.unwrap_or_default(),
            "`twinlog mirrors describe` shows its topics and partitions",
        )),
        None => Ok(()),
    }
}

/// Partitions among those asked for that have no last mirrored offset yet; the answer has 0 for them, as for one that was stopped empty.
fn unstopped(mirrors: &[describe::Mirror], wanted: &BTreeMap<String, Vec<i32>>) -> usize {
    let asked = |topic: &str, index| wanted.get(topic).is_none_or(|all| all.is_empty() || all.contains(&index));
    let topics = mirrors.iter().flat_map(|mirror| &mirror.topics);
    topics
        .flat_map(|topic| topic.partitions.iter().map(move |partition| (topic, partition)))
        .filter(|(topic, partition)| {
            partition.last_mirrored_offset.is_none() && asked(&topic.topic, partition.partition)
        })
        .count()
}

/// Topics by name, each with the partitions asked for; none means all.
fn wanted(texts: &[String]) -> Result<BTreeMap<String, Vec<i32>>, Failure> {
    let mut wanted: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for text in texts {
        let (topic, partition) = match text.split_once(':') {
            None => (text.as_str(), None),
            Some((topic, partition)) => {
                let partition: i32 = partition.parse().map_err(|cause| {
                    Failure::usage(
                        format_args!("--topic {text:?}: {cause}"),
                        "write --topic NAME or --topic NAME:PARTITION",
                    )
                })?;
                (topic, Some(partition))
            }
        };
        wanted.entry(topic.to_owned()).or_default().extend(partition);
    }
    Ok(wanted)
}

fn ask(
    client: &mut crate::client::Client,
    mirror: &str,
    topics: BTreeMap<&str, Vec<i32>>,
) -> Result<Vec<Line>, Failure> {
    let topics = topics.into_iter().map(|(name, partitions)| TopicData {
        name: name.to_owned(),
        partitions: partitions.into_iter().map(|partition_index| PartitionData { partition_index }).collect(),
    });
    let answer =
        client.ask(&LastMirroredOffsetsRequest { mirror_name: mirror.to_owned(), topics: topics.collect() })?;
    describe::refuse(
        answer.error_code,
        answer.error_message.as_deref(),
        &format!("the offsets of mirror {mirror} are not known"),
    )?;
    let mut lines = Vec::new();
    for topic in answer.topics {
        for partition in topic.partitions {
            lines.push(Line {
                mirror: mirror.to_owned(),
                topic: topic.name.clone(),
                partition: partition.partition_index,
                last_mirrored_offset: Some(partition.last_mirrored_offset).filter(|offset| *offset >= 0),
                last_mirror_epoch: Some(partition.last_mirror_epoch).filter(|epoch| *epoch >= 0),
                error: (partition.error_code != 0).then(|| ErrorCode(partition.error_code).name()),
            });
        }
    }
    Ok(lines)
}

fn print(lines: &[Line], json: bool) -> Result<(), Failure> {
    if json {
        return output::json(&lines);
    }
    if lines.is_empty() {
        return output::line("no mirrored partitions");
    }
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            vec![
                line.mirror.clone(),
                line.name(),
                output::number(line.last_mirrored_offset),
                output::number(line.last_mirror_epoch.map(i64::from)),
                line.error.unwrap_or_default().to_owned(),
            ]
        })
        .collect();
    output::table(&["MIRROR", "PARTITION", "#LMO", "#EPOCH", "ERROR"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_may_name_partitions_or_stand_for_all() {
        let wanted = wanted(&["a:1".into(), "a:3".into(), "b".into()]).unwrap();
        assert_eq!(wanted, BTreeMap::from([("a".into(), vec![1, 3]), ("b".into(), vec![])]));
        assert!(super::wanted(&["a:x".into()]).is_err());
    }
}
