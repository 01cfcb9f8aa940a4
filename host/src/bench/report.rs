//! Results as a table, and as JSON.

use serde_json::{Value, json};

use super::latencies::Latencies;
use super::plan::{Mode, Plan};
use super::poke::PokeOutcome;
use super::result::Outcome;

/// The columns of the table and their least widths. The last ones are of the server's process.
const COLUMNS: [(&str, usize); 6] =
    [("clients", 9), ("msg/s", 12), ("p50", 10), ("p99", 10), ("CPU", 8), ("RSS", 11)];

/// A table with a row for each run: clients, messages received in a second, latency, and CPU time
/// and memory of the server.
#[must_use]
pub fn table<'a>(runs: impl IntoIterator<Item = (&'a Plan, &'a Outcome)>) -> String {
    let mut lines = vec![line(COLUMNS.map(|(name, _)| name.to_owned()))];
    let mut more = Vec::new();
    for (plan, outcome) in runs {
        lines.push(line(row(plan, outcome)));
        more.extend(remarks(outcome));
    }
    lines.extend(more);
    lines.join("\n") + "\n"
}

fn line(cells: [String; 6]) -> String {
    let widths = COLUMNS.map(|(_, width)| width);
    let cells = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
    cells.collect()
}

fn row(plan: &Plan, outcome: &Outcome) -> [String; 6] {
    let is_idle = matches!(plan.mode, Mode::Idle);
    let shown = |text: String| if is_idle { "-".to_owned() } else { text };
    let latency = |share| shown(duration(outcome.latency.quantile(share)));
    let (cpu, rss) = match &outcome.server {
        Some(usage) => (format!("{:.0} %", usage.cores * 100.0), mebibytes(usage.rss)),
        None => ("-".to_owned(), "-".to_owned()),
    };
    let rate = shown(thousands(outcome.messages_per_second));
    [thousands(outcome.clients as f64), rate, latency(0.5), latency(0.99), cpu, rss]
}

/// What does not fit into the columns.
fn remarks(outcome: &Outcome) -> Vec<String> {
    let clients = thousands(outcome.clients as f64);
    let mut remarks = Vec::new();
    if let Some(broadcasts) = &outcome.broadcasts {
        let of = |share| duration(broadcasts.deliveries.quantile(share));
        remarks.push(format!(
            "{clients} receivers, {} rounds; p50 and p99 are until the last receiver had it; of \
             single deliveries they are {} and {}",
            broadcasts.rounds,
            of(0.5),
            of(0.99)
        ));
    }
    if let Some(usage) = outcome.server.as_ref().filter(|_| outcome.is_idle()) {
        remarks.push(format!(
            "{clients} clients: {:.0} bytes of the server's own memory for each (RssAnon grew by \
             {:.1} MiB)",
            usage.rss_anon_grown as f64 / outcome.clients as f64,
            usage.rss_anon_grown as f64 / f64::from(1 << 20)
        ));
    }
    let after = |nanoseconds| duration(nanoseconds);
    match outcome.poke {
        None => {}
        Some(PokeOutcome::NoAnswer) => remarks.push("the poke was not answered".to_owned()),
        Some(PokeOutcome::Answered { after: time }) => {
            remarks.push(format!("the poke was answered after {}", after(time)));
        }
        Some(PokeOutcome::Closed { after: time, code }) => {
            let code = code.map_or("without a code".to_owned(), |code| format!("with {code}"));
            remarks.push(format!("the poke was closed {code} after {}", after(time)));
        }
    }
    remarks
}

/// What each of the clients does, in a few words.
#[must_use]
pub fn describe(plan: &Plan) -> String {
    let mut words = match &plan.mode {
        Mode::Closed { in_flight } => format!("closed loop, {in_flight} in flight each"),
        Mode::Open { rate } => format!("open loop, {rate} messages/s each"),
        Mode::Broadcast { in_flight, .. } => format!("broadcast, {in_flight} published at once"),
        Mode::Idle => return "idle".to_owned(),
    };
    let kind = if plan.text { "text" } else { "binary" };
    words += &format!(", {} bytes, {kind}", thousands(plan.size as f64));
    if plan.deflate {
        words += ", deflate";
    }
    if plan.threads > 1 {
        words += &format!(", {} threads", plan.threads);
    }
    words
}

