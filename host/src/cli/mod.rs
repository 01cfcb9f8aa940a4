//! The command line: a file per command.
//!
//! Exit codes: 0 fine, 1 what was asked about is bad, 2 wrong usage. Errors go to standard error,
//! a line each.

mod bench;
mod check_config;
mod default_config;
mod log;
mod serve;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Runs the command that the arguments, the program's name first, ask for. `environment` holds
/// names and values of variables: see [`crate::config::environment`].
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    environment: &[(String, String)],
) -> ExitCode {
    let mut console = Console { out: &mut io::stdout(), err: &mut io::stderr() };
    ExitCode::from(dispatch(arguments, environment, &mut console) as u8)
}

/// A WebSocket server platform: the host owns the sockets, sandboxed WebAssembly components the
/// business logic.
#[derive(Debug, Parser)]
#[command(name = "plugsock", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Bench(Box<bench::Args>),
    CheckConfig(check_config::Args),
    DefaultConfig(default_config::Args),
}

/// How a command ended; the number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Outcome {
    Fine = 0,
    Bad = 1,
    Usage = 2,
}

/// Where commands print. That a reader is gone is not worth an error.
struct Console<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
}

impl Console<'_> {
    fn print(&mut self, text: impl Display) {
        let _ = write!(self.out, "{text}");
    }

    fn error(&mut self, sentence: impl Display) {
        let _ = writeln!(self.err, "error: {sentence}");
    }

    fn warning(&mut self, sentence: impl Display) {
        let _ = writeln!(self.err, "warning: {sentence}");
    }
}

