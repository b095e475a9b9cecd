//! pure: numbers as people read them: bytes, times, rates, shares.

/// Bytes with a unit.
#[must_use]
pub(super) fn bytes(count: i64) -> String {
    let mut value = count as f64;
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") }
}

/// Bytes in a second.
#[must_use]
pub(super) fn rate(bytes_per_second: i64) -> String {
    format!("{}/s", bytes(bytes_per_second))
}

/// A time in its two largest units.
#[must_use]
pub(super) fn time(ms: i64) -> String {
    const SECOND: i64 = 1_000;
    const MINUTE: i64 = 60 * SECOND;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    if ms < SECOND {
        format!("{ms} ms")
    } else if ms < MINUTE {
        format!("{:.1} s", ms as f64 / SECOND as f64)
    } else if ms < HOUR {
        format!("{} min {} s", ms / MINUTE, ms % MINUTE / SECOND)
    } else if ms < DAY {
        format!("{} h {} min", ms / HOUR, ms % HOUR / MINUTE)
    } else {
        format!("{} d {} h", ms / DAY, ms % DAY / HOUR)
    }
}

/// What may be unknown, as `show` shows it.
#[must_use]
pub(super) fn known(value: Option<i64>, show: impl Fn(i64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_times_have_units_that_people_read() {
        assert_eq!([0, 1_023, 1_024, 1_572_864].map(bytes), ["0 B", "1023 B", "1.0 KiB", "1.5 MiB"]);
        assert_eq!(bytes(i64::MAX), "8192.0 PiB");
        assert_eq!(rate(2_048), "2.0 KiB/s");
        let times = [0, 999, 1_250, 61_000, 3_660_000, 100_000_000].map(time);
        assert_eq!(times, ["0 ms", "999 ms", "1.2 s", "1 min 1 s", "1 h 1 min", "1 d 3 h"]);
        assert_eq!(known(None, time), "-");
    }
}
