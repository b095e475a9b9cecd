//! The text files of a log folder.

use std::collections::BTreeMap;
use std::path::Path;

/// The lines after version and count, with both checked. A file of no bytes holds no lines.
fn lines(path: &Path) -> Result<Vec<Vec<String>>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut all = text.lines();
    let (version, count) = (all.next(), all.next().and_then(|c| c.parse::<usize>().ok()));
    let rows: Vec<Vec<String>> = all.map(|l| l.split_whitespace().map(str::to_owned).collect()).collect();
    if version != Some("0") || count != Some(rows.len()) {
        return Err(format!("{}: version {version:?}, count {count:?}, {} lines", path.display(), rows.len()));
    }
    Ok(rows)
}

fn number<T: std::str::FromStr>(path: &Path, word: Option<&String>) -> Result<T, String> {
    word.and_then(|w| w.parse().ok()).ok_or_else(|| format!("{}: {word:?} is no number", path.display()))
}

/// A `leader-epoch-checkpoint`: (epoch, start offset), checked to rise.
///
/// # Errors
/// What is wrong with the file.
pub fn epoch_file(dir: &Path) -> Result<Vec<(i32, i64)>, String> {
    let path = dir.join("leader-epoch-checkpoint");
    let mut out: Vec<(i32, i64)> = Vec::new();
    for row in lines(&path)? {
        let entry = (number(&path, row.first())?, number(&path, row.get(1))?);
        if out.last().is_some_and(|before| before.0 >= entry.0 || before.1 >= entry.1) {
            return Err(format!("{}: {entry:?} does not rise", path.display()));
        }
        out.push(entry);
    }
    Ok(out)
}

/// An offset checkpoint of a log folder: `topic-partition` to offset; empty when there is no such file.
///
/// # Errors
/// What is wrong with the file.
pub fn offset_file(data: &Path, name: &str) -> Result<BTreeMap<String, i64>, String> {
    let path = data.join(name);
    let mut out = BTreeMap::new();
    if !path.exists() {
        return Ok(out);
    }
    for row in lines(&path)? {
        let [topic, partition, offset] = row.as_slice() else { return Err(format!("{}: {row:?}", path.display())) };
        out.insert(format!("{topic}-{partition}"), number(&path, Some(offset))?);
    }
    Ok(out)
}

/// The topic id in `partition.metadata`.
///
/// # Errors
/// When the file is not exactly what a stock broker writes.
pub fn topic_id(dir: &Path) -> Result<String, String> {
    let path = dir.join("partition.metadata");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let id = text.strip_prefix("version: 0\ntopic_id: ").filter(|id| id.len() == 22);
    id.map(str::to_owned).ok_or_else(|| format!("{}: {text:?}", path.display()))
}
