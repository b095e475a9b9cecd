//! A pass proves: when the disk of STATE is full or has become read-only, changes are refused with what to do about it, in the answer, in
//! `/health` and in a counter, and records flow on; what was answered before is there after kills and restarts in every moment, with the
//! last mirrored offset where it was; and changes are taken again as soon as there is space. Needs root, for the small filesystem.

use serde_json::Value;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use twinlog_tests::command::twinlog;
use twinlog_tests::embedded::Embedded;
use twinlog_tests::house::{CONTROL_PLANE, DATA_PLANE, House, Plane, Site};
use twinlog_tests::kafka_log::Log;
use twinlog_tests::place;
use twinlog_tests::process::until;

const LIMIT: Duration = Duration::from_secs(40);
const DISK_BYTES: u64 = 8 << 20;
/// Mirrored all the time ...
const FLOWS: &str = "bench-00000";
/// ... and stopped before anything happens.
const STOPPED: &str = "bench-00001";
/// More than the rest of a block has room for.
const ORDERS_MAX: usize = 200;

/// A small ext4 filesystem; unmounted when dropped.
struct Small {
    image: PathBuf,
    at: PathBuf,
}

fn run(command: &mut Command) -> String {
    let out = command.output().expect("it starts");
    assert!(out.status.success(), "{command:?}: {out:?}");
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

impl Small {
    fn mount(image: PathBuf, at: &Path) -> Self {
        std::fs::create_dir_all(at).expect("a folder");
        File::create(&image).and_then(|file| file.set_len(DISK_BYTES)).expect("an image");
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&image));
        let small = Self { image, at: at.to_path_buf() };
        small.mount_again();
        small
    }

    fn mount_again(&self) {
        run(Command::new("mount").args(["-o", "loop,errors=remount-ro"]).arg(&self.image).arg(&self.at));
    }

    fn ballast(&self) -> PathBuf {
        self.at.join("ballast")
    }

    /// Leaves no block free.
    fn fill(&self) {
        let mut file = File::create(self.ballast()).expect("a file");
        for piece in [64 << 10, 1 << 10, 1] {
            let piece = vec![7; piece];
            while file.write_all(&piece).is_ok() {}
        }
        // What did not fit is no concern of anybody.
        file.sync_all().ok();
    }

    fn free(&self) {
        std::fs::remove_file(self.ballast()).expect("the ballast is there");
        let folder = File::open(&self.at).expect("the folder");
        rustix::fs::syncfs(&folder).expect("the space is given back");
    }

    /// As the kernel does when the filesystem is found damaged: read-only, under the open files.
    fn break_down(&self) {
        let device = run(Command::new("findmnt").args(["-n", "-o", "SOURCE"]).arg(&self.at));
        let name = device.rsplit('/').next().expect("a device").to_owned();
        std::fs::write(format!("/sys/fs/ext4/{name}/trigger_fs_error"), "1").expect("the error is made");
    }

    fn repair(&self) {
        until("it is unmounted", LIMIT, || {
            let done = Command::new("umount").arg(&self.at).output().expect("umount starts");
            if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) }
        });
        let checked = Command::new("e2fsck").args(["-f", "-y"]).arg(&self.image).output().expect("e2fsck starts");
        assert!(matches!(checked.status.code(), Some(0 | 1)), "{checked:?}");
        self.mount_again();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        Command::new("umount").arg("--lazy").arg(&self.at).status().ok();
    }
}

/// A site whose STATE is small, with a mirror of one topic that flows and one that was stopped.
struct Scene {
    source: Embedded,
    site: Site,
    disk: Small,
    lmo: Value,
    /// Mirrors whose creation was answered.
    answered: Vec<String>,
}

impl Scene {
    fn new(folder: &Path) -> (Self, House) {
        let source = Embedded::start(2, 1, "1MiB", "100KB");
        let site = Site::new(folder.join("site"));
        let disk = Small::mount(folder.join("disk.ext4"), &site.state());
        let house = House::up(&site);
        site.mirror("dr", &source.address, &[FLOWS, STOPPED]);
        site.cli(&["topics", "stop", "dr", "--topic", STOPPED, "--wait"]).done();
        let lmo = site.ask(&["lmo", "dr", "--topic", STOPPED]);
        let mut scene = Self { source, site, disk, lmo, answered: vec!["dr".to_owned()] };
        scene.order(1).expect("orders are taken");
        (scene, house)
    }

    /// Gives up to `most` orders; the line that refused one, as an error.
    fn order(&mut self, most: usize) -> Result<(), String> {
        for _time in 0..most {
            let name = format!("m{}", self.answered.len());
            let ran = self.site.cli(&["mirrors", "create", &name, "--source", &self.source.address]);
            if ran.code != 0 {
                return Err(ran.refused());
            }
            self.answered.push(name);
        }
        Ok(())
    }

    /// Where the mirrored log ends on the disk: nobody is asked.
    fn end(&self) -> i64 {
        Log::read(&self.site.data().join(format!("{FLOWS}-0"))).map_or(0, |log| log.end())
    }

