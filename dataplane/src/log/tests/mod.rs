//! What a log promises, against files that a stock broker wrote and against disks that fail.

mod faulty;
mod golden;
mod kit;
