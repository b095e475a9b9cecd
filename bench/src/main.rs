//! The `twinlog-bench` command.

fn main() {}
