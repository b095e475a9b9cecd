//! `twinlog verify` over copies of a stock broker's directory: what a pass proves is that the directory is taken as sound as it is, and that
//! each single mistake in each kind of file is found and named.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/golden")
}

fn verify(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_twinlog")).arg("verify").args(args).output().unwrap()
}

/// A data directory with the golden partition and its checkpoints.
fn copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let from = golden().join("log-4.2");
    fs::create_dir(folder.path().join("golden-0")).unwrap();
    for part in ["", "golden-0"] {
        for entry in fs::read_dir(from.join(part)).unwrap() {
            let entry = entry.unwrap();
            if entry.path().is_file() && entry.file_name() != "README.md" {
                fs::copy(entry.path(), folder.path().join(part).join(entry.file_name())).unwrap();
            }
        }
    }
    folder
}

/// What is wrong with a copy after `harm` was done to its partition directory.
fn findings(harm: impl Fn(&Path)) -> Vec<String> {
    let folder = copy();
    harm(&folder.path().join("golden-0"));
    damages(folder.path())
}

fn change(file: &Path, at: u64, to: &[u8]) {
    fs::OpenOptions::new().write(true).open(file).unwrap().write_all_at(to, at).unwrap();
}

fn append(file: &Path, bytes: &[u8]) {
    let length = fs::metadata(file).unwrap().len();
    change(file, length, bytes);
}

#[test]
fn directories_of_a_stock_broker_are_sound() {
    let folder = copy();
    let output = verify(&[folder.path().to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with("verdict: sound (41 batches, 15914 bytes)\n"), "{text}");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(other("log-4.2-delete-records-60"), Vec::<String>::new());
    // A cut within a batch, which no leader asks for, leaves stock's own idea of the end in the snapshot's name.
    let found = other("log-4.2-truncated-to-60");
    assert!(found.len() == 1 && found[0].contains("is about offset 60, and the log ends at 57"), "{found:?}");
}

/// What is wrong with another golden directory, as that of a partition.
fn other(name: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let partition = folder.path().join("golden-0");
    fs::create_dir(&partition).unwrap();
    for entry in fs::read_dir(golden().join(name)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), partition.join(entry.file_name())).unwrap();
    }
    damages(&partition)
}

