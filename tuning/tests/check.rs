//! A pass proves that the rules judge recorded hosts as their folder's name says, and that an absent fact is never a guess.

use std::path::Path;
use tuning::facts::Facts;
use tuning::report;
use tuning::root::Root;
use tuning::rules::{self, Verdict};

fn host(name: &str) -> Root {
    Root::at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/hosts").join(name))
}

#[test]
fn a_well_tuned_host_has_no_finding() {
    let findings = rules::check(&Facts::read(&host("well")).unwrap());
    for finding in &findings {
        assert_eq!(finding.verdict, Verdict::Good, "{finding:?}");
    }
    assert_eq!(report::exit_code(&findings), 0);
}

#[test]
fn a_host_that_tells_nothing_is_unknown_and_exits_3() {
    let findings = rules::check(&Facts::read(&host("bare")).unwrap());
    assert!(findings.iter().all(|finding| finding.verdict == Verdict::Unknown));
    assert_eq!(report::exit_code(&findings), 3);
}

#[test]
fn a_small_memlock_limit_is_a_finding_with_its_remedy() {
    let mut facts = Facts::read(&host("well")).unwrap();
    facts.memory.memlock_bytes = Some(8 << 20);
    let findings = rules::check(&facts);
    let memlock = findings.iter().find(|finding| finding.name == "memlock").unwrap();
    assert_eq!(memlock.verdict, Verdict::Finding);
    assert!(report::table(&findings).contains("LimitMEMLOCK="));
    assert_eq!(report::exit_code(&findings), 1);
}

#[test]
fn a_file_that_holds_no_number_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("proc/sys/vm/swappiness");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "much\n").unwrap();
    let why = Facts::read(&Root::at(folder.path())).unwrap_err();
    assert!(why.contains("/proc/sys/vm/swappiness") && why.contains("much"), "{why}");
}
