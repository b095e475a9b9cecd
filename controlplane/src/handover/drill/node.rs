//! The node of a drill: reachable on this host alone, and without anything that would change or remove what it did not write.

use super::room::Room;
use crate::failure::Failure;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

/// Writes the node's properties; gives their file, and where the broker will answer.
///
/// # Errors
/// When there is no free port, or the file cannot be written.
pub(super) fn write(room: &Room) -> Result<(PathBuf, String), Failure> {
    let [clients, controller] = free_ports()?;
    let path = room.path().join("server.properties");
    std::fs::write(&path, properties(&room.logs(), clients, controller)).map_err(|cause| {
        Failure::new(format_args!("{} cannot be written", path.display()), cause, "make room, or choose another --dir")
    })?;
    Ok((path, format!("127.0.0.1:{clients}")))
}

fn free_ports() -> Result<[u16; 2], Failure> {
    let bind = || TcpListener::bind(("127.0.0.1", 0));
    // Both at once, so that they differ.
    let both = bind().and_then(|one| Ok((one, bind()?)));
    let ports = both.and_then(|(one, other)| Ok([one.local_addr()?.port(), other.local_addr()?.port()]));
    ports.map_err(|cause| {
        Failure::new("no port of 127.0.0.1 is free for the broker", cause, "look who has them (`ss -tlnp`)")
    })
}

/// No retention, no cleaning, no deleting: what a drill has linked is never a file that a broker would write to. What the topics say of
/// retention stays in force at a broker that is promoted into.
fn properties(logs: &Path, clients: u16, controller: u16) -> String {
    const NEVER_MS: &str = "3153600000000";
    let (clients, controller) = (format!("127.0.0.1:{clients}"), format!("127.0.0.1:{controller}"));
    let logs = logs.display();
    format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@{controller}\n\
         listeners=PLAINTEXT://{clients},CONTROLLER://{controller}\n\
         advertised.listeners=PLAINTEXT://{clients}\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n\
         log.dirs={logs}\n\
         auto.create.topics.enable=false\n\
         offsets.topic.replication.factor=1\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         share.coordinator.state.topic.replication.factor=1\n\
         share.coordinator.state.topic.min.isr=1\n\
         min.insync.replicas=1\n\
         log.cleaner.enable=false\n\
         log.initial.task.delay.ms={NEVER_MS}\n\
         log.retention.check.interval.ms={NEVER_MS}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handover::node::Node;

    #[test]
    fn nobody_elsewhere_reaches_it_and_it_can_be_laid_out() {
        let text = properties(Path::new("/var/lib/x/logs"), 4001, 4002);
        let node = Node::parse(Path::new("/p"), text.as_bytes()).unwrap();
        assert_eq!(node.plaintext().as_deref(), Some("127.0.0.1:4001"));
        assert!(node.listeners.iter().chain([&node.controller]).all(|each| each.host == "127.0.0.1"));
        assert_eq!(node.log_dirs, [PathBuf::from("/var/lib/x/logs")]);
        let [one, other] = free_ports().unwrap();
        assert_ne!(one, other);
    }
}
