//! What to write instead of a value that cannot be taken: the last part of an error's sentence.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use super::units::{
    SIZE_UNITS, TIME_UNITS, parse_duration, parse_number, parse_size, show_duration, show_size,
};

/// Bytes per unit, under all names that people give it, in lower case.
const SIZES: [(&str, u64); 15] = [
    ("", 1),
    ("b", 1),
    ("bytes", 1),
    ("k", 1 << 10),
    ("kb", 1 << 10),
    ("kib", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1 << 20),
    ("mib", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1 << 30),
    ("gib", 1 << 30),
    ("t", 1 << 40),
    ("tb", 1 << 40),
    ("tib", 1 << 40),
];

/// Milliseconds per unit, likewise. A number alone is taken for seconds.
const TIMES: [(&str, u64); 18] = [
    ("", 1_000),
    ("ms", 1),
    ("msec", 1),
    ("milliseconds", 1),
    ("s", 1_000),
    ("sec", 1_000),
    ("secs", 1_000),
    ("second", 1_000),
    ("seconds", 1_000),
    ("m", 60_000),
    ("min", 60_000),
    ("mins", 60_000),
    ("minute", 60_000),
    ("minutes", 60_000),
    ("h", 3_600_000),
    ("hour", 3_600_000),
    ("hours", 3_600_000),
    ("d", 86_400_000),
];

/// The port in an example where none was given.
const PORT: u16 = 8080;

const NAMES: &str =
    "names are not looked up, since one may stand for several addresses or for none";

pub(super) fn count(text: &str, range: &RangeInclusive<u64>) -> Option<String> {
    let number = parse_number(&text.replace('_', "")).filter(|number| range.contains(number))?;
    Some(format!("write {number}"))
}

pub(super) fn size(text: &str, range: &RangeInclusive<u64>) -> Option<String> {
    let fits = |bytes: &u64| range.contains(bytes);
    if let Some(bytes) = parse_number(text) {
        let bytes = bytes.checked_mul(1 << 10).filter(fits)?;
        let meant = show_size(bytes);
        return Some(format!("without a unit it is bytes; did you mean \"{meant}\"?"));
    }
    match amount(text, &SIZES) {
        Some(bytes) if fits(&bytes) => Some(format!("did you mean \"{}\"?", show_size(bytes))),
        None if text.starts_with(|first: char| first.is_ascii_digit()) => {
            Some(format!("the units are {SIZE_UNITS}"))
        }
        // Only the range is passed, and that has been said.
        Some(_) => parse_size(text).is_none().then(|| format!("the units are {SIZE_UNITS}")),
        None => None,
    }
}

pub(super) fn duration(text: &str, range: &RangeInclusive<Duration>) -> Option<String> {
    let units = || Some(format!("the units are {TIME_UNITS}"));
    match amount(text, &TIMES).map(Duration::from_millis) {
        Some(time) if range.contains(&time) => {
            let missing = if parse_number(text).is_some() { "it has no unit; " } else { "" };
            Some(format!("{missing}did you mean \"{}\"?", show_duration(time)))
        }
        None if !text.starts_with(|first: char| first.is_ascii_digit()) => None,
        _ if parse_duration(text).is_some() => None,
        _ => units(),
    }
}

/// What is wrong with an address to listen on.
///
/// Names are not looked up on purpose: whoever reads the configuration shall see what is listened
/// on, and a resolver that fails must not keep a host from starting.
pub(super) fn address(text: &str) -> String {
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    let text = text.split_once('/').map_or(text, |(before, _)| before);
    let bracketed = text.starts_with('[');
    if let Ok(address) = text.parse::<SocketAddr>() {
        return format!("write \"{address}\"");
    }
    if !bracketed && text.matches(':').count() > 1 {
        return "an IPv6 address stands in brackets, with the port behind: \"[::1]:8080\""
            .to_owned();
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse()),
        _ if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            ("", text.parse())
        }
        _ => (text, Ok(PORT)),
    };
    let Ok(port) = port else {
        return "a port is a number from 0 to 65535".to_owned();
    };
    if let Ok(ip) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
        return format!("the port is missing: write \"{}\"", SocketAddr::new(ip, port));
    }
    let all = format!("\"0.0.0.0:{port}\" for all of this machine's addresses");
    match host {
        "" | "*" => format!("write \"127.0.0.1:{port}\" for this machine alone, or {all}"),
        "localhost" => format!("{NAMES}: write \"127.0.0.1:{port}\""),
        _ if host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
            "an IPv4 address has four numbers from 0 to 255".to_owned()
        }
        _ => format!("{NAMES}: write the address, or {all}"),
    }
}

