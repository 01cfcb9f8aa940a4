//! House rules that no compiler checks, by reading the project's own files.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::Path;
use std::{fs, mem};

/// The host's modules, each with those it may import besides `types`, which is open to all. What
/// must flow up is a returned value, a channel, or a trait declared below and wired in `app`.
const MODULES: [(&str, &str); 17] = [
    ("types", ""),
    ("clock", ""),
    ("task", "clock"),
    ("metrics", "clock"),
    ("listen", "clock, task, metrics"),
    ("inbound", "clock, task, metrics"),
    ("plugin", "clock, task, metrics"),
    ("outbound", "clock, task, metrics"),
    ("files", "clock, task, metrics"),
    ("conn", "clock, task, metrics, listen, inbound, outbound"),
    ("shard", "clock, task, metrics, listen, inbound, outbound, conn"),
    ("worker", "clock, task, metrics, inbound, plugin, outbound"),
    ("config", "listen, inbound, plugin, outbound, files, conn, shard, worker"),
    ("bench", "clock, task"),
    ("app", ANY),
    ("cli", ANY),
    ("main", ANY),
];
const ANY: &str = "anything";

/// Dependencies of the host that only these paths below `host/` may name.
const CONFINED: [(&str, &[&str]); 11] = [
    ("wasmtime", &["src/plugin/"]),
    ("wasmtime_wasi", &["src/plugin/"]),
    (
        "plugsock_ws",
        &[
            "src/types/",
            "src/conn/",
            "src/shard/",
            "src/outbound/",
            "src/config/",
            "src/app/",
            "src/bench/",
        ],
    ),
    ("mio", &["src/listen/", "src/conn/", "src/shard/", "src/app/", "src/bench/"]),
    ("rustix", &["src/bench/"]),
    ("hdrhistogram", &["src/bench/"]),
    ("tokio", &["src/inbound/", "src/plugin/", "src/worker/", "src/app/"]),
    ("rustls", &["src/tls/"]),
    ("flate2", &["ws/src/deflate"]),
    ("zlib_rs", &["ws/src/deflate"]),
    ("std::env", &["src/config/", "src/main.rs"]),
];

/// The files with `unsafe` code.
const UNSAFE: [(&str, &str); 2] = [
    ("tests/allocations/counter.rs", "an allocator, which the trait makes unsafe"),
    ("tests/bench/src/sys.rs", "system calls that std has not"),
];

/// Files that may have lines of over 100 characters.
const LONG_LINES: [(&str, &str); 4] = [
    ("clippy.toml", "a list entry must stand on one line"),
    ("Cargo.toml", "a description must stand on one line"),
    (".wit", "a function's signature stands on one line"),
    ("Cargo.lock", "cargo writes it"),
];

/// The plugin interface, as digests of its files without comments and blanks. Once a release has
/// served a version its line here never changes: see wit/README.md.
const INTERFACE: [(&str, u64); 4] = [
    ("wit/handler.wit", 0xf548_e45b_f838_fa60),
    ("wit/host.wit", 0xeda3_def6_8280_54c6),
    ("wit/types.wit", 0xcbf3_4a04_eade_a639),
    ("wit/world.wit", 0xbc19_707a_1963_e38a),
];

#[test]
fn modules_import_only_what_lies_below_them() {
    let mut problems = Vec::new();
    for file in host_sources() {
        let path = &file.path;
        let Some(module) = path.strip_prefix("host/src/").map(module_of) else { continue };
        if module == "lib" {
            continue;
        }
        let Some((_, allowed)) = MODULES.iter().find(|(name, _)| *name == module) else {
            problems.push(format!("{path}: `{module}` has no place in MODULES"));
            continue;
        };
        for import in imports(&file.code()) {
            let below = ["types", module].contains(&import.as_str());
            if import == "bench" && !["bench", "cli"].contains(&module) {
                problems.push(format!("{path}: only `cli` may import `bench`"));
            } else if *allowed != ANY && !below && !allowed.split(", ").any(|name| name == import) {
                problems.push(format!("{path}: `{module}` must not import `{import}`"));
            }
        }
    }
    report(&problems);
}

