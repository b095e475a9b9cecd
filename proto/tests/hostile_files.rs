//! A pass proves: no damage to a file of a log directory makes its decoder panic or ask for more memory than a small multiple of the
//! file, and a file that says how long it is is refused when it is cut.

mod common;
#[path = "common/counting_allocator.rs"]
#[allow(unsafe_code)]
mod counting_allocator;

use common::golden;
use counting_allocator::asked;
use twinlog_proto::error::DecodeError;
use twinlog_proto::reader::Reader;
use twinlog_proto::records::record;
use twinlog_proto::storage::kraft::control::ControlRecord;
use twinlog_proto::storage::kraft::records::MetadataRecord;
use twinlog_proto::storage::kraft::snapshot::Snapshot;
use twinlog_proto::storage::leader_epochs::LeaderEpochs;
use twinlog_proto::storage::offset_index::OffsetIndex;
use twinlog_proto::storage::time_index::TimeIndex;
use twinlog_proto::storage::txn_index::TxnIndex;
use twinlog_proto::storage::{checkpoint, clean_shutdown, meta_properties, partition_metadata, producer_snapshot};

#[global_allocator]
static ALLOCATOR: counting_allocator::Counting = counting_allocator::Counting;

/// Growing lists and copied text, released memory counted.
const ASKED_PER_BYTE_MAX: usize = 64;
const ASKED_BYTES_MIN: usize = 1024;

/// Which cuts a decoder must refuse.
#[derive(Clone, Copy, PartialEq)]
enum Cuts {
    /// The file says how long it is.
    All,
    /// A whole number of entries is a file of its own.
    Within(usize),
    /// The file may end after any of its characters; nothing but the lack of panics is asked.
    None,
}

/// One voter with one endpoint, `C` at `h:1`.
const VOTERS: [u8; 38] = [
    0, 0, 2, 0, 0, 0, 1, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 2, 2, b'C', 2, b'h', 0, 1, 0, 0, 0, 0, 1, 0,
    0, 0,
];

type Decoder = fn(&[u8]) -> Result<(), DecodeError>;

fn decoders() -> Vec<(&'static str, Vec<u8>, Cuts, Decoder)> {
    let partition = |name: &str| golden(&format!("log-4.2/golden-0/{name}"));
    let top = |name: &str| golden(&format!("log-4.2/{name}"));
    let metadata = Snapshot::read(&golden("kraft/records-4.4.checkpoint")).expect("a sound snapshot");
    let value = |index: usize| metadata.values().nth(index).expect("a record").to_vec();
    vec![
        ("offset index", partition("00000000000000000057.index"), Cuts::Within(8), |b| {
            OffsetIndex::parse(b, 57).map(drop)
        }),
        ("time index", partition("00000000000000000057.timeindex"), Cuts::Within(12), |b| {
            TimeIndex::parse(b, 57).map(drop)
        }),
        ("transaction index", partition("00000000000000001109.txnindex"), Cuts::None, |b| {
            TxnIndex::parse(b, 1109).map(drop)
        }),
        ("snapshot", partition("00000000000000001155.snapshot"), Cuts::All, |b| producer_snapshot::decode(b).map(drop)),
        ("epochs", partition("leader-epoch-checkpoint"), Cuts::All, |b| LeaderEpochs::parse(b).map(drop)),
        ("checkpoint", top("recovery-point-offset-checkpoint"), Cuts::All, |b| checkpoint::parse(b).map(drop)),
        ("partition.metadata", partition("partition.metadata"), Cuts::All, |b| partition_metadata::parse(b).map(drop)),
        ("clean shutdown", top(".kafka_cleanshutdown"), Cuts::All, |b| clean_shutdown::parse(b).map(drop)),
        ("meta.properties", top("meta.properties"), Cuts::None, |b| {
            meta_properties::MetaProperties::parse(b).map(drop)
        }),
        ("record", partition("00000000000000000000.log")[61..200].to_vec(), Cuts::None, |b| {
            record::Record::decode(&mut Reader::new("test", b)).map(drop)
        }),
        ("metadata snapshot", metadata.write(), Cuts::All, |b| Snapshot::read(b).map(drop)),
        ("metadata partition", value(6), Cuts::All, |b| MetadataRecord::decode(b).map(drop)),
        ("metadata quota", value(9), Cuts::All, |b| MetadataRecord::decode(b).map(drop)),
        ("voters", VOTERS.to_vec(), Cuts::All, |b| ControlRecord::decode(&[0, 0, 0, 6], b).map(drop)),
    ]
}

/// Decodes and checks what that took.
fn decode(name: &str, bytes: &[u8], decoder: Decoder) -> Result<(), DecodeError> {
    let (result, asked) = asked(|| decoder(bytes));
    let max = bytes.len() * ASKED_PER_BYTE_MAX + ASKED_BYTES_MIN;
    assert!(asked.bytes <= max, "{name}: {asked:?} for {} bytes", bytes.len());
    result
}

#[test]
fn whole_files_are_taken_and_cut_ones_refused() {
    for (name, bytes, cuts, decoder) in decoders() {
        assert_eq!(decode(name, &bytes, decoder), Ok(()), "{name}");
        // An empty text file says that there is nothing; cut files start at one byte.
        for cut in 1..bytes.len() {
            let result = decode(name, &bytes[..cut], decoder);
            match cuts {
                Cuts::All => assert!(result.is_err(), "{name} cut to {cut}"),
                Cuts::Within(entry) => assert_eq!(result.is_err(), cut % entry != 0, "{name} cut to {cut}"),
                Cuts::None => {}
            }
        }
    }
}

#[test]
fn no_flipped_bit_panics() {
    for (name, mut bytes, _, decoder) in decoders() {
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let result = decode(name, &bytes, decoder);
            assert!(name != "snapshot" || result.is_err(), "a snapshot has a checksum: bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn counts_of_two_billion_ask_for_nothing() {
    let mut snapshot = vec![0, 1, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff];
    let crc = crc32c::crc32c(&snapshot[6..]);
    snapshot[2..6].copy_from_slice(&crc.to_be_bytes());
    let (result, taken) = asked(|| producer_snapshot::decode(&snapshot));
    assert!(result.is_err() && taken.bytes == 0);
    assert!(decode("epochs", b"0\n2147483647\n0 0\n", |b| LeaderEpochs::parse(b).map(drop)).is_err());
    assert!(decode("checkpoint", b"0\n2147483647\na 0 0\n", |b| checkpoint::parse(b).map(drop)).is_err());
}
