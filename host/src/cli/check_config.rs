//! `plugsock check-config`

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

use super::{Console, Outcome};
use crate::config::{self, Problem, Sources};

/// Say what is wrong in a configuration file
///
/// Looks at the file alone, not at the environment. Exit code 1 if anything is wrong.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file
    file: PathBuf,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Human,
    Json,
}

/// The result in JSON.
#[derive(Serialize)]
struct Report {
    file: String,
    ok: bool,
    plugins: usize,
    routes: usize,
    statics: usize,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

pub(super) fn run(args: &Args, console: &mut Console<'_>) -> Outcome {
    let report = Report::new(args);
    match args.format {
        Format::Json => match serde_json::to_string(&report) {
            Ok(json) => console.print(format_args!("{json}\n")),
            Err(error) => console.error(error),
        },
        Format::Human => report.print(console),
    }
    if report.ok { Outcome::Fine } else { Outcome::Bad }
}

impl Report {
    fn new(args: &Args) -> Self {
        let sources = Sources { file: Some(&args.file), ..Sources::default() };
        let mut report = Self {
            file: args.file.display().to_string(),
            ok: true,
            plugins: 0,
            routes: 0,
            statics: 0,
            problems: Vec::new(),
            warnings: Vec::new(),
        };
        match config::load(&sources) {
            Ok(loaded) => {
                report.plugins = loaded.config.plugins.len();
                report.routes = loaded.config.routes.len();
                report.statics = loaded.config.statics.len();
                report.warnings = loaded.warnings;
            }
            Err(problems) => {
                report.ok = false;
                report.problems = problems;
            }
        }
        report
    }

    fn print(&self, console: &mut Console<'_>) {
        for problem in &self.problems {
            console.error(problem);
        }
        for warning in &self.warnings {
            console.warning(warning);
        }
        if self.ok {
            let plugins = counted(self.plugins, "plugin");
            let routes = counted(self.routes, "route");
            console.print(format_args!("{}: ok, {plugins}, {routes}\n", self.file));
        }
    }
}

fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
