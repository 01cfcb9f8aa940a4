//! What an operator sees who gave the program something wrong, or nothing.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::support::{Client, Process, Site, plugin_file, program};

fn run(arguments: &[&str], dir: &Path) -> Output {
    Command::new(program()).args(arguments).current_dir(dir).output().unwrap()
}

/// Serving this must fail with exit code 1 and one sentence, which is returned.
fn refused(site: &Site) -> String {
    let output = Command::new(program()).args(site.arguments()).output().unwrap();
    let sentence = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{sentence}");
    assert_eq!(sentence.lines().count(), 1, "{sentence}");
    assert_eq!(output.stdout, b"", "nothing is served");
    let sentence = sentence.strip_prefix("error: ").unwrap_or_else(|| panic!("{sentence}"));
    sentence.trim_end().to_owned()
}

/// A site whose plugin is this file.
fn with_file(bytes: impl AsRef<[u8]>) -> Site {
    let site = Site::new().set("workers.call_deadline", "300ms");
    fs::write(site.dir().join("a.wasm"), bytes).unwrap();
    site.toml("[[plugin]]\nname = \"a\"\nsource = \"a.wasm\"\n")
        .toml("[[route]]\npath = \"/a\"\nplugin = \"a\"\n")
}

#[test]
fn without_a_configuration_an_echo_is_served() {
    let arguments = ["serve", "--listen", "127.0.0.1:0"].map(str::to_owned);
    let process = Process::serve(&arguments, TempDir::new().unwrap());
    let address = process.address();
    assert_ne!(address.port(), 0);
    assert_eq!(process.lines, [format!("ws://{address}/  echo")]);
    Client::open(address, "/").echo("hello");
    process.signal("INT");
    let (status, log) = process.wait();
    assert_eq!(status.code(), Some(0));
    assert!(log.contains("no configuration file"), "{log}");
}

#[test]
fn the_usual_file_is_read_from_the_working_directory() {
    let dir = TempDir::new().unwrap();
    let text = "[[route]]\npath = \"/here\"\nbuiltin = \"echo\"\n";
    fs::write(dir.path().join("plugsock.toml"), text).unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0"].map(str::to_owned);
    let process = Process::serve(&arguments, dir);
    assert!(process.lines[0].contains("/here  echo without a plugin"), "{:?}", process.lines);
    Client::open(process.address(), "/here").echo("hello");
}

#[test]
fn what_is_no_plugin_is_named() {
    for text in ["just some text", ""] {
        let site = with_file(text);
        let sentence = refused(&site);
        let start =
            format!("plugin `a` ({}/a.wasm): this is not WebAssembly", site.dir().display());
        assert!(sentence.starts_with(&start), "{sentence}");
    }
    let sentence = refused(&with_file(b"\0asm\x01\0\0\0"));
    assert!(sentence.contains("core WebAssembly module, not a component"), "{sentence}");
    let sentence = refused(&with_file("(module)"));
    assert!(sentence.contains("core WebAssembly module, not a component"), "{sentence}");
    let sentence = refused(&with_file("(component)"));
    assert!(sentence.contains("exports nothing, but must export"), "{sentence}");
    assert!(sentence.contains("`register!(YourType);`"), "{sentence}");
    let other = r#"(component (instance $run) (export "wasi:cli/run@0.2.0" (instance $run)))"#;
    let sentence = refused(&with_file(other));
    assert!(sentence.contains("`wasi:cli/run@0.2.0`"), "{sentence}");
    let whole = fs::read(plugin_file("echo")).unwrap();
    let sentence = refused(&with_file(&whole[..whole.len() / 2]));
    assert!(sentence.contains("cannot be compiled"), "{sentence}");
}

#[test]
fn a_missing_file_is_named_before_anything_starts() {
    let site = Site::new().toml("[[plugin]]\nname = \"a\"\nsource = \"missing.wasm\"\n");
    let site = site.toml("[[route]]\npath = \"/a\"\nplugin = \"a\"\n");
    let sentence = refused(&site);
    assert!(sentence.contains("missing.wasm"), "{sentence}");
    assert!(sentence.contains("plugsock.toml:"), "where it was written: {sentence}");
}

