//! The program itself.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use tempfile::TempDir;

use super::{eventually, spawn};

/// A host that serves in a process of its own, killed at the end of the test.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// What it says that it serves, a line each.
    pub(crate) lines: Vec<String>,
    stderr: Option<JoinHandle<String>>,
    _stdout: BufReader<std::process::ChildStdout>,
    _dir: TempDir,
}

impl Process {
    /// Starts `plugsock` with these arguments in a directory, and waits until it serves.
    pub(crate) fn serve(arguments: &[String], dir: TempDir) -> Self {
        Self::start(Command::new(program()).args(arguments), dir)
    }

    /// The same by another way: the command must end up as the program.
    pub(crate) fn start(command: &mut Command, dir: TempDir) -> Self {
        let mut child = command
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = child.stderr.take().unwrap();
        let stderr = spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).unwrap();
            text
        });
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        stdout.read_line(&mut first).unwrap();
        if first.is_empty() {
            let _ = child.wait();
            panic!("it does not serve: {}", stderr.join().unwrap());
        }
        let lines = vec![first.trim_end().to_owned()];
        Self { child, lines, stderr: Some(stderr), _stdout: stdout, _dir: dir }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        let url = self.lines[0].split_once("://").unwrap().1;
        url.split_once('/').unwrap().0.parse().unwrap()
    }

    /// Sends a signal by its name without SIG.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end; returns its exit status and what it wrote on standard error.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        eventually("the end of the process", || self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap();
        (status, self.stderr.take().unwrap().join().unwrap())
    }

    /// Open file descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Its sockets, on a port of its network, that the peer has ended and it has not.
    pub(crate) fn waiting_to_close(&self, port: u16) -> usize {
        const CLOSE_WAIT: &str = "08";
        let table = fs::read_to_string(format!("/proc/{}/net/tcp", self.child.id())).unwrap();
        let port = format!(":{port:04X}");
        let is_one = |line: &&str| {
            let mut fields = line.split_whitespace().skip(1);
            let (local, state) = (fields.next().unwrap(), fields.nth(1).unwrap());
            local.ends_with(&port) && state == CLOSE_WAIT
        };
        table.lines().skip(1).filter(is_one).count()
    }

    /// Open file descriptors once they do not change any more.
    pub(crate) fn settled_descriptors(&self) -> usize {
        let mut before = usize::MAX;
        eventually("descriptors that stay", || {
            let now = self.descriptors();
            std::mem::replace(&mut before, now) == now
        });
        before
    }

    /// Time that its threads have computed, in hundredths of a second.
    pub(crate) fn computed(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // Behind the name, which may hold blanks, utime and stime are the 12th and 13th field.
        let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
        fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }

    /// The names of its threads.
    pub(crate) fn threads(&self) -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let name = |task: io::Result<fs::DirEntry>| {
            fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
        };
        tasks.map(name).collect()
    }

    /// Resident memory.
    pub(crate) fn resident_kib(&self) -> u64 {
        self.status_kib("VmRSS:")
    }

    /// The most resident memory that it ever had.
    pub(crate) fn peak_kib(&self) -> u64 {
        self.status_kib("VmHWM:")
    }

    fn status_kib(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program of the same build as this test.
pub(crate) fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().and_then(Path::parent).unwrap().join("plugsock");
    assert!(program.exists(), "{} is missing: run `cargo build -p plugsock`", program.display());
    program
}
