//! The ways back: as long as the broker has none of the topics; and later, when somebody deleted them there.

use super::progress::Step;
use super::{Adopting, Order, broker, handed_over_to, report};
use crate::clock::now_ms;
use crate::failure::Failure;
use crate::handover::journal::{self, Journal};
use crate::handover::promote::{HandOver, Say};
use crate::handover::{control, preflight};
use std::collections::BTreeMap;
use std::fs;

/// Takes topics back that the broker had and does not have any more, for somebody deleted them there: mirroring goes on in the mirror's own
/// files. Gives their names.
///
/// # Errors
/// When the broker still has one, or is another one, or a step fails; the same command again goes on.
pub fn take_back(order: &Order, say: Say<'_>) -> Result<Vec<String>, Failure> {
    let (state, mirror) = (&order.promote.state, &order.promote.mirror);
    let wanted = &order.promote.topics;
    let mut past = report::past(state, mirror)?;
    past.retain(|past| wanted.is_empty() || wanted.contains(&past.topic));
    let refused =
        |why: String, remedy: &str| Err(Failure::new(format_args!("mirror {mirror} is not taken back"), why, remedy));
    if past.is_empty() {
        return refused(
            "no broker has adopted these topics".into(),
            "`twinlog mirrors describe` shows who has its topics",
        );
    }
    let (mut client, found) = broker::look(&order.address, &order.log_dir, &[], None, state)?;
    let to = handed_over_to(found.node_id(), found.cluster_id.as_deref().unwrap_or_default(), &order.log_dir);
    if let Some(other) = past.iter().find(|past| past.handed_over_to != to) {
        return refused(
            format!("topic {} was handed over to {}, not to {to}", other.topic, other.handed_over_to),
            "give the address and the log directory of that broker, and its topics with --topic",
        );
    }
    let names: Vec<String> = past.into_iter().map(|past| past.topic).collect();
    if let Some(first) = broker::existing(&mut client, &names)?.first() {
        return refused(
            format!("the broker at {} has topic {first}, and clients may have written to it", order.address),
            "delete it there when what was written is not wanted, then run the same command again",
        );
    }
    control::record(
        &order.promote.control,
        mirror,
        control::named(names.clone()),
        (&to, true),
        "the return is not recorded",
    )?;
    let mut journal = Journal::begin(mirror, preflight::Mode::Planned, now_ms());
    let topic = |name: &String| journal::Topic {
        topic: name.clone(),
        topic_id: String::new(),
        flowed: true,
        configs: BTreeMap::new(),
        carried: BTreeMap::new(),
        partitions: Vec::new(),
    };
    journal.topics = names.iter().map(topic).collect();
    HandOver::beside(order.promote.clone(), journal).start_again(say)?;
    report::forget(state, mirror, &names)?;
    Ok(names)
}

impl Adopting {
    /// The broker has none of the topics, whatever the journal says.
    fn has_none(&self) -> Result<(), Failure> {
        let names: Vec<String> = self.journal.topics.iter().map(|topic| topic.topic.clone()).collect();
        let placed = self.adoption.topics.iter().any(|topic| topic.placed);
        let known = match placed {
            true => broker::existing(&mut broker::connect(&self.adoption.address)?, &names)?,
            false => Vec::new(),
        };
        if known.is_empty() && !self.adoption.has_any() {
            return Ok(());
        }
        Err(Failure::new(
            format_args!("mirror {} is not taken back", self.journal.mirror),
            format_args!(
                "the broker at {} has topics of it, and clients may have written to them",
                self.adoption.address
            ),
            "run the same command without --undo to end the hand-over; then delete the topics at the broker when they are not wanted, and run it with --undo",
        ))
    }

    /// Takes everything back; possible as long as the broker has none of the topics.
    ///
    /// # Errors
    /// When it has one, or what went wrong; the same command again goes on.
    pub fn undo(mut self, say: Say<'_>) -> Result<(), Failure> {
        self.has_none()?;
        self.journal.undoing = true;
        self.save()?;
        if self.adoption.step >= Step::Copied {
            say("removing the copies");
            self.take_out()?;
        }
        match fs::remove_dir_all(&self.adoption.stage) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                let what = format_args!("the copies in {} cannot be removed", self.adoption.stage.display());
                return Err(Failure::new(what, cause, "remove them by hand, then run the same command again"));
            }
            _ => {}
        }
        if self.adoption.step >= Step::Raised {
            self.record(true)?;
        }
        let mut hand_over = HandOver::beside(self.order.promote.clone(), self.journal.clone());
        hand_over.start_again(say)?;
        self.journal.remove(self.state())
    }
}
