//! The pages in docs/ agree with the table of keys.

use std::fs;
use std::path::Path;

use crate::config::draft::{Draft, PluginDraft, RouteDraft, StaticDraft};
use crate::config::keys::{Key, PLUGIN, ROUTE, SECTIONS, STATIC};

pub(super) fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of a table that describe these keys.
fn rows<T: Default>(keys: &[Key<T>]) -> Vec<String> {
    let mut defaults = T::default();
    let row = |key: &Key<T>| {
        let field = (key.field)(&mut defaults);
        let (shown, allowed) = (field.show(), field.allowed());
        let default = match shown.as_str() {
            _ if key.required => "required".to_owned(),
            "\"\"" => "none".to_owned(),
            shown => format!("`{shown}`"),
        };
        format!("| `{}` | {default} | {allowed} | {} |", key.name, key.about)
    };
    keys.iter().map(row).collect()
}

#[test]
fn the_documentation_lists_exactly_the_known_keys() {
    let mut expected = Vec::new();
    for section in SECTIONS {
        expected.push(format!("## `[{}]`", section.name));
        expected.extend(rows(section.keys));
    }
    expected.push("## `[[plugin]]`".to_owned());
    expected.extend(rows::<PluginDraft>(PLUGIN.keys));
    expected.push("## `[[route]]`".to_owned());
    expected.extend(rows::<RouteDraft>(ROUTE.keys));
    expected.push("## `[[static]]`".to_owned());
    expected.extend(rows::<StaticDraft>(STATIC.keys));
    let text = document("config.md");
    let is_row = |line: &&str| line.starts_with("| `") || line.starts_with("## `[");
    let found: Vec<String> = text.lines().filter(is_row).map(str::to_owned).collect();
    assert_lines("config.md", &found, &expected);
}

#[test]
fn the_limits_page_has_every_bound_that_can_be_set() {
    let mut draft = Draft::default();
    let mut expected = Vec::new();
    for (section, key) in SECTIONS.iter().flat_map(|s| s.keys.iter().map(move |key| (s.name, key)))
    {
        let field = (key.field)(&mut draft);
        if let Some(ceiling) = field.ceiling() {
            let name = format!("{section}.{}", key.name);
            expected.push(format!("| `{name}` | `{}` | `{ceiling}` |", field.show()));
        }
    }
    let text = document("limits.md");
    let start = |line: &str| line.splitn(5, '|').take(4).collect::<Vec<_>>().join("|") + "|";
    let found: Vec<String> = text
        .lines()
        .filter(|line| line.starts_with("| `") && line.contains('.'))
        .map(start)
        .collect();
    assert_lines("limits.md", &found, &expected);
}

#[test]
fn only_what_differs_is_shown() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (found, expected) = (lines("a\nb\nx"), lines("a\nc\nx"));
    assert_eq!(difference(&found, &expected).as_deref(), Some("- b\n+ c"));
    assert_eq!(difference(&lines("a\nb"), &lines("b\na")).as_deref(), Some("another order at: b"));
    assert_eq!(difference(&lines("a\na"), &lines("a")).as_deref(), Some("1 more than once: a"));
    assert_eq!(difference(&found, &found), None);
}

/// The lines of a page, and those that the code has.
#[track_caller]
pub(super) fn assert_lines(page: &str, found: &[String], expected: &[String]) {
    if let Some(difference) = difference(found, expected) {
        panic!("docs/{page} has (-) and should have (+):\n{difference}\n");
    }
}

fn difference(found: &[String], expected: &[String]) -> Option<String> {
    let only = |mark, lines: &[String], others: &[String]| {
        let only = lines.iter().filter(|line| !others.contains(line));
        only.map(|line| format!("{mark} {line}")).collect::<Vec<_>>()
    };
    let mut lines = only('-', found, expected);
    lines.extend(only('+', expected, found));
    if !lines.is_empty() {
        return Some(lines.join("\n"));
    }
    if let Some((_, line)) = found.iter().zip(expected).find(|(found, line)| found != line) {
        return Some(format!("another order at: {line}"));
    }
    let repeated = found.get(expected.len()).or_else(|| expected.get(found.len()))?;
    Some(format!("{} more than once: {repeated}", found.len().abs_diff(expected.len())))
}
