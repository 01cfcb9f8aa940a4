//! The pages in docs/ agree with the table of keys.

use std::fs;
use std::path::Path;

use crate::config::draft::{Draft, PluginDraft, RouteDraft, StaticDraft};
use crate::config::keys::{Key, PLUGIN, ROUTE, SECTIONS, STATIC};

fn document(name: &str) -> String {
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
    let found: Vec<&str> = text.lines().filter(is_row).collect();
    assert_eq!(found, expected, "docs/config.md should have:\n{}\n", expected.join("\n"));
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
    assert_eq!(found, expected, "docs/limits.md should have:\n{}\n", expected.join("\n"));
}
