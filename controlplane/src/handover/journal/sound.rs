//! pure: whether what a journal says can be so. People mend journals by hand, and root gives away and renames what is named there.

use super::{Journal, Partition};
use std::path::Path;
use twinlog_proto::ids::{Uuid, is_legal_name};
use twinlog_proto::storage::names;

/// Refuses what cannot have been written by us.
///
/// # Errors
/// What is wrong, and with what.
pub(super) fn check(journal: &Journal) -> Result<(), String> {
    let reclaim = journal.reclaim.as_ref();
    let dirs = journal.log_dirs.iter().chain([&journal.metadata_log_dir, &journal.to]);
    let dirs = dirs.chain(reclaim.iter().flat_map(|reclaim| reclaim.log_dirs.iter().chain([&reclaim.from])));
    dirs.map(|dir| dir.as_path()).try_for_each(absolute)?;
    for topic in &journal.topics {
        let name = &topic.topic;
        if !is_legal_name(name) {
            return Err(format!("no topic can be called {name:?}"));
        }
        if !topic.topic_id.parse::<Uuid>().is_ok_and(|id| !id.is_zero()) {
            return Err(format!("topic {name} cannot have the id {:?}", topic.topic_id));
        }
        topic.partitions.iter().try_for_each(|of| {
            partition(of, journal.log_dirs.len())
                .map_err(|why| format!("{}: {why}", names::partition_dir(name, of.partition)))
        })?;
    }
    let taken = reclaim.into_iter().flat_map(|reclaim| reclaim.partitions.iter().map(|taken| &taken.topic));
    match taken.into_iter().find(|name| !journal.topics.iter().any(|topic| topic.topic == **name)) {
        Some(unknown) => Err(format!("topic {unknown:?} is taken back, but was not handed over")),
        None => Ok(()),
    }
}

fn absolute(path: &Path) -> Result<(), String> {
    match path.is_absolute() {
        true => Ok(()),
        false => Err(format!("the path {:?} does not begin at the root", path.display().to_string())),
    }
}

fn partition(of: &Partition, log_dirs: usize) -> Result<(), String> {
    absolute(&of.from)?;
    if of.partition < 0 {
        return Err("no partition has such an index".to_owned());
    }
    if of.to >= log_dirs {
        return Err(format!("it goes into log directory {} (from 0), and there are {log_dirs}", of.to));
    }
    if of.log_start_offset < 0 || of.last_mirrored_offset < of.log_start_offset {
        return Err(format!("it cannot begin at {} and end at {}", of.log_start_offset, of.last_mirrored_offset));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Topic;
    use super::*;
    use crate::handover::preflight::Mode;
    use std::collections::BTreeMap;

    fn journal() -> Journal {
        let partition = Partition {
            partition: 0,
            from: "/data".into(),
            to: 1,
            log_start_offset: 4,
            last_mirrored_offset: 9,
            last_mirror_epoch: 0,
            epoch_max: 0,
            end_offset: None,
            samples: Vec::new(),
            segments: Vec::new(),
        };
        let mut journal = Journal::begin("dr", Mode::Planned, 0);
        journal.to = "/etc/server.properties".into();
        journal.log_dirs = vec!["/a".into(), "/b".into()];
        journal.metadata_log_dir = "/a".into();
        journal.topics = vec![Topic {
            topic: "orders".into(),
            topic_id: Uuid([7; 16]).to_string(),
            flowed: true,
            configs: BTreeMap::new(),
            carried: BTreeMap::new(),
            partitions: vec![partition],
        }];
        journal
    }

    #[test]
    fn what_cannot_be_so_is_named() {
        assert_eq!(check(&journal()), Ok(()));
        type Change = fn(&mut Journal);
        let changes: [(&str, Change); 8] = [
            ("\"../../etc\"", |j| j.topics[0].topic = "../../etc".into()),
            ("the id \"\"", |j| j.topics[0].topic_id = String::new()),
            ("the id \"AAAAAAAAAAAAAAAAAAAAAA\"", |j| j.topics[0].topic_id = Uuid::ZERO.to_string()),
            ("there are 2", |j| j.topics[0].partitions[0].to = 2),
            ("no partition has", |j| j.topics[0].partitions[0].partition = -1),
            ("begin at 4 and end at 3", |j| j.topics[0].partitions[0].last_mirrored_offset = 3),
            ("\"logs\" does not begin at the root", |j| j.log_dirs[0] = "logs".into()),
            ("\"data\" does not begin at the root", |j| j.topics[0].partitions[0].from = "data".into()),
        ];
        for (sign, change) in changes {
            let mut journal = journal();
            change(&mut journal);
            let why = check(&journal).unwrap_err();
            assert!(why.contains(sign), "{why}");
        }
    }
}
