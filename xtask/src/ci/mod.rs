//! The gate: what `./test` runs once everything is installed, cheap checks first.

mod again;
mod dependencies;
mod guest;
mod lanes;
mod left;
mod one;
mod programs;
mod skips;
mod standstill;
mod times;

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
}

impl Wanted {
    /// Whether a test is in the parts of the tests that were asked for: in all, unless some were.
    fn includes(&self, test: &programs::Test) -> bool {
        let part = if test.name.starts_with(guest::PREFIX) { Part::Guest } else { Part::Here };
        let asked = |part: &Part| self.only.contains(part);
        asked(&part) || asked(&Part::Tests) || !(asked(&Part::Here) || asked(&Part::Guest))
    }
}

/// Runs every step and reports the results. A failed step does not stop the following ones, except that tests need a
/// successful build.
pub(crate) fn run(root: &Path, wanted: &Wanted) -> Result<bool> {
    // The development build: it traps overflows, unlike the release, and the tests build it anyway.
    let binary = program(root, "debug")?;
    let everything = wanted.only.is_empty() && wanted.names.is_empty() && !wanted.list;
    let wants = |part: Part| everything || wanted.only.contains(&part);
    let parts = [Part::Tests, Part::Here, Part::Guest];
    let wants_tests = parts.into_iter().any(wants) || !wanted.names.is_empty() || wanted.list;

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
    let mut built = None;
    if wants_tests || wants(Part::Lints) {
        gate.step("lints and build", || {
            built = programs::build(root)?;
            Ok(built.is_some())
        })?;
    }
    let Some(programs) = built.filter(|_| wants_tests) else { return Ok(gate.end(&lanes::Outcomes::default())) };

    let mut tests = programs::tests(&programs, root)?;
    // A named crate or test is run here; in the guest only on request.
    let names_guest = wanted.names.iter().any(|name| name.starts_with(guest::PREFIX));
    if wanted.names.is_empty() || wanted.thorough || names_guest {
        tests.extend(guest::tests(&tests));
    }
    tests.retain(|test| wanted.includes(test));
    if !wanted.names.is_empty() {
        tests.retain(|test| wanted.names.iter().any(|name| test.name.contains(name.as_str())));
        if tests.is_empty() {
            let names = wanted.names.join(" or ");
            bail!(Mistyped(format!("no test's name contains {names}; './test --list' lists all")));
        }
    }
    if wanted.list {
        lanes::list(&tests);
        return Ok(gate.end(&lanes::Outcomes::default()));
    }
    // A named test is always run; only the plain gate leaves out long ones.
    let left = if wanted.thorough || !wanted.names.is_empty() { Vec::new() } else { left::take(&mut tests) };
    gate.step("leftovers of dead runs", || well(Command::new(&binary).arg("clean").current_dir(root)))?;
    let guest = guest::Guest::new(root, &binary, &tests);
    let surroundings = one::Surroundings { root, binary: &binary, thorough: wanted.thorough, guest };
    let mut outcomes = lanes::Outcomes::default();
    // Without a handler, an interrupt would leave the tests running, each in its own process group.
    let _ = ctrlc::set_handler(|| {
        one::end_all();
        std::process::exit(130);
    });
    if let Some(times) = wanted.repeat {
        gate.step("repeated tests", || {
            outcomes = again::run(&tests, times, wanted.busy, &surroundings);
            Ok(outcomes.failed.is_empty())
        })?;
        return Ok(gate.end(&outcomes));
    }
    gate.step("tests", || {
        outcomes = lanes::run(tests, &surroundings);
        Ok(outcomes.failed.is_empty())
    })?;
    outcomes.left = left;
    keep_times(root, &outcomes)?;
    Ok(gate.end(&outcomes))
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
