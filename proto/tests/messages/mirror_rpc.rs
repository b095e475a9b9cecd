//! The mirror requests and answers, byte by byte: `golden/messages/mirror-rpc.txt` has each at every version.

use core::fmt::Debug;
use std::collections::BTreeMap;

use crate::golden::from_hex;
use crate::source::Sample;
use crate::{Visitor, encode, every_message};
use twinlog_proto::api::MIRROR_KEY_BASE;
use twinlog_proto::messages::Message;
use twinlog_proto::reader::Reader;

const VECTORS: &str = include_str!("../../golden/messages/mirror-rpc.txt");

#[derive(Default)]
struct Vector {
    bytes: Vec<u8>,
    /// Names and values of fields as Rust prints them, in their order.
    fields: Vec<String>,
}

/// `LastMirrorEpoch` -> `last_mirror_epoch`.
fn snake(name: &str) -> String {
    let word = |c: char| if c.is_ascii_uppercase() { format!("_{}", c.to_ascii_lowercase()) } else { c.to_string() };
    name.chars().map(word).collect::<String>().trim_start_matches('_').to_owned()
}

fn vectors() -> BTreeMap<(&'static str, i16), Vector> {
    let mut all = BTreeMap::new();
    let mut last = None;
    for line in VECTORS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some(line) = line.strip_prefix("  ") else {
            let (name, version) = line.split_once(' ').expect("a name and a version");
            let key = (name, version.parse().expect("a version"));
            assert!(all.insert(key, Vector::default()).is_none(), "{key:?} stands there twice");
            last = Some(key);
            continue;
        };
        let vector = last.and_then(|key| all.get_mut(&key)).expect("a line belongs to a message");
        let (hex, meaning) = line.trim_start().split_once(" # ").expect("hex and its meaning");
        vector.bytes.extend(from_hex(hex));
        if let Some((name, value)) = meaning.split_once(" = ") {
            vector.fields.push(format!("{}: {value}", snake(name)));
        }
    }
    all
}

/// Asserts that `printed` has the fields in their order, each followed by the next one or the end of its structure.
fn has_fields(printed: &str, fields: &[String], what: &str) {
    let mut rest = printed;
    for field in fields {
        let ends = [format!("{field}, "), format!("{field} }}")];
        let found = ends.iter().filter_map(|end| Some(rest.find(end.as_str())? + field.len())).min();
        let at = found.unwrap_or_else(|| panic!("{what}: no {field} in {rest}; the whole: {printed}"));
        rest = &rest[at..];
    }
}

#[test]
fn every_mirror_message_has_the_bytes_and_the_values_of_its_layout_at_every_version() {
    struct Check {
        vectors: BTreeMap<(&'static str, i16), Vector>,
        seen: usize,
    }
    impl Visitor for Check {
        fn visit<M: Message + Sample + Debug + PartialEq>(&mut self) {
            if M::API_KEY < MIRROR_KEY_BASE {
                return;
            }
            for version in M::VERSIONS {
                let what = format!("{} {version}", M::NAME);
                let vector = self.vectors.remove(&(M::NAME, version)).unwrap_or_else(|| panic!("{what} has no bytes"));
                let mut r = Reader::new(M::NAME, &vector.bytes);
                let value = M::decode(&mut r, version).unwrap_or_else(|cause| panic!("{what}: {cause}"));
                r.finish().unwrap_or_else(|cause| panic!("{what}: {cause}"));
                has_fields(&format!("{value:?}"), &vector.fields, &what);
                assert_eq!(encode(&value, version), vector.bytes, "{what}: {value:?}");
                self.seen += 1;
            }
        }
    }
    let mut check = Check { vectors: vectors(), seen: 0 };
    every_message(&mut check);
    assert!(check.vectors.is_empty(), "no such message: {:?}", check.vectors.keys());
    assert_eq!(check.seen, 44, "15 kinds, 7 of them at two versions, each with its answer");
}

#[test]
#[should_panic(expected = "no lag: 3")]
fn a_wrong_value_is_noticed() {
    has_fields("X { lag: 33, other: 3 }", &["lag: 3".to_owned()], "x");
}
