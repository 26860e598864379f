//! The gate: what `./test` runs once everything is installed, cheap checks first.

mod again;
mod dependencies;
mod guest;
mod lanes;
mod left;
mod one;
mod programs;
mod queue;
mod skips;
mod standstill;
mod times;

use crate::ci::one::Surroundings;
use crate::ci::programs::{Test, Which};
use crate::{Mistyped, output_of, tidy};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The parts of the gate to run.
#[derive(Args)]
pub(crate) struct Wanted {
    /// Run all tests, including those that the gate leaves out, in their longer forms where they have one
    #[arg(long)]
    thorough: bool,
    /// Run only this part; may be repeated
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
    /// Build, then list the tests and when each is run, without running any
    #[arg(long)]
    list: bool,
    /// Run each test this many times, one after the other, and report how often it failed; needs a NAME
    #[arg(long, value_name = "TIMES", requires = "names", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    /// Keep every CPU busy while tests are repeated
    #[arg(long, requires = "repeat")]
    busy: bool,
    /// Run only tests whose full name contains one of these, such as `tare-stats::` for a crate
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// A part of the gate that can run by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Formatting of the source
    Format,
    /// Rules that no compiler knows
    Tidy,
    /// Third-party code: licences, sources and versions
    Dependencies,
    /// Lints, in the same pass that builds the tests
    Lints,
    /// Build and run the tests
    Tests,
    /// The same, but only those that run on this machine itself
    Here,
    /// The same, but only those that run in the guest with control groups of version 2
    Guest,
    /// Of those on this machine, only those that measure time
    Measuring,
    /// Of the others, only those that compile whole programs, for --thorough alone
    Builds,
    /// Of the others, only those that are for --thorough alone
    Long,
    /// Of the others, only those that the gate runs too
    Short,
}

impl Part {
    /// The parts of the tests: all, those on this machine, and those that make up each other's rest.
    const TESTS: [Part; 7] =
        [Part::Tests, Part::Here, Part::Guest, Part::Measuring, Part::Builds, Part::Long, Part::Short];

    /// The smallest part that a test is in.
    fn of(name: &str) -> Part {
        match left::reason(name) {
            _ if name.starts_with(guest::PREFIX) => Part::Guest,
            _ if lanes::measures(name) => Part::Measuring,
            Some(_) if left::builds(name) => Part::Builds,
            Some(_) => Part::Long,
            None => Part::Short,
        }
    }
}

impl Wanted {
    /// Whether a test is in the parts of the tests that were asked for: in all, unless some were.
    fn includes(&self, test: &Test) -> bool {
        let part = Part::of(&test.name);
        let asked = |part: &Part| self.only.contains(part);
        let here = part != Part::Guest && asked(&Part::Here);
        asked(&part) || here || asked(&Part::Tests) || !Part::TESTS.iter().any(asked)
    }

    /// The tests of these programs that were asked for.
    fn tests(&self, programs: &[programs::Program], root: &Path) -> Result<Vec<Test>> {
        let mut tests = programs::tests(programs, root)?;
        // A named crate or test is run here; in the guest only on request.
        let names_guest = self.names.iter().any(|name| name.starts_with(guest::PREFIX));
        if self.names.is_empty() || self.thorough || names_guest {
            tests.extend(guest::tests(&tests));
        }
        let is_named = |test: &Test| self.names.iter().any(|name| test.name.contains(name.as_str()));
        tests.retain(|test| self.includes(test) && (self.names.is_empty() || is_named(test)));
        Ok(tests)
    }

