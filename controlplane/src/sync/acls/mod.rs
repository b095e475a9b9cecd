//! Access rules: what the source allows and forbids, as far as the mirror's rules say, is kept for whoever takes the topics over, and
//! given to a destination that runs. Only what we made is ever taken away.

pub mod apply;
pub mod destination;
pub mod list;
pub mod plan;
