//! Reads what Prometheus reads: the text of a metrics page, and expressions as alert rules and dashboards have them. Knows
//! the rules that the page has to keep and says which one is broken.

pub mod documents;
mod expression;
mod page;

pub use expression::{Selector, selectors};
pub use page::{Kind, Page};
