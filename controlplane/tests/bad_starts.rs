//! Starts that cannot succeed: one line that says what, why and the remedy, exit code 1 (2 for usage), nothing half-made;
//! and a process that was started by hand does not end with its shell.

mod kit;

use kit::source::Source;
use kit::{ControlPlane, wait_for};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use twinlog_proto::messages::delete_mirror::DeleteMirrorRequest;

const BINARY: &str = env!("CARGO_BIN_EXE_twinlog-controlplane");

fn refused(command: &mut Command) -> (Option<i32>, String) {
    let output = command.env_remove("TWINLOG_LOG").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains(" INFO ")).collect();
    (output.status.code(), lines.join("\n"))
}

fn one_line(command: &mut Command, words: &[&str]) {
    let (code, text) = refused(command);
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    for word in words {
        assert!(text.contains(word), "{text:?} lacks {word:?}");
    }
}

#[test]
fn a_busy_port_is_named_with_the_flag_that_chooses_another() {
    let folder = tempfile::tempdir().unwrap();
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = held.local_addr().unwrap().to_string();
    let state = folder.path().join("state");
    let mut command = Command::new(BINARY);
    command.arg("--data").arg(folder.path().join("data")).arg("--state").arg(&state);
    command.args(["--listen", &busy, "--metrics", "127.0.0.1:0"]);
    one_line(&mut command, &[&busy, "in use", "--listen"]);
    assert!(!state.join("__mirror_state").exists(), "nothing half-made");
}

#[test]
fn a_second_instance_on_the_same_state_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _first = ControlPlane::start(folder.path());
    one_line(&mut ControlPlane::command(folder.path()), &["in use", "another control plane", "--state"]);
}

#[test]
fn a_state_log_that_lost_what_was_answered_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&[("orders", 1)]);
    let control = ControlPlane::start(folder.path());
    control.create("dr", &source.address);
    control.start_topics("dr", &["orders"]);
    control.kill();
    let log = folder.path().join("state/__mirror_state/00000000000000000000.log");
    let whole = std::fs::read(&log).unwrap();
    // Empty, without its last bytes, and with a damaged byte in its last batch.
    let mut damaged = whole.clone();
    damaged[whole.len() - 9] ^= 1;
    for lost in [&[][..], &whole[..whole.len() - 1], &damaged] {
        std::fs::write(&log, lost).unwrap();
        one_line(&mut ControlPlane::command(folder.path()), &["has lost changes", "dr.assignment", "restore"]);
        assert_eq!(std::fs::read(&log).unwrap(), lost, "nothing was cut off");
    }
    std::fs::remove_file(folder.path().join("state/assignments/dr.assignment")).unwrap();
    let control = ControlPlane::start(folder.path());
    assert!(control.partition("dr", "orders", 0).is_none(), "as the log says");
}

/// Without an assignment that is newer there is nothing in the log itself that shows the loss: a log of access control entries, or of
/// mirrors that were deleted.
#[test]
fn a_state_log_that_lost_everything_is_refused_and_a_fresh_state_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&[("orders", 1)]);
    let control = ControlPlane::start(folder.path());
    control.create("dr", &source.address);
    let deleted = control.ask(&DeleteMirrorRequest { mirror_name: "dr".to_owned(), ..Default::default() });
    assert_eq!(deleted.error_code, 0, "{deleted:?}");
    control.kill();
    // A start writes down how far the log was.
    ControlPlane::start(folder.path()).kill();
    let (directory, point) = (folder.path().join("state/__mirror_state"), "state-log-recovery-point");
    let log = directory.join("00000000000000000000.log");
    let whole = std::fs::read(&log).unwrap();
    let words = ["has lost changes", "__mirror_state", point, "restore the log", "move"];
    let second = whole.windows(8).rposition(|bytes| bytes == 1_i64.to_be_bytes()).unwrap();
    for lost in [&[][..], &whole[..second]] {
        std::fs::write(&log, lost).unwrap();
        one_line(&mut ControlPlane::command(folder.path()), &words);
        assert_eq!(std::fs::read(&log).unwrap(), lost, "left as it is");
    }
    std::fs::remove_file(&log).unwrap();
    one_line(&mut ControlPlane::command(folder.path()), &words);
    std::fs::remove_dir(&directory).unwrap();
    one_line(&mut ControlPlane::command(folder.path()), &words);
    assert!(!directory.exists(), "nothing is made");

    std::fs::create_dir(&directory).unwrap();
    std::fs::write(&log, &whole).unwrap();
    ControlPlane::start(folder.path()).kill();
    std::fs::remove_file(&log).unwrap();
    std::fs::remove_file(folder.path().join("state").join(point)).unwrap();
    let control = ControlPlane::start(folder.path());
    control.create("anew", &source.address);
}

