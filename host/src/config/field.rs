//! One setting: where its value is kept, what it may be, and how it is written.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::de::{DeArray, DeValue};

use super::hint;
use super::problem::alternatives;
use super::units::{parse_duration, parse_number, parse_size, show_duration, show_size};

/// Entries that a list in the configuration may have.
pub(super) const MAX_LIST: usize = 256;

/// A place for a value, with what it may hold.
pub(super) enum Field<'a> {
    /// A whole number.
    Count(&'a mut dyn Number, RangeInclusive<u64>),
    /// Bytes.
    Size(&'a mut dyn Number, RangeInclusive<u64>),
    /// A time of whole milliseconds.
    Time(&'a mut Duration, RangeInclusive<Duration>),
    /// True or false.
    Flag(&'a mut bool),
    /// One of several names.
    Choice(&'a mut dyn Choice),
    /// A piece of text.
    Text(&'a mut String, &'static Shape),
    /// Several pieces of text.
    Texts(&'a mut Vec<String>, &'static Shape),
    /// Socket addresses, at least one.
    Addresses(&'a mut Vec<SocketAddr>),
}

/// A rule for a piece of text.
pub(super) struct Shape {
    /// Completes "must be …".
    pub what: &'static str,
    pub valid: fn(&str) -> bool,
}

/// A value as it was written.
#[derive(Clone, Copy)]
pub(super) enum Input<'a> {
    /// In a file.
    Toml(&'a DeValue<'a>),
    /// In the environment or on the command line, where a list is separated by commas.
    Text(&'a str),
}

/// An unsigned integer of any width.
pub(super) trait Number {
    fn get(&self) -> u64;
    /// False if it does not fit.
    fn set(&mut self, number: u64) -> bool;
}

/// A value that is one of several names.
pub(super) trait Choice {
    fn names(&self) -> Vec<&'static str>;
    /// The name of the value, if it has one.
    fn get(&self) -> Option<&'static str>;
    /// False for an unknown name.
    fn set(&mut self, name: &str) -> bool;
}

/// The names of a type's values.
pub(super) trait Named: Copy + PartialEq + 'static {
    const NAMES: &'static [(&'static str, Self)];
}

impl Field<'_> {
    /// Takes the value, or says what is wrong: the rest of a sentence that begins with the key.
    pub(super) fn set(mut self, input: Input<'_>) -> Result<(), String> {
        if self.take(input)? {
            return Ok(());
        }
        let sentence = format!("must be {}, not {}", self.allowed(), input.shown());
        Err(match self.hint(input) {
            Some(hint) => format!("{sentence}; {hint}"),
            None => sentence,
        })
    }

    /// False if the value as a whole is not one; an error if something else is wrong.
    fn take(&mut self, input: Input<'_>) -> Result<bool, String> {
        let allowed = self.allowed();
        Ok(match self {
            Field::Count(slot, range) => {
                input.number().is_some_and(|n| range.contains(&n) && slot.set(n))
            }
            Field::Size(slot, range) => {
                input.size().is_some_and(|n| range.contains(&n) && slot.set(n))
            }
            Field::Time(slot, range) => {
                let time = input.text().and_then(parse_duration);
                time.filter(|time| range.contains(time)).map(|time| **slot = time).is_some()
            }
            Field::Flag(slot) => input.flag().map(|flag| **slot = flag).is_some(),
            Field::Choice(slot) => input.text().is_some_and(|name| slot.set(name)),
            Field::Text(slot, shape) => match input.text().filter(|text| (shape.valid)(text)) {
                Some(text) => {
                    text.clone_into(slot);
                    true
                }
                None => false,
            },
            Field::Texts(slot, shape) => {
                let Some(inputs) = input.items() else { return Ok(false) };
                let item = |text: &str| (shape.valid)(text).then(|| text.to_owned());
                **slot = list(&inputs, &allowed, item, |_| None)?;
                true
            }
            Field::Addresses(slot) => {
                let Some(inputs) = input.items() else { return Ok(false) };
                let hint = |text: &str| Some(hint::address(text));
                **slot = list(&inputs, &allowed, |text| text.parse().ok(), hint)?;
                !slot.is_empty()
            }
        })
    }

    /// What to write instead of a value that was not taken.
    fn hint(&self, input: Input<'_>) -> Option<String> {
        let text = input.plain()?;
        match self {
            Field::Count(_, range) => hint::count(&text, range),
            Field::Size(_, range) => hint::size(&text, range),
            Field::Time(_, range) => hint::duration(&text, range),
            Field::Flag(_) if text.parse::<bool>().is_ok() => Some(format!("write {text}")),
            // Outside of a file one entry is a list.
            _ if matches!(input, Input::Text(_)) => None,
            Field::Texts(_, shape) if (shape.valid)(&text) => Some(format!("write [{text:?}]")),
            Field::Addresses(_) => Some(match text.parse::<SocketAddr>() {
                Ok(_) => format!("write [{text:?}]"),
                Err(_) => format!("make it a list; {}", hint::address(&text)),
            }),
            _ => None,
        }
    }

    /// What it may hold; completes "must be …".
    pub(super) fn allowed(&self) -> String {
        match self {
            Field::Count(_, range) => {
                let (least, most) = (show_number(*range.start()), show_number(*range.end()));
                format!("a whole number from {least} to {most}")
            }
            Field::Size(_, range) => {
                let (least, most) = (show_size(*range.start()), show_size(*range.end()));
                format!("a size from \"{least}\" to \"{most}\"")
            }
            Field::Time(_, range) => {
                let (least, most) = (show_duration(*range.start()), show_duration(*range.end()));
                format!("a duration from \"{least}\" to \"{most}\"")
            }
            Field::Flag(_) => "true or false".to_owned(),
            Field::Choice(slot) => alternatives(slot.names(), '"'),
            Field::Text(_, shape) => shape.what.to_owned(),
            Field::Texts(_, shape) => {
                format!("a list of at most {MAX_LIST} texts, each {}", shape.what)
            }
            Field::Addresses(_) => format!(
                "a list of 1 to {MAX_LIST} addresses such as \"127.0.0.1:8080\" or \"[::1]:8080\""
            ),
        }
    }

    /// The largest value, as it would be written; `None` where there is no order.
    #[cfg(test)]
    pub(super) fn ceiling(&self) -> Option<String> {
        match self {
            Field::Count(_, range) => Some(show_number(*range.end())),
            Field::Size(_, range) => Some(quote(&show_size(*range.end()))),
            Field::Time(_, range) => Some(quote(&show_duration(*range.end()))),
            _ => None,
        }
    }

    /// The value as it is written in a file.
    pub(super) fn show(&self) -> String {
        match self {
            Field::Count(slot, _) => show_number(slot.get()),
            Field::Size(slot, _) => quote(&show_size(slot.get())),
            Field::Time(slot, _) => quote(&show_duration(**slot)),
            Field::Flag(slot) => slot.to_string(),
            Field::Choice(slot) => quote(slot.get().unwrap_or_default()),
            Field::Text(slot, _) => quote(slot),
            Field::Texts(slot, _) => {
                format!("[{}]", slot.iter().map(|text| quote(text)).collect::<Vec<_>>().join(", "))
            }
            Field::Addresses(slot) => {
                let addresses: Vec<_> =
                    slot.iter().map(|address| quote(&address.to_string())).collect();
                format!("[{}]", addresses.join(", "))
            }
        }
    }
}

impl<'a> Input<'a> {
    fn text(self) -> Option<&'a str> {
        match self {
            Self::Toml(value) => value.as_str(),
            Self::Text(text) => Some(text),
        }
    }

    fn number(self) -> Option<u64> {
        match self {
            Self::Toml(value) => {
                let integer = value.as_integer()?;
                u64::from_str_radix(integer.as_str(), integer.radix()).ok()
            }
            Self::Text(text) => parse_number(text),
        }
    }

    fn size(self) -> Option<u64> {
        match self {
            Self::Toml(DeValue::Integer(_)) => self.number(),
            _ => self.text().and_then(parse_size),
        }
    }

    fn flag(self) -> Option<bool> {
        match self {
            Self::Toml(value) => value.as_bool(),
            Self::Text(text) => text.parse().ok(),
        }
    }

    /// The entries of a list.
    fn items(self) -> Option<Vec<Self>> {
        match self {
            Self::Toml(DeValue::Array(array)) => Some(toml_items(array)),
            Self::Toml(_) => None,
            Self::Text(text) => {
                let items = text.split(',').map(str::trim).filter(|text| !text.is_empty());
                Some(items.map(Input::Text).collect())
            }
        }
    }

    /// A text or a number as it was written, without quotes.
    fn plain(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(text.into()),
            Self::Toml(DeValue::String(text)) => Some(text.as_ref().into()),
            Self::Toml(DeValue::Integer(_) | DeValue::Float(_)) => Some(self.shown().into()),
            Self::Toml(_) => None,
        }
    }

    /// The value for an error message: short, on one line.
    fn shown(self) -> String {
        const MOST: usize = 60;
        let whole = match self {
            Self::Toml(DeValue::String(text)) => format!("{text:?}"),
            Self::Text(text) => format!("{text:?}"),
            Self::Toml(DeValue::Integer(number)) => number.to_string(),
            Self::Toml(DeValue::Float(number)) => number.to_string(),
            Self::Toml(DeValue::Boolean(flag)) => flag.to_string(),
            Self::Toml(DeValue::Datetime(_)) => "a date".to_owned(),
            Self::Toml(DeValue::Array(array)) if array.is_empty() => "an empty list".to_owned(),
            Self::Toml(DeValue::Array(_)) => "a list".to_owned(),
            Self::Toml(DeValue::Table(_)) => "a table".to_owned(),
        };
        match whole.char_indices().nth(MOST) {
            Some((end, _)) => format!("{}…", &whole[..end]),
            None => whole,
        }
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            fn get(&self) -> u64 {
                u64::try_from(*self).unwrap_or(u64::MAX)
            }

            fn set(&mut self, number: u64) -> bool {
                Self::try_from(number).map(|number| *self = number).is_ok()
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64, usize);

impl<T: Named> Choice for T {
    fn names(&self) -> Vec<&'static str> {
        T::NAMES.iter().map(|(name, _)| *name).collect()
    }

    fn get(&self) -> Option<&'static str> {
        T::NAMES.iter().find(|(_, value)| value == self).map(|(name, _)| *name)
    }

    fn set(&mut self, name: &str) -> bool {
        let found = T::NAMES.iter().find(|(other, _)| *other == name);
        found.map(|(_, value)| *self = *value).is_some()
    }
}

