//! `twinlog up` with planes that are shell scripts: what a pass proves is when it says that it is ready, whom it starts again, and that
//! nothing of it is left when it ends, be it by SIGKILL.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const WAIT_MAX: Duration = Duration::from_secs(10);
const PLANE: &str = "trap 'echo stopped >> $0.log; exit 0' TERM\necho $$ >> $0.pids; echo \"$@\" > $0.args\necho ready READY\n\
                     while :; do sleep 0.05; done\n";

struct Up {
    folder: tempfile::TempDir,
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Drop for Up {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Programs are written and processes made one after the other: a process made while another thread still writes a program
/// would hold that file open, and the kernel would refuse to run it (ETXTBSY).
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn up(dataplane: &str, controlplane: &str, more: &[&str]) -> Up {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("twinlog");
    fs::copy(env!("CARGO_BIN_EXE_twinlog"), &program).unwrap();
    for (name, script) in [("twinlog-dataplane", dataplane), ("twinlog-controlplane", controlplane)] {
        let file = folder.path().join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(program);
    command.args(["up", "--data", "d1,d2", "--state", "s", "--listen", "127.0.0.1:0"]).args(more);
    command.current_dir(&folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    Up { folder, child, lines }
}

impl Up {
    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.folder.path().join(file)).unwrap_or_default()
    }

    fn pids(&self, plane: &str) -> Vec<i32> {
        self.text(&format!("{plane}.pids")).lines().map(|pid| pid.parse().unwrap()).collect()
    }

    fn signal(&self, pid: i32, signal: &str) {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
    }

    fn own_pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < WAIT_MAX, "{what} within {WAIT_MAX:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_gone(pid: i32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
        || fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}

fn planes() -> (String, String) {
    (PLANE.replace("READY", "cores=1"), PLANE.replace("READY", "listen=127.0.0.1:4711 metrics=127.0.0.1:4712"))
}

#[test]
fn one_line_says_that_both_planes_serve_and_sigterm_stops_both_in_order() {
    let (data, control) = planes();
    let mut up = up(&data, &control, &["--cores", "2"]);
    let line = up.lines.next().unwrap().unwrap();
    let here = up.folder.path().display().to_string();
    assert_eq!(line, format!("twinlog ready listen=127.0.0.1:4711 metrics=127.0.0.1:4712 data={here}/d1,{here}/d2"));
    let args = up.text("twinlog-dataplane.args");
    assert!(args.contains("--cores 2") && args.contains(&format!("--data {here}/d1,{here}/d2")), "{args}");
    up.signal(up.own_pid(), "-TERM");
    assert_eq!(up.child.wait().unwrap().code(), Some(0));
    for plane in ["twinlog-dataplane", "twinlog-controlplane"] {
        assert_eq!(up.text(&format!("{plane}.log")), "stopped\n", "{plane}");
    }
    assert!(up.lines.next().is_none(), "nothing else is said on stdout");
}

#[test]
fn a_plane_that_dies_is_started_again_at_the_same_port_and_the_other_is_not_touched() {
    let (data, control) = planes();
    let mut up = up(&data, &control, &[]);
    up.lines.next().unwrap().unwrap();
    let first = up.pids("twinlog-controlplane")[0];
    up.signal(first, "-KILL");
    until("the control plane comes back", || up.pids("twinlog-controlplane").len() == 2);
    until("it is told its port", || up.text("twinlog-controlplane.args").contains("--listen 127.0.0.1:4711"));
    assert_eq!(up.pids("twinlog-dataplane").len(), 1);
    assert!(is_gone(first) && !is_gone(up.pids("twinlog-dataplane")[0]));
}

#[test]
fn planes_are_direct_children_that_end_with_it_when_it_is_killed() {
    let (data, control) = planes();
    let mut up = up(&data, &control, &[]);
    up.lines.next().unwrap().unwrap();
    let planes = [up.pids("twinlog-dataplane")[0], up.pids("twinlog-controlplane")[0]];
    for pid in planes {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        assert!(status.contains(&format!("PPid:\t{}", up.own_pid())), "{status}");
    }
    up.child.kill().unwrap();
    until("both planes end", || planes.iter().all(|pid| is_gone(*pid)));
}

#[test]
fn a_plane_that_never_serves_ends_up_with_code_1_and_takes_the_other_with_it() {
    let (data, _) = planes();
    let mut up = up(&data, "echo 'twinlog-controlplane: the address is taken' >&2; exit 1\n", &[]);
    assert_eq!(up.child.wait().unwrap().code(), Some(1));
    let mut told = String::new();
    std::io::Read::read_to_string(up.child.stderr.as_mut().unwrap(), &mut told).unwrap();
    assert_eq!(told, "twinlog-controlplane: the address is taken\n", "the plane's own line, and no other");
    assert!(up.pids("twinlog-dataplane").into_iter().all(is_gone));
    assert!(up.lines.next().is_none());
}
