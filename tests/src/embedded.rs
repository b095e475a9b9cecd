//! The embedded source as a process of its own, with many topics that grow for ever.

use crate::house::Site;
use crate::place;
use crate::process::mortal;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

/// A running source. It ends with this value.
#[derive(Debug)]
pub struct Embedded {
    child: Child,
    // It keeps writing there.
    _stdout: BufReader<ChildStdout>,
    /// Where it listens.
    pub address: String,
}

impl Embedded {
    /// [`Embedded::start`] with topics that do not grow, when mirror `dr` of the site has all of them.
    ///
    /// # Panics
    /// When it does not start, or the mirror does not have them in time.
    #[must_use]
    pub fn mirrored_by(site: &Site, topics: u32, partitions: u32, bytes: &str, limit: Duration) -> Self {
        let source = Self::start(topics, partitions, bytes, "0");
        let none = "mirror.internal.topics=none";
        site.cli(&["mirrors", "create", "dr", "--source", &source.address, "--set", none]).done();
        site.cli(&["topics", "start", "dr", "--include", "bench-.*"]).done();
        site.has_everything("dr", (topics * partitions) as usize, limit);
        source
    }

    /// Starts one with `topics` topics of `partitions` partitions, called `bench-00000` and so on, which hold `bytes` (as the
    /// command line takes them) and grow by `rate` bytes per second.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start(topics: u32, partitions: u32, bytes: &str, rate: &str) -> Self {
        let mut command = mortal(place::binary("twinlog-bench"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--batch-bytes", "4KiB", "--bytes", bytes]);
        command.args(["--topics", &topics.to_string(), "--partitions", &partitions.to_string()]);
        command.args(["--rate", rate, "--duration", "3600"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("twinlog-bench starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        let address = line.split(' ').find_map(|word| word.strip_prefix("listen=")).map(str::to_owned);
        let address = address.unwrap_or_else(|| panic!("twinlog-bench serve did not start: {line:?}"));
        Self { child, _stdout: stdout, address }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
