//! What a log replays to, however it was torn or damaged.

use super::*;

/// Batches by their first offset, with the number of their records.
#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) batches: Vec<(i64, usize)>,
    open: Option<(i64, usize)>,
}

impl Taker for Counted {
    fn take(&mut self, offset: i64, _: &KeyValue) -> Result<(), DecodeError> {
        self.open.get_or_insert((offset, 0)).1 += 1;
        Ok(())
    }

    fn batch_is_over(&mut self, _: u64) -> Result<(), String> {
        self.batches.extend(self.open.take());
        Ok(())
    }
}

/// What is in a log, by batch.
pub(crate) fn counted(log: &(impl Bytes + ?Sized)) -> Result<(Replayed, Vec<(i64, usize)>), String> {
    let mut found = Counted::default();
    let replayed = replay(log, &mut found).map_err(|why| why.to_string())?;
    Ok((replayed, found.batches))
}

fn log(batches: usize) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = Vec::new();
    let mut ends = vec![0];
    for i in 0..batches {
        let record = |n: u8| KeyValue { key: vec![0, 2, n], value: Some(vec![n; 40]) };
        batch::encode(&mut bytes, 2 * i as i64, 5, &[record(i as u8), record(9)]);
        ends.push(bytes.len());
    }
    (bytes, ends)
}

#[test]
fn a_log_torn_at_any_byte_replays_the_batches_before_it() {
    let (bytes, ends) = log(3);
    for length in 0..=bytes.len() {
        let whole = ends.iter().filter(|end| **end <= length).count() - 1;
        let (replayed, batches) = counted(&bytes[..length]).unwrap();
        assert_eq!(batches.len(), whole, "cut at {length}");
        assert_eq!(replayed.size_bytes as usize, ends[whole]);
        assert_eq!(replayed.torn_bytes as usize, length - ends[whole]);
        assert_eq!((replayed.next_offset, replayed.records), (2 * whole as i64, 2 * whole as u64));
    }
}

#[test]
fn damage_before_a_whole_batch_is_refused_with_its_offset_and_in_the_last_batch_is_a_torn_tail() {
    let (bytes, ends) = log(3);
    for at in 0..bytes.len() {
        let epoch = ends.iter().any(|end| (end + 12..end + 16).contains(&at));
        if epoch {
            continue; // not under the checksum, and not used
        }
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        let result = counted(&damaged[..]);
        if at >= ends[2] + 8 {
            assert_eq!(result.unwrap().1.len(), 2, "byte {at}");
        } else if at >= 8 {
            let message = result.unwrap_err();
            let offset = 2 * (ends.iter().filter(|end| **end <= at).count() - 1);
            assert!(message.starts_with(&format!("offset {offset} at position")), "byte {at}: {message}");
        }
    }
}

#[test]
fn a_whole_batch_that_breaks_the_format_is_refused_also_at_the_end() {
    let (bytes, ends) = log(2);
    let mut compressed = bytes.clone();
    compressed[ends[1] + 22] = 1;
    let crc = crc32c::crc32c(&compressed[ends[1] + 21..]);
    compressed[ends[1] + 17..ends[1] + 21].copy_from_slice(&crc.to_be_bytes());
    let message = counted(&compressed[..]).unwrap_err();
    assert!(message.contains("offset 2") && message.contains("compressed"), "{message}");

    let twice = [&bytes[..], &bytes[ends[1]..]].concat();
    let message = counted(&twice[..]).unwrap_err();
    assert_eq!(message, format!("offset 4 at position {}: the batch here starts at offset 2", ends[2]));
}

#[test]
fn a_tail_of_zeros_or_noise_is_forgiven() {
    let (mut bytes, ends) = log(2);
    bytes.extend_from_slice(&[0; 5000]);
    assert_eq!(counted(&bytes[..]).unwrap().0.size_bytes as usize, ends[2]);
    bytes.extend((0..5000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8));
    assert_eq!(counted(&bytes[..]).unwrap().0.size_bytes as usize, ends[2]);
}

#[test]
fn a_log_is_read_in_pieces_and_a_whole_batch_far_behind_the_damage_is_still_found() {
    let large = KeyValue { key: vec![0, 2], value: Some(vec![7; REPLAY_READ_BYTES]) };
    let mut bytes = Vec::new();
    let mut ends = vec![0];
    for offset in 0..4 {
        batch::encode(&mut bytes, offset, 1, std::slice::from_ref(&large));
        ends.push(bytes.len());
    }
    let (replayed, batches) = counted(&bytes[..]).unwrap();
    assert_eq!((replayed.next_offset, batches.len()), (4, 4));
    // The first three are gone, the last one proves that they were promised.
    bytes[100..ends[3]].fill(0);
    let message = counted(&bytes[..]).unwrap_err();
    assert!(message.starts_with("offset 0 at position 0") && message.ends_with(&ends[3].to_string()), "{message}");
}
