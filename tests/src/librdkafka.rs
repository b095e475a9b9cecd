//! librdkafka by its Python binding, where `tests/setup/librdkafka` has put it: the scripts in tests/clients.

use crate::place;
use crate::process::mortal;
use serde_json::Value;
use std::path::PathBuf;

/// The Python that has it; none when it is not there. `TWINLOG_LIBRDKAFKA` names its environment.
#[must_use]
pub fn python() -> Option<PathBuf> {
    let home = std::env::var_os("TWINLOG_LIBRDKAFKA").filter(|home| !home.is_empty())?;
    Some(PathBuf::from(home).join("bin/python")).filter(|python| python.exists())
}

/// Runs a script of tests/clients; its document.
///
/// # Errors
/// What it says when it fails.
///
/// # Panics
/// When librdkafka is not there.
pub fn ask(script: &str, arguments: &[&str]) -> Result<Value, String> {
    let python = python().expect("librdkafka is there: run it by `make librdkafka` or `make matrix`");
    let script = place::repository().join("tests/clients").join(script);
    let ran = mortal(python).arg(script).args(arguments).output().map_err(|cause| cause.to_string())?;
    let said = String::from_utf8_lossy(&ran.stderr);
    if !ran.status.success() {
        return Err(format!("librdkafka, {arguments:?}: {said}"));
    }
    serde_json::from_slice(&ran.stdout).map_err(|cause| format!("{cause}: {said}"))
}
