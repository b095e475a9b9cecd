//! A pass proves: `twinlog-dataplane hand-over`, killed at any of its steps and run again, leaves the files that an undisturbed run leaves;
//! so does taking back, which gives back the files that were handed over; and what it must not touch, it refuses by name.

mod adopt;
mod clone;
mod reclaim;

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dataplane::instance_lock::InstanceLocks;
use dataplane::log::offline;
use dataplane::steps::{self, Step};
use twinlog_proto::handover::batches;
use twinlog_proto::handover::plan::{self, HandOverPlan, HandOverResult, PlannedPartition};
use twinlog_proto::handover::resolve::{PartitionEnd, Resolver, Trail};
use twinlog_proto::storage::producer_state::ProducerState;
use twinlog_proto::storage::{checkpoint, partition_metadata, producer_snapshot};

const END: i64 = 1155;
const TOPIC: &str = "golden";
const EPOCH: i32 = 40;
/// Partitions: copies of one golden log.
const PARTITIONS: i32 = 3;

/// A data directory with stopped partitions, a broker's log directory, and a plan.
struct Room {
    dir: tempfile::TempDir,
}

impl Room {
    fn new() -> Self {
        let room = Self { dir: tempfile::tempdir().unwrap() };
        for index in 0..PARTITIONS {
            copy(&golden(), &room.data().join(format!("{TOPIC}-{index}")));
        }
        fs::create_dir(room.logs()).unwrap();
        // Partitions of others, on both sides.
        for side in [room.data(), room.logs()] {
            fs::create_dir(side.join("other-0")).unwrap();
            fs::write(side.join("recovery-point-offset-checkpoint"), "0\n1\nother 0 7\n").unwrap();
        }
        fs::write(room.logs().join("cleaner-offset-checkpoint"), "").unwrap();
        room
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn logs(&self) -> PathBuf {
        self.dir.path().join("logs")
    }

    /// All partitions; the last one has nothing to append.
    fn plan(&self, undo: bool) -> HandOverPlan {
        let partition = |index| PlannedPartition {
            topic: TOPIC.into(),
            index,
            topic_id: topic_id(),
            data_directory: self.data().to_str().unwrap().into(),
            log_directory: self.logs().to_str().unwrap().into(),
            log_start_offset: 0,
            last_mirrored_offset: END,
            last_mirror_epoch: -1,
            verify_from: -1,
            leader_epoch: EPOCH,
            segment_bytes: 6000,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 500,
            batches: if index + 1 == PARTITIONS { Vec::new() } else { markers() },
        };
        HandOverPlan {
            mirror_name: "dr".into(),
            undo,
            partitions: (0..PARTITIONS).map(partition).collect(),
            ..HandOverPlan::default()
        }
    }

    fn run(&self, plan: &HandOverPlan, kill_at: Option<&str>, more: &[&str]) -> Output {
        self.run_as("hand-over", plan, kill_at, more)
    }

    fn run_as(&self, verb: &str, plan: &HandOverPlan, kill_at: Option<&str>, more: &[&str]) -> Output {
        let file = self.dir.path().join("plan");
        fs::write(&file, plan::encode(plan).unwrap()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_twinlog-dataplane"));
        command.arg(verb).arg(file).args(more).env_remove(steps::VARIABLE);
        if let Some(step) = kill_at {
            command.env(steps::VARIABLE, step);
        }
        command.output().unwrap()
    }

    fn done(&self, plan: &HandOverPlan) -> HandOverResult {
        self.done_as("hand-over", plan)
    }

    fn cloned(&self, plan: &HandOverPlan) -> HandOverResult {
        self.done_as("clone", plan)
    }

    fn done_as(&self, verb: &str, plan: &HandOverPlan) -> HandOverResult {
        let out = self.run_as(verb, plan, None, &[]);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        plan::decode_result(&out.stdout).unwrap()
    }

    fn refused(&self, plan: &HandOverPlan, more: &[&str]) -> String {
        let out = self.run(plan, None, more);
        assert_eq!(out.status.code(), Some(1));
        assert!(out.stdout.is_empty(), "nothing was done");
        String::from_utf8(out.stderr).unwrap()
    }

    /// Every file below the two directories, but for the locks.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        for side in [self.data(), self.logs()] {
            gather(&side, self.dir.path(), &mut files);
        }
        files
    }
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/golden/log-4.2/golden-0")
}

fn topic_id() -> twinlog_proto::ids::Uuid {
    partition_metadata::parse(&fs::read(golden().join("partition.metadata")).unwrap()).unwrap()
}

/// What ends the transactions that are open in the golden log.
fn markers() -> Vec<u8> {
    markers_of_epoch(EPOCH)
}

