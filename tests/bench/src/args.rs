//! Command lines of the form `--name value`.

use std::fmt;
use std::io;
use std::process::ExitCode;
use std::str::FromStr;

/// The arguments not yet asked for.
pub(crate) struct Args(Vec<String>);

impl Args {
    pub(crate) fn from_env() -> Self {
        Self(std::env::args().skip(1).collect())
    }

    /// Takes `name` and the value after it.
    pub(crate) fn value<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, Error> {
        let Some(at) = self.0.iter().position(|arg| arg == name) else {
            return Ok(None);
        };
        if at + 1 == self.0.len() {
            return Err(Error::Usage(format!("{name} needs a value")));
        }
        let value = self.0.remove(at + 1);
        self.0.remove(at);
        match value.parse() {
            Ok(parsed) => Ok(Some(parsed)),
            Err(_) => Err(Error::Usage(format!("{name} cannot be {value:?}"))),
        }
    }

    /// Takes `name`, which stands alone; returns whether it was there.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let at = self.0.iter().position(|arg| arg == name);
        at.map(|at| self.0.remove(at)).is_some()
    }

    /// Refuses what nobody asked for.
    pub(crate) fn finish(self) -> Result<(), Error> {
        match self.0.first() {
            Some(unknown) => Err(Error::Usage(format!("unknown argument {unknown:?}"))),
            None => Ok(()),
        }
    }
}

/// Why a tool gave up.
#[derive(Debug)]
pub(crate) enum Error {
    /// The command line does not fit.
    Usage(String),
    /// A system call or the other side failed.
    Io(io::Error),
}

impl Error {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Io(_) => ExitCode::from(1),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) => write!(f, "{text} (see tests/bench/README.md)"),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args(line.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn takes_values_in_any_order() {
        let mut args = args("--text yes --size 100");
        assert_eq!(args.value("--size").unwrap(), Some(100));
        assert_eq!(args.value::<u32>("--clients").unwrap(), None);
        assert_eq!(args.value::<String>("--text").unwrap().as_deref(), Some("yes"));
        assert!(args.finish().is_ok());
    }

    #[test]
    fn takes_flags_between_values() {
        let mut args = args("--naive --level 3 --deflate");
        assert!(args.flag("--deflate") && args.flag("--naive") && !args.flag("--naive"));
        assert_eq!(args.value("--level").unwrap(), Some(3));
        assert!(args.finish().is_ok());
    }

    #[test]
    fn refuses_what_does_not_fit() {
        assert!(args("--size").value::<u32>("--size").is_err());
        assert!(args("--size many").value::<u32>("--size").is_err());
        assert!(args("--sise 5").finish().is_err());
    }
}
