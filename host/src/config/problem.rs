//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::Path;

use serde::Serialize;

/// One thing that is wrong or doubtful: a sentence that says what, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where it was written.
    #[serde(flatten)]
    pub place: Place,
    /// The sentence, without a full stop.
    pub message: String,
}

/// Where a setting was written. They sort in the order in which settings override each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Place {
    /// Nowhere: it follows from the defaults on this machine.
    Default {},
    /// A file that could not be read at all.
    File {
        /// As the user named it.
        file: String,
    },
    /// A place in a file.
    Line {
        /// As the user named it.
        file: String,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
    },
    /// An environment variable.
    Environment {
        /// Its name.
        variable: String,
    },
    /// A command line flag.
    Flag {
        /// As it was given.
        flag: String,
    },
}

impl Problem {
    pub(super) fn new(place: &Place, message: impl Into<String>) -> Self {
        Self { place: place.clone(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, self.message)
    }
}

impl Place {
    /// The line and column of a byte offset in the text of `file`.
    pub(super) fn in_text(file: &Path, text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self::Line {
            file: file.display().to_string(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// With the separator that belongs before the sentence.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default {} => Ok(()),
            Self::File { file } => write!(f, "{file}: "),
            Self::Line { file, line, column } => write!(f, "{file}:{line}:{column}: "),
            Self::Environment { variable } => write!(f, "{variable}: "),
            Self::Flag { flag } => write!(f, "{flag}: "),
        }
    }
}

/// The candidate that `name` was most likely meant to be, if any is near.
pub(super) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let furthest = (name.chars().count() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= furthest)
        .min()
        .map(|(_, candidate)| candidate)
}

/// `"a"`, `"b"` or `"c"`, each between `quote`s.
pub(super) fn alternatives<'a>(names: impl IntoIterator<Item = &'a str>, quote: char) -> String {
    let quoted: Vec<String> =
        names.into_iter().map(|name| format!("{quote}{name}{quote}")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_names_are_suggested() {
        let names = ["threads", "queue_size", "queue_bytes"];
        assert_eq!(nearest("queue_sise", names), Some("queue_size"));
        assert_eq!(nearest("thraeds", names), Some("threads"));
        assert_eq!(nearest("queue", names), None, "five letters away");
        assert_eq!(nearest("abc", ["xyz"]), None);
    }

    #[test]
    fn columns_count_characters() {
        let text = "a = 1\n\u{e9}\u{e9} = x\n";
        let offset = text.find('x').unwrap();
        let place = Place::in_text(Path::new("f"), text, offset);
        assert_eq!(place.to_string(), "f:2:6: ");
        assert_eq!(Place::in_text(Path::new("f"), text, text.len()).to_string(), "f:3:1: ");
        assert_eq!(Place::in_text(Path::new("f"), text, 999).to_string(), "f:3:1: ");
    }
}