    /// The tests to run, and those to leave out, with the reasons. A named test is always run: only the plain gate
    /// leaves out long ones.
    fn without_long(&self, mut tests: Vec<Test>) -> (Vec<Test>, Vec<(String, &'static str)>) {
        let leaves = !self.thorough && self.names.is_empty();
        let left = if leaves { left::take(&mut tests) } else { Vec::new() };
        (tests, left)
    }
}

/// Runs every step and reports the results. A failed step does not stop the following ones, except that tests need a
/// successful build.
pub(crate) fn run(root: &Path, wanted: &Wanted) -> Result<bool> {
    // The development build: it traps overflows, unlike the release, and the tests build it anyway.
    let binary = program(root, "debug")?;
    let everything = wanted.only.is_empty() && wanted.names.is_empty() && !wanted.list;
    let wants = |part: Part| everything || wanted.only.contains(&part);
    let wants_tests = Part::TESTS.into_iter().any(wants) || !wanted.names.is_empty() || wanted.list;

    let mut gate = Gate { steps: Vec::new() };
    if wants(Part::Format) {
        gate.step("formatting", || well(Command::new("cargo").args(["fmt", "--all", "--check"]).current_dir(root)))?;
    }
    if wants(Part::Tidy) {
        gate.step("tidy", || tidy::run(root))?;
    }
    if wants(Part::Dependencies) {
        gate.dependencies(root)?;
    }
    // The longest tests begin before the rest is built. What is named or listed is built at once, and so is all for
    // --thorough, whose tests measure for longer.
    let in_two = wants_tests && wanted.names.is_empty() && !wanted.list && !wanted.thorough;
    let mut built = None;
    if wants_tests || wants(Part::Lints) {
        gate.step("lints and build", || {
            built = programs::build(root, if in_two { Which::Integration } else { Which::All })?;
            Ok(built.is_some())
        })?;
    }
    let Some(programs) = built.filter(|_| wants_tests) else { return Ok(gate.end(&lanes::Outcomes::default())) };
    let tests = wanted.tests(&programs, root)?;
    if tests.is_empty() && !wanted.names.is_empty() {
        let names = wanted.names.join(" or ");
        bail!(Mistyped(format!("no test's name contains {names}; './test --list' lists all")));
    }
    if wanted.list {
        lanes::list(&tests);
        return Ok(gate.end(&lanes::Outcomes::default()));
    }
    gate.step("leftovers of dead runs", || well(Command::new(&binary).arg("clean").current_dir(root)))?;
    let surroundings = one::Surroundings {
        root,
        binary: &binary,
        thorough: wanted.thorough,
        guest: guest::Guest::new(root, &binary, &tests),
    };
    // Without a handler, an interrupt would leave the tests running, each in its own process group.
    let _ = ctrlc::set_handler(|| {
        one::end_all();
        std::process::exit(130);
    });
    gate.tests(wanted, tests, in_two, &surroundings)
}

/// Writes the time of each test into the workspace, wherever the builds are.
fn keep_times(root: &Path, outcomes: &lanes::Outcomes) -> Result<()> {
    let folder = root.join("target");
    let kept = folder.join("test-times.tsv");
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&kept, times::of_all(outcomes)));
    written.with_context(|| format!("could not write {}", kept.display()))?;
    println!("\nthe time of each test is in {}", kept.display());
    Ok(())
}

/// Where cargo puts the binary of a profile; `TARE_BIN` overrides it.
pub(crate) fn program(root: &Path, profile: &str) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("TARE_BIN") {
        return Ok(path.into());
    }
    let metadata = output_of("cargo", &["metadata", "--no-deps", "--format-version=1"], root)?;
    let after = metadata.split("\"target_directory\":\"").nth(1);
    let directory =
        after.and_then(|text| text.split('"').next()).context("cargo metadata names no target directory")?;
    let version = output_of("rustc", &["-vV"], root)?;
    let triple = version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Ok(Path::new(directory).join(triple).join(profile).join("tare"))
}

/// Whether a command succeeds; its output is shown.
fn well(command: &mut Command) -> Result<bool> {
    let status = command.stdin(Stdio::null()).status();
    Ok(status.with_context(|| format!("could not run {}", command.get_program().display()))?.success())
}

/// A step that was run.
struct Step {
    name: &'static str,
    well: bool,
    seconds: f64,
    /// What was missing, so that nothing was checked.
    lacked: Option<&'static str>,
}

struct Gate {
    steps: Vec<Step>,
}

impl Gate {
    fn step(&mut self, name: &'static str, run: impl FnOnce() -> Result<bool>) -> Result<()> {
        self.step_or_skip(name, || run().map(Some), "")
    }

    /// A step that returns `None` if this machine lacks something, which is a skip, or a failure on the machine that
    /// decides (`CI=true`).
    fn step_or_skip(
        &mut self,
        name: &'static str,
        run: impl FnOnce() -> Result<Option<bool>>,
        lacks: &'static str,
    ) -> Result<()> {
        println!("\n== {name}");
        std::io::stdout().flush()?;
        let started = Instant::now();
        let ended = run()?;
        let seconds = started.elapsed().as_secs_f64();
        let lacked = ended.is_none().then_some(lacks);
        let well = ended.unwrap_or_else(|| !skips::decides());
        let how = if well { "ok" } else { "FAILED" };
        println!(
            "== {name}: {} in {seconds:.0} s",
            lacked.map_or_else(|| how.to_owned(), |why| format!("skipped: {why}"))
        );
        self.steps.push(Step { name, well, seconds, lacked });
        Ok(())
    }

