//! Results as a picture (SVG 1.1): latency over time, and by percentile.

mod axis;

use std::fmt::Write;

use super::latencies::Latencies;
use super::plan::Plan;
use super::report::{describe, duration, thousands};
use super::result::Outcome;
use axis::{Axis, Tick};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 800.0;

/// Where panels stand: left, right, and top and bottom of each.
const LEFT: f64 = 88.0;
const RIGHT: f64 = WIDTH - 48.0;
const OVER_TIME: (f64, f64) = (128.0, 400.0);
const BY_PERCENTILE: (f64, f64) = (490.0, 736.0);

/// Colours that differ for everybody, on light and on dark (Okabe and Ito). From the seventh run on
/// they are used again.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

const STYLE: &str = "\
text{font:13px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#3b434b}\
.paper{fill:#fff}.title{font-size:19px;font-weight:600;fill:#14181c}\
.name{font-size:14px;font-weight:600;fill:#14181c}.tick{fill:#66707a;font-size:12px}\
.grid{stroke:#e3e7ea}.axis{stroke:#8b949e}\
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\
.p50{stroke-dasharray:1 5}\
@media(prefers-color-scheme:dark){text{fill:#b6bec6}.paper{fill:#14181c}\
.title,.name{fill:#f0f3f6}.tick{fill:#8b949e}.grid{stroke:#2c333a}.axis{stroke:#66707a}}";

/// Steps of the percentile curve for each power of ten.
const STEPS: u32 = 24;

/// Powers of ten on the percentile axis, at most: 99.99999 %.
const MAX_DECADES: u32 = 7;

/// Draws the latencies of one run or several. Plans should have [`Plan::series`] set; without it
/// the upper half stays empty.
#[must_use]
pub fn plot(runs: &[(&Plan, &Outcome)]) -> String {
    let mut out = String::new();
    let title = runs.first().map_or_else(String::new, |(plan, _)| plan.url.to_string());
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\">\n<title>Latency of {0}</title>\n\
         <style>{STYLE}</style>\n<rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"38\">Latency of {0}</text>\n",
        escaped(&title)
    );
    if let Some((plan, _)) = runs.first() {
        let clients = if runs.len() == 1 { clients(plan) + ", " } else { String::new() };
        text(&mut out, "", (LEFT, 62.0), "start", &(clients + &describe(plan)));
    }
    legend(&mut out, runs);
    over_time(&mut out, runs);
    by_percentile(&mut out, runs);
    out += "</svg>\n";
    out
}

/// Which colour is which run, on the right of the panels' names.
fn legend(out: &mut String, runs: &[(&Plan, &Outcome)]) {
    if runs.len() < 2 {
        return;
    }
    let mut x = RIGHT;
    for (index, (plan, _)) in runs.iter().enumerate().rev() {
        let label = clients(plan);
        text(out, "", (x, 62.0), "end", &label);
        x -= label.len() as f64 * 6.9 + 10.0;
        let colour = colour(index);
        let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"57.5\" r=\"5\" fill=\"{colour}\"/>");
        x -= 22.0;
    }
}

fn clients(plan: &Plan) -> String {
    format!("{} clients", thousands(plan.clients as f64))
}

fn over_time(out: &mut String, runs: &[(&Plan, &Outcome)]) {
    let series =
        || runs.iter().map(|(_, outcome)| outcome.series.iter().flat_map(|it| it.points()));
    let all = || series().flatten().flat_map(|point| [point.p50, point.p99]);
    let seconds = runs.iter().map(|(_, outcome)| outcome.seconds).fold(0.0, f64::max);
    let x = Axis::linear((0.0, seconds.max(f64::MIN_POSITIVE)), (LEFT, RIGHT));
    let y = latency_axis(all(), OVER_TIME);
    let step = runs.iter().find_map(|(_, outcome)| outcome.series.as_ref());
    let step = step.map_or(1.0, |series| series.step_seconds());
    let step = if step == 1.0 { "second".to_owned() } else { format!("{} s", rounded(step)) };
    let name = format!("Over time: p50 (dotted) and p99 of each {step}");
    let ticks = x.ticks(10).into_iter().map(|at| Tick { at, label: rounded(at) }).collect();
    panel(out, OVER_TIME, &name, "seconds", (&x, ticks), &y);
    for (index, points) in series().enumerate() {
        let points: Vec<_> = points.collect();
        for (class, of) in [("p50", 0), ("p99", 1)] {
            let line = points.iter().map(|point| (point.at, [point.p50, point.p99][of] as f64));
            curve(out, class, index, line.map(|(at, value)| (x.place(at), y.place(value))));
        }
    }
}

