//! Whether the user ids that Tare hands out are unused on this machine: a directory service may have given one to a
//! person, or a range that contains one to somebody's containers.

use crate::least::{LOAD_USER, SAMPLER_USER};
use crate::vm::confinement;
use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use tare_core::fault::Fault;

/// Refuses to hand out ids that somebody has: those of services, and of Tare's own processes beside a form.
///
/// # Errors
/// When an account or a range of subordinate ids has one of them.
pub fn check_free(services: &BTreeSet<u32>) -> Result<(), Fault> {
    let mut all = services.clone();
    all.extend([LOAD_USER, SAMPLER_USER]);
    all.extend(confinement::FIRST_USER..confinement::FIRST_USER + confinement::USERS);
    let found = account(&all).or_else(|| subordinate(&all));
    let Some((number, whose)) = found else { return Ok(()) };
    let message = format!("user or group {number}, which Tare gives to what must be nobody's, is {whose}");
    Err(Fault::new(message).remedy(
        "give that one another number, or each service one that is free (`user:` in the workload); those from 98998 on \
         cannot be changed",
    ))
}

/// An account or group that has one of the ids, from files and from whatever else the machine consults (nsswitch.conf).
fn account(numbers: &BTreeSet<u32>) -> Option<(u32, String)> {
    let asked = |database: &str| {
        let mut command = Command::new("getent");
        command.arg(database).args(numbers.iter().map(ToString::to_string));
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    };
    ["passwd", "group"].iter().find_map(|database| {
        let text = fs::read_to_string(format!("/etc/{database}")).unwrap_or_default() + "\n" + &asked(database);
        let kind = if *database == "passwd" { "user" } else { "group" };
        of_account(&text, numbers).map(|(number, name)| (number, format!("{kind} '{name}' of this machine")))
    })
}

/// The first line of passwd(5) or group(5) that has one of the ids.
fn of_account(text: &str, numbers: &BTreeSet<u32>) -> Option<(u32, String)> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?.parse().ok()?);
        numbers.contains(&number).then(|| (number, name.to_owned()))
    })
}

/// A range of subordinate ids that contains one of the ids.
fn subordinate(numbers: &BTreeSet<u32>) -> Option<(u32, String)> {
    ["/etc/subuid", "/etc/subgid"].iter().find_map(|file| {
        let text = fs::read_to_string(file).unwrap_or_default();
        of_range(&text, numbers).map(|(number, whose)| (number, format!("among those of '{whose}' in {file}")))
    })
}

/// The first range of subuid(5) that contains one of the ids.
fn of_range(text: &str, numbers: &BTreeSet<u32>) -> Option<(u32, String)> {
    text.lines().find_map(|line| {
        let mut fields = line.trim().split(':');
        let (name, first) = (fields.next()?, fields.next()?.parse::<u32>().ok()?);
        let end = first.saturating_add(fields.next()?.parse().ok()?);
        numbers.range(first..end.max(first)).next().map(|number| (*number, name.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_somebody_has_is_not_given_out() {
        let numbers = |numbers: &[u32]| numbers.iter().copied().collect::<BTreeSet<u32>>();
        let passwd = "root:x:0:0:root:/root:/bin/sh\nada:x:65537:100::/srv/ada:/bin/sh\nbroken\n";
        assert_eq!(of_account(passwd, &numbers(&[65_536, 65_537])), Some((65_537, "ada".to_owned())));
        assert_eq!(of_account(passwd, &numbers(&[65_536, 100])), None);
        let ranges = "ada:100000:65536\nbob:60000:10000\nall:4294967295:65536\n";
        assert_eq!(of_range(ranges, &numbers(&[65_536])), Some((65_536, "bob".to_owned())));
        assert_eq!(of_range(ranges, &numbers(&[70_000, 99_999])), None);
        assert_eq!(of_range("x:5:0\n", &numbers(&[5])), None);
        // This machine: root has an account.
        let root = check_free(&numbers(&[0])).unwrap_err();
        assert!(root.message.contains("user or group 0") && root.message.contains("'root'"), "{root}");
    }
}
