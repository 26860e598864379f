//! What `/proc` says about processes.

use std::collections::BTreeMap;

/// The ids of all processes this process can see.
pub(crate) fn all() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Fields of `/proc/<pid>/stat` after the name, from the state on: field 3 of proc(5) is index 0 here.
fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may itself hold any character, so the last one closes it.
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// When a process started, in clock ticks since boot: with its id it names a process for good. `None` when it is
/// gone or dead and only waits to be collected.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let fields = stat_fields(pid)?;
    if matches!(fields.first()?.as_str(), "Z" | "X") {
        return None;
    }
    fields.get(19)?.parse().ok()
}

/// Whether every thread of a process is stopped by a signal. `None` when it is gone or dead.
pub(crate) fn is_stopped(pid: u32) -> Option<bool> {
    let state = |text: String| text.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let texts = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    let states: Vec<char> = texts.filter_map(state).filter(|state| !matches!(state, 'Z' | 'X')).collect();
    (!states.is_empty()).then(|| states.iter().all(|state| *state == 'T'))
}

/// The name of a process, as the kernel keeps it (15 bytes).
pub(crate) fn name(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// All living descendants of a process, itself not included.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for candidate in all() {
        if let Some(parent) = stat_fields(candidate).and_then(|fields| fields.get(1)?.parse().ok()) {
            children.entry(parent).or_default().push(candidate);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![pid];
    while let Some(next) = open.pop() {
        let below = children.get(&next).map(Vec::as_slice).unwrap_or_default();
        found.extend_from_slice(below);
        open.extend_from_slice(below);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_a_descendant_until_it_ends() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(descendants(std::process::id()).contains(&child.id()));
        assert!(start_time(child.id()).is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(start_time(child.id()), None);
    }
}
