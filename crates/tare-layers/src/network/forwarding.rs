//! Letting packets pass between the generator's link and a bridge.
//!
//! A container engine commonly sets the policy for forwarded packets to "drop", which cuts the generator off from
//! guests and from containers reached at their own address. The rules go into the chain that the engine reserves for
//! others, if there is one, and carry the run in a comment.

use crate::marks;
use std::collections::BTreeSet;
use std::process::Command;
use tare_core::fault::{Doing, Fault};

/// The chain that Docker never writes to and always runs first.
const RESERVED_CHAIN: &str = "DOCKER-USER";
/// The tables that may hold our rules.
const TABLES: [&str; 2] = ["filter", "nat"];

/// Lets packets pass between two links until it is removed.
#[derive(Debug)]
pub struct Forwarding {
    /// The arguments of each rule, from the chain on.
    rules: Vec<Vec<String>>,
}

impl Forwarding {
    /// Removes the rules. Forwarding is enabled for these links alone, and goes with them.
    ///
    /// # Errors
    /// When a rule still exists.
    pub fn remove(self) -> Result<(), Fault> {
        for rule in &self.rules {
            let exists = iptables(&[&["-C".to_owned()], rule.as_slice()].concat())?.is_ok();
            if exists {
                let removed = iptables(&[&["-D".to_owned()], rule.as_slice()].concat())?;
                removed.map_err(|text| Fault::new(format!("could not remove a forwarding rule: {text}")))?;
            }
        }
        Ok(())
    }
}

/// Lets packets pass between the links `from` and `to`, both ways, on behalf of `run`; or, if both are the same,
/// between the ports of that link: a container engine commonly has bridged packets filtered too.
///
/// Without an `iptables` program there is no rule in the way, and none is made.
///
/// # Errors
/// When forwarding cannot be enabled or a rule cannot be added.
pub fn allow_forwarding(run: &str, from: &str, to: &str) -> Result<Forwarding, Fault> {
    for link in BTreeSet::from([from, to]) {
        switch_on(link)?;
    }
    let mut made = Forwarding { rules: Vec::new() };
    let has_reserved = iptables(&["-n".to_owned(), "-L".to_owned(), RESERVED_CHAIN.to_owned()]);
    let chain = match has_reserved {
        Err(_) => return Ok(made),
        Ok(Ok(_)) => RESERVED_CHAIN,
        Ok(Err(_)) => "FORWARD",
    };
    let comment = marks::full_mark(run);
    let ways = if from == to { vec![(from, to)] } else { vec![(from, to), (to, from)] };
    for (input, output) in ways {
        let rule: Vec<String> =
            [chain, "-i", input, "-o", output, "-m", "comment", "--comment", &comment, "-j", "ACCEPT"]
                .map(str::to_owned)
                .to_vec();
        if let Err(text) = iptables(&[&["-I".to_owned()], rule.as_slice()].concat())? {
            // Report the first failure, not one in the cleanup.
            let _ = made.remove();
            return Err(Fault::new(format!("could not let packets pass from {input} to {output}: {text}")));
        }
        made.rules.push(rule);
    }
    Ok(made)
}

/// Forwards what arrives by one of our links. The rest of the machine stays as it is: what arrives by other links is
/// forwarded or not as before. A guest has no such link: there its own engine has everything forwarded.
fn switch_on(link: &str) -> Result<(), Fault> {
    match std::fs::write(format!("/proc/sys/net/ipv4/conf/{link}/forwarding"), "1") {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        written => written.doing(format!("pass on what arrives by the link {link}")),
    }
}

/// Runs `iptables`. The outer error: there is no such program. The inner one: its error message.
pub(crate) fn iptables(arguments: &[String]) -> Result<Result<String, String>, Fault> {
    // -w: wait for whoever else changes the tables.
    let output = Command::new("iptables").arg("-w").args(arguments).output().doing("run iptables")?;
    if output.status.success() {
        return Ok(Ok(String::from_utf8_lossy(&output.stdout).into_owned()));
    }
    Ok(Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// The rules of a table that carry one of our comments: the run, and the rule as `iptables -S` writes it.
fn marked_rules(table: &str) -> Vec<(String, Vec<String>)> {
    let Ok(Ok(text)) = iptables(&["-t".to_owned(), table.to_owned(), "-S".to_owned()]) else { return Vec::new() };
    text.lines().filter_map(marked_rule).collect()
}

fn marked_rule(line: &str) -> Option<(String, Vec<String>)> {
    let words: Vec<String> = line.split_whitespace().map(|word| word.trim_matches('"').to_owned()).collect();
    let at = words.iter().position(|word| word == "--comment")?;
    let run = marks::run_of_full_mark(words.get(at + 1)?)?;
    (words.first()? == "-A").then(|| (run.to_owned(), words[1..].to_vec()))
}

/// The runs that have rules, each once.
pub(crate) fn runs_with_rules() -> Vec<String> {
    let mut runs: Vec<String> = TABLES.iter().flat_map(|table| marked_rules(table)).map(|(run, _)| run).collect();
    runs.sort();
    runs.dedup();
    runs
}

/// Removes every rule of a run.
pub(crate) fn remove_rules(run: &str) -> Result<(), Fault> {
    for table in TABLES {
        for (_, rule) in marked_rules(table).into_iter().filter(|(of, _)| of == run) {
            let start = ["-t", table, "-D"].map(str::to_owned);
            let removed = iptables(&[start.as_slice(), rule.as_slice()].concat())?;
            removed.map_err(|text| Fault::new(format!("could not remove a rule of run {run}: {text}")))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rules_with_our_comment_are_ours() {
        let comment = marks::full_mark("a1b2c3");
        let line = format!("-A DOCKER-USER -i ta1b2c3h -o br0 -m comment --comment \"{comment}\" -j ACCEPT");
        let (run, rule) = marked_rule(&line).unwrap();
        assert_eq!(run, "a1b2c3");
        assert_eq!(rule[0], "DOCKER-USER");
        assert_eq!(rule[rule.len() - 3], comment);
        for line in [
            "-A DOCKER-USER -i eth0 -m comment --comment \"tare-a1b2c3\" -j ACCEPT",
            "-A FORWARD -m comment --comment \"cali:x\" -j ACCEPT",
            "-A FORWARD -m comment --comment tare-down -j ACCEPT",
            "-A DOCKER-USER -j RETURN",
            "-P FORWARD DROP",
        ] {
            assert!(marked_rule(line).is_none(), "{line}");
        }
    }
}