fn dispatch(
    arguments: impl IntoIterator<Item = OsString>,
    environment: &[(String, String)],
    console: &mut Console<'_>,
) -> Outcome {
    match Cli::try_parse_from(arguments) {
        Ok(Cli { command }) => match command {
            Command::Serve(args) => serve::run(&args, environment, console),
            Command::Bench(args) => bench::run(&args, console),
            Command::CheckConfig(args) => check_config::run(&args, console),
            Command::DefaultConfig(args) => default_config::run(&args, console),
        },
        // Help and version come as errors too.
        Err(error) if error.use_stderr() => {
            let _ = write!(console.err, "{error}");
            Outcome::Usage
        }
        Err(help) => {
            console.print(help);
            Outcome::Fine
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::plugin::EMBEDDED_ECHO;

    /// Runs a command line, with FILE replaced, and returns the outcome and what it printed.
    fn run(line: &str, file: &Path) -> (Outcome, String, String) {
        let words = line.split(' ').map(|word| match word {
            "FILE" => file.as_os_str().to_owned(),
            word => word.into(),
        });
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console { out: &mut out, err: &mut err };
        let outcome = dispatch(words, &[], &mut console);
        (outcome, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn usage() {
        let file = Path::new("");
        for (line, outcome) in [
            ("plugsock --help", Outcome::Fine),
            ("plugsock serve --help", Outcome::Fine),
            ("plugsock --version", Outcome::Fine),
            ("plugsock", Outcome::Usage),
            ("plugsock sevre", Outcome::Usage),
            ("plugsock serve extra", Outcome::Usage),
            ("plugsock serve --listen localhost", Outcome::Usage),
            ("plugsock serve --set log.level", Outcome::Usage),
            ("plugsock bench --help", Outcome::Fine),
            ("plugsock bench", Outcome::Usage),
            ("plugsock bench localhost", Outcome::Usage),
            ("plugsock bench ws://127.0.0.1:1/ --clients 0", Outcome::Usage),
            ("plugsock bench ws://127.0.0.1:1/ --rate 0", Outcome::Usage),
            ("plugsock bench ws://127.0.0.1:1/ --idle --broadcast", Outcome::Usage),
            ("plugsock check-config", Outcome::Usage),
            ("plugsock check-config a --format xml", Outcome::Usage),
        ] {
            let (ended, out, err) = run(line, file);
            assert_eq!(ended, outcome, "{line}");
            assert_eq!(out.is_empty(), outcome == Outcome::Usage, "{line}: {out}");
            assert_eq!(err.is_empty(), outcome == Outcome::Fine, "{line}: {err}");
        }
    }

    #[test]
    fn whoever_names_a_host_to_listen_on_is_told_what_to_write() {
        for (written, instead) in [
            ("localhost:9000", "write \"127.0.0.1:9000\""),
            (":9000", "write \"127.0.0.1:9000\""),
            ("9000", "\"0.0.0.0:9000\""),
        ] {
            let line = format!("plugsock serve --listen {written}");
            let (outcome, _, err) = run(&line, Path::new(""));
            assert_eq!(outcome, Outcome::Usage);
            let accepted = "must be an address with a port, such as \"127.0.0.1:8080\"";
            assert!(err.contains(accepted) && err.contains(instead), "{err}");
        }
    }

    #[test]
    fn a_good_file_is_summed_up() {
        let file = file("[[route]]\npath = \"/\"\nbuiltin = \"echo\"\n");
        let (outcome, out, err) = run("plugsock check-config FILE", file.path());
        let name = file.path().display();
        assert_eq!(out, format!("{name}: ok, 0 plugins, 1 route\n"));
        assert_eq!((outcome, err.as_str()), (Outcome::Fine, ""));

        let (outcome, out, _) = run("plugsock check-config FILE --format json", file.path());
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(outcome, Outcome::Fine);
        assert_eq!((&report["ok"], &report["routes"]), (&true.into(), &1.into()));
        assert_eq!(report["problems"], serde_json::json!([]));
    }

    #[test]
    fn what_the_files_of_plugins_hold_is_said_for_each() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("good.wasm"), EMBEDDED_ECHO).unwrap();
        fs::write(dir.path().join("empty.wasm"), "(component)").unwrap();
        let file = dir.path().join("plugsock.toml");
        let plugin = |name: &str| {
            format!(
                "[[plugin]]\nname = \"{name}\"\nsource = \"{name}.wasm\"\n\
                 [[route]]\npath = \"/{name}\"\nplugin = \"{name}\"\n"
            )
        };
        fs::write(&file, plugin("good")).unwrap();
        let (outcome, out, err) = run("plugsock check-config FILE", &file);
        assert_eq!((outcome, err.as_str()), (Outcome::Fine, ""));
        let shown = dir.path().display();
        let start =
            format!("plugin `good` ({shown}/good.wasm): ok, {} bytes, ", EMBEDDED_ECHO.len());
        assert!(out.starts_with(&start), "{out}");
        assert!(out.contains(", exports handler, imports connections\n"), "{out}");
        assert!(out.ends_with(": ok, 1 plugin, 1 route\n"), "{out}");

        fs::write(&file, plugin("good") + &plugin("empty")).unwrap();
        let (outcome, out, err) = run("plugsock check-config FILE", &file);
        assert_eq!((outcome, out.lines().count()), (Outcome::Bad, 1), "{out}");
        let start =
            format!("error: plugin `empty` ({shown}/empty.wasm): this component is no plugin");
        assert!(err.starts_with(&start), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");

        let (outcome, out, _) = run("plugsock check-config FILE --format json", &file);
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((outcome, &report["ok"]), (Outcome::Bad, &false.into()));
        let [good, empty] = &report["components"].as_array().unwrap()[..] else { panic!("{out}") };
        assert_eq!((&good["ok"], &good["problem"]), (&true.into(), &serde_json::Value::Null));
        assert_eq!(good["exports"], serde_json::json!(["plugsock:plugin/handler@0.1.0"]));
        assert_eq!((&empty["plugin"], &empty["ok"]), (&"empty".into(), &false.into()));

        let (outcome, out, _) = run("plugsock check-config FILE --no-plugins", &file);
        assert_eq!(outcome, Outcome::Fine);
        assert_eq!(out, format!("{}: ok, 2 plugins, 2 routes\n", file.display()));
    }

    #[test]
    fn each_problem_of_a_bad_file_is_a_line() {
        let file = file("[workers]\nqueue_sise = 1\nthreads = -1\n");
        let name = file.path().display();
        let (outcome, out, err) = run("plugsock check-config FILE", file.path());
        assert_eq!((outcome, out.as_str()), (Outcome::Bad, ""));
        assert_eq!(
            err,
            format!(
                "error: {name}:2:1: unknown key `workers.queue_sise`; did you mean `queue_size`?\n\
                 error: {name}:3:11: `workers.threads` must be a whole number from 0 to 1024, \
                 not -1\n"
            )
        );

        let (outcome, out, err) = run("plugsock check-config FILE --format json", file.path());
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((outcome, err.as_str()), (Outcome::Bad, ""));
        assert_eq!(report["ok"], false);
        assert_eq!(report["problems"][1]["line"], 3);
        assert_eq!(report["problems"][1]["column"], 11);
        assert_eq!(report["problems"][1]["file"], name.to_string());
    }

    #[test]
    fn a_bad_configuration_is_not_served() {
        let missing = Path::new("/nonexistent/plugsock.toml");
        let (outcome, _, err) = run("plugsock serve --config FILE --set x.y=1", missing);
        assert_eq!(outcome, Outcome::Bad);
        let lines: Vec<&str> = err.lines().collect();
        assert!(lines[0].starts_with("error: /nonexistent/plugsock.toml: cannot read it"), "{err}");
        assert!(lines[1].starts_with("error: --set x.y: unknown key `x.y`"), "{err}");
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn the_default_file_is_a_good_one() {
        let (outcome, out, _) = run("plugsock default-config", Path::new(""));
        assert_eq!(outcome, Outcome::Fine);
        let file = file(&out);
        let (outcome, _, err) = run("plugsock check-config FILE", file.path());
        assert_eq!((outcome, err.as_str()), (Outcome::Fine, ""));
    }
}
