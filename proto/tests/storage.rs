//! A pass proves: from nothing but the `.log` files of a stock broker our rules give the same indexes, epochs, snapshots and segment
//! boundaries that the broker wrote, also after a truncation and after its log start moved.

mod common;

use std::collections::BTreeMap;

use common::{LOG_END, SEGMENTS, Seen, batches, golden, golden_path, segment_file};
use twinlog_proto::properties;
use twinlog_proto::records::batch::BatchHeader;
use twinlog_proto::storage::leader_epochs::LeaderEpochs;
use twinlog_proto::storage::names::{FileKind, LEADER_EPOCHS, file_name, parse_file_name};
use twinlog_proto::storage::offset_index::OffsetIndex;
use twinlog_proto::storage::producer_snapshot;
use twinlog_proto::storage::producer_state::{Expiry, ProducerState};
use twinlog_proto::storage::roll::{RollReason, RollRules, SegmentShape, must_roll, new_base_offset};
use twinlog_proto::storage::segment_indexer::{IndexRules, Resumed, SegmentIndexer};
use twinlog_proto::storage::time_index::TimeIndex;
use twinlog_proto::storage::truncation::{Step, Truncation, cut_point, locate, segments_before, steps};
use twinlog_proto::storage::txn_index::TxnIndex;
use twinlog_proto::storage::{checkpoint, clean_shutdown, meta_properties, partition_metadata};

const INDEX_RULES: IndexRules = IndexRules { interval_bytes: 500, index_bytes: 10 << 20 };
const ROLL_RULES: RollRules =
    RollRules { segment_bytes: 6000, segment_ms: 7 * 86_400_000, index_bytes: 10 << 20, max_compaction_lag_ms: None };
const A_LONG_TIME_AFTER: Expiry = Expiry { now_ms: 1_800_000_000_000, expiration_ms: 86_400_000 };

/// A file of the golden partition, empty when it does not exist.
fn optional(folder: &str, name: &str) -> Vec<u8> {
    if golden_path(&format!("{folder}/{name}")).exists() { golden(&format!("{folder}/{name}")) } else { Vec::new() }
}

/// Every batch of the golden log.
fn all_batches() -> Vec<Seen> {
    SEGMENTS.iter().flat_map(|base| batches(&segment_file(*base, "log"))).collect()
}

/// Offset and time index of a segment's batches, as the live broker writes them.
fn indexes(base: i64, batches: &[Seen]) -> (Vec<u8>, Vec<u8>) {
    let mut indexer = SegmentIndexer::new(base, INDEX_RULES);
    let (mut offsets, mut times) = (Vec::new(), Vec::new());
    for seen in batches {
        let entries = indexer.append(&seen.header, seen.position as u32);
        offsets.extend(entries.offset.iter().flat_map(|entry| entry.encode(base)));
        times.extend(entries.time.iter().flat_map(|entry| entry.encode(base)));
    }
    times.extend(indexer.on_close().iter().flat_map(|entry| entry.encode(base)));
    assert_eq!(indexer.on_close(), None, "a second close adds nothing");
    assert_eq!(
        (indexer.offset_entries() as usize, indexer.time_entries() as usize),
        (offsets.len() / 8, times.len() / 12)
    );
    (offsets, times)
}

#[test]
fn offset_and_time_indexes_are_rebuilt_byte_for_byte() {
    for base in SEGMENTS {
        let (offsets, times) = indexes(base, &batches(&segment_file(base, "log")));
        assert_eq!(offsets, segment_file(base, "index"), "segment {base}");
        assert_eq!(times, segment_file(base, "timeindex"), "segment {base}");
    }
}

#[test]
fn golden_indexes_are_read_and_found_in() {
    for base in SEGMENTS {
        let log = batches(&segment_file(base, "log"));
        let (offsets, times) = (segment_file(base, "index"), segment_file(base, "timeindex"));
        let index = OffsetIndex::parse(&offsets, base).unwrap();
        for entry in index.iter() {
            let batch =
                log.iter().find(|seen| seen.position == u64::from(entry.position)).expect("a batch starts there");
            assert_eq!(batch.header.last_offset(), entry.offset);
            assert_eq!(index.lookup(entry.offset), entry.position);
        }
        let largest = log.iter().map(|seen| seen.header.max_timestamp).max();
        assert_eq!(TimeIndex::parse(&times, base).unwrap().last().map(|entry| entry.timestamp), largest);
    }
}

