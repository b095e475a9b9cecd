//! A pass proves: partitions that are cloned and then handed over have the files of partitions that were handed over themselves, while
//! those that were cloned stay as they are, whatever was linked; and a data directory in use is no hindrance.

use crate::{END, PARTITIONS, Room, TOPIC, gather};
use dataplane::instance_lock::InstanceLocks;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use twinlog_proto::handover::plan::HandOverPlan;
use twinlog_proto::storage::checkpoint;

/// Where the clones are made.
fn staging(room: &Room) -> PathBuf {
    let dir = room.dir.path().join("clone");
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// The plan with another data directory or log directory.
fn with(plan: &HandOverPlan, change: impl Fn(&mut String, &mut String)) -> HandOverPlan {
    let mut plan = plan.clone();
    plan.partitions.iter_mut().for_each(|each| change(&mut each.data_directory, &mut each.log_directory));
    plan
}

#[test]
fn a_clone_that_is_handed_over_has_the_files_of_what_was_handed_over_itself() {
    let (room, wanted) = (Room::new(), Room::new());
    let (dir, plan) = (staging(&room), room.plan(false));
    let before = room.files();
    let _in_use = InstanceLocks::take_data(&room.data()).unwrap();
    let cloned = room.cloned(&with(&plan, |_, to| *to = dir.to_str().unwrap().to_owned()));
    for each in &cloned.partitions {
        assert_eq!((each.moved, each.log_start_offset, each.end_offset), (false, 0, END));
        assert_eq!(each.linked_files + each.shared_files, if each.shared_files > 0 { 3 } else { 2 }, "{each:?}");
        assert!(each.copied_files > 5, "{each:?}");
        let log = |base: i64| room.data().join(format!("{TOPIC}-{}", each.index)).join(format!("{base:020}.log"));
        assert_eq!(fs::metadata(log(1109)).unwrap().nlink(), 1, "what is written to is nobody else's");
    }
    let points = checkpoint::parse(&fs::read(dir.join("recovery-point-offset-checkpoint")).unwrap()).unwrap();
    assert!(points.len() == PARTITIONS as usize && points.iter().all(|line| line.offset == END));
    room.done(&with(&plan, |from, _| *from = dir.to_str().unwrap().to_owned()));
    wanted.done(&wanted.plan(false));
    let logs = |room: &Room| {
        let mut files = BTreeMap::new();
        gather(&room.logs(), room.dir.path(), &mut files);
        files
    };
    assert!(logs(&room) == logs(&wanted), "the broker has other files");
    let mut after = room.files();
    after.retain(|path, _| path.starts_with("data"));
    assert!(before.iter().filter(|(path, _)| path.starts_with("data")).eq(after.iter()), "the mirror has other files");
}

#[test]
fn a_partition_without_the_wanted_end_is_told_and_the_others_are_there() {
    let room = Room::new();
    let dir = staging(&room);
    let mut plan = with(&room.plan(false), |_, to| *to = dir.to_str().unwrap().to_owned());
    plan.partitions[1].last_mirrored_offset = END + 5;
    plan.partitions[1].batches.clear();
    let cloned = room.cloned(&plan);
    assert_eq!(cloned.partitions.iter().map(|each| each.moved).collect::<Vec<_>>(), [false, true, false]);
    let is_there = |index: i32| dir.join(format!("{TOPIC}-{index}")).exists();
    assert_eq!([0, 1, 2].map(is_there), [true, false, true]);
}

#[test]
fn a_clone_to_a_directory_that_is_not_there_is_refused_by_name() {
    let room = Room::new();
    let plan = with(&room.plan(false), |_, to| *to = room.dir.path().join("nowhere").to_str().unwrap().to_owned());
    let out = room.run_as("clone", &plan, None, &[]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("nowhere"), "{out:?}");
}
