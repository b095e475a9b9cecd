//! Scenarios with stock brokers and real twinlog processes; one file each. `make test` runs them.

// Tests speak to the person who runs them.
#![allow(clippy::print_stderr)]

mod adopt;
mod allocations;
mod authorization;
mod bad_input;
mod circle;
mod clients;
mod command_line;
mod crash;
mod demo;
mod drill;
mod follow;
mod from_scratch;
mod full_disk;
mod full_state_disk;
mod genesis;
mod hostile_memory;
mod killed_at_every_step;
mod leader_moves;
mod librdkafka;
mod matrix;
mod mirror_everything;
mod open_transactions;
mod operating;
mod planes_die_alone;
mod promote;
mod reclaim;
mod restarts_at_scale;
mod source_changes;
mod source_folders_on_a_standby;
mod source_moves;
mod stock_follower;
mod sync;
mod wild_source;
