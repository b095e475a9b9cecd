//! Asks the started broker one thing at a time and rests between as long as an answer took, for its clients come first: right after its
//! start a broker is at its slowest, and whoever waits for it has waited long enough.

use crate::client::{Client, ClientError};
use crate::failure::Failure;
use rustix::process::setpriority_process;
use std::thread::sleep;
use std::time::{Duration, Instant};
use twinlog_proto::messages::Request;

/// How often a broker that has just started is asked again.
const POLL: Duration = Duration::from_millis(200);
/// Time for it to lead every partition, and for coordinators to have read their topics.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(120);
/// Longest rest after an answer.
const REST_MAX: Duration = Duration::from_millis(250);
/// The lowest priority: what the broker does for others on this host goes first.
const NICE: i32 = 19;

/// The broker, and how long it has been waited for.
#[derive(Debug)]
pub(super) struct Asking {
    client: Client,
    begun: Instant,
}

impl Asking {
    /// Connects to `address`. This process, whose last work it is, has the lowest priority from now on.
    pub(super) fn begin(address: &str) -> Result<Self, Failure> {
        // Whoever may not lower it asks with the priority that he has.
        setpriority_process(None, NICE).ok();
        Ok(Self { client: Client::connect(address).map_err(unasked)?, begun: Instant::now() })
    }

    /// Asks, and rests.
    pub(super) fn ask<R: Request>(&mut self, request: &R) -> Result<R::Response, Failure> {
        self.with(|client| client.ask(request))
    }

    /// The same for what is asked otherwise.
    pub(super) fn with<T>(&mut self, ask: impl FnOnce(&mut Client) -> Result<T, ClientError>) -> Result<T, Failure> {
        let begun = Instant::now();
        let answer = ask(&mut self.client).map_err(unasked)?;
        sleep(begun.elapsed().min(REST_MAX));
        Ok(answer)
    }

    /// Waits a little for something to settle; false when that was waited for long enough.
    pub(super) fn wait(&self) -> bool {
        let goes_on = self.begun.elapsed() < SETTLE_TIME_MAX;
        if goes_on {
            sleep(POLL);
        }
        goes_on
    }
}

fn unasked(cause: ClientError) -> Failure {
    Failure::new("the broker cannot be asked", cause, "look into its output, then run the same command again")
}