    /// Runs the tests and ends the gate. With `in_two`, the tests that are not built yet are built meanwhile.
    fn tests(&mut self, wanted: &Wanted, tests: Vec<Test>, in_two: bool, given: &Surroundings<'_>) -> Result<bool> {
        let mut outcomes = lanes::Outcomes::default();
        if let Some(times) = wanted.repeat {
            self.step("repeated tests", || {
                outcomes = again::run(&tests, times, wanted.busy, given);
                Ok(outcomes.failed.is_empty())
            })?;
            return Ok(self.end(&outcomes));
        }
        let (tests, mut left) = wanted.without_long(tests);
        let mut rest = None;
        let others = || {
            if !in_two {
                return Some(Vec::new());
            }
            let started = Instant::now();
            let others = programs::build(given.root, Which::RestBesideTests)
                .and_then(|programs| programs.map(|programs| wanted.tests(&programs, given.root)).transpose())
                .unwrap_or_else(|error| {
                    println!("the rest could not be built: {error:#}");
                    None
                });
            rest = Some((others.is_some(), started.elapsed()));
            let (others, too_long) = wanted.without_long(others?);
            left = too_long;
            Some(others)
        };
        self.step("tests", || {
            outcomes = lanes::run(tests, others, given);
            Ok(outcomes.failed.is_empty())
        })?;
        if let Some((well, took)) = rest {
            let name = "lints and build of unit tests, beside the first tests";
            self.steps.push(Step { name, well, seconds: took.as_secs_f64(), lacked: None });
        }
        outcomes.left = left;
        keep_times(given.root, &outcomes)?;
        Ok(self.end(&outcomes))
    }

    fn dependencies(&mut self, root: &Path) -> Result<()> {
        let mut advisories = true;
        let check = || {
            let checked = dependencies::in_order(root)?;
            advisories = checked.as_ref().is_none_or(|checked| checked.advisories);
            Ok(checked.map(|checked| checked.well))
        };
        self.step_or_skip("dependencies", check, dependencies::LACKS)?;
        if !advisories {
            self.skipped("advisories", dependencies::LACKS_ADVISORIES);
        }
        Ok(())
    }

    /// Counts a step that was not run, which is no failure.
    fn skipped(&mut self, name: &'static str, why: &'static str) {
        println!("== {name}: skipped: {why}");
        self.steps.push(Step { name, well: true, seconds: 0.0, lacked: Some(why) });
    }

    /// Prints how long everything took and how it ended; returns whether all steps succeeded.
    fn end(&self, outcomes: &lanes::Outcomes) -> bool {
        print!("{}", times::table(&self.steps, outcomes));
        self.steps.iter().all(|step| step.well)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_is_in_one_of_the_smallest_parts() {
        assert_eq!(Part::of("cgroup2::tare::end_to_end::accounts::a"), Part::Guest);
        assert_eq!(Part::of("tare::end_to_end::accounts::a"), Part::Measuring);
        assert_eq!(Part::of("tare::peak::a"), Part::Measuring);
        assert_eq!(Part::of("dist::twice::a"), Part::Builds);
        assert_eq!(Part::of("tare::end_to_end::makes::a"), Part::Long);
        assert_eq!(Part::of("tare-stats::ladder::a"), Part::Short);
    }

    #[test]
    fn a_part_is_run_by_its_own_name_and_by_that_of_a_larger_one() {
        let test = |name: &str| Test {
            name: name.to_owned(),
            within: name.to_owned(),
            program: "p".into(),
            folder: "f".into(),
            in_guest: false,
        };
        let tests = ["cgroup2::a", "tare::peak::a", "dist::twice::a", "tare::end_to_end::makes::a", "a"].map(test);
        let run = |only: &[Part]| {
            let wanted = Wanted {
                thorough: true,
                only: only.to_vec(),
                list: false,
                repeat: None,
                busy: false,
                names: Vec::new(),
            };
            tests.iter().map(|test| wanted.includes(test)).collect::<Vec<bool>>()
        };
        assert_eq!(run(&[]), [true; 5]);
        assert_eq!(run(&[Part::Format, Part::Tests]), [true; 5]);
        assert_eq!(run(&[Part::Here]), [false, true, true, true, true]);
        let smallest = [Part::Guest, Part::Measuring, Part::Builds, Part::Long, Part::Short];
        for (at, part) in smallest.into_iter().enumerate() {
            assert_eq!(run(&[part]), (0..5).map(|place| place == at).collect::<Vec<bool>>());
        }
    }
}
