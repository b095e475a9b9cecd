//! A pass proves: what a broker wrote behind the last mirrored offset is found, saved and thrown away, also by a process that is killed at
//! any step and runs again; and a log that is not whole below that offset is refused before anything is changed.

use crate::{END, EPOCH, PARTITIONS, Room, TOPIC, golden, kills};
use dataplane::log::offline;
use dataplane::steps::Step;
use std::fs;
use std::path::{Path, PathBuf};
use twinlog_proto::handover::plan::HandOverPlan;
use twinlog_proto::records::plain;

/// As a broker leaves a log that it wrote to and was killed on: padded indexes, a new segment, an epoch of its own, a torn batch.
fn write_on(dir: &Path) -> i64 {
    let active = dir.join("00000000000000001109.log");
    let mut end = offline::check(dir).unwrap().end_offset;
    let epochs = fs::read_to_string(dir.join("leader-epoch-checkpoint")).unwrap();
    let count = epochs.lines().count() - 2;
    let more = epochs.replacen(&format!("\n{count}\n"), &format!("\n{}\n", count + 1), 1) + &format!("52 {end}\n");
    fs::write(dir.join("leader-epoch-checkpoint"), more).unwrap();
    let mut write = |path: &Path| {
        let mut bytes = fs::read(path).unwrap_or_default();
        for _ in 0..2 {
            plain::encode(&mut bytes, plain::header(end, 52, 0, 1000), [(Some(&b"k"[..]), None)]);
            end += 1;
        }
        fs::write(path, bytes).unwrap();
        end
    };
    let rolled = write(&active);
    write(&dir.join(format!("{rolled:020}.log")));
    for name in ["00000000000000001109.index".to_owned(), format!("{rolled:020}.index")] {
        let mut bytes = fs::read(dir.join(&name)).unwrap_or_default();
        bytes.resize(8 << 10, 0);
        fs::write(dir.join(name), bytes).unwrap();
    }
    fs::copy(golden().join(format!("{END:020}.snapshot")), dir.join(format!("{rolled:020}.snapshot"))).unwrap();
    let last = dir.join(format!("{rolled:020}.log"));
    let mut torn = fs::read(&last).unwrap();
    torn.extend([7; 50]);
    fs::write(last, torn).unwrap();
    end
}

#[test]
fn a_reclaim_lists_and_saves_what_a_broker_wrote_and_gives_back_the_files_that_were_handed_over_also_after_a_kill() {
    let before = Room::new().files();
    let own = [Step::Saved, Step::CheckpointsLowered].map(|step| format!("{}:1", step.name()));
    for kill in [None].into_iter().chain(own.into_iter().chain(kills()).map(Some)) {
        let room = Room::new();
        room.done(&room.plan(false));
        let ends: Vec<i64> =
            (0..PARTITIONS).map(|index| write_on(&room.logs().join(format!("{TOPIC}-{index}")))).collect();
        let saved = room.dir.path().join("saved");
        fs::create_dir(&saved).unwrap();
        let save_directory = saved.to_str().unwrap().to_owned();
        let plan = HandOverPlan { reclaim: true, save_directory, ..room.plan(true) };
        let (untouched, looked) = (room.files(), room.done(&HandOverPlan { dry_run: true, ..plan.clone() }));
        assert!(room.files() == untouched, "looking changes nothing");
        let first = &looked.partitions[0];
        assert_eq!((first.beyond_end_offset, first.beyond_records), (ends[0], 4));
        assert_eq!(first.beyond_epochs, [EPOCH, 52]);
        if let Some(kill) = &kill {
            room.run(&plan, Some(kill), &[]);
        }
        let result = room.done(&plan);
        assert!(result.partitions.iter().all(|each| each.end_offset == END));
        let found = room.files();
        for (path, bytes) in before.iter().filter(|(path, _)| !path.to_string_lossy().ends_with("-checkpoint")) {
            assert!(found[path] == *bytes, "{kill:?}: {} differs", path.display());
        }
        for index in 0..PARTITIONS {
            let dir = room.data().join(format!("{TOPIC}-{index}"));
            assert_eq!(offline::check(&dir).unwrap().problems, Vec::<String>::new(), "{kill:?}");
            let epochs = PathBuf::from(format!("data/{TOPIC}-{index}/leader-epoch-checkpoint"));
            assert!(found[&epochs] == before[&epochs], "{kill:?}");
            let aside: u64 = fs::read_dir(saved.join(format!("{TOPIC}-{index}")))
                .unwrap()
                .map(|entry| entry.unwrap())
                .filter(|entry| entry.file_name().to_string_lossy().ends_with(".log"))
                .map(|entry| entry.metadata().unwrap().len())
                .sum();
            assert_eq!(aside as i64, looked.partitions[index as usize].beyond_bytes, "{kill:?}");
            assert!(saved.join(format!("{TOPIC}-{index}/{END:020}.log")).exists());
        }
    }
}

#[test]
fn a_reclaim_that_would_lose_mirrored_records_is_refused_before_anything_is_changed() {
    let room = Room::new();
    room.done(&room.plan(false));
    let log = room.logs().join(format!("{TOPIC}-1/00000000000000001109.log"));
    let mut bytes = fs::read(&log).unwrap();
    bytes[200] ^= 1;
    fs::write(&log, bytes).unwrap();
    let untouched = room.files();
    let plan = HandOverPlan { reclaim: true, ..room.plan(true) };
    let refused = room.refused(&plan, &[]);
    assert!(refused.contains("golden-1/00000000000000001109.log") && refused.contains("from scratch"), "{refused}");
    let mut other = plan;
    other.partitions[0].last_mirror_epoch = 77;
    assert!(room.refused(&other, &[]).contains("77"));
    assert!(room.files() == untouched);
}
