//! `plugsock check-config`

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

use super::{Console, Outcome};
use crate::app::{self, Checked, Found};
use crate::config::{self, Loaded, Problem, Sources};

/// Say what is wrong in a configuration file and with its plugins
///
/// Looks at the file and at the plugins that it names, not at the environment. Each plugin is
/// compiled and begun as by `serve`. Exit code 1 if anything is wrong.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file
    file: PathBuf,
    /// Do not look into the plugins' files
    #[arg(long)]
    no_plugins: bool,
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
    /// One for each plugin, unless they were not looked into.
    components: Vec<Component>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

/// What a plugin's file holds.
#[derive(Serialize)]
struct Component {
    plugin: String,
    source: String,
    ok: bool,
    /// Why it cannot serve. The others are empty then.
    problem: Option<String>,
    digest: String,
    size: usize,
    exports: Vec<String>,
    imports: Vec<String>,
}

pub(super) fn run(args: &Args, console: &mut Console<'_>) -> Outcome {
    let report = match Report::new(args) {
        Ok(report) => report,
        Err(error) => {
            console.error(error);
            return Outcome::Bad;
        }
    };
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
    fn new(args: &Args) -> Result<Self, app::Error> {
        let sources = Sources { file: Some(&args.file), ..Sources::default() };
        let mut report = Self {
            file: args.file.display().to_string(),
            ok: true,
            plugins: 0,
            routes: 0,
            statics: 0,
            components: Vec::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
        };
        match config::load(&sources) {
            Ok(Loaded { config, warnings }) => {
                report.plugins = config.plugins.len();
                report.routes = config.routes.len();
                report.statics = config.statics.len();
                report.warnings = warnings;
                if !args.no_plugins && !config.plugins.is_empty() {
                    let checked = app::check_plugins(&config)?;
                    report.components = checked.into_iter().map(Component::from).collect();
                    report.ok = report.components.iter().all(|component| component.ok);
                }
            }
            Err(problems) => {
                report.ok = false;
                report.problems = problems;
            }
        }
        Ok(report)
    }

    fn print(&self, console: &mut Console<'_>) {
        for problem in &self.problems {
            console.error(problem);
        }
        for warning in &self.warnings {
            console.warning(warning);
        }
        for component in &self.components {
            component.print(console);
        }
        if self.ok {
            let plugins = counted(self.plugins, "plugin");
            let routes = counted(self.routes, "route");
            console.print(format_args!("{}: ok, {plugins}, {routes}\n", self.file));
        }
    }
}

impl Component {
    fn print(&self, console: &mut Console<'_>) {
        if let Some(problem) = &self.problem {
            return console.error(problem);
        }
        let Self { plugin, source, digest, size, .. } = self;
        let (exports, imports) = (ours(&self.exports), ours(&self.imports));
        console.print(format_args!(
            "plugin `{plugin}` ({source}): ok, {size} bytes, digest {digest}, exports {exports}, \
             imports {imports}\n"
        ));
    }
}

impl From<Checked> for Component {
    fn from(Checked { plugin, source, found }: Checked) -> Self {
        let (problem, found) = match found {
            Ok(found) => (None, found),
            Err(error) => (Some(error.to_string()), Found::default()),
        };
        let Found { digest, size, exports, imports } = found;
        let (source, ok) = (source.to_string(), problem.is_none());
        Self { plugin, source, ok, problem, digest, size, exports, imports }
    }
}

/// Names of the interfaces that are Plugsock's own and have functions, without package and version,
/// and whether there are any of WASI.
fn ours(interfaces: &[String]) -> String {
    let short = |name: &String| {
        let name = name.strip_prefix("plugsock:plugin/")?;
        let name = name.split('@').next().unwrap_or(name);
        (name != "types").then(|| name.to_owned())
    };
    let mut names: Vec<String> = interfaces.iter().filter_map(short).collect();
    if interfaces.iter().any(|name| name.starts_with("wasi:")) {
        names.push("WASI".to_owned());
    }
    if names.is_empty() { "nothing".to_owned() } else { names.join(" + ") }
}

fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
