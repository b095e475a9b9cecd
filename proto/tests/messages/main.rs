//! What holds for every message at every version: a value is read back as it was written, no proper prefix is accepted,
//! no flipped bit and no random bytes make the decoder panic or allocate out of proportion, unknown tags are skipped.
//!
//! The list of messages and the samples are generated from the schemas, so a new schema is covered without a new test.

#[allow(unsafe_code)]
mod counting;
mod golden;
mod mirror_rpc;
mod source;

use core::fmt::Debug;

use source::{Sample, Source};
use twinlog_proto::error::Malformed;
use twinlog_proto::messages::Message;
use twinlog_proto::reader::Reader;
use twinlog_proto::writer::Writer;

/// Is shown every message by `every_message`.
trait Visitor {
    fn visit<M: Message + Sample + Debug + PartialEq>(&mut self);
}

include!(concat!(env!("OUT_DIR"), "/samples.rs"));

const SAMPLES_PER_VERSION: u64 = 6;

fn encode<M: Message>(message: &M, version: i16) -> Vec<u8> {
    let mut out = Vec::new();
    let written = message.encode(&mut Writer::new(&mut out), version);
    written.unwrap_or_else(|cause| panic!("{cause}"));
    out
}

/// Runs `check` with samples of `M` at every version.
fn samples<M: Message + Sample>(mut check: impl FnMut(M, i16)) {
    for version in M::VERSIONS {
        for seed in 0..SAMPLES_PER_VERSION {
            check(M::sample(&mut Source::new(seed), version), version);
        }
    }
}

#[test]
fn every_message_is_read_back_at_every_version() {
    struct RoundTrip;
    impl Visitor for RoundTrip {
        fn visit<M: Message + Sample + Debug + PartialEq>(&mut self) {
            samples::<M>(|value, version| {
                let bytes = encode(&value, version);
                let mut r = Reader::new(M::NAME, &bytes);
                assert_eq!(M::decode(&mut r, version), Ok(value), "{} {version}", M::NAME);
                r.finish().unwrap_or_else(|cause| panic!("{} {version}: {cause}", M::NAME));
            });
        }
    }
    every_message(&mut RoundTrip);
}

#[test]
fn no_proper_prefix_of_a_message_is_accepted() {
    struct Prefixes;
    impl Visitor for Prefixes {
        fn visit<M: Message + Sample + Debug + PartialEq>(&mut self) {
            samples::<M>(|value, version| {
                let bytes = encode(&value, version);
                for end in 0..bytes.len() {
                    let found = M::decode(&mut Reader::new(M::NAME, &bytes[..end]), version);
                    assert!(found.is_err(), "{} {version}: {end} of {} bytes", M::NAME, bytes.len());
                }
            });
        }
    }
    every_message(&mut Prefixes);
}

/// Most bytes that decoding may hold at once, as a multiple of the input: a one-byte element becomes a `String` of 24 bytes
/// in a `Vec` that doubles, while the half-sized one is still there.
const ALLOCATED_PER_BYTE_MAX: usize = 24 * 3;
/// Allocations that do not depend on the input's length.
const ALLOCATED_BASE_MAX: usize = 1024;

fn decode_within_bounds<M: Message>(bytes: &[u8], version: i16, what: &dyn Debug) {
    let bound = bytes.len() * ALLOCATED_PER_BYTE_MAX + ALLOCATED_BASE_MAX;
    let (peak, _) = counting::peak_bytes(|| M::decode(&mut Reader::new(M::NAME, bytes), version).is_ok());
    assert!(peak <= bound, "{} {version}, {what:?}: {peak} bytes for an input of {}", M::NAME, bytes.len());
}

