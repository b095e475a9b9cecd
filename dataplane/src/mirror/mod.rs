//! One mirror's work on one core: find the leaders, fetch, append, report.

pub mod align;
mod answer;
pub mod crew;
pub mod custody;
pub mod faring;
pub mod jobs;
mod offsets;
pub mod partition;
pub mod plan;
pub mod progress;
pub mod pump;
pub mod react;
mod receive;
pub mod retry;
pub mod scout;
pub mod settings;
mod takeover;
pub mod team;