#[test]
fn transaction_indexes_epochs_and_snapshots_are_rebuilt_from_the_log() {
    let mut producers = ProducerState::new();
    let mut epochs = LeaderEpochs::new();
    let mut snapshots = BTreeMap::new();
    for base in SEGMENTS {
        if base > 0 {
            snapshots.insert(base, producers.snapshot());
        }
        let mut txns = Vec::new();
        for seen in batches(&segment_file(base, "log")) {
            epochs.assign(seen.header.leader_epoch, seen.header.base_offset);
            txns.extend(producers.update(&seen.header, seen.marker).iter().flat_map(|entry| entry.encode()));
        }
        let expected = optional("log-4.2/golden-0", &file_name(base, FileKind::TxnIndex));
        assert_eq!(txns, expected, "segment {base}");
        assert_eq!(TxnIndex::parse(&txns, base).unwrap().len() * 34, txns.len());
    }
    snapshots.insert(LOG_END, producers.snapshot());
    assert_eq!(epochs.to_text().as_bytes(), golden("log-4.2/golden-0/leader-epoch-checkpoint"));
    for (offset, ours) in snapshots {
        let stock = segment_file(offset, "snapshot");
        assert_eq!(entries(&ours), entries(&stock), "snapshot {offset}");
        let reloaded = ProducerState::load(&stock, None).unwrap();
        assert_eq!(reloaded.snapshot(), ours, "snapshot {offset} loaded and written again");
    }
    assert_eq!(producers.first_undecided_offset(), Some(1102));
    assert_eq!(producers.oddities(), 0);
}

/// A snapshot's entries as a set.
fn entries(snapshot: &[u8]) -> Vec<producer_snapshot::ProducerEntry> {
    let mut entries = producer_snapshot::decode(snapshot).unwrap();
    entries.sort_by_key(|entry| entry.producer_id);
    entries
}

#[test]
fn segments_end_where_the_golden_segments_end() {
    let mut shape = new_shape(0);
    let (mut bases, mut log_end) = (vec![0], 0);
    for seen in all_batches() {
        if let Some(reason) = must_roll(&ROLL_RULES, &shape, &seen.header, 1_700_000_000_000) {
            assert_eq!(reason, RollReason::Size);
            shape = new_shape(new_base_offset(log_end, &seen.header));
            bases.push(shape.base_offset);
        }
        shape.first_timestamp_ms = shape.first_timestamp_ms.or(Some(seen.header.max_timestamp));
        shape.bytes += seen.header.size_bytes() as u64;
        log_end = seen.header.next_offset();
    }
    assert_eq!((bases.as_slice(), log_end), (&SEGMENTS[..], LOG_END));
}

fn new_shape(base_offset: i64) -> SegmentShape {
    SegmentShape {
        base_offset,
        bytes: 0,
        first_timestamp_ms: None,
        created_at_ms: 0,
        jitter_ms: 0,
        offset_entries: 0,
        time_entries: 0,
    }
}

#[test]
fn an_indexer_that_was_resumed_goes_on_as_a_reopened_broker_does() {
    let log = batches(&segment_file(0, "log"));
    let (before, after) = log.split_at(10);
    let mut indexer = SegmentIndexer::new(0, INDEX_RULES);
    for seen in before {
        indexer.append(&seen.header, seen.position as u32);
    }
    let last_time = indexer.on_close();
    let resumed = Resumed {
        offset_entries: indexer.offset_entries(),
        time_entries: indexer.time_entries(),
        last_time,
        largest: None,
    };
    let mut resumed = SegmentIndexer::resume(0, INDEX_RULES, resumed);
    assert_eq!(resumed.largest(), indexer.largest());
    let entries: Vec<_> = after.iter().map(|seen| resumed.append(&seen.header, seen.position as u32)).collect();
    assert_eq!(entries[0].offset, None, "the distance starts at 0");
    assert!(resumed.largest().timestamp > indexer.largest().timestamp);
}

/// A partition folder in memory.
type Folder = BTreeMap<String, Vec<u8>>;

fn folder(path: &str) -> Folder {
    let entries = std::fs::read_dir(golden_path(path)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "README.md").map(|name| (name.clone(), golden(&format!("{path}/{name}")))).collect()
}

fn delete_segment(folder: &mut Folder, base_offset: i64) {
    folder.retain(|name, _| parse_file_name(name).is_none_or(|file| file.offset != base_offset));
}

/// Shortens the three indexes of a segment to the entries below `end_offset`.
fn cut_indexes(folder: &mut Folder, base: i64, end_offset: i64) {
    for kind in [FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::TxnIndex] {
        let Some(bytes) = folder.get_mut(&file_name(base, kind)) else { continue };
        let kept = match kind {
            FileKind::OffsetIndex => OffsetIndex::parse(bytes, base).unwrap().bytes_below(end_offset),
            FileKind::TimeIndex => TimeIndex::parse(bytes, base).unwrap().bytes_below(end_offset),
            _ => TxnIndex::parse(bytes, base).unwrap().bytes_below(end_offset),
        };
        bytes.truncate(kept);
    }
}

