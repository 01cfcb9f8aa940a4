//! `plugsock serve`

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::{Console, Outcome, log};
use crate::app;
use crate::config::{self, Sources};

/// Serve until told to stop
///
/// Settings come from the defaults, the configuration file, PLUGSOCK_SECTION_KEY in the environment
/// and the flags; each overrides those before it. Without any [[plugin]], [[route]] and [[static]]
/// an embedded echo plugin serves "/".
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Configuration file; without it ./plugsock.toml, if there is one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on, such as 127.0.0.1:8080, in place of server.listen; repeatable
    #[arg(long, value_name = "ADDR", value_parser = config::parse_address)]
    listen: Vec<SocketAddr>,
    /// One setting, such as workers.threads=2; repeatable
    #[arg(long, value_name = "SECTION.KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
}

/// Read from the working directory where no other file is named.
const USUAL_FILE: &str = "plugsock.toml";

pub(super) fn run(
    args: &Args,
    environment: &[(String, String)],
    console: &mut Console<'_>,
) -> Outcome {
    let file = file(args.config.as_deref(), Path::new(USUAL_FILE));
    let sources = Sources { file, environment, set: &args.set, listen: &args.listen };
    let loaded = match config::load(&sources) {
        Ok(loaded) => loaded,
        Err(problems) => {
            for problem in problems {
                console.error(problem);
            }
            return Outcome::Bad;
        }
    };
    log::init(&loaded.config.log);
    match file {
        Some(file) => tracing::info!(file = %file.display(), "configuration read"),
        None => tracing::info!("no configuration file: defaults apply"),
    }
    for warning in loaded.warnings {
        tracing::warn!("{warning}");
    }
    let served = app::run(&loaded.config, |host| {
        for line in app::describe(&loaded.config, host.addresses()) {
            console.print(format_args!("{line}\n"));
        }
    });
    match served {
        Ok(()) => Outcome::Fine,
        Err(error) => {
            console.error(error);
            Outcome::Bad
        }
    }
}

/// The file to read. One that was named is read even if it is missing, so that this is an error.
fn file<'a>(named: Option<&'a Path>, usual: &'a Path) -> Option<&'a Path> {
    named.or_else(|| usual.exists().then_some(usual))
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write it as section.key=value")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_file_counts_only_where_it_is_and_no_other_is_named() {
        let usual = tempfile::NamedTempFile::new().unwrap();
        let (usual, missing) = (usual.path(), Path::new("/nonexistent/plugsock.toml"));
        assert_eq!(file(None, usual), Some(usual));
        assert_eq!(file(None, missing), None);
        assert_eq!(file(Some(missing), usual), Some(missing));
    }

    #[test]
    fn a_value_may_hold_what_separates_it_from_its_key() {
        let pair = pair("log.level=info,a=debug");
        assert_eq!(pair, Ok(("log.level".to_owned(), "info,a=debug".to_owned())));
    }
}
