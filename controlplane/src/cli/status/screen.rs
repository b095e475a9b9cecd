//! The terminal while `status --watch` has it: another screen, no cursor, keys at once. Everything is put back when it is
//! dropped, and when the process panics.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{self, OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Another screen, no cursor, no line wrap.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l";
/// Everything as it was.
const LEAVE: &str = "\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";
/// The size where the terminal does not tell one.
const SIZE_UNKNOWN: (usize, usize) = (24, 80);

/// The terminal, taken.
#[derive(Debug)]
pub(super) struct Screen {
    keys: Option<Termios>,
    ended: Arc<AtomicBool>,
}

impl Screen {
    /// Whether there is a terminal to show something on.
    pub(super) fn is_there() -> bool {
        isatty(io::stdout())
    }

    /// Takes the terminal.
    ///
    /// # Errors
    /// When it cannot be written or set.
    pub(super) fn take() -> io::Result<Self> {
        let keys = if isatty(io::stdin()) { Some(tcgetattr(io::stdin())?) } else { None };
        if let Some(before) = &keys {
            let mut raw = before.clone();
            raw.local_modes.remove(termios::LocalModes::ICANON | termios::LocalModes::ECHO);
            tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        }
        let (told, restored) = (std::panic::take_hook(), keys.clone());
        std::panic::set_hook(Box::new(move |why| {
            restore(restored.as_ref());
            told(why);
        }));
        let ended = Arc::new(AtomicBool::new(false));
        let screen = Self { keys, ended: Arc::clone(&ended) };
        listen(ended)?;
        write(ENTER)?;
        Ok(screen)
    }

    /// Rows and columns.
    pub(super) fn size() -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
            _ => SIZE_UNKNOWN,
        }
    }

    /// Shows these rows and nothing else.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub(super) fn show(&self, rows: &[String]) -> io::Result<()> {
        let mut text = String::from("\u{1b}[H");
        for (at, row) in rows.iter().enumerate() {
            let next = if at == 0 { "" } else { "\r\n" };
            text += &format!("{next}{row}\u{1b}[K");
        }
        text += "\u{1b}[J";
        write(&text)
    }

    /// Waits so long, or until a key or a signal ends it: true then.
    pub(super) fn wait(&self, longest: Duration) -> bool {
        if self.keys.is_none() {
            std::thread::sleep(longest);
            return self.ended.load(Ordering::Relaxed);
        }
        let stdin = io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        let time = Timespec { tv_sec: longest.as_secs().cast_signed(), tv_nsec: longest.subsec_nanos().into() };
        let ready = poll(&mut fds, Some(&time)).unwrap_or(0);
        if ready > 0 {
            let mut keys = [0; 16];
            match rustix::io::read(&stdin, &mut keys) {
                // The other side of the terminal is gone.
                Ok(0) | Err(_) => return true,
                Ok(read) if keys[..read].iter().any(|key| matches!(key, b'q' | b'Q')) => return true,
                Ok(_) => {}
            }
        }
        self.ended.load(Ordering::Relaxed)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore(self.keys.as_ref());
    }
}

fn restore(keys: Option<&Termios>) {
    // When the terminal is gone there is nothing to put back.
    write(LEAVE).ok();
    if let Some(keys) = keys {
        tcsetattr(io::stdin(), OptionalActions::Now, keys).ok();
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Ctrl-C and its relatives end the showing, so that the terminal is put back.
fn listen(ended: Arc<AtomicBool>) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ready = {
        let _entered = runtime.enter();
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal)
    };
    let [interrupt, terminate, hangup] = ready;
    let (mut interrupt, mut terminate, mut hangup) = (interrupt?, terminate?, hangup?);
    std::thread::spawn(move || {
        runtime.block_on(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            ended.store(true, Ordering::Relaxed);
        });
    });
    Ok(())
}
