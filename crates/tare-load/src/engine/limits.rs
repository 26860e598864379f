//! What the process needs from the kernel: open files and CPUs.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use tare_core::fault::{Doing, Fault};

/// Files open in addition to connections: standard streams, epoll, control connections.
const OTHER_FILES: u64 = 64;

/// Makes room for `connections` open sockets.
///
/// # Errors
/// When the limit cannot be raised that far.
pub(crate) fn open_files(connections: u64) -> Result<(), Fault> {
    let wanted = connections + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|maximum| maximum.max(wanted));
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).map_err(|error| {
        let most = limit.maximum.map_or("unlimited".to_owned(), |most| most.to_string());
        Fault::new(format!("{connections} connections need {wanted} open files, the limit is {most}: {error}"))
            .remedy(format!("raise it with 'ulimit -Hn {wanted}', run as root, or lower 'connections'"))
    })
}

/// Keeps the calling thread on these CPUs.
///
/// # Errors
/// When one of them does not exist or may not be used.
pub(crate) fn pin(cpus: &[u32]) -> Result<(), Fault> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for cpu in cpus {
        if *cpu as usize >= CpuSet::MAX_CPU {
            return Err(Fault::new(format!("CPU {cpu} cannot be addressed; the largest is {}", CpuSet::MAX_CPU - 1)));
        }
        set.set(*cpu as usize);
    }
    sched_setaffinity(None, &set).doing(format_args!("run the load on CPUs {cpus:?}"))
}