    fn flows(&self) {
        let before = self.end();
        until("records flow on", LIMIT, || if self.end() > before { Ok(()) } else { Err(format!("{before}")) });
    }

    /// Orders are refused with the words, in the answer and in `/health`, and records flow on.
    fn is_refused(&mut self, words: &[&str]) {
        let line = self.order(ORDERS_MAX).expect_err("no room for ever");
        let page = self.site.http("/health");
        assert!(page.starts_with("HTTP/1.1 503"), "{page}");
        for word in ["the state log cannot be written"].iter().chain(words) {
            assert!(line.contains(word), "{line:?} lacks {word:?}");
            assert!(page.contains(word), "{page:?} lacks {word:?}");
        }
        assert!(self.site.metric("twinlog_state_log_commit_failures_total") > 0.0, "it is counted");
        self.flows();
    }

    /// Everything that was answered is there, and nothing else.
    fn is_whole(&self) {
        until("the control plane serves", LIMIT, || {
            let ran = self.site.cli(&["status"]);
            if ran.code == 0 { Ok(()) } else { Err(ran.stderr) }
        });
        let listed = self.site.ask(&["mirrors", "list"]);
        let mut names: Vec<_> = listed.as_array().expect("a list").iter().map(|row| row["mirror"].clone()).collect();
        let mut answered: Vec<Value> = self.answered.iter().map(|name| name.as_str().into()).collect();
        names.sort_by_key(Value::to_string);
        answered.sort_by_key(Value::to_string);
        assert_eq!(names, answered, "{listed}");
        assert_eq!(self.site.ask(&["lmo", "dr", "--topic", STOPPED]), self.lmo);
    }

    /// Nobody has to be told, and nothing restarted.
    fn recovers(&mut self) {
        until("it is healthy", LIMIT, || {
            let page = self.site.http("/health");
            if page.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(page) }
        });
        self.order(1).expect("orders are taken again");
        for verb in ["pause", "resume"] {
            self.site.cli(&["topics", verb, "dr", "--topic", FLOWS, "--wait"]).done();
        }
        self.is_whole();
        self.flows();
    }
}

fn needs_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("left out: mounting a small filesystem needs root");
    }
    !root
}

#[test]
fn a_full_state_disk_refuses_changes_with_the_remedy_loses_none_and_takes_them_again_when_there_is_space() {
    if needs_root() {
        return;
    }
    let _turn = place::turn();
    let scratch = place::scratch("full-state");
    let (mut scene, house) = Scene::new(scratch.path());
    let site = scene.site.clone();
    let words = ["No space left on device", "free space on the disk of STATE", "without a restart"];
    scene.disk.fill();
    scene.is_refused(&words);
    scene.disk.free();
    scene.recovers();

    scene.disk.fill();
    scene.is_refused(&words);
    let gone = [CONTROL_PLANE, DATA_PLANE].map(|name| (name, house.kill_plane(name)));
    for (name, pid) in gone {
        house.revived(name, pid);
    }
    scene.is_whole();
    assert!(site.http("/health").contains("the disk of"), "{}", site.http("/health"));
    scene.is_refused(&words);
    house.kill();
    let house = House::up(&site);
    scene.is_whole();
    scene.is_refused(&words);
    scene.disk.free();
    scene.recovers();
    house.kill();
    let house = House::up(&site);
    scene.recovers();
    house.down();
    twinlog(&["verify", site.data().to_str().expect("UTF-8")]).done();
}

#[test]
fn a_state_disk_that_becomes_read_only_refuses_changes_and_a_start_with_the_remedy_and_keeps_what_was_answered() {
    if needs_root() {
        return;
    }
    let _turn = place::turn();
    let scratch = place::scratch("read-only-state");
    let (mut scene, house) = Scene::new(scratch.path());
    let site = scene.site.clone();
    scene.disk.break_down();
    let words = ["Read-only file system", "STATE (--state) is read-only", "e2fsck"];
    scene.is_refused(&words);
    scene.is_whole();
    house.kill();
    let arguments = site.up_arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let line = until("the old planes are gone", LIMIT, || {
        let ran = twinlog(&arguments);
        if ran.stderr.contains("in use") { Err(ran.stderr) } else { Ok(ran.refused()) }
    });
    for word in [words[0], site.state().to_str().expect("UTF-8")] {
        assert!(line.contains(word), "{line:?} lacks {word:?}");
    }
    let control = Plane::control(&site);
    until("the control plane says why it does not start", LIMIT, || {
        let log = std::fs::read_to_string(site.dir.join(format!("{CONTROL_PLANE}.log"))).unwrap_or_default();
        if words.iter().all(|word| log.contains(word)) { Ok(()) } else { Err(log) }
    });
    drop(control);
    scene.disk.repair();
    let house = House::up(&site);
    scene.recovers();
    house.down();
    twinlog(&["verify", site.data().to_str().expect("UTF-8")]).done();
}
