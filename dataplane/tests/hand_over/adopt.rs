//! A pass proves: a copy for a broker that runs has every batch of the mirror with leader epoch 0 and nothing else changed, knows no
//! producers, and is the same after a kill at any step; the mirror's own files are never touched; and what is damaged, or where no broker
//! runs, is refused by name.

use super::*;
use std::os::unix::fs::FileExt;
use twinlog_proto::records::batch::BatchHeader;
use twinlog_proto::records::batches::{BatchEvent, BatchLimits, BatchWalker};

impl Room {
    /// The plan of copies.
    fn copies(&self) -> HandOverPlan {
        let mut plan = HandOverPlan { copy: true, ..self.plan(false) };
        for partition in &mut plan.partitions {
            partition.leader_epoch = 0;
            if !partition.batches.is_empty() {
                partition.batches = markers_of_epoch(0);
            }
        }
        plan
    }

    /// The plan that renames the copies from `logs` into `broker`.
    fn places(&self) -> HandOverPlan {
        let mut plan = HandOverPlan { copy: false, place: true, ..self.copies() };
        for partition in &mut plan.partitions {
            partition.data_directory = self.logs().to_str().unwrap().into();
            partition.log_directory = self.broker().to_str().unwrap().into();
        }
        plan
    }

    fn broker(&self) -> PathBuf {
        self.dir.path().join("broker")
    }
}

/// The batches of a log directory, one after the other.
fn batches_in(dir: &Path) -> Vec<(BatchHeader, Vec<u8>)> {
    let mut logs: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.sort();
    let mut found = Vec::new();
    for bytes in logs.iter().map(|log| fs::read(log).unwrap()) {
        let mut walker = BatchWalker::new(BatchLimits { batch_bytes_max: 1 << 20 });
        let (mut at, mut begins) = (0, 0);
        loop {
            let fed = walker.feed(&bytes[at..]).unwrap();
            at += fed.consumed;
            match fed.event {
                None => break,
                Some(BatchEvent::Header(_)) => {}
                Some(BatchEvent::Batch { header, .. }) => {
                    found.push((header, bytes[begins..at].to_vec()));
                    begins = at;
                }
            }
        }
    }
    found
}

#[test]
fn a_copy_has_every_batch_with_epoch_0_and_knows_no_producers() {
    let room = Room::new();
    let before = room.files();
    let result = room.done(&room.copies());
    for (told, end) in result.partitions.iter().zip([END + 1, END + 1, END]) {
        let name = format!("{TOPIC}-{}", told.index);
        assert_eq!((told.log_start_offset, told.end_offset), (0, end), "{name}");
        let (original, copy) = (batches_in(&room.data().join(&name)), batches_in(&room.logs().join(&name)));
        assert_eq!(copy.len(), original.len() + usize::from(end > END));
        for ((_, wanted), (header, found)) in original.iter().zip(&copy) {
            assert_eq!(header.leader_epoch, 0);
            assert!(wanted[..12] == found[..12] && wanted[16..] == found[16..], "{name}: {header:?}");
        }
        let others = original.iter().filter(|(header, _)| header.leader_epoch != 0).count();
        assert_eq!(told.restamped_batches, others as i64, "{name}");
        let highest = original.iter().map(|(header, _)| header.producer_id).max().unwrap();
        assert!(highest > 0 && told.highest_producer_id == highest, "{told:?}");
        let dir = room.logs().join(&name);
        // The broker writes the id of the topic that it makes; and the last partition was left with an open transaction.
        let mut wanted = vec!["partition.metadata is missing".to_owned()];
        if end == END {
            wanted.push(format!("{end:020}.snapshot does not hold the open transactions at the log end"));
        }
        assert_eq!(offline::check(&dir).unwrap().problems, wanted);
        assert_eq!(fs::read_to_string(dir.join("leader-epoch-checkpoint")).unwrap(), "0\n1\n0 0\n");
        for file in ["log", "index", "timeindex"] {
            assert_eq!(fs::metadata(dir.join(format!("{end:020}.{file}"))).unwrap().len(), 0, "{name}");
        }
        let snapshots: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        let snapshots: Vec<_> =
            snapshots.iter().filter(|path| path.extension().is_some_and(|x| x == "snapshot")).collect();
        assert_eq!(snapshots, [&dir.join(format!("{end:020}.snapshot"))]);
        assert!(producer_snapshot::decode(&fs::read(snapshots[0]).unwrap()).unwrap().is_empty());
    }
    let after = room.files();
    assert!(before.iter().all(|(path, bytes)| after[path] == *bytes), "nothing of the mirror or of others has changed");
}

#[test]
fn a_kill_at_any_step_of_a_copy_and_the_same_plan_again_leave_the_same_files() {
    let undisturbed = Room::new();
    undisturbed.done(&undisturbed.copies());
    let wanted: Vec<_> = undisturbed.files().into_iter().collect();
    let steps =
        ["plan-checked", "copied:1", "copied:3", "opened:2", "appended:1", "finished:2", "sealed:1", "sealed:3"];
    for kill in steps.iter().chain(&["logs-done", "all-done"]) {
        let room = Room::new();
        let out = room.run(&room.copies(), Some(kill), &[]);
        assert!(out.status.signal().is_some(), "{kill}: {out:?}");
        room.done(&room.copies());
        let found: Vec<_> = room.files().into_iter().collect();
        assert_eq!(names(&found), names(&wanted), "{kill}");
        for (found, wanted) in found.iter().zip(&wanted) {
            assert!(found == wanted, "{kill}: {} differs", found.0.display());
        }
    }
}

#[test]
fn damage_is_not_copied() {
    let room = Room::new();
    let log = room.data().join(format!("{TOPIC}-1/00000000000000000000.log"));
    let file = fs::File::options().read(true).write(true).open(&log).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 100).unwrap();
    file.write_all_at(&[!byte[0]], 100).unwrap();
    let refused = room.refused(&room.copies(), &[]);
    assert!(refused.contains("golden-1/00000000000000000000.log") && refused.contains("verify"), "{refused}");
}

#[test]
fn copies_go_only_where_a_broker_runs_and_come_back() {
    let room = Room::new();
    room.done(&room.copies());
    fs::create_dir(room.broker()).unwrap();
    let copies = room.files();
    assert!(room.refused(&room.places(), &[]).contains("no broker runs"));
    let runs = InstanceLocks::take_data(&room.broker()).unwrap();
    for kill in ["plan-checked", "renamed:2", "renames-durable"] {
        room.run(&room.places(), Some(kill), &[]);
        room.done(&room.places());
        assert!(room.broker().join(format!("{TOPIC}-2")).is_dir());
        room.run(&HandOverPlan { undo: true, ..room.places() }, Some(kill), &[]);
        room.done(&HandOverPlan { undo: true, ..room.places() });
        assert_eq!(room.files(), copies, "{kill}");
    }
    drop(runs);
}
