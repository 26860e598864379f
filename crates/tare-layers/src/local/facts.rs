//! What this machine is, in a few words, for the record.

use crate::cgroup::hierarchies;
use std::fs;
use tare_core::host::Facts;

/// Facts about the machine that this process runs on. What cannot be read is absent.
pub(crate) fn facts() -> Facts {
    let mut facts = Facts::new();
    let mut add = |key: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.insert(key.to_owned(), value);
        }
    };
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    add("kernel.release", read("/proc/sys/kernel/osrelease"));
    add("kernel.version", read("/proc/sys/kernel/version"));
    let processors = read("/proc/cpuinfo").unwrap_or_default();
    add("cpu.model", field(&processors, "model name"));
    add("cpu.count", std::thread::available_parallelism().ok().map(|count| count.to_string()));
    let memory = read("/proc/meminfo").unwrap_or_default();
    add("memory.total", field(&memory, "MemTotal"));
    add("memory.swap", field(&memory, "SwapTotal"));
    add("memory.transparent_huge_pages", read("/sys/kernel/mm/transparent_hugepage/enabled").and_then(chosen));
    add("cpu.governor", read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    add("clock.source", read("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
    add("cgroup.version", Some(hierarchies::versions()));
    facts
}

/// The value of the first line `key : value`.
fn field(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

/// The word in brackets: `always [madvise] never`.
fn chosen(text: String) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_what_it_is() {
        let facts = facts();
        for key in ["kernel.release", "cpu.count", "memory.total", "cgroup.version"] {
            assert!(facts.contains_key(key), "{key} is missing in {facts:?}");
        }
        assert_eq!(chosen("always [madvise] never".to_owned()).as_deref(), Some("madvise"));
    }
}