/// Every entry turned into a `T`, or which one could not be.
fn list<T: PartialEq>(
    inputs: &[Input<'_>],
    allowed: &str,
    item: impl Fn(&str) -> Option<T>,
    hint: impl Fn(&str) -> Option<String>,
) -> Result<Vec<T>, String> {
    if inputs.len() > MAX_LIST {
        return Err(format!("must be {allowed}, not {}", inputs.len()));
    }
    let mut items = Vec::with_capacity(inputs.len());
    for input in inputs {
        let Some(item) = input.text().and_then(&item) else {
            let hint = input.plain().and_then(|text| hint(&text));
            let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
            return Err(format!("must be {allowed}, not {}{hint}", input.shown()));
        };
        if items.contains(&item) {
            return Err(format!("names {} twice", input.shown()));
        }
        items.push(item);
    }
    Ok(items)
}

fn toml_items<'a>(array: &'a DeArray<'a>) -> Vec<Input<'a>> {
    array.iter().map(|item| Input::Toml(item.get_ref())).collect()
}

/// With `_` between the thousands, as TOML allows.
fn show_number(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) && digits.len() > 4 {
            shown.push('_');
        }
        shown.push(digit);
    }
    shown
}

/// As a TOML basic string. The texts shown are defaults and examples: no control characters.
fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
