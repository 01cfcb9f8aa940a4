//! Serves the files of a directory over plain HTTP/1.1 (RFC 9110, RFC 9112): enough for a page
//! that opens a WebSocket, not more.
//!
//! No range requests, no validators, no compression, one request per connection.

mod answer;
mod media_type;
mod path;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use answer::Answer;
use media_type::media_type;

/// Bytes of a file. The answer to one request takes so much memory at most; a larger file is
/// refused with 403.
pub const MAX_FILE: u64 = 8 << 20;

/// Served for a path that ends with a slash.
const INDEX: &str = "index.html";

/// A directory to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Static {
    /// Prefix of the URL's path: `/`, or a path without a slash at its end.
    pub path: String,
    /// The directory.
    pub dir: PathBuf,
}

/// The directories that are served, longest prefix first.
#[derive(Debug)]
pub struct Files {
    directories: Vec<Static>,
    /// A too large file was warned of; the peer must not be able to fill the log.
    warned: AtomicBool,
}

/// A directory that cannot be served.
#[derive(Debug)]
pub struct Error {
    dir: PathBuf,
    cause: io::Error,
}

impl Files {
    /// Looks for the directories.
    ///
    /// # Errors
    /// The first that is missing, unreadable or not a directory.
    pub fn new(directories: &[Static]) -> Result<Self, Error> {
        let find = |Static { path, dir }: &Static| match canonical_directory(dir) {
            Ok(dir) => Ok(Static { path: path.trim_end_matches('/').to_owned(), dir }),
            Err(cause) => Err(Error { dir: dir.clone(), cause }),
        };
        let mut directories = directories.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        directories.sort_by_key(|directory| std::cmp::Reverse(directory.path.len()));
        Ok(Self { directories, warned: AtomicBool::new(false) })
    }

    /// Whether a path, as it was sent and without its query, is below one of the prefixes. Does no
    /// I/O: the file need not exist.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        self.find(path).is_some()
    }

    /// Writes the whole response to a request for a path, as it was sent and without its query.
    /// After it the connection is to be closed. Reads the file, so it may block; takes up to
    /// [`MAX_FILE`] bytes of memory.
    pub fn respond(&self, method: &str, path: &str, out: &mut Vec<u8>) {
        let answer = match method {
            "GET" | "HEAD" => self.answer(path),
            _ => Answer::MethodNotAllowed,
        };
        answer.write(method != "HEAD", out);
    }

    /// The directory, and the rest of the path: empty, or from a slash on.
    fn find<'a>(&self, path: &'a str) -> Option<(&Static, &'a str)> {
        self.directories.iter().find_map(|directory| {
            let rest = path.strip_prefix(directory.path.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then_some((directory, rest))
        })
    }

    fn answer(&self, path: &str) -> Answer {
        let Some((directory, rest)) = self.find(path) else {
            return Answer::NotFound;
        };
        let Some(mut parts) = path::parts(rest) else {
            return Answer::NotFound;
        };
        let Some(found) = below(&directory.dir, &parts) else {
            return Answer::NotFound;
        };
        match (found.is_dir(), rest.ends_with('/')) {
            (false, true) => Answer::NotFound,
            (false, false) => self.open(&found),
            (true, false) => Answer::Moved(format!("{}{}/", directory.path, path::encode(&parts))),
            (true, true) => {
                // Looked up like any other: it may be a symlink that leaves the directory.
                parts.push(INDEX.to_owned());
                below(&directory.dir, &parts).map_or(Answer::NotFound, |index| self.open(&index))
            }
        }
    }

    fn open(&self, path: &Path) -> Answer {
        match open(path) {
            Ok(Some((_, size))) if size > MAX_FILE => {
                if !self.warned.swap(true, Ordering::Relaxed) {
                    let file = path.display();
                    tracing::warn!(%file, "refused with 403: above 8 MiB; said for the first only");
                }
                Answer::TooLarge
            }
            Ok(Some((file, size))) => Answer::File { media_type: media_type(path), size, file },
            Ok(None) => Answer::NotFound,
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => Answer::NotFound,
                _ => Answer::Unavailable,
            },
        }
    }
}

fn canonical_directory(dir: &Path) -> io::Result<PathBuf> {
    let dir = fs::canonicalize(dir)?;
    // Fails where it is no directory, or may not be read.
    fs::read_dir(&dir)?;
    Ok(dir)
}

/// What the parts name below a canonical directory, symlinks resolved. `None` if there is nothing,
/// or it lies outside.
fn below(dir: &Path, parts: &[String]) -> Option<PathBuf> {
    let mut path = dir.to_path_buf();
    path.extend(parts);
    fs::canonicalize(path).ok().filter(|found| found.starts_with(dir))
}

/// A regular file and its size; `None` for anything else.
fn open(path: &Path) -> io::Result<Option<(File, u64)>> {
    // Before it is opened: opening a FIFO would block.
    if !fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let file = File::open(path)?;
    let facts = file.metadata()?;
    Ok(facts.is_file().then_some((file, facts.len())))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot serve the directory {}: {}", self.dir.display(), self.cause)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests;
