//! The shared-memory channel between the planes: a board for progress, a pair of rings per core for orders and events.
//!
//! The data plane creates the region at each start, and anew when it was damaged, and hands it out over `STATE/channel.sock`. *Board*: the newest value wins,
//! one slot per partition, one writer. *Ring*: nothing in it is lost, one producer, one consumer. *Page*: counters and delay
//! histograms of one core. Events are hints, the slot is the truth.
//!
//! A neighbour's word is foreign input: it is copied out, checked, and then the copy is used. A word out of range means that
//! the neighbour is broken, which is reported and never mended by clamping: the data plane makes another region from what it knows.

#[cfg(not(loom))]
pub mod attach;
pub mod board;
pub mod damage;
#[cfg(not(loom))]
pub mod doorbell;
pub mod handshake;
pub mod layout;
pub mod message;
pub mod page;
pub mod progress;
#[cfg(not(loom))]
#[expect(unsafe_code, reason = "maps shared memory; the only file of this crate that may hold unsafe code")]
pub mod region;
#[cfg(not(loom))]
mod region_error;
pub mod ring;
mod sync;