#[test]
fn no_flipped_bit_panics_or_allocates_out_of_proportion() {
    struct Flips;
    impl Visitor for Flips {
        fn visit<M: Message + Sample + Debug + PartialEq>(&mut self) {
            samples::<M>(|value, version| {
                let mut bytes = encode(&value, version);
                for bit in 0..bytes.len() * 8 {
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    decode_within_bounds::<M>(&bytes, version, &("bit", bit));
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
            });
        }
    }
    every_message(&mut Flips);
}

#[test]
fn no_random_bytes_panic_or_allocate_out_of_proportion() {
    struct Noise;
    impl Visitor for Noise {
        fn visit<M: Message + Sample + Debug + PartialEq>(&mut self) {
            for version in M::VERSIONS {
                for seed in 0..200 {
                    let mut source = Source::new(seed);
                    let mut bytes = source.noise();
                    decode_within_bounds::<M>(&bytes, version, &("seed", seed));
                    // Counts and lengths that are as large as they can be.
                    bytes.iter_mut().step_by(3).for_each(|byte| *byte = 0xff);
                    decode_within_bounds::<M>(&bytes, version, &("seed", seed, "with large counts"));
                }
            }
        }
    }
    every_message(&mut Noise);
}

#[test]
fn an_unknown_tagged_field_is_skipped_and_tags_must_ascend() {
    struct Tags;
    impl Visitor for Tags {
        fn visit<M: Message + Sample + Debug + PartialEq>(&mut self) {
            for version in M::VERSIONS.filter(|version| *version >= M::FLEXIBLE_FROM) {
                let mut bytes = encode(&M::default(), version);
                assert_eq!(bytes.pop(), Some(0), "{}: the last byte is the empty tagged section", M::NAME);
                let with = |section: &[u8]| [&bytes, section].concat();
                let decode = |bytes: &[u8]| M::decode(&mut Reader::new(M::NAME, bytes), version);
                let unknown = with(&[2, 0xf0, 0x7f, 3, 1, 2, 3, 0xf1, 0x7f, 0]);
                assert_eq!(decode(&unknown), Ok(M::default()), "{} {version}", M::NAME);
                for second in [0xf0, 0xef] {
                    let disordered = with(&[2, 0xf0, 0x7f, 0, second, 0x7f, 0]);
                    let cause = decode(&disordered).expect_err("tags out of order").why;
                    assert_eq!(cause, Malformed::TagOrder, "{} {version}", M::NAME);
                }
            }
        }
    }
    every_message(&mut Tags);
}

#[test]
fn a_version_that_a_message_does_not_have_is_refused_both_ways() {
    struct Outside;
    impl Visitor for Outside {
        fn visit<M: Message + Sample + Debug + PartialEq>(&mut self) {
            for version in [M::VERSIONS.start() - 1, M::VERSIONS.end() + 1] {
                let mut out = Vec::new();
                assert!(M::default().encode(&mut Writer::new(&mut out), version).is_err(), "{}", M::NAME);
                let found = M::decode(&mut Reader::new(M::NAME, &[0; 64]), version).expect_err(M::NAME).why;
                assert_eq!(found, Malformed::Version { found: version.into() });
            }
        }
    }
    every_message(&mut Outside);
}

#[test]
fn the_table_of_request_kinds_agrees_with_the_schemas() {
    struct Table(Vec<i16>);
    impl Visitor for Table {
        fn visit<M: Message + Sample + Debug + PartialEq>(&mut self) {
            if M::API_KEY == -1 {
                return;
            }
            let api = twinlog_proto::api::by_key(M::API_KEY).expect(M::NAME);
            assert_eq!(api.flexible_from, M::FLEXIBLE_FROM, "{}", M::NAME);
            assert!(M::NAME == format!("{}Request", api.name) || M::NAME == format!("{}Response", api.name));
            for range in [&api.served, &api.sent].into_iter().flatten() {
                assert!(M::VERSIONS.start() <= range.start() && range.end() <= M::VERSIONS.end(), "{}", M::NAME);
            }
            self.0.push(M::API_KEY);
        }
    }
    let mut table = Table(Vec::new());
    every_message(&mut table);
    for api in twinlog_proto::api::APIS {
        assert!(table.0.contains(&api.key), "{} has no schema", api.name);
    }
}
