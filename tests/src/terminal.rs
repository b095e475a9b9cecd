//! `twinlog` on a terminal of its own (a pseudo terminal): what it shows, what keys do, how it leaves the terminal.

use crate::place;
use crate::process::{mortal, signal, until, wait};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(15);

/// A running command on its terminal.
#[derive(Debug)]
pub struct Watched {
    child: Child,
    /// Our end.
    keys: File,
    /// The command's end, held open so that it can be looked at afterwards.
    terminal: File,
    seen: Arc<Mutex<String>>,
}

impl Watched {
    /// Starts `twinlog` with `arguments` on a terminal of 40 rows and 160 columns.
    ///
    /// # Panics
    /// When the system has no terminals left.
    #[must_use]
    pub fn start(arguments: &[&str]) -> Self {
        let ours: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo terminal");
        grantpt(&ours).expect("granted");
        unlockpt(&ours).expect("unlocked");
        let name = ptsname(&ours, Vec::new()).expect("a name").into_string().expect("UTF-8");
        let terminal = OpenOptions::new().read(true).write(true).open(name).expect("the terminal");
        let keys = File::from(ours);
        let end = || terminal.try_clone().expect("a descriptor");
        let mut command = mortal(place::binary("twinlog"));
        command.args(arguments).env_remove("NO_COLOR").stdin(end()).stdout(end()).stderr(end());
        let seen = Arc::new(Mutex::new(String::new()));
        let watched = Self { child: command.spawn().expect("twinlog starts"), keys, terminal, seen };
        watched.resize(40, 160);
        let (mut from, into) = (watched.keys.try_clone().expect("a descriptor"), Arc::clone(&watched.seen));
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = from.read(&mut piece) {
                let text = String::from_utf8_lossy(&piece[..read]).into_owned();
                into.lock().expect("nobody panics with it").push_str(&text);
            }
        });
        watched
    }

    /// Everything that was shown so far.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn seen(&self) -> String {
        self.seen.lock().expect("nobody panics with it").clone()
    }

    /// Waits until `text` is shown.
    ///
    /// # Panics
    /// When it is not in time.
    pub fn reads(&self, text: &str) {
        until(text, LIMIT, || if self.seen().contains(text) { Ok(()) } else { Err(format!("{:?}", self.seen())) });
    }

    /// Gives the terminal another size.
    ///
    /// # Panics
    /// When the system refuses.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.keys, size).expect("another size");
    }

    /// Presses a key.
    ///
    /// # Panics
    /// When the terminal is gone.
    pub fn press(&mut self, key: u8) {
        self.keys.write_all(&[key]).expect("a key pressed");
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        signal(self.child.id(), Signal::TERM);
    }

    /// Waits for the end; gives the exit code, and whether the terminal shows what is typed, as it did before.
    ///
    /// # Panics
    /// When it does not end.
    pub fn ends(&mut self) -> (Option<i32>, bool) {
        let status = wait(&mut self.child, LIMIT).unwrap_or_else(|why| panic!("{why}: {:?}", self.seen()));
        // What it wrote last is on its way through the terminal.
        std::thread::sleep(Duration::from_millis(200));
        let modes = tcgetattr(&self.terminal).expect("its modes").local_modes;
        (status.code(), modes.contains(LocalModes::ECHO | LocalModes::ICANON))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
