//! pure: where everything lies in the region, in words of 8 bytes.
//!
//! ```text
//! header        512 words: magic, layout version, generation, sizes, who made it
//! core 0        page (counters, histograms) | order ring | event ring, rounded up to 512 words
//! core 1 ...
//! board         slots x 16 words, rounded up to 512 words
//! ```
//! Words are in the byte order of the machine: both sides of a shared memory are one machine.

use core::fmt;
use core::ops::Range;

/// First word of a region, written last by its creator: "TWCHANNL".
pub const MAGIC: u64 = u64::from_be_bytes(*b"TWCHANNL");
/// Version of this layout, of the slots, of the messages and of the pages. Any change raises it; there is no other compatibility:
/// a plane of another version is refused and says so.
pub const LAYOUT_VERSION: u64 = 3;

/// Bytes of a word.
pub const WORD_BYTES: usize = 8;
/// Words that every area starts at a multiple of: one page.
pub const AREA_ALIGN_WORDS: usize = 512;
/// Words of two cache lines, the distance at which two writers do not disturb each other.
pub const LINE_PAIR_WORDS: usize = 16;

/// Header words: positions of the fields.
pub mod header {
    /// [`MAGIC`](super::MAGIC).
    pub const MAGIC_AT: usize = 0;
    /// [`LAYOUT_VERSION`](super::LAYOUT_VERSION).
    pub const VERSION_AT: usize = 1;
    /// Random, never 0, another one for each region.
    pub const GENERATION_AT: usize = 2;
    /// Words of the whole region.
    pub const WORDS_AT: usize = 3;
    /// Cores.
    pub const CORES_AT: usize = 4;
    /// Board slots.
    pub const SLOTS_AT: usize = 5;
    /// Entries of each order ring.
    pub const ORDER_ENTRIES_AT: usize = 6;
    /// Entries of each event ring.
    pub const EVENT_ENTRIES_AT: usize = 7;
    /// Process id of the data plane.
    pub const PID_AT: usize = 8;
    /// When the data plane made the region, milliseconds since 1970.
    pub const STARTED_AT_MS_AT: usize = 9;
}
/// Words of the header area.
pub const HEADER_WORDS: usize = AREA_ALIGN_WORDS;

/// Words of a board slot, the sequence word included.
pub const SLOT_WORDS: usize = 16;
/// Words of a slot that carry the value.
pub const SLOT_VALUE_WORDS: usize = SLOT_WORDS - 1;

/// Words of a ring entry: the message and its stamp.
pub const RING_ENTRY_WORDS: usize = 8;
/// Words of a message.
pub const MESSAGE_WORDS: usize = RING_ENTRY_WORDS - 1;
/// Where the producer's position is within a ring.
pub const RING_TAIL_AT: usize = 0;
/// Where the consumer's position is within a ring.
pub const RING_HEAD_AT: usize = LINE_PAIR_WORDS;
/// Words in front of the entries of a ring.
pub const RING_HEADER_WORDS: usize = 2 * LINE_PAIR_WORDS;

/// Words for a core's counters and gauges; unused ones are zero.
pub const COUNTERS_WORDS: usize = 128;
/// Histograms of a core's page.
pub const HISTOGRAMS: usize = 4;
/// Words of one histogram: sum, largest, then the buckets.
pub const HISTOGRAM_WORDS: usize = 2 + HISTOGRAM_BUCKETS;
/// Buckets of a histogram; see `page` for their bounds.
pub const HISTOGRAM_BUCKETS: usize = 542;
/// Words of a core's page.
pub const PAGE_WORDS: usize = COUNTERS_WORDS + HISTOGRAMS * HISTOGRAM_WORDS;

/// Most cores of a data plane: what one message of file descriptors can carry (253), two doorbells each.
pub const CORES_MAX: u32 = 120;
/// Most board slots, so most partitions of a data plane: 128 MiB of board.
pub const SLOTS_MAX: u32 = 1 << 20;
/// Fewest entries of a ring.
pub const RING_ENTRIES_MIN: u32 = 2;
/// Most entries of a ring.
pub const RING_ENTRIES_MAX: u32 = 1 << 16;

const _: () = assert!(2 * CORES_MAX < 253, "the region and all doorbells must fit one SCM_RIGHTS message");
const _: () = assert!(RING_HEADER_WORDS.is_multiple_of(LINE_PAIR_WORDS) && PAGE_WORDS.is_multiple_of(LINE_PAIR_WORDS));
const _: () = assert!(AREA_ALIGN_WORDS.is_multiple_of(SLOT_WORDS), "no slot may straddle a page");

/// The sizes that a region is made with. Every instance is within the bounds above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    cores: u32,
    slots: u32,
    order_entries: u32,
    event_entries: u32,
}

/// Sizes outside of the bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadGeometry {
    /// Which size.
    pub what: &'static str,
    /// The value found.
    pub found: u64,
    /// The largest value accepted.
    pub max: u64,
}

impl fmt::Display for BadGeometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, must be 1 to {}", self.what, self.found, self.max)?;
        if self.what.ends_with("entries") { f.write_str(" and a power of two, 2 at least") } else { Ok(()) }
    }
}

impl core::error::Error for BadGeometry {}

