//! pure: what every cell is to be. A run that finds something else fails, so that a fault cannot become an entry of the table.

use super::column::{Cell, Column, Mode, Row};

/// What is expected of a row in a column.
pub(super) fn expected(row: Row, column: Column) -> Cell {
    match (column.mode, row) {
        (Mode::Standby, _) => Cell::Kept,
    }
}
