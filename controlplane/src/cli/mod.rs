//! The `twinlog` command. It speaks the Kafka protocol to the control plane and never talks to a source itself, but for
//! `verify --against-source`, whose whole point is to ask the source again.

mod acls;
mod adopt;
pub mod args;
mod demo;
mod describe;
mod drill;
mod dump;
mod lmo;
mod manual;
mod mirrors;
mod output;
mod promote;
mod reclaim;
mod status;
mod sums;
mod sync;
mod topics;
mod units;
mod up;
mod verify;

use crate::client::{Client, ClientError};
use crate::failure::Failure;
use args::{Ask, Twinlog, Verb};
use clap::Parser;
use std::process::ExitCode;

/// Runs the command of this process and gives its exit code.
#[must_use]
pub fn main() -> ExitCode {
    match run(Twinlog::parse()) {
        Ok(code) => code,
        Err(failure) => {
            output::failure(&failure);
            ExitCode::from(failure.exit() as u8)
        }
    }
}

fn run(args: Twinlog) -> Result<ExitCode, Failure> {
    match args.verb {
        Verb::Up(args) => return up::run(&args),
        Verb::Demo(args) => return demo::run(&args),
        Verb::Mirrors(verb) => mirrors::run(&verb)?,
        Verb::Topics(verb) => topics::run(&verb)?,
        Verb::Acls(verb) => acls::run(&verb)?,
        Verb::Lmo(args) => lmo::run(&args)?,
        Verb::Promote(args) => return promote::run(&args),
        Verb::Reclaim(args) => return reclaim::run(&args),
        Verb::Drill(args) => return drill::run(&args),
        Verb::Status(args) => status::run(&args)?,
        Verb::Verify(args) => return verify::run(&args),
        Verb::Dump(args) => return dump::run(&args),
        Verb::Completions { shell } => manual::completions(shell)?,
        Verb::Man { folder } => manual::man_pages(&folder)?,
        Verb::RunTied { parent, program, args } => match up::run_tied(parent, &program, &args)? {},
    }
    Ok(ExitCode::SUCCESS)
}

impl From<ClientError> for Failure {
    fn from(cause: ClientError) -> Self {
        let (what, remedy) = match &cause {
            ClientError::Io { .. } => (
                "the control plane does not answer",
                "start it with `twinlog up`, or give its address with --bootstrap-server",
            ),
            ClientError::NoMirrors { .. } => (
                "the server cannot do this",
                "give the address of a twinlog control plane with --bootstrap-server, not of a broker",
            ),
            _ => (
                "the server cannot be understood",
                "give the address of a twinlog control plane with --bootstrap-server",
            ),
        };
        Self::new(what, cause, remedy)
    }
}

/// Connects to the control plane that the command line names.
fn connect(ask: &Ask) -> Result<Client, Failure> {
    if let Some(file) = &ask.command_config {
        check_command_config(file)?;
    }
    if !ask.bootstrap_server.contains(':') {
        let what = format_args!("--bootstrap-server {:?} names no port", ask.bootstrap_server);
        return Err(Failure::usage(what, "write HOST:PORT, for example 127.0.0.1:9192"));
    }
    // Some commands speak stock requests alone, and no command is meant for a stock broker.
    let client = Client::connect(&ask.bootstrap_server)?;
    client.need_mirrors()?;
    Ok(client)
}

/// The listener of the control plane speaks PLAINTEXT; settings that ask for more must not be ignored.
fn check_command_config(file: &std::path::Path) -> Result<(), Failure> {
    let settings = mirrors::read_properties(file)?;
    let protocol = settings.iter().rev().find(|(name, _)| name == "security.protocol");
    match protocol {
        Some((_, protocol)) if protocol != "PLAINTEXT" => Err(Failure::new(
            format_args!("--command-config {} is not usable", file.display()),
            format_args!("it asks for security.protocol={protocol}, and the control plane serves PLAINTEXT only"),
            "reach the control plane over a private address, without this option",
        )),
        _ => Ok(()),
    }
}
