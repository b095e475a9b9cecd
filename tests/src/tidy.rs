//! The house rules that a machine can check: sizes, markers, who may name what, crate arrows, the top level, leftovers. The reasons are
//! in ARCHITECTURE.md and CONTRIBUTING.md; each message says what to do.

mod code;
mod layout;
mod rules;

use std::path::{Path, PathBuf};

/// A file of the repository.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Path from the root, with forward slashes.
    pub(crate) path: String,
    /// Its text.
    pub(crate) text: String,
}

/// Checks the repository at `root`; gives every broken rule as `path: what, and what to do`.
#[must_use]
pub fn check(root: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    walk(root, &mut paths);
    paths.sort();
    let mut broken = layout::top_level(root);
    for path in paths {
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        let Ok(text) = std::fs::read_to_string(&path) else { continue }; // binary: golden files
        let source = Source { path: name, text };
        broken.extend(rules::any_file(&source));
        if source.path.ends_with(".rs") {
            broken.extend(rules::rust_file(&source));
        } else if source.path.ends_with("Cargo.toml") {
            broken.extend(layout::arrows(&source));
        }
    }
    broken
}

/// Every file that belongs to the project: all but git's, build output and golden data.
fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
    const SKIPPED: [&str; 5] = [".git", "target", "golden", "testdata", "corpus"];
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if SKIPPED.contains(&name.as_ref()) {
            continue; // `.git` is a file in a work tree beside the clone
        }
        if path.is_dir() {
            walk(&path, out);
        } else if name != "Cargo.lock" && name != "LICENSE" {
            out.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_keeps_its_rules() {
        let broken = check(&crate::place::repository());
        assert!(broken.is_empty(), "{} broken rules:\n{}", broken.len(), broken.join("\n"));
    }
}
