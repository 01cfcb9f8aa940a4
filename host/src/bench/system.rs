//! What the generator asks of the system, and what it sees of a server's process.

use std::fs;
use std::path::Path;

/// Open files besides the connections: standard streams, three for each thread, some for libraries.
pub(super) const RESERVED_FILES: u64 = 64;

/// What a process has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// CPU time of all of its threads, in nanoseconds.
    pub(super) cpu: u64,
    /// Resident memory in bytes.
    pub(super) rss: u64,
    /// The part of it that the process wrote, without files: what connections make grow.
    pub(super) rss_anon: u64,
}

/// Looks at a process. Only on Linux.
///
/// CPU time comes from the scheduler, to the nanosecond; that of threads which have ended
/// meanwhile is not in it.
pub(super) fn sample(pid: u32) -> Option<Sample> {
    let directory = Path::new("/proc").join(pid.to_string());
    let mut cpu = 0;
    for task in fs::read_dir(directory.join("task")).ok()?.flatten() {
        // A thread may end between the two.
        if let Ok(text) = fs::read_to_string(task.path().join("schedstat")) {
            cpu += text.split(' ').next()?.parse::<u64>().ok()?;
        }
    }
    let status = fs::read_to_string(directory.join("status")).ok()?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kibibytes * 1024)
    };
    Some(Sample { cpu, rss: bytes("VmRSS:")?, rss_anon: bytes("RssAnon:")? })
}

#[cfg(target_os = "linux")]
mod calls {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use rustix::time::{ClockId, clock_gettime};

    /// The kernel's own ceiling unless it was changed (`fs.nr_open`).
    const CEILING: u64 = 1 << 20;

    /// Allows this process as many open files as the system gives; returns how many.
    pub(in super::super) fn raise_open_files() -> u64 {
        let now = getrlimit(Resource::Nofile);
        // The hard limit itself can be raised by root.
        for limit in [now.maximum.map(|maximum| maximum.max(CEILING)), now.maximum] {
            let wanted = limit.unwrap_or(CEILING);
            let both = Rlimit { current: Some(wanted), maximum: limit.or(now.maximum) };
            if setrlimit(Resource::Nofile, both).is_ok() {
                return wanted;
            }
        }
        now.current.unwrap_or(CEILING)
    }

    /// The cores that this process may use.
    pub(in super::super) fn cores() -> Vec<usize> {
        let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect()
    }

    /// Confines this thread to one core.
    pub(in super::super) fn pin(core: usize) -> std::io::Result<()> {
        let mut cores = CpuSet::new();
        cores.set(core);
        Ok(sched_setaffinity(None, &cores)?)
    }

    /// CPU time of this thread in nanoseconds.
    pub(in super::super) fn thread_cpu() -> Option<u64> {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let seconds = u64::try_from(time.tv_sec).ok()?;
        Some(seconds * super::super::time::SECOND + u64::try_from(time.tv_nsec).ok()?)
    }
}

#[cfg(not(target_os = "linux"))]
mod calls {
    /// Nothing is known about limits here: opening fails where they are.
    pub(in super::super) fn raise_open_files() -> u64 {
        u64::MAX
    }

    pub(in super::super) fn cores() -> Vec<usize> {
        Vec::new()
    }

    pub(in super::super) fn pin(_: usize) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    pub(in super::super) fn thread_cpu() -> Option<u64> {
        None
    }
}

pub(super) use calls::{cores, pin, raise_open_files, thread_cpu};

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_be_looked_at_and_one_that_is_not_there_cannot() {
        let pid = std::process::id();
        let first = sample(pid).unwrap();
        assert!(first.rss >= first.rss_anon && first.rss_anon > 0);
        assert!(sample(pid).unwrap().cpu >= first.cpu);
        assert_eq!(sample(u32::MAX), None);
    }

    #[test]
    fn the_limit_on_open_files_is_never_lowered() {
        let first = raise_open_files();
        assert!(first > RESERVED_FILES);
        assert_eq!(raise_open_files(), first);
    }

    #[test]
    fn a_thread_can_be_confined_to_each_core_it_may_use() {
        let allowed = cores();
        let pinned = allowed.iter().map(|core| {
            pin(*core).unwrap();
            cores()
        });
        assert!(pinned.eq(allowed.iter().map(|core| vec![*core])));
        assert!(thread_cpu().unwrap() > 0);
    }
}
