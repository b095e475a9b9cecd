//! The data plane as seen from here: its board, its rings, and the files that tell it what to do.

pub mod assignments;
pub mod attachment;
pub mod events;
pub mod lag;
pub mod memory;
pub mod pace;
pub mod sender;
pub mod view;
