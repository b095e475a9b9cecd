//! Record batches: the bytes that a mirror passes on unchanged.

pub mod batch;
pub mod batches;
pub mod plain;
pub mod record;
