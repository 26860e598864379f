//! Checks, before a load starts, that this machine has the time, ports and memory for it.

use crate::mistake::Mistake;
use anyhow::Result;
use std::fs::read_to_string;
use std::time::Duration;
use tare_core::load::{LoadPlan, LoadProfile, UserConnections};
use tare_core::units::show_bytes;

/// A connection's buffers and the kernel's socket, with some margin, bytes.
const CONNECTION_BYTES: u64 = 48 << 10;
/// A user without a connection, bytes.
const USER_BYTES: u64 = 256;
/// Longer loads are typing mistakes.
const TIME_MAX: Duration = Duration::from_secs(7 * 86_400);

/// The largest numbers of connections and of users that a profile has.
fn crowd(profile: &LoadProfile) -> (u64, u64) {
    match profile {
        LoadProfile::Closed { connections, .. }
        | LoadProfile::Open { connections, .. }
        | LoadProfile::Replay { connections, .. } => (u64::from(*connections), 0),
        LoadProfile::Users { users, connections, .. } => match connections {
            UserConnections::Own | UserConnections::Fresh => (u64::from(*users), u64::from(*users)),
            UserConnections::Shared(connections) => (u64::from(*connections), u64::from(*users)),
        },
        LoadProfile::Steps { of, .. } | LoadProfile::Guided { of, .. } => crowd(of),
    }
}

/// Refuses a load that is too much for this machine. The limit on open files is left to the load process, which raises
/// it.
///
/// # Errors
/// What would be exceeded, and what to do.
pub(super) fn check(plan: &LoadPlan) -> Result<()> {
    let (connections, users) = crowd(&plan.profile);
    let ports = read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok().and_then(|text| ports(&text));
    let memory = read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    let checks = [check_time(plan), check_ports(connections, ports), check_memory(connections, users, memory)];
    let failed: Vec<String> = checks.into_iter().flatten().collect();
    if failed.is_empty() { Ok(()) } else { Err(Mistake::new(failed.join("\nerror: ")).into()) }
}

fn check_time(plan: &LoadPlan) -> Option<String> {
    let whole = plan.settle.saturating_add(plan.measure);
    (whole > TIME_MAX).then(|| "a load may last at most a week; shorten --for".to_owned())
}

/// Each connection to one address and port takes a local port.
fn check_ports(connections: u64, ports: Option<u64>) -> Option<String> {
    let ports = ports.filter(|ports| connections > *ports)?;
    Some(format!(
        "{connections} connections to one port need as many local ports, but there are {ports}\n  \
         to do: use fewer, or run sysctl net.ipv4.ip_local_port_range=\"1024 65535\""
    ))
}

fn check_memory(connections: u64, users: u64, available: Option<u64>) -> Option<String> {
    let needed = connections * CONNECTION_BYTES + users * USER_BYTES;
    let available = available.filter(|available| needed > *available)?;
    Some(format!(
        "{connections} connections and {users} users need about {} of memory, but {} are available\n  to do: use fewer",
        show_bytes(needed),
        show_bytes(available)
    ))
}

/// The number of ports that the kernel assigns, from the bounds in its file: two numbers, separated by a tab.
fn ports(text: &str) -> Option<u64> {
    let mut bounds = text.split_whitespace().map(|bound| bound.parse::<u64>());
    let (low, high) = (bounds.next()?.ok()?, bounds.next()?.ok()?);
    Some((high + 1).saturating_sub(low))
}

/// Memory available without swapping, bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_that_do_not_fit_are_refused() {
        assert_eq!(ports("32768\t60999\n"), Some(28_232));
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), Some(2 << 20));
        assert!(check_ports(28_233, Some(28_232)).unwrap().contains("ip_local_port_range"));
        assert_eq!((check_ports(28_232, Some(28_232)), check_ports(9, None)), (None, None));
        assert!(check_memory(1_000_000, 0, Some(1 << 30)).unwrap().contains("1 GiB are available"));
        assert_eq!(check_memory(1000, 100_000, Some(1 << 30)), None);
    }

    #[test]
    fn the_crowd_of_users_depends_on_whose_connections_they_use() {
        let shared: LoadProfile = serde_json::from_value(serde_json::json!({"users": {
            "users": 9, "behaviour": "mix", "pause": {"think": {"constant": {"secs": 1, "nanos": 0}}},
            "connections": {"shared": 2}, "ramp": {"secs": 0, "nanos": 0}}}))
        .unwrap();
        assert_eq!(crowd(&shared), (2, 9));
        assert_eq!(crowd(&LoadProfile::Guided { of: Box::new(shared), start: 1.0 }), (2, 9));
    }
}
