//! Record batches with a valid header and checksum; their records are any bytes, for a mirror never looks into them.

/// One batch of `records` records from `base` on, `bytes` long in all.
pub(crate) fn batch(base: i64, records: i32, epoch: i32, bytes: usize) -> Vec<u8> {
    assert!(bytes >= HEADER_BYTES, "a batch has a header");
    let mut out = Vec::with_capacity(bytes);
    out.extend_from_slice(&base.to_be_bytes());
    out.extend_from_slice(&i32::try_from(bytes - 12).unwrap().to_be_bytes());
    out.extend_from_slice(&epoch.to_be_bytes());
    out.push(2);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&0_i16.to_be_bytes());
    out.extend_from_slice(&(records - 1).to_be_bytes());
    out.extend_from_slice(&(1_700_000_000_000 + base).to_be_bytes());
    out.extend_from_slice(&(1_700_000_000_000 + base).to_be_bytes());
    out.extend_from_slice(&(-1_i64).to_be_bytes());
    out.extend_from_slice(&(-1_i16).to_be_bytes());
    out.extend_from_slice(&(-1_i32).to_be_bytes());
    out.extend_from_slice(&records.to_be_bytes());
    let mut word = base.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while out.len() < bytes {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.truncate(bytes);
    let crc = crc32c::crc32c(&out[21..]);
    out[17..21].copy_from_slice(&crc.to_be_bytes());
    out
}

const HEADER_BYTES: usize = 61;

/// The log of one partition at the source.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceLog {
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// Base offset, end offset, bytes.
    pub(crate) batches: Vec<(i64, i64, Vec<u8>)>,
}

impl SourceLog {
    /// `count` batches of ten records each.
    pub(crate) fn of(count: i64, epoch: i32, bytes: usize) -> Self {
        let mut log = Self::default();
        for _ in 0..count {
            log.push(10, epoch, bytes);
        }
        log
    }

    pub(crate) fn push(&mut self, records: i32, epoch: i32, bytes: usize) {
        let base = self.end;
        self.end += i64::from(records);
        self.batches.push((base, self.end, batch(base, records, epoch, bytes)));
    }

    /// What a broker sends from `offset` on: whole batches, the last one cut at `max_bytes`, at least the first one whole.
    pub(crate) fn read(&self, offset: i64, max_bytes: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for (_, end, bytes) in self.batches.iter().filter(|(_, end, _)| *end > offset) {
            if !out.is_empty() && out.len() + bytes.len() > max_bytes {
                out.extend_from_slice(&bytes[..max_bytes.saturating_sub(out.len())]);
                break;
            }
            out.extend_from_slice(bytes);
            assert!(*end > offset);
        }
        out
    }

    /// Everything from the batch that holds `start` on.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.batches.iter().filter(|(_, end, _)| *end > self.start).flat_map(|(_, _, bytes)| bytes.clone()).collect()
    }
}
