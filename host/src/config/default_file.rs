//! The text of a configuration file in which every key has its default.

use super::draft::{Builtin, Draft, PluginDraft, RouteDraft, StaticDraft};
use super::field::Field;
use super::keys::{Entries, Key, PLUGIN, ROUTE, SECTIONS, STATIC};

/// A file that says what every key means, and sets every key to its default.
#[must_use]
pub fn default_file() -> String {
    let mut file = String::from(
        "# Every setting of Plugsock with its default. Delete what you do not change.\n\
         # Durations: \"500ms\", \"30s\", \"2m\", \"1h\". Sizes: \"64KiB\", \"1MiB\", or bytes.\n",
    );
    let mut draft = Draft::default();
    for section in SECTIONS {
        file.push('\n');
        comment(&mut file, section.about);
        file.push_str(&format!("[{}]\n", section.name));
        for key in section.keys {
            describe(&mut file, key, &(key.field)(&mut draft));
            file.push_str(&format!("{} = {}\n", key.name, (key.field)(&mut draft).show()));
        }
    }
    file.push('\n');
    comment(
        &mut file,
        "Without any [[plugin]], [[route]] and [[static]] an embedded echo plugin serves \"/\". \
         To have some, take away the # where no blank follows.",
    );
    example(&mut file, &PLUGIN, &mut PluginDraft::example(), &[]);
    example(&mut file, &ROUTE, &mut RouteDraft::example(), &["builtin"]);
    example(&mut file, &STATIC, &mut StaticDraft::example(), &[]);
    file
}

/// One entry, commented out, without the keys in `without`.
fn example<T>(file: &mut String, entries: &Entries<T>, value: &mut T, without: &[&str]) {
    file.push('\n');
    comment(file, entries.about);
    file.push_str(&format!("#[[{}]]\n", entries.name));
    for key in entries.keys {
        describe(file, key, &(key.field)(value));
        let off = if without.contains(&key.name) { "# or: " } else { "#" };
        file.push_str(&format!("{off}{} = {}\n", key.name, (key.field)(value).show()));
    }
}

fn describe<T>(file: &mut String, key: &Key<T>, field: &Field<'_>) {
    comment(file, &format!("{} Allowed: {}.", key.about, field.allowed()));
}

/// Wrapped to 100 columns.
fn comment(file: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > 100 {
            file.push_str(&line);
            file.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    file.push_str(&line);
    file.push('\n');
}

impl PluginDraft {
    pub(super) fn example() -> Self {
        let (name, source) = ("chat".to_owned(), "plugins/chat.wasm".to_owned());
        Self { name, source, ..Self::default() }
    }
}

impl RouteDraft {
    pub(super) fn example() -> Self {
        Self {
            path: "/chat".to_owned(),
            plugin: "chat".to_owned(),
            builtin: Some(Builtin::Echo),
            ..Self::default()
        }
    }
}

impl StaticDraft {
    pub(super) fn example() -> Self {
        Self { path: "/assets".to_owned(), dir: "public".to_owned() }
    }
}
