//! pure: sizes and rates as people write them.

use std::fmt;

const UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Bytes from text such as `2GiB`, `50MB`, `4096`.
///
/// # Errors
/// A sentence for the user.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let refusal = || format!("{text:?} is no size; write a number and B, kB, MB, GB, KiB, MiB or GiB, such as 2GiB");
    let factor = match unit.trim() {
        "" => 1,
        unit => UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or_else(refusal)?.1,
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(refusal);
    }
    let number: f64 = number.parse().ok().ok_or_else(refusal)?;
    Ok((number * factor as f64) as u64)
}

/// Shows bytes with a unit of 1024.
#[derive(Debug, Clone, Copy)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, factor) = UNITS[..3].iter().find(|(_, factor)| self.0 >= *factor).copied().unwrap_or(("B", 1));
        if self.0.is_multiple_of(factor) {
            write!(f, "{} {name}", self.0 / factor)
        } else {
            write!(f, "{:.1} {name}", self.0 as f64 / factor as f64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_with_and_without_a_unit() {
        for (text, bytes) in
            [("4096", 4096), ("2GiB", 2 << 30), ("50MB", 50_000_000), ("1.5 KiB", 1536), ("7b", 7), ("64kib", 65_536)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "x", "3 parsecs", "-1", "99999999999GiB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_print_short() {
        assert_eq!(
            [Bytes(2 << 30), Bytes(1536), Bytes(7), Bytes(0)].map(|bytes| bytes.to_string()),
            ["2 GiB", "1.5 KiB", "7 B", "0 B"]
        );
    }
}
