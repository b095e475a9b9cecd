//! Where things are: the repository, the binaries that `make` built, the jars, scratch folders and free ports.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The stock release that scenarios use unless they say otherwise.
pub const KAFKA_VERSION: &str = "4.4.0";

/// Root of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().expect("the tests crate lies in the repository").to_path_buf()
}

/// Cargo's target folder: `CARGO_TARGET_DIR`, or `target/` in the repository.
#[must_use]
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => repository().join(dir),
        None => repository().join("target"),
    }
}

/// The built program `name`. Scenarios run what an operator would run: the release build, or the folder that `TWINLOG_BIN_DIR` names.
///
/// # Panics
/// When the program was not built.
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    let dir = std::env::var_os("TWINLOG_BIN_DIR").map_or_else(|| target().join("release"), PathBuf::from);
    let path = dir.join(name);
    assert!(
        path.is_file(),
        "{} is missing: run `cargo build --release --workspace` (or `make test`) first",
        path.display()
    );
    path
}

/// Folder of the jars of one stock release.
///
/// # Panics
/// When the release was not fetched.
#[must_use]
pub fn jars(version: &str) -> PathBuf {
    let home = std::env::var_os("TWINLOG_KAFKA_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/".into())).join(".cache/twinlog-kafka"),
        PathBuf::from,
    );
    let libs = home.join(version).join("libs");
    assert!(
        libs.is_dir(),
        "the jars of Kafka {version} are missing: run `tests/setup/kafka {version}` (or `make test`) first"
    );
    libs
}

/// A scratch folder on the target's filesystem, a real disk in most places; removed when dropped, kept when `TWINLOG_KEEP` is set.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn scratch(name: &str) -> tempfile::TempDir {
    let parent = target().join("scratch");
    std::fs::create_dir_all(&parent).unwrap_or_else(|e| panic!("cannot make {}: {e}", parent.display()));
    let mut builder = tempfile::Builder::new();
    let prefix = format!("{name}-");
    builder.prefix(&prefix).disable_cleanup(std::env::var_os("TWINLOG_KEEP").is_some());
    builder.tempdir_in(&parent).unwrap_or_else(|e| panic!("cannot make a folder in {}: {e}", parent.display()))
}

/// `N` different TCP ports that were free a moment ago.
///
/// # Panics
/// When the host has none.
#[must_use]
pub fn free_ports<const N: usize>() -> [u16; N] {
    let held: [TcpListener; N] =
        std::array::from_fn(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port on 127.0.0.1"));
    held.map(|l| l.local_addr().expect("a bound listener has an address").port())
}

/// Scenarios with brokers take turns: a JVM or two and a data plane are enough for a small machine.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Copies a folder with everything in it.
///
/// # Panics
/// When a file cannot be read or written.
pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap_or_else(|e| panic!("cannot make {}: {e}", to.display()));
    for entry in std::fs::read_dir(from).unwrap_or_else(|e| panic!("cannot list {}: {e}", from.display())) {
        let entry = entry.expect("a folder entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target)
                .unwrap_or_else(|e| panic!("cannot copy {}: {e}", entry.path().display()));
        }
    }
}
