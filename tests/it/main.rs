//! Scenarios with stock brokers and real twinlog processes; one file each. `make test` runs them.

mod source_folders_on_a_standby;
mod wild_source;
