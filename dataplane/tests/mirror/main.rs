//! A core of the data plane against a source that keeps to the protocol or breaks it: what is mirrored is byte for byte what
//! the source has, and what cannot be mirrored stops its partition alone, with the reason on the board.

mod batches;
mod faults;
mod honest;
mod source;
mod twists;
mod world;

use dataplane::allocator::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
