//! The offline check of directories: nothing is asked, nothing is written.

use super::partition;
use super::report::{Finding, OfflineReport, Severity};
use super::targets::{DataDirectory, Target};
use crate::failure::Failure;
use std::collections::BTreeMap;

/// Checks every target, and the checkpoints of the directories that they are in.
///
/// # Errors
/// When a file cannot be read. A file that is wrong is a finding.
pub(super) fn check(targets: &[Target]) -> Result<OfflineReport, Failure> {
    let mut directories = BTreeMap::new();
    for target in targets {
        let path = target.directory.parent().unwrap_or(&target.directory);
        directories.entry(path.to_owned()).or_insert_with_key(|path| DataDirectory::read(path));
    }
    let mut findings = Vec::new();
    for (path, directory) in &directories {
        findings.extend(directory.wrong.iter().map(|(name, why)| Finding {
            severity: Severity::Damage,
            file: path.join(name).display().to_string(),
            position: None,
            what: why.clone(),
        }));
    }
    let mut checked = Vec::new();
    for target in targets {
        let path = target.directory.parent().unwrap_or(&target.directory);
        let Some(directory) = directories.get(path) else { continue };
        checked.push(partition::check(target, directory).map_err(|cause| {
            let what = format!("{} cannot be checked", target.directory.display());
            Failure::new(what, cause, "check the directory and the rights of this user")
        })?);
    }
    Ok(OfflineReport::new(findings, checked))
}
