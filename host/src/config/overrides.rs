//! Settings from the environment and from the command line.

use std::net::SocketAddr;

use super::draft::{Draft, Report};
use super::field::Input;
use super::keys::{Key, SECTIONS};
use super::problem::{Place, Problem, nearest};

/// What the name of every variable of ours begins with.
pub(super) const PREFIX: &str = "PLUGSOCK_";

/// Applies `PLUGSOCK_SECTION_KEY`. Others are left alone.
pub(super) fn environment(variables: &[(String, String)], draft: &mut Draft, report: &mut Report) {
    for (variable, text) in variables.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
        let place = Place::Environment { variable: variable.clone() };
        match full_names().find(|full| in_environment(full) == *variable) {
            Some(full) => set(&full, text, place, draft, report),
            None => {
                let names: Vec<String> = full_names().map(|full| in_environment(&full)).collect();
                let near = nearest(variable, names.iter().map(String::as_str)).map(str::to_owned);
                let key = variable[PREFIX.len()..].to_ascii_lowercase();
                let hint = match near.or_else(|| Some(in_environment(&elsewhere(&key)?))) {
                    Some(near) => format!("did you mean {near}?"),
                    None => "unset it, or see `plugsock default-config` for the keys".to_owned(),
                };
                report.problems.push(Problem::new(&place, format!("no such setting; {hint}")));
            }
        }
    }
}

/// Applies `--set section.key=value`, then `--listen`.
pub(super) fn flags(
    pairs: &[(String, String)],
    listen: &[SocketAddr],
    draft: &mut Draft,
    report: &mut Report,
) {
    for (full, text) in pairs {
        set(full, text, Place::Flag { flag: format!("--set {full}") }, draft, report);
    }
    if !listen.is_empty() {
        let addresses: Vec<String> = listen.iter().map(SocketAddr::to_string).collect();
        let place = Place::Flag { flag: "--listen".to_owned() };
        set("server.listen", &addresses.join(","), place, draft, report);
    }
}

/// Every `section.key` that can be set outside of a file.
fn full_names() -> impl Iterator<Item = String> {
    SECTIONS
        .iter()
        .flat_map(|section| section.keys.iter().map(|key| format!("{}.{}", section.name, key.name)))
}

/// The full name of the key that is called so in some section.
pub(super) fn elsewhere(name: &str) -> Option<String> {
    full_names().find(|full| full.split_once('.').is_some_and(|(_, key)| key == name))
}

fn in_environment(full: &str) -> String {
    format!("{PREFIX}{}", full.replace('.', "_").to_ascii_uppercase())
}

fn set(full: &str, text: &str, place: Place, draft: &mut Draft, report: &mut Report) {
    let Some(key) = find(full) else {
        report.problems.push(Problem::new(&place, unknown(full)));
        return;
    };
    if let Err(wrong) = (key.field)(draft).set(Input::Text(text)) {
        report.problems.push(Problem::new(&place, format!("`{full}` {wrong}")));
    }
    draft.origins.push((full.to_owned(), place));
}

fn find(full: &str) -> Option<&'static Key<Draft>> {
    let (section, key) = full.split_once('.')?;
    let section = SECTIONS.iter().find(|known| known.name == section)?;
    section.keys.iter().find(|known| known.name == key)
}

fn unknown(full: &str) -> String {
    let names: Vec<String> = full_names().collect();
    let near = nearest(full, names.iter().map(String::as_str)).map(str::to_owned);
    let hint = match near.or_else(|| elsewhere(full)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if matches!(full.split('.').next(), Some("plugin" | "route" | "static")) => {
            "plugins, routes and static directories are set in a file only".to_owned()
        }
        None => "see `plugsock default-config` for the keys".to_owned(),
    };
    format!("unknown key `{full}`; {hint}")
}