/// One run as a JSON object; times in microseconds, memory in bytes.
#[must_use]
pub fn json(plan: &Plan, outcome: &Outcome) -> Value {
    let mut object = json!({
        "event": "result",
        "mode": mode(plan),
        "clients": outcome.clients,
        "size": plan.size,
        "seconds": outcome.seconds,
        "messages": outcome.messages,
        "messages_per_second": outcome.messages_per_second,
        "samples": outcome.latency.count(),
        "lost": outcome.lost,
        "first_loss": outcome.first_loss,
        "wrong_shape": outcome.wrong.shape,
        "out_of_order": outcome.wrong.order,
        "altered": outcome.wrong.altered,
        "unanswered": outcome.unanswered,
        "busiest_thread": outcome.busiest_thread,
        "open_files": outcome.open_files,
        "ok": outcome.is_fine(),
    });
    let mut more = |name: &str, value: Value| object[name] = value;
    if !outcome.is_idle() {
        quantiles("", &outcome.latency, &mut more);
    }
    match &plan.mode {
        Mode::Closed { in_flight } | Mode::Broadcast { in_flight, .. } => {
            more("in_flight", json!(in_flight));
        }
        Mode::Open { rate } => more("rate", json!(rate)),
        Mode::Idle => {}
    }
    if let Some(late) = &outcome.late {
        quantiles("late_", late, &mut more);
    }
    if let Some(broadcasts) = &outcome.broadcasts {
        more("rounds", json!(broadcasts.rounds));
        more("deliveries", json!(broadcasts.deliveries.count()));
        quantiles("delivery_", &broadcasts.deliveries, &mut more);
    }
    if let Some(usage) = &outcome.server {
        more("cpu_cores", json!(usage.cores));
        more("rss_bytes", json!(usage.rss));
        more("rss_anon_bytes", json!(usage.rss_anon));
        more("rss_anon_grown_bytes", json!(usage.rss_anon_grown));
    }
    match outcome.poke {
        None => {}
        Some(PokeOutcome::NoAnswer) => more("poke", json!({ "outcome": "none" })),
        Some(PokeOutcome::Answered { after }) => {
            more("poke", json!({ "outcome": "answered", "after_ns": after }));
        }
        Some(PokeOutcome::Closed { after, code }) => {
            more("poke", json!({ "outcome": "closed", "after_ns": after, "code": code }));
        }
    }
    object
}

fn quantiles(prefix: &str, latencies: &Latencies, more: &mut impl FnMut(&str, Value)) {
    let shares = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];
    for (name, share) in shares {
        let microseconds = latencies.quantile(share) as f64 / 1e3;
        more(&format!("{prefix}{name}_us"), json!(microseconds));
    }
}

fn mode(plan: &Plan) -> &'static str {
    match plan.mode {
        Mode::Closed { .. } => "closed",
        Mode::Open { .. } => "open",
        Mode::Broadcast { .. } => "broadcast",
        Mode::Idle => "idle",
    }
}

/// Three digits and a unit.
pub(super) fn duration(nanoseconds: u64) -> String {
    let (value, unit) = match nanoseconds {
        0 => return "0".to_owned(),
        1..1_000 => (nanoseconds as f64, "ns"),
        1_000..1_000_000 => (nanoseconds as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (nanoseconds as f64 / 1e6, "ms"),
        _ => (nanoseconds as f64 / 1e9, "s"),
    };
    match value {
        ..9.995 if unit != "ns" => format!("{value:.2} {unit}"),
        ..99.95 if unit != "ns" => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// A whole number with commas.
pub(super) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::plan;
    use super::super::result::Usage;
    use super::*;

    fn outcome(plan: &Plan) -> Outcome {
        let usage = Usage { cores: 0.987, rss: 43 << 20, rss_anon: 40 << 20, rss_anon_grown: 7920 };
        let mut outcome = Outcome::empty(plan, 5.0, Some(usage));
        outcome.messages_per_second = 1_234_567.4;
        for _ in 0..99 {
            outcome.latency.record(84_000);
        }
        outcome.latency.record(12_500_000);
        outcome
    }

    #[test]
    fn a_row_has_the_columns_of_the_head() {
        let plan = plan(Mode::Closed { in_flight: 1 });
        let outcome = outcome(&plan);
        assert_eq!(
            table([(&plan, &outcome)]),
            "  clients       msg/s       p50       p99     CPU        RSS\n       10   1,234,567   \
             84.0 µs   84.0 µs    99 %   43.0 MiB\n"
        );
    }

    #[test]
    fn what_is_not_known_is_a_dash() {
        let plan = plan(Mode::Idle);
        let mut outcome = outcome(&plan);
        outcome.server = None;
        assert_eq!(
            table([(&plan, &outcome)]).lines().nth(1),
            Some("       10           -         -         -       -          -")
        );
    }

    #[test]
    fn idle_connections_are_weighed() {
        let plan = plan(Mode::Idle);
        let text = table([(&plan, &outcome(&plan))]);
        assert!(text.contains("10 clients: 792 bytes of the server's own memory"), "{text}");
    }

    #[test]
    fn json_has_times_in_microseconds() {
        let plan = plan(Mode::Open { rate: 100.0 });
        let json = json(&plan, &outcome(&plan));
        assert_eq!(json["p50_us"].as_f64().unwrap().round(), 84.0);
        assert_eq!(json["max_us"].as_f64().unwrap().round(), 12_501.0);
        assert_eq!((&json["mode"], &json["rate"]), (&"open".into(), &100.0.into()));
        assert_eq!(json["rss_bytes"], 43 << 20);
        assert_eq!(json["poke"], Value::Null);
    }

    #[test]
    fn durations_have_three_digits() {
        let cases = [
            (0, "0"),
            (1, "1 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (9_996, "10.0 µs"),
            (99_960, "100 µs"),
            (1_234_567, "1.23 ms"),
            (61_000_000_000, "61.0 s"),
        ];
        for (nanoseconds, text) in cases {
            assert_eq!(duration(nanoseconds), text);
        }
    }

    #[test]
    fn long_numbers_have_commas() {
        let cases = [(0.0, "0"), (999.0, "999"), (1_000.0, "1,000"), (1_234_567.0, "1,234,567")];
        for (value, text) in cases {
            assert_eq!(thousands(value), text);
        }
    }
}
