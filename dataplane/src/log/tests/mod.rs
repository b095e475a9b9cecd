//! What a log promises, against files that a stock broker wrote and against disks that fail.

mod clone;
mod cutting;
mod faulty;
mod golden;
mod kit;
mod places;
mod recovery;
mod regions;
mod resume;
