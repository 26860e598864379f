//! Tests that run once more inside an emulated guest, whose kernel has control groups of version 2 alone, with systemd,
//! a Docker Engine, both OCI runtimes, Podman, LXC and systemd-nspawn: the machine that most users have, whatever this
//! one is. One guest serves all of them, one after the other; it is booted when the first of them is run.

mod machine;
mod system;

use crate::ci::programs::Test;
use anyhow::{Context, Result, bail};
use machine::Machine;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;
use system::System;

/// What the full names of tests begin with that run in the guest.
pub(super) const PREFIX: &str = "cgroup2::";

/// The tests that run in it too: all whose full name begins so. They are those that control groups, the engine and the
/// runtimes decide.
const INSIDE: &[&str] = &[
    "tare-layers::contract::a_container_by_crun_",
    "tare-layers::contract::a_container_by_lxc_",
    "tare-layers::contract::a_container_by_nspawn_",
    "tare-layers::contract::a_container_of_rootless_",
    "tare-layers::contract::a_service_alone_",
    "tare-layers::contract::every_layer_",
    "tare-layers::contract::native_",
    "tare-layers::contract::what_a_killed_",
    "tare-layers::container::an_end_is_told_in_words",
    "tare-layers::container::by_",
    "tare-layers::container::every_network_",
    "tare-layers::container::limits_",
    "tare-layers::container::rungs_",
    "tare-layers::container::scopes_and_facts_",
    "tare::end_to_end::accounts::",
    "tare::end_to_end::traces::",
];

/// How long a test may take in it: everything takes some ten times as long as outside, and other tests go first.
pub(super) const LIMIT: Duration = Duration::from_secs(1200);

/// The tests of `tests` that run in the guest too, under their names there.
pub(super) fn tests(tests: &[Test]) -> Vec<Test> {
    let inside = tests.iter().filter(|test| INSIDE.iter().any(|prefix| test.name.starts_with(prefix)));
    inside.map(|test| Test { name: format!("{PREFIX}{}", test.name), in_guest: true, ..test.clone() }).collect()
}

/// The guest, booted or not.
pub(super) struct Guest {
    root: PathBuf,
    binary: PathBuf,
    /// The tests that run in it.
    tests: Vec<Test>,
    machine: Mutex<Option<Machine>>,
    /// Why it could not be booted: that takes minutes, and is not tried for each test anew.
    broken: OnceLock<String>,
}

impl Guest {
    /// One for those of `tests` that run in a guest, when the first of them does.
    pub(super) fn new(root: &Path, binary: &Path, tests: &[Test]) -> Guest {
        let tests = tests.iter().filter(|test| test.in_guest).cloned().collect();
        Guest {
            root: root.to_owned(),
            binary: binary.to_owned(),
            tests,
            machine: Mutex::default(),
            broken: OnceLock::new(),
        }
    }

    /// Runs a test in the guest; the code that it ended with, none when it was not done in time, and what it said.
    ///
    /// # Errors
    /// When there is no guest, or it is gone. The next test gets a new one.
    pub(super) fn run(&self, test: &Test, thorough: bool) -> Result<(Option<i32>, String)> {
        let mut machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = self.broken.get() {
            bail!("{why}");
        }
        // Taken, and put back when all is well: one that has not answered is switched off.
        let mut booted = match machine.take() {
            Some(booted) => booted,
            None => self.boot().context("could not boot the guest").inspect_err(|error| {
                // The first reason stays.
                let _ = self.broken.set(format!("{error:#}"));
            })?,
        };
        let (code, said) = booted.order(&system::order(test, &self.binary, thorough)?, LIMIT)?;
        *machine = code.is_some().then_some(booted);
        Ok((code, said))
    }

    fn boot(&self) -> Result<Machine> {
        let builds = self.binary.parent().context("Tare's program is in no folder")?;
        let system = System::get(&builds.join("guest"))?;
        let programs = system.programs(&self.root, &self.binary, &self.tests)?;
        Machine::boot(&system, programs)
    }

    /// Switches it off, if it is on, so that it takes no time from what is run next.
    pub(super) fn end(&self) {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_run_in_the_guest_under_a_name_of_their_own() {
        let test = |name: &str| Test {
            name: name.to_owned(),
            within: name.to_owned(),
            program: "p".into(),
            folder: "f".into(),
            in_guest: false,
        };
        let all = [test("tare-layers::contract::native_a"), test("tare-layers::vm::b"), test("tare-stats::c")];
        let inside = super::tests(&all);
        assert_eq!(inside.len(), 1);
        assert_eq!((inside[0].name.as_str(), inside[0].in_guest), ("cgroup2::tare-layers::contract::native_a", true));
        assert_eq!(inside[0].within, "tare-layers::contract::native_a");
    }
}
