//! What a test that does not end is waiting for: without it, nobody can say why it was ended.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

/// A process as /proc shows it.
struct Seen {
    parent: i32,
    line: String,
}

/// A line for `root` and each of its descendants, those that they started below them: number, state, seconds of CPU
/// time, where in the kernel it waits, and its command line.
pub(super) fn tree(root: i32) -> String {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let seen: BTreeMap<i32, Seen> = numbers.filter_map(|pid| Some((pid, look(pid)?))).collect();
    let mut text = String::new();
    let mut open = vec![(root, 0)];
    while let Some((pid, depth)) = open.pop() {
        if let Some(process) = seen.get(&pid) {
            let _ = writeln!(text, "{:1$}{2}", "", depth * 2, process.line);
        }
        open.extend(seen.iter().rev().filter(|(_, process)| process.parent == pid).map(|(pid, _)| (*pid, depth + 1)));
    }
    text
}

/// Nothing of a process that ends while it is looked at.
fn look(pid: i32) -> Option<Seen> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
    let stat = read("stat")?;
    // The name stands in brackets and may hold any character.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
    // SAFETY: sysconf takes a number only.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    let cpu = (number(11)? + number(12)?) / ticks;
    let place = read("wchan").unwrap_or_default();
    let command: String = read("cmdline")?.replace('\0', " ").chars().take(200).collect();
    let state = fields.first()?;
    Some(Seen { parent: number(1)? as i32, line: format!("{pid} {state} {cpu:.1} s {place} {}", command.trim_end()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn who_started_what_is_seen() {
        let mut shell =
            Command::new("sh").args(["-c", "sleep 60 & cat; kill $!"]).stdin(Stdio::piped()).spawn().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let text = loop {
            let text = tree(shell.id() as i32);
            let there = text.contains("sleep 60") && text.lines().any(|line| line.ends_with(" cat"));
            // The shell has still to come to the place where it waits for the last of them.
            if there && text.lines().all(|line| line.contains(" S ")) || std::time::Instant::now() > until {
                break text;
            }
        };
        drop(shell.stdin.take());
        shell.wait().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with(&shell.id().to_string()) && lines[0].contains(" S "), "{text}");
        assert!(lines[1..].iter().all(|line| line.starts_with("  ")), "{text}");
    }
}
