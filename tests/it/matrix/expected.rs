//! pure: what every cell is to be. A run that finds something else fails, so that a fault cannot become an entry of the table.

use super::column::{Cell, Column, Mode, Row};

/// What is expected of a row in a column.
pub(super) fn expected(row: Row, column: Column) -> Cell {
    let text = str::to_owned;
    match (column.mode, row) {
        (_, Row::Open) => Cell::Changed(text(
            "aborted, by a marker behind the mirrored records; readers of committed records are not held up",
        )),
        (_, Row::Share) if matches!(column.release, "4.0.2" | "4.1.2") => {
            Cell::Absent(text("share groups came with 4.2"))
        }
        (Mode::Standby, Row::Tiered) => Cell::Refused(text(
            "topic tiered is in remote storage (remote.storage.enable=true): a broker without one applies none of the topic's settings, \
             and deletes as its own retention says",
        )),
        (Mode::Adopt, row) => adopted(row),
        (Mode::Standby, _) => Cell::Kept,
    }
}

/// What is special of a broker that runs.
fn adopted(row: Row) -> Cell {
    let changed = |how: &str| Cell::Changed(how.to_owned());
    match row {
        Row::BatchBytes => changed("the leader epoch of each batch is 0, all other bytes are the same"),
        Row::LeaderEpochs => changed("0 for every record: the broker makes a new topic, which begins with epoch 0"),
        Row::TopicIds => changed("the broker's cluster gives new ones"),
        Row::Transactional => changed(
            "a producer that lives on fails and is to be started again; another process with the id commits, under a new producer id",
        ),
        Row::Classic | Row::Consumer | Row::HigherEpoch => {
            changed("offset and note are kept, without the leader epoch")
        }
        Row::Share => Cell::Refused("the source has share groups, and where they are is not carried over".to_owned()),
        Row::Acls => changed(
            "those that name one of the topics or its groups; the others, prefixed and of other kinds, are told and left out",
        ),
        Row::Quotas => Cell::Refused(
            "3 quotas of clients at the source are not given to the broker: they would hold for its own topics too"
                .to_owned(),
        ),
        Row::Tiered => Cell::Refused(
            "the destination would not make topic tiered: Tiered Storage functionality is disabled in the broker. Topic cannot be \
             configured with remote log storage. (INVALID_CONFIG)"
                .to_owned(),
        ),
        _ => Cell::Kept,
    }
}
