//! `twinlog dump` over files that a stock broker wrote: what a pass proves is that every file is read to its end, that the batches are those
//! that the other files speak of, and that damage is named with file and position and exit code 1.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/golden/log-4.2")
}

fn dump(args: &[&str], files: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_twinlog")).arg("dump").args(args).args(files).output().unwrap()
}

fn objects(output: &Output) -> Vec<Value> {
    String::from_utf8(output.stdout.clone()).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

#[test]
fn every_file_of_a_stock_log_directory_is_printed() {
    let folder = golden();
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder.join("golden-0")).unwrap().map(|file| file.unwrap().path()).collect();
    files.extend(["meta.properties", "replication-offset-checkpoint"].map(|name| folder.join(name)));
    assert!(files.len() > 10);
    for file in &files {
        let output = dump(&["--json"], &[file]);
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{}", file.display());
        assert!(!objects(&output).is_empty(), "{}", file.display());
    }
}

#[test]
fn batches_and_records_are_those_of_the_offsets_of_the_log() {
    let file = golden().join("golden-0/00000000000000001109.log");
    let output = dump(&["--json", "--records"], &[&file]);
    let all = objects(&output);
    let batches = of_kind(&all, "batch");
    let records = of_kind(&all, "record");
    assert_eq!(
        (batches[0]["baseOffset"].as_i64(), batches.last().unwrap()["lastOffset"].as_i64()),
        (Some(1109), Some(1154))
    );
    assert!(batches.iter().all(|batch| batch["crcIsValid"] == true && batch["magic"] == 2));
    assert_eq!(batches.last().unwrap()["endTxnMarker"], "ABORT");
    let offsets: Vec<i64> = records.iter().map(|record| record["offset"].as_i64().unwrap()).collect();
    assert_eq!(offsets, (1109..1155).collect::<Vec<_>>());
}

#[test]
fn people_read_names_and_values_in_one_line() {
    let output = dump(&[], &[&golden().join("golden-0/leader-epoch-checkpoint")]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with("kind: leaderEpoch epoch: 4 startOffset: 67\n"), "{text}");
}

#[test]
fn damage_is_named_after_what_could_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let good = golden().join("golden-0/00000000000000000057.index");
    let bad = folder.path().join("00000000000000000057.index");
    let mut bytes = fs::read(&good).unwrap();
    bytes[20] = 0xff;
    fs::write(&bad, &bytes).unwrap();
    let output = dump(&["--json"], &[&bad, &good]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(objects(&output).len(), 2 + fs::metadata(&good).unwrap().len() as usize / 8);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("00000000000000000057.index is damaged at byte 16"), "{told}");
}

#[test]
fn a_file_of_another_name_or_none_is_refused() {
    for (file, why) in [("Cargo.toml", "its name is none"), ("00000000000000000000.log", "No such file")] {
        let output = dump(&[], &[&Path::new(env!("CARGO_MANIFEST_DIR")).join(file)]);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{output:?}");
    }
}
