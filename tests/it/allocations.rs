//! A pass proves: while records flow steadily over a real socket into real files, the core's thread allocates nothing.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;
use twinlog_tests::house::{House, Site};
use twinlog_tests::place;
use twinlog_tests::process::mortal;

/// The embedded source, whose `pace` command makes batches at a steady rate.
struct Serve {
    child: Child,
    commands: ChildStdin,
    address: String,
}

impl Serve {
    fn start() -> Self {
        let mut command = mortal(place::binary("twinlog-bench"));
        command.args(["serve", "--partitions", "4", "--bytes", "32MiB", "--batch-bytes", "64KiB"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("twinlog-bench starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let ready = lines.next().and_then(Result::ok).unwrap_or_default();
        let address = ready.split_whitespace().find_map(|w| w.strip_prefix("listen=")).map(str::to_owned);
        let address = address.unwrap_or_else(|| panic!("{ready:?}"));
        std::thread::spawn(move || lines.for_each(drop));
        let commands = child.stdin.take().expect("piped");
        Self { child, commands, address }
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn the_record_path_allocates_nothing_in_steady_state() {
    let _turn = place::turn();
    let scratch = place::scratch("allocations");
    let mut source = Serve::start();
    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);
    site.mirror("dr", &source.address, &["bench"]);
    writeln!(source.commands, "pace 40MB 12").expect("the source takes commands");
    std::thread::sleep(Duration::from_secs(4)); // queues and buffers find their sizes
    let count = || ["allocations", "mirrored_bytes"].map(|n| site.metric(&format!("twinlog_core_{n}_total")));
    let [allocations, bytes] = count();
    std::thread::sleep(Duration::from_secs(5));
    let [allocations_after, bytes_after] = count();
    assert!(bytes_after - bytes > 100e6, "records flowed: {bytes} {bytes_after}");
    assert_eq!(allocations_after - allocations, 0.0, "allocations while {} bytes were mirrored", bytes_after - bytes);
    house.down();
}
