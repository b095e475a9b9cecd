//! pure: the metrics of the two processes, their disks, and the control plane's own work.

use super::Facts;
use super::tally::Tally;
use super::text::{Kind, Page};
use crate::host::Process;
use std::fmt::Display;

pub(super) fn write(page: &mut Page, facts: &Facts, tally: &Tally) {
    let version: &dyn Display = &env!("CARGO_PKG_VERSION");
    let help = "The version of this control plane; always 1";
    page.family("twinlog_build_info", Kind::Gauge, help).sample(&[("version", version)], 1);
    let healthy = i64::from(facts.troubles.is_empty());
    page.one("twinlog_healthy", Kind::Gauge, "Whether /health finds nothing wrong", healthy);
    page.one("twinlog_troubles", Kind::Gauge, "What /health finds wrong, counted", facts.troubles.len());
    let up = i64::from(facts.data_plane.is_some());
    page.one("twinlog_data_plane_up", Kind::Gauge, "Whether a data plane is attached", up);
    let name = "twinlog_data_plane_attachments_total";
    page.one(name, Kind::Counter, "Data planes attached since the control plane started", facts.attachments);
    let memory = &facts.memory;
    let help = "Whether the memory that the planes share is known to be damaged";
    page.one("twinlog_shared_memory_damaged", Kind::Gauge, help, i64::from(memory.damaged));
    let help = "Times that the data plane made damaged shared memory anew since it started";
    page.one("twinlog_shared_memory_rebuilt_total", Kind::Counter, help, memory.renewed);
    let help = "Regions of shared memory in which the control plane found damage by itself";
    page.one("twinlog_shared_memory_damage_found_total", Kind::Counter, help, memory.found);
    let name = "twinlog_data_plane_silent_cores";
    page.one(name, Kind::Gauge, "Cores of the data plane that hang", facts.silent_cores.len());
    page.one("twinlog_client_connections", Kind::Gauge, "Open client connections", facts.connections);
    let help = "Client connections that were ended here or turned away";
    let mut ended = page.family("twinlog_client_connections_ended_total", Kind::Counter, help);
    for (cause, count) in &facts.ended {
        ended.sample(&[("cause", cause)], count);
    }
    processes(page, facts);
    disks(page, facts);
    state_log(page, tally);
}

type Pick = fn(&Process) -> Option<f64>;

fn processes(page: &mut Page, facts: &Facts) {
    let rows: [(&str, Kind, &str, Pick); 6] = [
        ("twinlog_process_resident_memory_bytes", Kind::Gauge, "Memory in RAM", |p| p.resident_bytes.map(|n| n as f64)),
        ("twinlog_process_open_fds", Kind::Gauge, "Open descriptors", |p| p.open_fds.map(|n| n as f64)),
        ("twinlog_process_max_fds", Kind::Gauge, "Descriptors that may be open", |p| p.max_fds.map(|n| n as f64)),
        ("twinlog_process_cpu_seconds_total", Kind::Counter, "Time on processors", |p| p.cpu_seconds),
        ("twinlog_process_start_time_seconds", Kind::Gauge, "When the process started, since 1970", |p| p.started_at),
        ("twinlog_process_restarts_total", Kind::Counter, "Times that `twinlog up` started it again", |p| {
            p.restarts.map(|n| n as f64)
        }),
    ];
    let planes = [("control", Some(&facts.control_plane)), ("data", facts.data_plane.as_ref())];
    for (name, kind, help, pick) in rows {
        let mut family = page.family(name, kind, help);
        for (plane, process) in &planes {
            if let Some(value) = process.and_then(pick) {
                family.sample(&[("plane", plane)], value);
            }
        }
    }
}

fn disks(page: &mut Page, facts: &Facts) {
    let mut size = page.family("twinlog_disk_size_bytes", Kind::Gauge, "Size of a directory's file system");
    for disk in &facts.disks {
        size.sample(&[("path", &disk.path.display())], disk.size_bytes);
    }
    let mut free = page.family("twinlog_disk_free_bytes", Kind::Gauge, "What is free on a directory's file system");
    for disk in &facts.disks {
        free.sample(&[("path", &disk.path.display())], disk.free_bytes);
    }
}

fn state_log(page: &mut Page, tally: &Tally) {
    let commits = &tally.commits;
    let help = "Time of a commit of the state log: a write and a sync";
    let mut took = page.family("twinlog_state_log_commit_duration_seconds", Kind::Histogram, help);
    took.histogram(&[], &commits.took.cumulative(), commits.took.sum_seconds(), commits.took.counted());
    let failed = commits.failed.get();
    page.one("twinlog_state_log_commit_failures_total", Kind::Counter, "Commits of the state log that failed", failed);
    let records = commits.records.get();
    page.one("twinlog_state_log_records_total", Kind::Counter, "Records made durable in the state log", records);
}