fn by_percentile(out: &mut String, runs: &[(&Plan, &Outcome)]) {
    let decades = runs.iter().map(|(_, outcome)| decades(&outcome.latency)).max().unwrap_or(0);
    let shown = decades.div_ceil(STEPS).clamp(2, MAX_DECADES);
    let x = Axis::linear((0.0, f64::from(shown)), (LEFT, RIGHT));
    let all = runs
        .iter()
        .flat_map(|(_, outcome)| [outcome.latency.quantile(0.0), outcome.latency.quantile(1.0)]);
    let y = latency_axis(all, BY_PERCENTILE);
    let label = |decade: u32| match decade {
        0 => "0 %".to_owned(),
        1 => "90 %".to_owned(),
        2 => "99 %".to_owned(),
        _ => format!("99.{} %", "9".repeat(decade as usize - 2)),
    };
    let ticks = (0..=shown).map(|at| Tick { at: f64::from(at), label: label(at) }).collect();
    let name = "By percentile: so many of the messages took no longer";
    panel(out, BY_PERCENTILE, name, "percentile of messages", (&x, ticks), &y);
    for (index, (_, outcome)) in runs.iter().enumerate() {
        let latency = &outcome.latency;
        let last = self::decades(latency).min(shown * STEPS);
        if latency.count() == 0 {
            continue;
        }
        let points = (0..=last).map(|step| {
            let decade = f64::from(step) / f64::from(STEPS);
            let value = latency.quantile(1.0 - 10_f64.powf(-decade));
            (x.place(decade), y.place(value as f64))
        });
        curve(out, "", index, points);
    }
}

/// How far the curve goes, in steps: to the share at which one message is left.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 20 decades")]
fn decades(latency: &Latencies) -> u32 {
    let decades = (latency.count().max(1) as f64).log10();
    (decades * f64::from(STEPS)).floor() as u32
}

fn latency_axis(all: impl Iterator<Item = u64>, (top, bottom): (f64, f64)) -> Axis {
    let bounds = all.filter(|value| *value > 0).fold(None, |bounds, value| {
        let (least, most) = bounds.unwrap_or((value, value));
        Some((value.min(least), value.max(most)))
    });
    let (least, most) = bounds.unwrap_or((1_000, 1_000_000));
    Axis::logarithmic((least as f64, most as f64), (bottom, top))
}

/// Frame, grid, ticks and names of a panel.
fn panel(
    out: &mut String,
    (top, bottom): (f64, f64),
    name: &str,
    below: &str,
    (x, ticks): (&Axis, Vec<Tick>),
    y: &Axis,
) {
    text(out, "name", (LEFT, top - 16.0), "start", name);
    for at in y.ticks(8) {
        let place = y.place(at);
        line(out, "grid", (LEFT, place), (RIGHT, place));
        text(out, "tick", (LEFT - 10.0, place + 4.0), "end", &tick_duration(at));
    }
    for Tick { at, label } in ticks {
        let place = x.place(at);
        line(out, "grid", (place, top), (place, bottom));
        text(out, "tick", (place, bottom + 20.0), "middle", &label);
    }
    line(out, "axis", (LEFT, bottom), (RIGHT, bottom));
    text(out, "tick", (f64::midpoint(LEFT, RIGHT), bottom + 42.0), "middle", below);
    let (x, y) = (22.0, f64::midpoint(top, bottom));
    let _ = writeln!(
        out,
        "<text class=\"tick\" transform=\"translate({x},{y:.1}) rotate(-90)\" \
         text-anchor=\"middle\">latency</text>"
    );
}

fn curve(out: &mut String, class: &str, run: usize, points: impl Iterator<Item = (f64, f64)>) {
    let points: Vec<_> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    if points.is_empty() {
        return;
    }
    // A line of one point shows because its ends are round.
    let doubled = if points.len() == 1 { &points[0] } else { "" };
    let (colour, points) = (colour(run), points.join(" "));
    let _ = writeln!(
        out,
        "<polyline class=\"line {class}\" stroke=\"{colour}\" points=\"{points} {doubled}\"/>"
    );
}

fn line(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        out,
        "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
    );
}

fn text(out: &mut String, class: &str, (x, y): (f64, f64), anchor: &str, words: &str) {
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
        escaped(words)
    );
}

fn colour(run: usize) -> &'static str {
    COLOURS[run % COLOURS.len()]
}