fn markers_of_epoch(leader_epoch: i32) -> Vec<u8> {
    let snapshot = fs::read(golden().join(format!("{END:020}.snapshot"))).unwrap();
    let producers = producer_snapshot::decode(&snapshot).unwrap();
    assert!(producers.iter().any(producer_snapshot::ProducerEntry::has_open_txn), "there is one");
    let end = PartitionEnd {
        topic: TOPIC.into(),
        partition: 0,
        topic_id: topic_id(),
        end_offset: END,
        leader_epoch,
        producers,
        trail: Trail::default(),
    };
    let resolution = Resolver::new(vec![end]).unwrap().resolve(1_800_000_000_000).unwrap();
    batches::encode(&resolution.appended[0], 1_800_000_000_000)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::write(to.join(entry.file_name()), fs::read(entry.path()).unwrap()).unwrap();
    }
}

fn gather(dir: &Path, root: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, root, files);
            continue;
        }
        let mut bytes = fs::read(&path).unwrap();
        if path.extension().is_some_and(|extension| extension == "snapshot") {
            // The order of entries means nothing.
            let mut entries = producer_snapshot::decode(&bytes).unwrap();
            entries.sort_by_key(|entry| entry.producer_id);
            bytes = producer_snapshot::encode(&entries);
        }
        if path.file_name().is_some_and(|name| name != ".lock") {
            files.insert(path.strip_prefix(root).unwrap().to_owned(), bytes);
        }
    }
}

/// Every step with every time at which it is passed.
fn kills() -> impl Iterator<Item = String> {
    let times = |step: Step| match step {
        Step::Renamed | Step::Opened | Step::Appended | Step::Finished => 1..=PARTITIONS,
        _ => 1..=1,
    };
    // A reclaim or a copy alone passes these.
    let others = [Step::Saved, Step::CheckpointsLowered, Step::Copied, Step::Sealed];
    let own = Step::ALL.iter().filter(move |step| !others.contains(step));
    own.flat_map(move |step| times(*step).map(move |time| format!("{}:{time}", step.name())))
}

#[test]
fn a_hand_over_resolves_the_log_and_leaves_files_that_a_broker_takes() {
    let room = Room::new();
    let added = markers();
    let result = room.done(&room.plan(false));
    let ends: Vec<_> = result.partitions.iter().map(|each| (each.index, each.end_offset, each.was_done)).collect();
    let new_end = ends[0].1;
    assert!(new_end > END);
    assert_eq!(ends, [(0, new_end, false), (1, new_end, false), (2, END, false)]);
    assert_eq!(result.partitions[0].appended_bytes, added.len() as i64);
    for index in 0..PARTITIONS {
        let dir = room.logs().join(format!("{TOPIC}-{index}"));
        let checked = offline::check(&dir).unwrap();
        assert_eq!(checked.problems, Vec::<String>::new());
        let end = ends[index as usize].1;
        let state = ProducerState::load(&fs::read(dir.join(format!("{end:020}.snapshot"))).unwrap(), None).unwrap();
        assert_eq!(state.open_txns().is_empty(), end == new_end, "ended where markers were appended");
        let epochs = fs::read_to_string(dir.join("leader-epoch-checkpoint")).unwrap();
        assert_eq!(epochs.contains(&format!("{EPOCH} {END}\n")), end == new_end, "{epochs}");
    }
    for file in ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"] {
        let lines = checkpoint::parse(&fs::read(room.logs().join(file)).unwrap()).unwrap();
        let ours: Vec<_> = lines.iter().filter(|line| line.topic == TOPIC).map(|line| line.offset).collect();
        assert_eq!(ours, [new_end, new_end, END], "{file}");
    }
    let kept = fs::read_to_string(room.logs().join("recovery-point-offset-checkpoint")).unwrap();
    assert!(kept.contains("other 0 7"), "lines of others stay: {kept}");
    let again = room.done(&room.plan(false));
    assert!(again.partitions[..2].iter().all(|each| each.was_done));
    assert_eq!(again.partitions[0].end_offset, new_end);
}

#[test]
fn a_kill_at_any_step_and_the_same_plan_again_leave_the_same_files() {
    let undisturbed = Room::new();
    undisturbed.done(&undisturbed.plan(false));
    let wanted: Vec<_> = undisturbed.files().into_iter().collect();
    let mut reached = 0;
    for kill in kills() {
        let room = Room::new();
        let out = room.run(&room.plan(false), Some(&kill), &[]);
        reached += usize::from(out.status.signal().is_some());
        assert!(
            out.status.signal().is_some()
                || kill == format!("finished:{PARTITIONS}")
                || kill == format!("appended:{PARTITIONS}"),
            "{kill}: {out:?}"
        );
        room.done(&room.plan(false));
        let found: Vec<_> = room.files().into_iter().collect();
        assert_eq!(names(&found), names(&wanted), "{kill}");
        for (found, wanted) in found.iter().zip(&wanted) {
            assert!(found == wanted, "{kill}: {} differs", found.0.display());
        }
    }
    assert!(reached > Step::ALL.len(), "{reached}");
}

fn names(files: &[(PathBuf, Vec<u8>)]) -> Vec<&Path> {
    files.iter().map(|(path, _)| path.as_path()).collect()
}

