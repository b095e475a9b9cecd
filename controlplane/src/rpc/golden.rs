//! Texts that the tests print and compare with a file that is reviewed: the diff of the file is the review.

use std::path::Path;

/// Set to write the files instead of comparing with them.
const REWRITE: &str = "TWINLOG_REWRITE_GOLDEN";

/// Asserts that the file below `golden` says `printed`.
pub(super) fn assert(name: &str, printed: &str) {
    same(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name), printed);
}

/// Asserts that the file says `printed`.
pub(super) fn same(path: &Path, printed: &str) {
    if std::env::var_os(REWRITE).is_some() {
        std::fs::write(path, printed).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    let differs = kept.lines().zip(printed.lines()).find(|(kept, printed)| kept != printed);
    let at = differs.map_or(String::new(), |(kept, printed)| format!("\nkept:    {kept}\nprinted: {printed}"));
    assert!(
        kept == printed,
        "{} is not what is printed; rewrite it with {REWRITE}=1 and review it{at}",
        path.display()
    );
}
