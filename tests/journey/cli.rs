//! What an operator sees who gave the program something wrong, or nothing.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use plugsock_ws::handshake::Key;
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

/// Runs the load generator, and returns its exit code and the result that it printed last.
fn bench(url: &str, arguments: &str) -> (Option<i32>, serde_json::Value) {
    let fixed = ["bench", url, "--format", "json", "--warmup", "0.1"];
    let all: Vec<_> = fixed.into_iter().chain(arguments.split(' ')).collect();
    let output = run(&all, Path::new("."));
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap_or("null");
    let result = serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {text}"));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code() == Some(0), !error.contains("error: "), "{all:?}: {error}");
    (output.status.code(), result)
}

#[test]
fn the_load_generator_measures_what_the_host_serves() {
    let site = Site::new().plugin("echo").plugin("chat").set("compression.enabled", "true");
    let served = site.start();
    let url = |path: &str| format!("ws://{}{path}", served.address());
    let number = |result: &serde_json::Value, name: &str| result[name].as_u64().unwrap();

    for (path, arguments) in [
        ("/builtin", "--clients 20 --seconds 0.3"),
        ("/echo", "--clients 20 --in-flight 8 --threads 2 --seconds 0.3 --text"),
        ("/echo", "--clients 3 --in-flight 2 --size 0 --seconds 0.3"),
        ("/echo", "--clients 2 --in-flight 2 --size 3000000 --seconds 0.3"),
        ("/echo", "--clients 8 --in-flight 4 --size 2000 --deflate --text --seconds 0.3"),
    ] {
        let (code, result) = bench(&url(path), arguments);
        assert_eq!(code, Some(0), "{arguments}: {result}");
        assert!(number(&result, "messages") > 0, "{arguments}: {result}");
        assert!(result["p99_us"].as_f64() >= result["p50_us"].as_f64());
    }

    let (code, result) = bench(&url("/echo"), "--rate 50 --clients 10 --threads 3 --seconds 0.4");
    assert_eq!(code, Some(0), "{result}");
    assert!((199..=201).contains(&number(&result, "samples")), "what was due was sent: {result}");

    let arguments = "--broadcast --text --clients 12 --in-flight 3 --threads 2 --seconds 0.4";
    let (code, result) = bench(&url("/chat?room=bench"), arguments);
    assert_eq!(code, Some(0), "{result}");
    assert!(number(&result, "rounds") > 0);
    assert_eq!(number(&result, "deliveries"), number(&result, "rounds") * 3 * 12);

    let pid = std::process::id();
    let arguments = format!("--idle --clients 300 --seconds 0.2 --pid {pid}");
    let (code, result) = bench(&url("/echo"), &arguments);
    assert_eq!((code, number(&result, "clients"), number(&result, "lost")), (Some(0), 300, 0));
    assert!(number(&result, "rss_bytes") > 0);

    let (code, result) = bench(&url("/echo"), "--clients 1 --poke hello --seconds 0.2");
    assert_eq!((code, &result["poke"]["outcome"]), (Some(0), &"answered".into()));
}

#[test]
fn the_load_generator_draws_a_row_for_each_number_of_clients() {
    let served = Site::new().start();
    let dir = TempDir::new().unwrap();
    let url = format!("ws://{}/builtin", served.address());
    let arguments = ["bench", &url, "--clients", "2,5", "--seconds", "0.3", "--plot", "out.svg"];
    let output = run(&arguments, dir.path());
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let column = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let first: Vec<_> = text.lines().skip(1).filter_map(column).collect();
    assert_eq!(first, ["clients", "2", "5"], "{text}");
    let picture = fs::read_to_string(dir.path().join("out.svg")).unwrap();
    assert_eq!(picture.matches("<polyline").count(), 6);
}

/// Upgrades one client and then answers everything that comes with the same bytes, or hangs up.
fn liar(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let serve = move || {
        let (mut socket, _) = listener.accept().unwrap();
        let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
        while !request.ends_with(b"\r\n\r\n") {
            let len = socket.read(&mut buffer).unwrap();
            request.extend_from_slice(&buffer[..len]);
        }
        let request = String::from_utf8(request).unwrap();
        let name = "Sec-WebSocket-Key: ";
        let key = request.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let accept = Key::parse(key.as_bytes()).unwrap().answer();
        let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                    Connection: Upgrade\r\nSec-WebSocket-Accept: ";
        write!(socket, "{head}{accept}\r\n\r\n").unwrap();
        while socket.read(&mut buffer).is_ok_and(|len| len > 0) {
            if answer.is_empty() || socket.write_all(answer).is_err() {
                return;
            }
        }
    };
    // Ends with its connection.
    #[expect(clippy::disallowed_methods, reason = "a helper of one test")]
    std::thread::Builder::new().name("liar".into()).spawn(serve).unwrap();
    url
}

#[test]
fn the_load_generator_finds_a_server_that_lies() {
    let cases: [(&[u8], &str); 5] = [
        // Of the right size, but always the first message.
        (b"\x82\x050000{", "out_of_order"),
        (b"\x82\x050000x", "altered"),
        (b"\x82\x040000", "wrong_shape"),
        (b"\x81\x050000{", "wrong_shape"),
        (b"", "lost"),
    ];
    for (answer, failure) in cases {
        let arguments = "--clients 1 --size 5 --seconds 0.3";
        let (code, result) = bench(&liar(answer), arguments);
        assert_eq!(code, Some(1), "{result}");
        assert!(result[failure].as_u64().unwrap() > 0, "{failure}: {result}");
        assert_eq!(result["ok"], false);
    }
}

#[test]
fn the_load_generator_says_what_is_in_the_way() {
    let served = Site::new().start();
    let dir = Path::new(".");
    let url = format!("ws://{}", served.address());
    for (path, arguments, code, words) in [
        ("/nowhere", "--clients 1", 1, "status 404"),
        ("/builtin", "--clients 1 --deflate", 1, "leave --deflate out"),
        ("/builtin", "--clients 1 --pid 4294967295", 1, "no process 4294967295"),
        ("/builtin", "--clients 9999999", 1, "raise the hard limit"),
        ("/builtin", "--clients 1 --plot /nonexistent/a.svg", 1, "--plot /nonexistent/a.svg"),
        ("/builtin", "--clients 0", 2, "--clients"),
        ("/builtin", "--clients 1,x", 2, "--clients"),
        ("/builtin", "--in-flight 65537", 2, "--in-flight"),
        ("/builtin", "--in-flight 2 --size 536870913", 2, "--size"),
        ("/builtin", "--source-addresses 256", 2, "--source-addresses"),
        ("/builtin", "--seconds 0", 2, "--seconds"),
        ("/builtin", "--rate 5 --in-flight 2", 2, "--in-flight"),
        ("/builtin", "--broadcast --size 19", 2, "--size"),
        ("/builtin", "--publish-url ws://h/", 2, "--broadcast"),
        ("/builtin", "--colour", 2, "--colour"),
    ] {
        let url = url.clone() + path;
        let all: Vec<_> = ["bench", &url].into_iter().chain(arguments.split(' ')).collect();
        let output = run(&all, dir);
        let sentence = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments}: {sentence}");
        assert!(sentence.contains(words), "{arguments}: {sentence}");
        assert_eq!(output.stdout, b"", "{arguments}");
    }
}