#[test]
fn dependencies_stay_where_they_are_wrapped() {
    let mut problems = Vec::new();
    for file in host_sources() {
        let (path, code) = (&file.path, file.code());
        let below_host = &path["host/".len()..];
        for (name, places) in CONFINED {
            if names(&code, name) && !places.iter().any(|place| below_host.starts_with(place)) {
                problems.push(format!("{path} names {name}, which is for {}", places.join(", ")));
            }
        }
    }
    report(&problems);
}

#[test]
fn unsafe_code_stands_in_listed_files() {
    let found = sources().filter(|file| file.is("rs") && names(&file.code(), "unsafe"));
    let found: Vec<_> = found.map(|file| file.path).collect();
    assert_eq!(found, UNSAFE.map(|(path, _)| path));
}

#[test]
fn files_and_lines_are_short() {
    let mut problems = Vec::new();
    for file in sources().filter(|file| !file.is("md")) {
        let File { path, text } = &file;
        let before_tests = text.lines().take_while(|line| *line != "mod tests {").count();
        if file.is("rs") && before_tests > 500 {
            problems.push(format!("{path} has {before_tests} lines before its tests"));
        }
        if LONG_LINES.iter().any(|(end, _)| path.ends_with(end)) {
            continue;
        }
        let long = text.lines().position(|line| line.chars().count() > 100);
        problems.extend(long.map(|line| format!("{path}:{} is a long line", line + 1)));
    }
    report(&problems);
}

#[test]
fn links_in_documents_lead_somewhere() {
    let mut problems = Vec::new();
    for File { path, text } in sources().filter(|file| file.is("md")) {
        let directory = root().join(&path).parent().unwrap().to_owned();
        let prose = text.split("```").step_by(2);
        for target in prose.flat_map(|part| part.split("](").skip(1)) {
            let target = target.split([')', '#']).next().unwrap();
            if !target.contains("://") && !directory.join(target).exists() {
                problems.push(format!("{path} links to {target}, which is not there"));
            }
        }
    }
    report(&problems);
}

#[test]
fn no_file_names_a_directory_of_one_machine() {
    let mut problems = Vec::new();
    for File { path, text } in sources() {
        for directory in ["work", "root", "home"] {
            let absolute = |part: &str| !part.ends_with(|c: char| c.is_alphanumeric() || c == '.');
            let mut parts: Vec<_> = text.split(&format!("/{directory}/")).collect();
            parts.pop();
            if parts.into_iter().any(absolute) {
                problems.push(format!("{path} has a path below /{directory}"));
            }
        }
    }
    report(&problems);
}