#[test]
fn an_older_copy_of_the_state_log_is_refused_with_the_remedy_and_the_newer_one_starts() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&[("orders", 1)]);
    let log = folder.path().join("state/__mirror_state/00000000000000000000.log");
    let control = ControlPlane::start(folder.path());
    control.create("dr", &source.address);
    control.kill();
    let older = std::fs::read(&log).unwrap();
    let control = ControlPlane::start(folder.path());
    control.start_topics("dr", &["orders"]);
    control.kill();
    let newer = std::fs::read(&log).unwrap();

    std::fs::write(&log, &older).unwrap();
    let words = ["has lost changes", "dr.assignment has version", "restore the log from a newer copy", "move"];
    one_line(&mut ControlPlane::command(folder.path()), &words);
    assert_eq!(std::fs::read(&log).unwrap(), older, "left as it is");
    std::fs::write(&log, &newer).unwrap();
    let control = ControlPlane::start(folder.path());
    assert!(control.partition("dr", "orders", 0).is_some(), "what was answered is there");
}

#[test]
fn a_cluster_id_that_is_none_is_named_with_what_its_loss_means() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("state")).unwrap();
    std::fs::write(folder.path().join("state/cluster.id"), b"").unwrap();
    one_line(&mut ControlPlane::command(folder.path()), &["cluster.id", "holds no cluster id", "new cluster"]);
}

#[test]
fn a_state_that_cannot_be_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("state"), b"a file, not a directory").unwrap();
    one_line(&mut ControlPlane::command(folder.path()), &["state directory", "--state"]);
}

#[test]
fn an_unknown_config_key_is_named_and_a_wrong_flag_is_usage() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("twinlog.toml");
    std::fs::write(&file, "[controlplane]\nlissten = '127.0.0.1:1'\n").unwrap();
    one_line(ControlPlane::command(folder.path()).arg("--config").arg(&file), &["lissten", "twinlog.toml"]);
    let (code, text) = refused(Command::new(BINARY).arg("--no-such-flag"));
    assert_eq!(code, Some(2), "{text}");
}

#[test]
fn a_state_log_that_is_damaged_in_its_middle_stops_the_start_with_the_offset() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&[("orders", 1)]);
    let control = ControlPlane::start(folder.path());
    control.create("one", &source.address);
    control.create("two", &source.address);
    control.kill();
    let log = folder.path().join("state/__mirror_state/00000000000000000000.log");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[70] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    one_line(&mut ControlPlane::command(folder.path()), &["damaged", "offset 0 at position 0", "checksum"]);
    assert_eq!(std::fs::read(&log).unwrap(), bytes, "the evidence is left alone");
}

#[test]
fn started_by_hand_it_outlives_its_shell() {
    let folder = tempfile::tempdir().unwrap();
    let (ready, pid) = (folder.path().join("ready"), folder.path().join("pid"));
    let script = format!(
        "{BINARY} --data {0}/data --state {0}/state --listen 127.0.0.1:0 --metrics 127.0.0.1:0 > {1} & echo $! > {2}; wait",
        folder.path().display(),
        ready.display(),
        pid.display()
    );
    let mut shell = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).spawn().unwrap();
    let address = wait_for("the process to serve", || served_address(&ready));
    let pid = std::fs::read_to_string(&pid).unwrap().trim().to_owned();
    shell.kill().unwrap();
    shell.wait().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let serves = TcpStream::connect(&address).is_ok();
    Command::new("kill").arg(&pid).status().unwrap();
    assert!(serves, "it ended with its shell");
    wait_for("the process to end when asked", || TcpStream::connect(&address).is_err().then_some(()));
}

fn served_address(ready: &Path) -> Option<String> {
    let line = BufReader::new(std::fs::File::open(ready).ok()?).lines().next()?.ok()?;
    line.split(' ').find_map(|word| word.strip_prefix("listen=")).map(str::to_owned)
}
