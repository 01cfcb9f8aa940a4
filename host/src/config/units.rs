//! Sizes and durations as people write them.

use std::time::Duration;

const SIZES: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Milliseconds per unit.
const TIMES: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The units of sizes, for a sentence.
pub(super) const SIZE_UNITS: &str = r#""B", "KiB", "MiB", "GiB" and "TiB""#;

/// The units of durations, for a sentence.
pub(super) const TIME_UNITS: &str = r#""ms", "s", "m" and "h""#;

/// Bytes of `"64KiB"`; a number without a unit is bytes.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    parse_number(text).or_else(|| parse(text, &SIZES))
}

/// Decimal digits and nothing else.
pub(super) fn parse_number(text: &str) -> Option<u64> {
    let only_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| only_digits)
}

/// The time that `"500ms"` names.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    parse(text, &TIMES).map(Duration::from_millis)
}

/// In the largest unit that needs no fraction.
pub(super) fn show_size(bytes: u64) -> String {
    show(bytes, &SIZES)
}

/// In the largest unit that needs no fraction. Whole milliseconds are shown.
pub(super) fn show_duration(duration: Duration) -> String {
    show(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX), &TIMES)
}

fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn show(number: u64, units: &[(&str, u64)]) -> String {
    let fits = |factor: u64| number != 0 && number.is_multiple_of(factor);
    let smallest = units.iter().min_by_key(|(_, factor)| *factor);
    match units.iter().find(|(_, factor)| fits(*factor)).or(smallest) {
        Some((unit, factor)) => format!("{}{unit}", number / factor),
        None => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("256B", Some(256)),
            ("64KiB", Some(64 << 10)),
            ("4MiB", Some(4 << 20)),
            ("1GiB", Some(1 << 30)),
            ("16777215TiB", Some(16_777_215 << 40)),
            ("16777216TiB", None),
            ("18446744073709551616", None),
            ("64KB", None),
            ("64kib", None),
            ("64 KiB", None),
            ("1.5MiB", None),
            ("-1", None),
            ("+1", None),
            ("KiB", None),
            ("", None),
        ] {
            assert_eq!(parse_size(text), bytes, "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, millis) in [
            ("0s", Some(0)),
            ("500ms", Some(500)),
            ("30s", Some(30_000)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("30", None),
            ("1d", None),
            ("1.5s", None),
            ("1m30s", None),
            ("s", None),
            ("", None),
            ("5124095576031h", None),
        ] {
            assert_eq!(parse_duration(text), millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn shown_as_they_are_written() {
        for text in ["0B", "1B", "1000B", "16KiB", "1MiB", "5GiB", "3TiB"] {
            assert_eq!(show_size(parse_size(text).unwrap()), text);
        }
        for text in ["0ms", "1ms", "1500ms", "90s", "2m", "1h", "25h"] {
            assert_eq!(show_duration(parse_duration(text).unwrap()), text);
        }
    }
}