#[test]
fn truncation_to_60_gives_what_stock_left() {
    const TARGET: i64 = 60;
    let mut files = folder("log-4.2/golden-0");
    let Truncation::Within { segment } = locate(&SEGMENTS, LOG_END, TARGET) else { panic!("60 lies in a segment") };
    let log = segment_file(SEGMENTS[segment], "log");
    let headers = batches(&log).into_iter().map(|seen| (seen.header, seen.position));
    let cut = cut_point(headers, log.len() as u64, TARGET);
    assert_eq!(cut.end_offset, 57, "the batch that 60 lies in goes as a whole");
    for step in steps(&SEGMENTS, segment, cut) {
        match step {
            Step::DeleteSegment { base_offset } => delete_segment(&mut files, base_offset),
            Step::CutIndexes { base_offset, end_offset } => cut_indexes(&mut files, base_offset, end_offset),
            Step::CutLog { base_offset, bytes } => {
                files.get_mut(&file_name(base_offset, FileKind::Log)).unwrap().truncate(bytes as usize);
            }
            Step::ReloadProducers { end_offset } => {
                let newest = folder_snapshots(&files).rfind(|offset| *offset <= end_offset).unwrap();
                let snapshot = &files[&file_name(newest, FileKind::Snapshot)];
                let state = ProducerState::load(snapshot, Some(A_LONG_TIME_AFTER)).unwrap();
                files.retain(|name, _| {
                    parse_file_name(name).is_none_or(|f| f.kind != FileKind::Snapshot || f.offset <= end_offset)
                });
                // Stock names the new end by the offset that was asked for.
                files.insert(file_name(TARGET, FileKind::Snapshot), state.snapshot());
            }
            Step::CutEpochs { end_offset } => {
                let mut epochs = LeaderEpochs::parse(&files[LEADER_EPOCHS]).unwrap();
                assert!(epochs.truncate_end(end_offset));
                files.insert(LEADER_EPOCHS.to_owned(), epochs.to_text().into_bytes());
            }
        }
    }
    assert_same(&files, &folder("log-4.2-truncated-to-60"));
}

fn folder_snapshots(files: &Folder) -> impl DoubleEndedIterator<Item = i64> {
    files.keys().filter_map(|name| parse_file_name(name)).filter(|f| f.kind == FileKind::Snapshot).map(|f| f.offset)
}

#[test]
fn a_log_start_of_60_gives_what_stock_left() {
    let mut files = folder("log-4.2/golden-0");
    for base in &SEGMENTS[..segments_before(&SEGMENTS, 60)] {
        delete_segment(&mut files, *base);
    }
    let mut epochs = LeaderEpochs::parse(&files[LEADER_EPOCHS]).unwrap();
    assert!(epochs.truncate_start(60));
    files.insert(LEADER_EPOCHS.to_owned(), epochs.to_text().into_bytes());
    assert_same(&files, &folder("log-4.2-delete-records-60"));
}

fn assert_same(ours: &Folder, stock: &Folder) {
    assert_eq!(ours.keys().collect::<Vec<_>>(), stock.keys().collect::<Vec<_>>());
    for (name, bytes) in stock {
        if name.ends_with(".snapshot") {
            assert_eq!(entries(&ours[name]), entries(bytes), "{name}");
        } else {
            assert_eq!(&ours[name], bytes, "{name}");
        }
    }
}

#[test]
fn the_text_files_of_a_log_directory_are_read_and_written_again() {
    for name in ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"] {
        let bytes = golden(&format!("log-4.2/{name}"));
        assert_eq!(checkpoint::to_text(&checkpoint::parse(&bytes).unwrap()).into_bytes(), bytes, "{name}");
    }
    let metadata = golden("log-4.2/golden-0/partition.metadata");
    let topic_id = partition_metadata::parse(&metadata).unwrap();
    assert_eq!(partition_metadata::to_text(topic_id).into_bytes(), metadata);
    let shutdown = golden("log-4.2/.kafka_cleanshutdown");
    assert_eq!(clean_shutdown::parse(&shutdown), Ok(Some(42)));
    assert_eq!(clean_shutdown::to_text(Some(42)).into_bytes(), shutdown);
    let meta = golden("log-4.2/meta.properties");
    let parsed = meta_properties::MetaProperties::parse(&meta).unwrap();
    assert_eq!((parsed.node_id, parsed.cluster_id.as_str()), (1, "MkU3OEVBNTcwNTJENDM2Qk"));
    let written = parsed.to_text();
    assert_eq!(properties::parse(written.as_bytes()), properties::parse(&meta));
    assert_eq!(meta_properties::MetaProperties::parse(written.as_bytes()), Ok(parsed));
}

#[test]
fn a_segment_that_is_cut_at_any_batch_has_the_indexes_of_a_rebuild_up_to_its_close_entry() {
    for base in SEGMENTS {
        let log = segment_file(base, "log");
        let all = batches(&log);
        for (count, seen) in all.iter().enumerate() {
            let offset = seen.header.base_offset;
            let headers = all.iter().map(|seen| (seen.header, seen.position));
            let cut = cut_point(headers, log.len() as u64, offset);
            assert_eq!((cut.log_bytes, cut.end_offset), (seen.position, offset));
            let (offsets, _) = indexes(base, &all[..count]);
            let kept = OffsetIndex::parse(&segment_file(base, "index"), base).unwrap().bytes_below(offset);
            assert_eq!(offsets, segment_file(base, "index")[..kept], "segment {base} cut at {offset}");
        }
        let end = cut_point(std::iter::empty::<(BatchHeader, u64)>(), log.len() as u64, LOG_END);
        assert_eq!((end.log_bytes, end.end_offset), (log.len() as u64, LOG_END));
    }
}