/// What `text` most likely means: numbers, also with a fraction, and units, also several.
fn amount(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let mut rest = text.trim();
    let mut sum = 0_u64;
    while !rest.is_empty() {
        let number = |char: char| char.is_ascii_digit() || "._".contains(char);
        let (digits, after) = split_where(rest, |char| !number(char));
        let (unit, after) = split_where(after.trim_start(), |char| !char.is_alphabetic());
        let unit = unit.to_lowercase();
        let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
        sum = sum.checked_add(scale(&digits.replace('_', ""), *factor)?)?;
        rest = after.trim_start();
    }
    (!text.is_empty()).then_some(sum)
}

fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

/// A decimal number times the factor, if that is whole.
fn scale(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let parts = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction = parse_number(fraction)?.checked_mul(factor)?;
    let whole = parse_number(whole)?.checked_mul(factor)?;
    if fraction.is_multiple_of(parts) { whole.checked_add(fraction / parts) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_names_a_host_is_told_which_address_to_write() {
        for (text, hint) in [
            ("localhost:9000", &*format!("{NAMES}: write \"127.0.0.1:9000\"")),
            ("http://localhost:9000/chat", &format!("{NAMES}: write \"127.0.0.1:9000\"")),
            ("localhost", &format!("{NAMES}: write \"127.0.0.1:8080\"")),
            (
                ":9000",
                "write \"127.0.0.1:9000\" for this machine alone, or \"0.0.0.0:9000\" for all of \
                 this machine's addresses",
            ),
            ("127.0.0.1", "the port is missing: write \"127.0.0.1:8080\""),
            ("[::1]", "the port is missing: write \"[::1]:8080\""),
            ("ws://127.0.0.1:80", "write \"127.0.0.1:80\""),
            (
                "::1:8080",
                "an IPv6 address stands in brackets, with the port behind: \"[::1]:8080\"",
            ),
            ("127.0.0.1:65536", "a port is a number from 0 to 65535"),
            ("65536", "a port is a number from 0 to 65535"),
            ("127.0.0.1:http", "a port is a number from 0 to 65535"),
            ("256.0.0.1:80", "an IPv4 address has four numbers from 0 to 255"),
        ] {
            assert_eq!(address(text), hint, "{text}");
        }
        assert_eq!(address("9000"), address(":9000"));
        assert_eq!(address("*:9000"), address(":9000"));
        assert!(address("example.org:80").starts_with(NAMES));
        // What is no address at all must not be a panic either.
        for text in ["", "]", "[", ":", "::", "//", "http://", "é:é", "[::1]:"] {
            assert!(!address(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn sizes_as_people_write_them() {
        let range = 256..=1 << 20;
        for (text, meant) in [
            ("64KB", "64KiB"),
            ("64kib", "64KiB"),
            ("64 k", "64KiB"),
            ("1M", "1MiB"),
            ("0.5MB", "512KiB"),
            ("1_024 bytes", "1KiB"),
            ("1.5KiB", "1536B"),
        ] {
            assert_eq!(size(text, &range), Some(format!("did you mean \"{meant}\"?")), "{text}");
        }
        let bytes = "without a unit it is bytes; did you mean \"64KiB\"?";
        assert_eq!(size("64", &range).as_deref(), Some(bytes));
        assert_eq!(size("2MiB", &range), None, "well written, too large");
        assert_eq!(size("1048577", &range), None);
        for text in ["64Q", "1.2.3KiB", "2MB", "0.0001KiB"] {
            let hint = size(text, &range).unwrap();
            assert!(hint.starts_with("the units are \"B\", \"KiB\""), "{text}: {hint}");
        }
        for text in ["", "-1", "lots", "KiB"] {
            assert_eq!(size(text, &range), None, "{text}");
        }
    }

    #[test]
    fn durations_as_people_write_them() {
        let range = Duration::from_millis(10)..=Duration::from_secs(48 * 3600);
        for (text, meant) in [
            ("30sec", "30s"),
            ("30 s", "30s"),
            ("1m30s", "90s"),
            ("1.5s", "1500ms"),
            ("1d", "24h"),
            ("2 Minutes", "2m"),
        ] {
            let hint = Some(format!("did you mean \"{meant}\"?"));
            assert_eq!(duration(text, &range), hint, "{text}");
        }
        let unit = "it has no unit; did you mean \"30s\"?";
        assert_eq!(duration("30", &range).as_deref(), Some(unit));
        assert_eq!(duration("49h", &range), None, "well written, too long");
        for text in ["30us", "3d", "200000", "18446744073709551615h"] {
            let hint = duration(text, &range);
            assert_eq!(hint.as_deref(), Some("the units are \"ms\", \"s\", \"m\" and \"h\""));
        }
        for text in ["", "-1s", "long", "s"] {
            assert_eq!(duration(text, &range), None, "{text}");
        }
    }

    #[test]
    fn numbers_without_ornament() {
        assert_eq!(count("100_000", &(1..=100_000)).as_deref(), Some("write 100000"));
        assert_eq!(count("4", &(0..=4)).as_deref(), Some("write 4"));
        assert_eq!(count("5", &(0..=4)), None);
        assert_eq!(count("many", &(0..=4)), None);
    }
}
