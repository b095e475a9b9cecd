//! pure: what every cell is to be. A run that finds something else fails, so that a fault cannot become an entry of the table.

use super::column::{Cell, Column, Mode, Row};

/// What is expected of a row in a column.
pub(super) fn expected(row: Row, column: Column) -> Cell {
    let text = str::to_owned;
    match (column.mode, row) {
        (Mode::Standby, Row::Open) => Cell::Changed(text(
            "aborted, by a marker behind the mirrored records; readers of committed records are not held up",
        )),
        (Mode::Standby, Row::Share) if matches!(column.release, "4.0.2" | "4.1.2") => {
            Cell::Absent(text("share groups came with 4.2"))
        }
        (Mode::Standby, Row::Tiered) => Cell::Refused(text(
            "topic tiered is in remote storage (remote.storage.enable=true): a broker without one applies none of the topic's settings, \
             and deletes as its own retention says",
        )),
        (Mode::Standby, _) => Cell::Kept,
    }
}
