//! Where the sampler runs: on CPUs that are not the services', if there are any.

use crate::root::Root;
use std::collections::BTreeSet;
use tare_core::telemetry::Scope;
use tare_core::units::CpuSet;

/// The CPUs that this process may use and to which no serving thread is bound. None if no CPU is left, or if no thread
/// is bound: the services may then run on any CPU.
pub(crate) fn away(root: &Root, scopes: &[Scope]) -> Option<CpuSet> {
    let allowed = affinity(None)?;
    // A thread that may run anywhere can move away.
    let bound = threads(root, scopes).into_iter().filter(|thread| !allowed.is_subset(thread)).flatten().collect();
    left(&allowed, &bound)
}

/// Whether the services may run on every CPU that this process may use, as in a guest that has no other CPUs: whenever
/// this process runs, it may take a CPU from them.
pub(crate) fn is_among(root: &Root, scopes: &[Scope]) -> bool {
    let threads = threads(root, scopes);
    affinity(None).is_some_and(|allowed| !threads.is_empty() && threads.iter().all(|thread| allowed.is_subset(thread)))
}

/// The CPUs on which each thread of a serving scope may run.
fn threads(root: &Root, scopes: &[Scope]) -> Vec<BTreeSet<u32>> {
    let pids = scopes.iter().filter(|scope| scope.serving).flat_map(|scope| &scope.pids);
    let threads = pids.flat_map(|pid| root.names(format!("proc/{pid}/task")));
    threads.filter_map(|name| affinity_of(name.parse().ok()?)).collect()
}

fn left(allowed: &BTreeSet<u32>, bound: &BTreeSet<u32>) -> Option<CpuSet> {
    let left: Vec<u32> = allowed.difference(bound).copied().collect();
    (!left.is_empty() && left.len() < allowed.len()).then(|| CpuSet::new(left))
}

fn affinity_of(thread: i32) -> Option<BTreeSet<u32>> {
    affinity(Some(rustix::process::Pid::from_raw(thread)?))
}

/// The CPUs on which a thread may run (this one without an argument); none if it is gone.
pub(crate) fn affinity(thread: Option<rustix::process::Pid>) -> Option<BTreeSet<u32>> {
    let set = rustix::thread::sched_getaffinity(thread).ok()?;
    let most = u32::try_from(rustix::thread::CpuSet::MAX_CPU).unwrap_or(u32::MAX);
    Some((0..most).filter(|cpu| set.is_set(*cpu as usize)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_no_service_is_bound_to_is_left() {
        let set = |cpus: &[u32]| cpus.iter().copied().collect::<BTreeSet<u32>>();
        let of = |allowed: &[u32], bound: &[u32]| left(&set(allowed), &set(bound)).map(|left| left.to_string());
        assert_eq!(of(&[0, 1, 2, 3], &[1, 2]).as_deref(), Some("0,3"));
        assert_eq!(of(&[0, 1], &[0, 1, 2]), None, "all of them are services'");
        assert_eq!(of(&[0, 1], &[]), None, "nothing is bound");
    }

    #[test]
    fn a_bound_service_is_kept_away_from() {
        let allowed = affinity(None).unwrap();
        let (Some(first), true) = (allowed.first().copied(), allowed.len() > 1) else {
            println!("skipped: there is one CPU");
            return;
        };
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let scope = |serving| Scope { name: "s".into(), serving, pids: vec![child.id()], cgroups: Vec::new() };
        let free = away(&Root::machine(), &[scope(true)]);
        let among = is_among(&Root::machine(), &[scope(true)]);
        let mut set = rustix::thread::CpuSet::new();
        set.set(first as usize);
        let pid = rustix::process::Pid::from_raw(child.id() as i32);
        rustix::thread::sched_setaffinity(pid, &set).unwrap();
        let bound = away(&Root::machine(), &[scope(true)]);
        let other = away(&Root::machine(), &[scope(false)]);
        let among = (among, is_among(&Root::machine(), &[scope(true)]), is_among(&Root::machine(), &[scope(false)]));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((free, other), (None, None), "it may run anywhere, or serves nobody");
        assert_eq!(among, (true, false, false));
        assert_eq!(bound, Some(CpuSet::new(allowed.into_iter().filter(|cpu| *cpu != first))));
    }
}