fn damages(directory: &Path) -> Vec<String> {
    let output = verify(&["--json", directory.to_str().unwrap()]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all =
        report["partitions"][0]["findings"].as_array().unwrap().iter().chain(report["findings"].as_array().unwrap());
    let damages = all.filter(|finding| finding["severity"] == "damage");
    let texts: Vec<String> =
        damages.map(|f| format!("{}: {}", f["file"].as_str().unwrap(), f["what"].as_str().unwrap())).collect();
    assert_eq!(output.status.code(), Some(if texts.is_empty() { 0 } else { 1 }), "{texts:?}");
    texts
}

#[test]
fn each_mistake_in_a_segment_is_found() {
    let log = |dir: &Path, base: u64| dir.join(format!("{base:020}.log"));
    for (why, harm) in [
        ("checksum", &(|dir: &Path| change(&log(dir, 0), 400, b"!")) as &dyn Fn(&Path)),
        ("ends after", &|dir| fs::File::options().write(true).open(log(dir, 1109)).unwrap().set_len(4850).unwrap()),
        ("has magic", &|dir| change(&log(dir, 57), 536 + 16, &[9])),
        ("zero bytes follow the last batch", &|dir| append(&log(dir, 57), &[0; 4096])),
        ("leader epoch 1 at offset 62 follows epoch 2", &|dir| change(&log(dir, 57), 536 + 15, &[1])),
        ("follows one that ends at", &|dir| change(&log(dir, 57), 536 + 7, &[58])),
        ("begins below", &|dir| fs::rename(log(dir, 1109), log(dir, 1000)).unwrap()),
    ] {
        let found = findings(harm);
        assert!(found.iter().any(|text| text.contains(why)), "{why}: {found:?}");
    }
}

#[test]
fn each_mistake_beside_a_segment_is_found() {
    let epochs = "leader-epoch-checkpoint";
    for (why, harm) in [
        (
            "00000000000000000057.index: entry",
            &(|dir: &Path| change(&dir.join("00000000000000000057.index"), 7, &[1])) as &dyn Fn(&Path),
        ),
        ("00000000000000000057.index: ", &|dir| change(&dir.join("00000000000000000057.index"), 3, &[8])),
        ("00000000000000000057.index: 8 zero bytes", &|dir| append(&dir.join("00000000000000000057.index"), &[0; 8])),
        ("00000000000000000057.timeindex: ", &|dir| change(&dir.join("00000000000000000057.timeindex"), 7, &[0])),
        ("00000000000000001109.index: leads the log", &|dir| {
            append(&dir.join("00000000000000001109.index"), &[0, 0, 1, 0, 0, 1, 0, 0])
        }),
        ("00000000000000000057.index: is missing", &|dir| {
            fs::remove_file(dir.join("00000000000000000057.index")).unwrap()
        }),
        ("00000000000000000057.snapshot: ", &|dir| change(&dir.join("00000000000000000057.snapshot"), 30, &[7])),
        ("is about offset 9999", &|dir| {
            let to = dir.join("00000000000000009999.snapshot");
            assert!(fs::copy(dir.join("00000000000000001155.snapshot"), to).is_ok());
        }),
        ("00000000000000000000.txnindex: has 0 aborted", &|dir| {
            fs::write(dir.join("00000000000000000000.txnindex"), b"").unwrap()
        }),
        ("leader-epoch-checkpoint: says epoch 0 for offset 24", &|dir| {
            fs::write(dir.join(epochs), "0\n3\n0 0\n2 32\n4 67\n").unwrap()
        }),
        ("leader-epoch-checkpoint: is missing", &|dir| fs::remove_file(dir.join(epochs)).unwrap()),
        ("leader-epoch-checkpoint: malformed", &|dir| fs::write(dir.join(epochs), "0\n9\n0 0\n").unwrap()),
        ("partition.metadata: is missing", &|dir| fs::remove_file(dir.join("partition.metadata")).unwrap()),
        ("recovery-point-offset-checkpoint: says 2000", &|dir| {
            fs::write(dir.join("../recovery-point-offset-checkpoint"), "0\n1\ngolden 0 2000\n").unwrap();
        }),
        ("replication-offset-checkpoint: malformed", &|dir| {
            fs::write(dir.join("../replication-offset-checkpoint"), "x\n").unwrap()
        }),
    ] {
        let found = findings(harm);
        assert!(found.iter().any(|text| text.contains(why)), "{why}: {found:?}");
    }
}

#[test]
fn what_is_allocated_and_not_written_is_no_damage_unless_the_directory_claims_to_be_closed() {
    let tail = |dir: &Path| {
        append(&dir.join("00000000000000001109.log"), &[0; 100_000]);
        append(&dir.join("00000000000000001109.index"), &[0; 800]);
    };
    assert_eq!(
        findings(|dir| {
            fs::remove_file(dir.join("../.kafka_cleanshutdown")).unwrap();
            tail(dir);
        }),
        Vec::<String>::new()
    );
    let found = findings(tail);
    assert!(found.len() == 2, "{found:?}");
}

#[test]
fn a_directory_without_partitions_or_a_mirror_without_an_assignment_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for args in [
        &[path][..],
        &["/nowhere"],
        &["--mirror", "dr", "--state", path],
        &["--mirror", "dr", "--state", path, "--against-source"],
    ] {
        let output = verify(args);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{args:?}");
        assert!(!output.stderr.is_empty());
    }
    assert_eq!(verify(&[]).status.code(), Some(2));
}
