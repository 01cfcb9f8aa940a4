//! Reads `plugsock.toml`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::draft::{Draft, Entry, Report};
use super::field::Input;
use super::keys::{Entries, Key, PLUGIN, ROUTE, SECTIONS, STATIC};
use super::overrides::elsewhere;
use super::problem::{Place, Problem, alternatives, nearest};

/// Bytes of a file. A larger one is hardly a configuration.
pub(super) const MAX_FILE: u64 = 1 << 20;

/// Applies the file to the draft.
pub(super) fn read(path: &Path, draft: &mut Draft, report: &mut Report) {
    match read_text(path) {
        Ok(text) => {
            if let Some(directory) = path.parent() {
                directory.clone_into(&mut draft.directory);
            }
            Reader { path, text: &text, report }.read(draft);
        }
        Err(error) => {
            let place = Place::File { file: path.display().to_string() };
            report.problems.push(Problem::new(&place, format!("cannot read it: {error}")));
        }
    }
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(text)
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    report: &'a mut Report,
}

impl Reader<'_> {
    fn read(&mut self, draft: &mut Draft) {
        let (root, errors) = DeTable::parse_recoverable(self.text);
        for error in &errors {
            let offset = error.span().map_or(0, |span| span.start);
            self.problem(offset, format!("not valid TOML: {}", error.message()));
        }
        // Unclosed brackets are reported once for each, all at the end of the file.
        self.report.problems.dedup();
        // Past a syntax error it is a guess what belongs to which table.
        if !errors.is_empty() {
            return;
        }
        for (name, value) in root.get_ref().iter() {
            let offset = name.span().start;
            let name: &str = name.get_ref();
            if let Some(section) = SECTIONS.iter().find(|section| section.name == name) {
                let Some(table) = value.get_ref().as_table() else {
                    self.problem(offset, format!("`{name}` must be a table: write `[{name}]`"));
                    continue;
                };
                for (key, place) in self.fill(name, section.keys, table, draft) {
                    draft.origins.push((format!("{name}.{key}"), place));
                }
            } else if name == PLUGIN.name {
                draft.plugins = self.entries(&PLUGIN, offset, value);
            } else if name == ROUTE.name {
                draft.routes = self.entries(&ROUTE, offset, value);
            } else if name == STATIC.name {
                draft.statics = self.entries(&STATIC, offset, value);
            } else {
                self.problem(offset, unknown_section(name, value.get_ref()));
            }
        }
    }

    /// Sets what the table has, and returns where each key stands.
    fn fill<T>(
        &mut self,
        section: &str,
        keys: &'static [Key<T>],
        table: &DeTable<'_>,
        target: &mut T,
    ) -> Vec<(&'static str, Place)> {
        let mut origins = Vec::new();
        for (name, value) in table.iter() {
            let offset = name.span().start;
            let name: &str = name.get_ref();
            let Some(key) = keys.iter().find(|key| key.name == name) else {
                self.problem(offset, unknown_key(section, name, keys));
                continue;
            };
            origins.push((key.name, self.place(offset)));
            if let Err(wrong) = (key.field)(target).set(Input::Toml(value.get_ref())) {
                self.problem(value.span().start, format!("`{section}.{name}` {wrong}"));
            }
        }
        origins
    }

    fn entries<T: Default>(
        &mut self,
        kind: &'static Entries<T>,
        offset: usize,
        value: &Spanned<DeValue<'_>>,
    ) -> Vec<Entry<T>> {
        let name = kind.name;
        let Some(array) = value.get_ref().as_array() else {
            self.problem(offset, format!("`{name}` must be a list: write `[[{name}]]`"));
            return Vec::new();
        };
        let mut entries = Vec::new();
        for item in array.iter() {
            let offset = item.span().start;
            let Some(table) = item.get_ref().as_table() else {
                self.problem(offset, format!("each `{name}` must be a table: write `[[{name}]]`"));
                continue;
            };
            if entries.len() == kind.most {
                self.problem(offset, format!("more than {} of [[{name}]]: remove some", kind.most));
                break;
            }
            let mut value = T::default();
            let origins = self.fill(name, kind.keys, table, &mut value);
            for key in kind.keys.iter().filter(|key| key.required) {
                if !origins.iter().any(|(name, _)| *name == key.name) {
                    let allowed = (key.field)(&mut value).allowed();
                    let sentence = format!("missing key `{name}.{}`: add {allowed}", key.name);
                    self.problem(offset, sentence);
                }
            }
            entries.push(Entry { value, place: self.place(offset), origins });
        }
        entries
    }

    fn place(&self, offset: usize) -> Place {
        Place::in_text(self.path, self.text, offset)
    }

    fn problem(&mut self, offset: usize, sentence: String) {
        let place = self.place(offset);
        self.report.problems.push(Problem { place, message: sentence });
    }
}

fn unknown_section(name: &str, value: &DeValue<'_>) -> String {
    let item = value.as_array().and_then(|array| array.first());
    let is_section = item.map_or(value, Spanned::get_ref).is_table();
    let kind = if is_section { "section" } else { "key" };
    let known = || {
        let lists = [PLUGIN.name, ROUTE.name, STATIC.name];
        SECTIONS.iter().map(|section| section.name).chain(lists)
    };
    let hint = match nearest(name, known()).map(str::to_owned).or_else(|| elsewhere(name)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known sections: {}", alternatives(known(), '`')),
    };
    format!("unknown {kind} `{name}`; {hint}")
}

fn unknown_key<T>(section: &str, name: &str, keys: &[Key<T>]) -> String {
    let known = || keys.iter().map(|key| key.name);
    let hint = match nearest(name, known()).map(str::to_owned).or_else(|| elsewhere(name)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known keys: {}", alternatives(known(), '`')),
    };
    format!("unknown key `{section}.{name}`; {hint}")
}