impl Geometry {
    /// Checks the sizes; also those read from a neighbour's header, hence `u64`.
    ///
    /// # Errors
    /// The first size that is outside of its bound.
    pub fn new(cores: u64, slots: u64, order_entries: u64, event_entries: u64) -> Result<Self, BadGeometry> {
        let order_what = "the number of order ring entries";
        let event_what = "the number of event ring entries";
        Ok(Self {
            cores: within("the number of cores", cores, CORES_MAX)?,
            slots: within("the number of board slots", slots, SLOTS_MAX)?,
            order_entries: entries(order_what, order_entries)?,
            event_entries: entries(event_what, event_entries)?,
        })
    }

    /// Cores.
    #[must_use]
    pub fn cores(&self) -> u32 {
        self.cores
    }

    /// Board slots.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Entries of each order ring.
    #[must_use]
    pub fn order_entries(&self) -> u32 {
        self.order_entries
    }

    /// Entries of each event ring.
    #[must_use]
    pub fn event_entries(&self) -> u32 {
        self.event_entries
    }

    /// Words of the whole region.
    #[must_use]
    pub fn words(&self) -> usize {
        self.board().end.next_multiple_of(AREA_ALIGN_WORDS)
    }

    /// Words of the counters and histograms of `core`.
    ///
    /// # Panics
    /// When there is no such core, as the other areas do.
    #[must_use]
    pub fn page(&self, core: u32) -> Range<usize> {
        let start = self.core_start(core);
        start..start + PAGE_WORDS
    }

    /// Words of the ring that brings orders to `core`.
    #[must_use]
    pub fn order_ring(&self, core: u32) -> Range<usize> {
        let start = self.page(core).end;
        start..start + ring_words(self.order_entries)
    }

    /// Words of the ring that brings events of `core`.
    #[must_use]
    pub fn event_ring(&self, core: u32) -> Range<usize> {
        let start = self.order_ring(core).end;
        start..start + ring_words(self.event_entries)
    }

    /// Words of the board.
    #[must_use]
    pub fn board(&self) -> Range<usize> {
        let start = HEADER_WORDS + self.cores as usize * self.core_words();
        start..start + self.slots as usize * SLOT_WORDS
    }

    fn core_start(&self, core: u32) -> usize {
        assert!(core < self.cores, "core {core} of {}", self.cores);
        HEADER_WORDS + core as usize * self.core_words()
    }

    fn core_words(&self) -> usize {
        let used = PAGE_WORDS + ring_words(self.order_entries) + ring_words(self.event_entries);
        used.next_multiple_of(AREA_ALIGN_WORDS)
    }
}

/// The header's words and their places for a region of the data plane (generation, process id, start); the magic word is the last.
#[must_use]
pub fn header_words(geometry: &Geometry, of: (u64, u32, i64)) -> [(usize, u64); 10] {
    [
        (header::VERSION_AT, LAYOUT_VERSION),
        (header::GENERATION_AT, of.0),
        (header::WORDS_AT, geometry.words() as u64),
        (header::CORES_AT, geometry.cores().into()),
        (header::SLOTS_AT, geometry.slots().into()),
        (header::ORDER_ENTRIES_AT, geometry.order_entries().into()),
        (header::EVENT_ENTRIES_AT, geometry.event_entries().into()),
        (header::PID_AT, of.1.into()),
        (header::STARTED_AT_MS_AT, of.2.cast_unsigned()),
        (header::MAGIC_AT, MAGIC),
    ]
}

/// Words of a ring with so many entries.
#[must_use]
pub const fn ring_words(entries: u32) -> usize {
    RING_HEADER_WORDS + entries as usize * RING_ENTRY_WORDS
}

fn within(what: &'static str, found: u64, max: u32) -> Result<u32, BadGeometry> {
    match u32::try_from(found) {
        Ok(value) if (1..=max).contains(&value) => Ok(value),
        // The error says the value; the cause of a failed narrowing adds nothing to it.
        Ok(_) | Err(_) => Err(BadGeometry { what, found, max: u64::from(max) }),
    }
}

fn entries(what: &'static str, found: u64) -> Result<u32, BadGeometry> {
    let value = within(what, found, RING_ENTRIES_MAX)?;
    if value < RING_ENTRIES_MIN || !value.is_power_of_two() {
        return Err(BadGeometry { what, found, max: u64::from(RING_ENTRIES_MAX) });
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_follow_each_other_without_overlap_and_end_within_the_region() {
        for (cores, slots, orders, events) in [(1, 1, 2, 2), (3, 1000, 64, 256), (120, 1 << 20, 1 << 16, 1 << 16)] {
            let g = Geometry::new(cores, slots, orders, events).unwrap();
            let mut end = HEADER_WORDS;
            for core in 0..g.cores() {
                for area in [g.page(core), g.order_ring(core), g.event_ring(core)] {
                    assert!(area.start >= end && area.start.is_multiple_of(LINE_PAIR_WORDS));
                    end = area.end;
                }
            }
            assert!(g.board().start >= end && g.board().start.is_multiple_of(AREA_ALIGN_WORDS));
            assert!(g.words() >= g.board().end && g.words().is_multiple_of(AREA_ALIGN_WORDS));
        }
    }

    #[test]
    fn sizes_outside_of_their_bounds_are_refused_by_name() {
        let what = |cores, slots, orders, events| Geometry::new(cores, slots, orders, events).unwrap_err().what;
        assert_eq!(what(0, 1, 2, 2), "the number of cores");
        assert_eq!(what(1 << 32, 1, 2, 2), "the number of cores");
        assert_eq!(what(1, u64::MAX, 2, 2), "the number of board slots");
        assert_eq!(what(1, 1, 3, 2), "the number of order ring entries");
        assert_eq!(what(1, 1, 2, 1), "the number of event ring entries");
    }
}