#[test]
fn the_published_interface_is_frozen() {
    let found: Vec<_> = sources()
        .filter(|file| file.is("wit"))
        .map(|file| {
            let tokens: String = file.code().split_whitespace().collect();
            // FNV-1a.
            let digest = tokens.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
                (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            format!("(\"{}\", {digest:#x})", file.path)
        })
        .collect();
    assert_eq!(found, INTERFACE.map(|(path, digest)| format!("(\"{path}\", {digest:#x})")));
}

#[test]
fn documents_say_what_the_code_says() {
    let read = |path| fs::read_to_string(root().join(path)).unwrap();
    let example = |text: &str, fence: &str| {
        text.split_once(fence).unwrap().1.split_once("```").unwrap().0.to_owned()
    };
    let documented = read("plugin-sdk/src/lib.rs").replace("//! ", "").replace("//!", "");
    assert_eq!(example(&read("README.md"), "```rust"), example(&documented, "```no_run"));

    let architecture = read("docs/ARCHITECTURE.md");
    for (module, allowed) in MODULES {
        let allowed = if allowed.is_empty() { "nothing" } else { allowed };
        let row = format!("| `{module}` | {allowed} |");
        assert!(architecture.contains(&row), "docs/ARCHITECTURE.md lacks the line {row}");
    }
    assert!(read("CHANGELOG.md").contains("\n## [Unreleased]\n"));
}

#[test]
fn the_rules_see_what_they_look_for() {
    let text = "use crate::{a::{x, y},\n    b};\nlet c = crate::c::Z; // crate::d\n\
                let e = (\"crate::e \\\" unsafe\", '\"', r#\"unsafe\"#);\n\
                std::env::var(\"X\");\n#[cfg(test)]\nmod tests {\n    use crate::f;\n}\n\
                #[cfg(test)]\nmod more;\ncrate::g\n";
    let code = code(text);
    assert_eq!(imports(&code), ["a", "b", "c", "g"]);
    assert!(names(&code, "std::env") && !names(&code, "unsafe") && !names(&code, "td"));
    assert!(names("unsafe { }", "unsafe") && !names("unsafe_code", "unsafe"));
    assert_eq!(module_of("plugin/imports/mod.rs"), "plugin");
    assert_eq!(module_of("clock.rs"), "clock");
}

/// A text file of the project; its path is from the root.
struct File {
    path: String,
    text: String,
}

/// The sources of the host and its parts, without their tests and examples.
fn host_sources() -> impl Iterator<Item = File> {
    let outside = ["/tests/", "/tests.rs", "/examples/"];
    sources().filter(move |file| {
        let inside = !outside.iter().any(|part| file.path.contains(part));
        file.path.starts_with("host/") && inside && file.is("rs")
    })
}

/// All text files, by path.
fn sources() -> impl Iterator<Item = File> {
    let mut files = Vec::new();
    let mut directories = vec![root().to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                let ours = ["target", ".git", "corpus"].iter().all(|name| !path.ends_with(name));
                if ours {
                    directories.push(path);
                }
            } else if let Ok(text) = fs::read_to_string(&path) {
                let path = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                files.push(File { path, text });
            }
        }
    }
    assert!(files.len() > 100, "{} is not the project", root().display());
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.into_iter()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

impl File {
    fn is(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, end)| end == extension)
    }

    fn code(&self) -> String {
        code(&self.text)
    }
}

/// Rust or WIT without comments, the contents of strings, and the items that only tests have.
fn code(text: &str) -> String {
    let mut bare = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("r#\"") {
            rest.find("\"#").map_or(rest.len(), |end| end + 2)
        } else if c == '"' {
            let mut escaped = true;
            let end = rest.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |end| end + 1)
        } else if rest.starts_with("'\"'") {
            3
        } else {
            bare.push(c);
            c.len_utf8()
        };
        rest = &rest[skipped..];
    }
    let mut lines = bare.lines();
    let mut kept = String::new();
    while let Some(line) = lines.next() {
        if let Some(indent) = line.find("#[cfg(test)]") {
            // The item ends where a line with the same indent does.
            lines.find(|line| {
                line[indent..].starts_with(|c| c != ' ') && line.ends_with(['}', ';'])
            });
        } else {
            kept += line;
            kept.push('\n');
        }
    }
    kept
}

fn module_of(path: &str) -> &str {
    path.split('/').next().unwrap().trim_end_matches(".rs")
}

/// Whether a name, or a path such as `std::env`, stands in the code as whole words.
fn names(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        !code[..at].ends_with(in_word) && !code[at + name.len()..].starts_with(in_word)
    })
}

/// The modules at the root of the crate that the code names, also in groups.
fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for path in code.split("crate::").skip(1) {
        // Of each path in a group only the first name is a module of the root.
        let (mut depth, mut first, mut name) = (0, true, String::new());
        for c in path.chars() {
            if first && in_word(c) {
                name.push(c);
                continue;
            }
            if !name.is_empty() {
                found.push(mem::take(&mut name));
                first = false;
            }
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' => first = depth == 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    found
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
