//! pure: what the environment variable of the logs may say; every program of twinlog begins its log by it.
//!
//! The filter that reads it takes any bare word for the name of a module, so that a misspelt level would silence everything.

use std::fmt;

/// The environment variable.
pub const VARIABLE: &str = "TWINLOG_LOG";
/// Names of levels, as the filter knows them.
const LEVELS: [&str; 6] = ["trace", "debug", "info", "warn", "error", "off"];
/// What our modules' names begin with.
const OURS: &str = "twinlog";

/// A value that would not do what its writer wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLogLevel {
    value: String,
    part: String,
}

impl fmt::Display for BadLogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, part } = self;
        write!(f, "{VARIABLE} = {value} is not usable: {part:?} is no level; ")?;
        f.write_str("set it to info, debug or trace, or to MODULE=LEVEL[,...]")
    }
}

impl std::error::Error for BadLogLevel {}

/// The directives: those of the variable's `value`, or `otherwise`.
///
/// # Errors
/// A part that is neither a level nor a module of ours nor `MODULE=LEVEL`.
pub fn directives(value: Option<&str>, otherwise: &str) -> Result<String, BadLogLevel> {
    let Some(value) = value.map(str::trim).filter(|value| !value.is_empty()) else { return Ok(otherwise.to_owned()) };
    let is_level = |word: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
    let usable = |part: &str| match part.rsplit_once('=') {
        Some((_, level)) => is_level(level.trim()),
        None => is_level(part) || part.starts_with(OURS),
    };
    match value.split(',').map(str::trim).find(|part| !usable(part)) {
        Some(part) => Err(BadLogLevel { value: value.to_owned(), part: part.to_owned() }),
        None => Ok(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_a_module_of_ours_and_pairs_are_taken_as_they_are() {
        for value in ["debug", "WARN", "off", "twinlog_dataplane", "info,twinlog_proto=trace, h2=off"] {
            assert_eq!(directives(Some(value), "info").as_deref(), Ok(value));
        }
        assert_eq!(directives(None, "warn").as_deref(), Ok("warn"));
        assert_eq!(directives(Some(" "), "warn").as_deref(), Ok("warn"));
    }

    #[test]
    fn a_misspelt_level_is_named_and_silences_nothing() {
        for (value, part) in [("inof", "inof"), ("info,x=loud", "x=loud"), ("5", "5"), ("debug,,info", "")] {
            let refused = directives(Some(value), "info").unwrap_err().to_string();
            assert!(
                refused.starts_with(&format!("TWINLOG_LOG = {value} is not usable: {part:?} is no level")),
                "{refused}"
            );
        }
    }
}
