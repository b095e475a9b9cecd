//! The top level of the repository and the arrows between its crates.

use super::Source;
use std::collections::BTreeSet;
use std::path::Path;

/// Everything that stands at the top; nothing else may, and all of it must.
const TOP: [&str; 21] = [
    ".ci",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "Makefile",
    "README.md",
    "bench",
    "controlplane",
    "dataplane",
    "deploy",
    "docs",
    "proto",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "tests",
    "tuning",
    "clippy.toml",
];
/// May be absent.
const OPTIONAL: [&str; 1] = ["clippy.toml"];
/// Not ours: git's and cargo's.
const FOREIGN: [&str; 2] = [".git", "target"];

/// Which workspace crates a crate may name. `tests` sees everything.
const ARROWS: [(&str, &[&str]); 5] = [
    ("proto", &[]),
    ("dataplane", &["twinlog-proto"]),
    ("controlplane", &["twinlog-proto"]),
    ("bench", &["twinlog-proto"]),
    ("tuning", &[]),
];
/// What proto may use: it crosses process borders and must stay small. Build and test dependencies are free.
const PROTO_USES: [&str; 3] = ["crc32c", "loom", "rustix"];

/// Checks the names at the top.
pub(super) fn top_level(root: &Path) -> Vec<String> {
    let here: BTreeSet<String> = std::fs::read_dir(root)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    let unknown = here.iter().filter(|n| !TOP.contains(&n.as_str()) && !FOREIGN.contains(&n.as_str()));
    let missing = TOP.iter().filter(|n| !here.contains(**n) && !OPTIONAL.contains(n));
    let mut broken: Vec<_> =
        unknown.map(|n| format!("{n}: does not belong at the top level; find its folder")).collect();
    broken.extend(missing.map(|n| format!("{n}: is missing at the top level")));
    broken
}

/// Checks the dependencies of one `Cargo.toml`.
pub(super) fn arrows(source: &Source) -> Vec<String> {
    let Some((folder, _)) = source.path.split_once('/') else { return Vec::new() };
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == folder) else { return Vec::new() };
    let mut broken = Vec::new();
    for (section, name) in dependencies(&source.text) {
        if name.starts_with("twinlog-")
            && !allowed.contains(&name.as_str())
            && source.path == format!("{folder}/Cargo.toml")
        {
            broken.push(format!("{}: {folder} must not name {name}; {}", source.path, purpose(folder)));
        }
        if folder == "proto"
            && section == "dependencies"
            && !PROTO_USES.contains(&name.as_str())
            && source.path == "proto/Cargo.toml"
        {
            broken.push(format!("{}: proto uses {PROTO_USES:?} only, not {name}", source.path));
        }
    }
    broken
}

fn purpose(folder: &str) -> &'static str {
    match folder {
        "proto" => "it is what the others share, and shares nothing",
        "tuning" => "it judges a host and knows nothing of the mirror",
        _ => "the processes share proto and nothing else",
    }
}

/// (section, name) of every dependency; sections of a target count under their last part.
fn dependencies(toml: &str) -> Vec<(String, String)> {
    let (mut section, mut out) = (String::new(), Vec::new());
    for line in toml.lines().map(str::trim) {
        if let Some(head) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            head.rsplit('.').next().unwrap_or_default().clone_into(&mut section);
        } else if section.ends_with("dependencies") && !line.starts_with('#') {
            let name: String = line.chars().take_while(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect();
            if !name.is_empty() {
                out.push((section.clone(), name));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_that_is_not_drawn_is_found() {
        let text = "[dependencies]\ntwinlog-proto.workspace = true\ntwinlog-dataplane = { path = \"x\" }\n".to_owned();
        let found = arrows(&Source { path: "controlplane/Cargo.toml".to_owned(), text });
        assert_eq!(found.len(), 1, "{found:?}");
        let text = "[dependencies]\ntokio.workspace = true\n[dev-dependencies]\nproptest = \"1\"\n".to_owned();
        let found = arrows(&Source { path: "proto/Cargo.toml".to_owned(), text });
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