#[test]
fn a_directory_is_no_plugin() {
    let site = Site::new();
    fs::create_dir(site.dir().join("a.wasm")).unwrap();
    let site = site.toml("[[plugin]]\nname = \"a\"\nsource = \"a.wasm\"\n");
    let sentence = refused(&site.toml("[[route]]\npath = \"/a\"\nplugin = \"a\"\n"));
    assert!(sentence.contains("a.wasm is a directory: name the .wasm file"), "{sentence}");
}

#[test]
fn a_plugin_that_cannot_begin_is_not_served() {
    for (guest, words) in
        [("bad-init", "no luck today"), ("init-trap", "init panics"), ("init-loop", "300")]
    {
        let site = Site::new().plugin(guest).set("workers.call_deadline", "300ms");
        let sentence = refused(&site);
        assert!(sentence.starts_with(&format!("plugin `{guest}` (")), "{sentence}");
        assert!(sentence.contains(words), "{sentence}");
    }
}

#[test]
fn a_bad_setting_is_one_sentence_with_its_place() {
    let sentence = refused(&Site::new().set("workers.thraeds", "2"));
    assert!(sentence.contains("did you mean `workers.threads`?"), "{sentence}");
    let sentence = refused(&Site::new().toml("[limits]\noutbox_size = \"lots\"\n"));
    assert!(sentence.contains("plugsock.toml:5:"), "{sentence}");
    let sentence = refused(&Site::new().toml("[[route]]\npath = \"/x\"\nplugin = \"y\"\n"));
    assert!(sentence.contains('y'), "{sentence}");
}

#[test]
fn a_panic_of_a_plugin_is_told_once() {
    for (level, lines) in [("info", 1), ("debug", 2)] {
        let process = Site::new().plugin("trap-tenth").set("log.level", level).spawn();
        let mut client = Client::open(process.address(), "/trap-tenth");
        client.text("boom");
        client.echo("after it");
        process.signal("TERM");
        let (_, log) = process.wait();
        let told: Vec<_> = log.lines().filter(|line| line.contains("trapped on")).collect();
        assert_eq!(told.len(), lines, "{log}");
        let [.., told] = &told[..] else { panic!("{log}") };
        assert!(told.contains(" WARN ") && told.contains("plugin=\"trap-tenth\""), "{told}");
        let place = "it panicked at tests/guests/examples/trap-tenth.rs:";
        assert!(told.contains(place) && told.contains("trapped on \"boom\""), "{told}");
        assert_eq!(log.contains("RUST_BACKTRACE"), level == "debug", "{log}");
    }
}

#[test]
fn a_check_looks_into_the_plugins() {
    let site = Site::new().plugin("echo").plugin("chat");
    let check = |site: &Site, more: &[&str]| {
        let file = &site.arguments()[2];
        let output = run(&[&["check-config", file], more].concat(), site.dir());
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, out) = check(&site, &[]);
    assert_eq!((code, out.lines().count()), (Some(0), 3), "{out}");
    assert!(out.contains("plugin `chat` (") && out.contains("connections + channels"), "{out}");
    let site = with_file("(component)");
    assert_eq!(check(&site, &[]).0, Some(1));
    assert_eq!(check(&site, &["--no-plugins"]).0, Some(0));
}

#[test]
fn usage_errors_have_their_own_exit_code() {
    let dir = TempDir::new().unwrap();
    assert_eq!(run(&["sevre"], dir.path()).status.code(), Some(2));
    assert_eq!(run(&["serve", "--listen", "nowhere"], dir.path()).status.code(), Some(2));
    assert_eq!(run(&["--version"], dir.path()).status.code(), Some(0));
    let missing = run(&["serve", "--config", "missing.toml"], dir.path());
    assert_eq!(missing.status.code(), Some(1));
    let checked = run(&["check-config", "missing.toml"], dir.path());
    assert_eq!(checked.status.code(), Some(1));
}