/// As few digits as a tick needs.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive ns")]
fn tick_duration(nanoseconds: f64) -> String {
    let text = duration(nanoseconds.round() as u64);
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

fn rounded(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::plan::Mode;
    use super::super::plan::tests::plan;
    use super::super::time::{SECOND, Window};
    use super::super::{latencies::Series, tally::Tally};
    use super::*;

    /// A run with a slow second in it.
    fn run(clients: usize) -> (Plan, Outcome) {
        let seconds = 30;
        let window = Duration::from_secs(seconds);
        let plan = Plan { clients, series: true, window, ..plan(Mode::Open { rate: 10.0 }) };
        let mut tally = Tally::new(Some(window));
        let window = Window { start: 0, begin: 0, end: seconds * SECOND };
        for at in (0..window.end).step_by(1_000_000) {
            let slow = at / SECOND == 12;
            let noise = at / 1_000_000 * 7_919 % 100 * 1_000 * clients as u64 / 10;
            tally.took(&window, at, at + 80_000 + noise + if slow { 40_000_000 } else { 0 }, 1);
        }
        let mut outcome = Outcome::empty(&plan, seconds as f64, None);
        outcome.add(&tally);
        (plan, outcome)
    }

    fn drawn(runs: &[(Plan, Outcome)]) -> String {
        plot(&runs.iter().map(|(plan, outcome)| (plan, outcome)).collect::<Vec<_>>())
    }

    /// Element names in order; panics where tags do not fit together.
    fn elements(svg: &str) -> Vec<String> {
        let (mut open, mut found) = (Vec::new(), Vec::new());
        for tag in svg.split('<').skip(1) {
            let (inside, text) = tag.split_once('>').unwrap();
            assert!(!text.contains('>') && !inside.contains('<'), "{tag}");
            for entity in tag.split('&').skip(1) {
                assert!(["amp;", "lt;", "gt;", "quot;"].iter().any(|it| entity.starts_with(it)));
            }
            if let Some(name) = inside.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name));
                continue;
            }
            let name: String = inside.chars().take_while(char::is_ascii_alphanumeric).collect();
            assert!(inside.matches('"').count().is_multiple_of(2), "{inside}");
            found.push(name.clone());
            if !inside.ends_with('/') {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{open:?}");
        found
    }

    #[test]
    fn the_picture_is_well_formed_and_has_all_of_its_parts() {
        let runs = [run(10), run(1_000)];
        let svg = drawn(&runs);
        let found = elements(&svg);
        assert_eq!(found[..4], ["svg", "title", "style", "rect"]);
        let count = |name: &str| found.iter().filter(|found| *found == name).count();
        // p50 and p99 of each run over time, and each run by percentile.
        assert_eq!(count("polyline"), 2 * 2 + 2);
        assert_eq!(count("circle"), 2, "a legend");
        for words in ["99.9 %", "seconds", "latency</text>", "1,000 clients", "of each second"] {
            assert!(svg.contains(words), "{words}");
        }
        // Thirty points of each line over time, all within the panel.
        let line = svg.lines().find(|line| line.contains("line p99")).unwrap();
        let points = line.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        let points: Vec<f64> =
            points.split([' ', ',']).filter_map(|number| number.parse().ok()).collect();
        assert_eq!(points.len(), 60);
        for point in points.chunks(2) {
            assert!((LEFT..=RIGHT).contains(&point[0]), "{point:?}");
            assert!((OVER_TIME.0..=OVER_TIME.1).contains(&point[1]), "{point:?}");
        }
    }

    #[test]
    fn the_slow_second_is_above_the_others() {
        let svg = drawn(&[run(10)]);
        let line = svg.lines().find(|line| line.contains("line p99")).unwrap();
        let points = line.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        let heights: Vec<f64> = points
            .split_whitespace()
            .map(|point| point.split_once(',').unwrap().1.parse().unwrap())
            .collect();
        let highest = (0..30).min_by(|a, b| heights[*a].total_cmp(&heights[*b]));
        assert_eq!(highest, Some(12));
    }

    #[test]
    fn a_run_without_messages_can_be_drawn() {
        let (plan, _) = run(1);
        let empty = Outcome::empty(&plan, 30.0, None);
        let svg = drawn(&[(plan, empty)]);
        assert!(!elements(&svg).contains(&"polyline".to_owned()));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn what_the_url_contains_is_text() {
        let (plan, outcome) = run(1);
        let plan = Plan { url: "ws://h/?a=1&b=<x>\"".parse().unwrap(), ..plan };
        let svg = drawn(&[(plan, outcome)]);
        elements(&svg);
        assert!(svg.contains("?a=1&amp;b=&lt;x&gt;&quot;"));
    }

    #[test]
    fn a_single_step_is_a_point() {
        let (plan, mut outcome) = run(1);
        let mut series = Series::new(Duration::from_secs(30));
        series.record(0, 1_000, 1);
        outcome.series = Some(series);
        let svg = drawn(&[(plan, outcome)]);
        let line = svg.lines().find(|line| line.contains("line p99")).unwrap();
        assert_eq!(line.matches(',').count(), 2, "{line}");
    }
}