#[test]
fn taking_back_gives_the_files_back_that_were_handed_over_also_after_a_kill() {
    let before = Room::new().files();
    for kill in [None].into_iter().chain(kills().map(Some)) {
        let room = Room::new();
        room.done(&room.plan(false));
        if let Some(kill) = &kill {
            room.run(&room.plan(true), Some(kill), &[]);
        }
        let result = room.done(&room.plan(true));
        assert!(result.undo && result.partitions.iter().all(|each| each.end_offset == END));
        let (found, mut wanted) = (room.files(), before.clone());
        let data = |name: &str| PathBuf::from("data").join(name);
        for (path, bytes) in &found {
            // Checkpoints name what is there: that is looked at below.
            if path.to_string_lossy().ends_with("-offset-checkpoint") {
                wanted.insert(path.clone(), bytes.clone());
            }
        }
        assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "{kill:?}");
        for (path, bytes) in &wanted {
            assert!(found[path] == *bytes, "{kill:?}: {} differs", path.display());
        }
        let points = checkpoint::parse(&found[&data("recovery-point-offset-checkpoint")]).unwrap();
        assert_eq!(points.iter().filter(|line| line.topic == TOPIC && line.offset == END).count(), PARTITIONS as usize);
        let left = String::from_utf8_lossy(&found[Path::new("logs/recovery-point-offset-checkpoint")]).into_owned();
        assert_eq!(left, "0\n1\nother 0 7\n", "the broker's directory knows nothing of them");
    }
}

#[test]
fn a_data_directory_that_is_in_use_keeps_its_own_checkpoints() {
    let room = Room::new();
    room.done(&room.plan(false));
    let _in_use = InstanceLocks::take_data(&room.data()).unwrap();
    room.done(&room.plan(true));
    let kept = fs::read_to_string(room.data().join("recovery-point-offset-checkpoint")).unwrap();
    assert_eq!(kept, "0\n1\nother 0 7\n");
}

#[test]
fn a_log_that_was_not_finished_is_recovered_and_finished() {
    let (room, wanted) = (Room::new(), Room::new());
    let dir = room.data().join(format!("{TOPIC}-0"));
    fs::remove_file(dir.join(format!("{END:020}.snapshot"))).unwrap();
    fs::write(dir.join("00000000000000001109.index"), [0; 800]).unwrap();
    let log = dir.join("00000000000000001109.log");
    let bytes = fs::metadata(&log).unwrap().len();
    fs::File::options().write(true).open(&log).unwrap().set_len(bytes + 5000).unwrap();
    room.done(&room.plan(false));
    wanted.done(&wanted.plan(false));
    for (found, wanted) in room.files().iter().zip(wanted.files()) {
        assert!(*found.1 == wanted.1, "{} differs", found.0.display());
    }
}

#[test]
fn what_must_not_be_touched_is_refused_by_name() {
    let room = Room::new();
    let plan = room.plan(false);
    fs::create_dir(room.logs().join("golden-1")).unwrap();
    let refused = room.refused(&plan, &[]);
    assert!(refused.contains("logs/golden-1") && refused.contains("both"), "{refused}");
    fs::remove_dir(room.logs().join("golden-1")).unwrap();

    let mut elsewhere = plan.clone();
    elsewhere.partitions[0].index = 9;
    let refused = room.refused(&elsewhere, &[]);
    assert!(refused.contains("neither") && refused.contains("golden-9"), "{refused}");

    let mut other = plan.clone();
    other.partitions[1].topic_id = twinlog_proto::ids::Uuid([3; 16]);
    assert!(room.refused(&other, &[]).contains("topic id"));

    let mut short = plan.clone();
    short.partitions[2].last_mirrored_offset = END + 5;
    let refused = room.refused(&short, &[]);
    assert!(refused.contains("golden-2 ends at offset 1155") && refused.contains("1160"), "{refused}");

    let out = Command::new(env!("CARGO_BIN_EXE_twinlog-dataplane")).arg("hand-over").arg(golden()).output().unwrap();
    assert!(String::from_utf8_lossy(&out.stderr).contains("golden-0"), "{out:?}");
}

#[test]
fn a_log_directory_is_worked_on_only_under_its_lock() {
    let room = Room::new();
    let plan = room.plan(false);
    let taken = InstanceLocks::take_data(&room.logs()).unwrap();
    let refused = room.refused(&plan, &[]);
    assert!(refused.contains("logs/.lock"), "{refused}");
    drop(taken);
    let lock = fs::File::create(room.logs().join(".lock")).unwrap();
    rustix::io::fcntl_setfd(&lock, rustix::io::FdFlags::empty()).unwrap();
    let fd = lock.as_raw_fd().to_string();
    // Open is not locked.
    let refused = room.refused(&plan, &["--lock-fd", &fd]);
    assert!(refused.contains("logs/.lock") && refused.contains("--lock-fd"), "{refused}");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let out = room.run(&plan, None, &["--lock-fd", &fd]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}
