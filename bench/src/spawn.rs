//! Starts the other programs of a measured run, and ends them.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::args::Content;
use crate::run::RunError;
use crate::run::place::Place;
use crate::serve::topics_with_data;

/// A program that did not start as it should.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// It cannot be run.
    #[error("cannot run {program}: {cause}; it belongs beside {}", here.display())]
    Run {
        /// The program.
        program: String,
        /// Where it was looked for.
        here: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// It said something else than that it is ready.
    #[error("{program} did not start: {said}")]
    NotReady {
        /// The program.
        program: String,
        /// What it said, or that it ended.
        said: String,
    },
}

/// A program that lies beside this one.
///
/// # Errors
/// When the system does not know where this program is.
pub fn sibling(program: &str) -> Result<PathBuf, SpawnError> {
    let missing = |cause| SpawnError::Run { program: program.to_owned(), here: PathBuf::new(), cause };
    let here = env::current_exe().map_err(missing)?;
    Ok(here.with_file_name(program))
}

/// A program that serves mirrors: on ports that the system chooses, in the folders of `place`, saying on its output when it serves.
///
/// # Errors
/// When its log cannot be made or it cannot be run.
pub fn serving(program: &str, before: &[&str], more: &[&OsStr], place: &Place) -> Result<Child, RunError> {
    let here = sibling(program)?;
    let log = File::create(place.log()).map_err(RunError::place(place.root()))?;
    let child = Command::new(&here)
        .args(before)
        .args(["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"])
        .arg("--data")
        .arg(place.data())
        .arg("--state")
        .arg(place.state())
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(|cause| SpawnError::Run { program: program.to_owned(), here, cause })?;
    Ok(child)
}

/// The first core that this process may use, for the source; none when there is only one.
#[must_use]
pub fn first_core() -> Option<usize> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if cores.len() < 2 { None } else { cores.iter().map(|core| core.id).min() }
}

/// The last core that this process may use, for what is measured.
#[must_use]
pub fn last_core() -> Option<usize> {
    core_affinity::get_core_ids().unwrap_or_default().iter().map(|core| core.id).max()
}

/// The embedded source in a process of its own. It ends with this value, and with this process.
#[derive(Debug)]
pub struct Source {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    /// Where it listens.
    pub address: SocketAddr,
    /// The id of the cluster that it plays.
    pub cluster_id: String,
}

impl Source {
    /// Starts it with `content`, its serving threads pinned to `core`.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(content: &Content, core: Option<usize>) -> Result<Self, SpawnError> {
        let path = sibling("twinlog-bench")?;
        let mut command = Command::new(&path);
        command.args(["serve", "--until-stdin-ends", "--listen", "127.0.0.1:0", "--topic", &content.topic]);
        for (flag, value) in [
            ("--partitions", u64::from(content.partitions)),
            ("--topics", u64::from(content.topics)),
            ("--topics-with-data", u64::from(topics_with_data(content))),
            ("--bytes", content.bytes),
            ("--batch-bytes", content.batch_bytes),
            ("--record-bytes", content.record_bytes),
            ("--seed", content.seed),
        ] {
            command.arg(flag).arg(value.to_string());
        }
        if let Some(core) = core {
            command.arg("--core").arg(core.to_string());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let program = "twinlog-bench serve";
        let refused = |cause| SpawnError::Run { program: program.into(), here: path.clone(), cause };
        let mut child = command.spawn().map_err(refused)?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(SpawnError::NotReady { program: program.into(), said: "it has no pipes".into() });
        };
        let mut from = BufReader::new(from);
        let line = read_line(&mut from).map_err(refused)?;
        let word = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let address = word("listen").and_then(|address| address.parse().ok());
        let (true, Some(address), Some(cluster)) = (line.starts_with("serve ready"), address, word("cluster")) else {
            return Err(SpawnError::NotReady { program: program.into(), said: format!("{line:?}") });
        };
        Ok(Self { child, to, from, address, cluster_id: cluster.to_owned() })
    }

    /// Sends a command and returns the line that answers it.
    ///
    /// # Errors
    /// When the source is gone.
    pub fn tell(&mut self, command: &str) -> io::Result<String> {
        writeln!(self.to, "{command}")?;
        self.to.flush()?;
        self.next_line()
    }

    /// Waits for the next line that it prints.
    ///
    /// # Errors
    /// When the source is gone.
    pub fn next_line(&mut self) -> io::Result<String> {
        read_line(&mut self.from)
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // It may be gone already, which is what is wanted.
        self.child.kill().unwrap_or_default();
        drop(self.child.wait());
    }
}

/// One line without its end; an error when there is none.
fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended without a word"));
    }
    Ok(line.trim_end().to_owned())
}
