//! The gate: what `./test` runs when everything is installed, cheap checks first.

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

/// What of the gate is wanted.
#[derive(Args)]
pub(crate) struct Wanted {
    /// All tests that exist, those included that the gate leaves out, and of those with a longer form that one
    #[arg(long)]
    thorough: bool,
    /// Only this part; may be given several times
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
    /// Builds, then lists the tests and when each is run, and runs none
    #[arg(long)]
    list: bool,
    /// Runs each test so often, one after the other, and says how often it failed; needs a NAME
    #[arg(long, value_name = "TIMES", requires = "names", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    /// Keeps every CPU busy while tests are repeated
    #[arg(long, requires = "repeat")]
    busy: bool,
    /// Only tests whose full name contains one of these, e.g. `tare-stats::` for a crate
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// A part of the gate that can be run by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Whether the source is formatted
    Format,
    /// The rules that no compiler knows
    Tidy,
    /// What others wrote: licences, origins and versions
    Dependencies,
    /// Lints, in the same pass that builds the tests
    Lints,
    /// The tests, built and run
    Tests,
}

/// Runs every step and says how it went; a failed step does not keep the next ones from running, except that nothing
/// is tested that does not build.
pub(crate) fn run(root: &Path, wanted: &Wanted) -> Result<bool> {
    // The development build: it traps overflows, which the released one does not, and the tests bring it anyway.
    let binary = program(root, "debug")?;
    let everything = wanted.only.is_empty() && wanted.names.is_empty() && !wanted.list;
    let wants = |part: Part| everything || wanted.only.contains(&part);
    let wants_tests = wants(Part::Tests) || !wanted.names.is_empty() || wanted.list;

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
    // Who names a crate or a test wants it here; in the guest too, when that is said.
    let names_guest = wanted.names.iter().any(|name| name.starts_with(guest::PREFIX));
    if wanted.names.is_empty() || wanted.thorough || names_guest {
        tests.extend(guest::tests(&tests));
    }
    if !wanted.names.is_empty() {
        tests.retain(|test| wanted.names.iter().any(|name| test.name.contains(name.as_str())));
        if tests.is_empty() {
            let names = wanted.names.join(" or ");
            bail!(Mistyped(format!("no test's name contains {names}; './test --list' names them all")));
        }
    }
    if wanted.list {
        lanes::list(&tests);
        return Ok(gate.end(&lanes::Outcomes::default()));
    }
    // Who names a test wants it run; the gate alone leaves out what is long.
    let left = if wanted.thorough || !wanted.names.is_empty() { Vec::new() } else { left::take(&mut tests) };
    gate.step("leftovers of dead runs", || well(Command::new(&binary).arg("clean").current_dir(root)))?;
    let guest = guest::Guest::new(root, &binary, &tests);
    let surroundings = one::Surroundings { root, binary: &binary, thorough: wanted.thorough, guest };
    let mut outcomes = lanes::Outcomes::default();
    // Without a handler, an interrupt would leave the tests, each in a process group of its own, behind.
    let _ = ctrlc::set_handler(|| {
        one::end_all();
        std::process::exit(130);
    });
    if let Some(times) = wanted.repeat {
        gate.step("tests, again and again", || {
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

/// Writes down what each test took, in the workspace, wherever the builds are.
fn keep_times(root: &Path, outcomes: &lanes::Outcomes) -> Result<()> {
    let folder = root.join("target");
    let kept = folder.join("test-times.tsv");
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&kept, times::of_all(outcomes)));
    written.with_context(|| format!("could not write {}", kept.display()))?;
    println!("\nwhat each test took is in {}", kept.display());
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
        after.and_then(|text| text.split('"').next()).context("cargo metadata names no folder for builds")?;
    let version = output_of("rustc", &["-vV"], root)?;
    let triple = version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Ok(Path::new(directory).join(triple).join(profile).join("tare"))
}

/// Whether a command succeeds; what it says is shown.
fn well(command: &mut Command) -> Result<bool> {
    let status = command.stdin(Stdio::null()).status();
    Ok(status.with_context(|| format!("could not run {}", command.get_program().display()))?.success())
}

/// A step that was taken.
struct Step {
    name: &'static str,
    well: bool,
    seconds: f64,
    /// What it lacked, so that nothing was checked.
    lacked: Option<&'static str>,
}

struct Gate {
    steps: Vec<Step>,
}

impl Gate {
    fn step(&mut self, name: &'static str, run: impl FnOnce() -> Result<bool>) -> Result<()> {
        self.step_or_skip(name, || run().map(Some), "")
    }

    /// A step that returns `None` where this machine lacks something: that is a skip, except on the machine that
    /// decides (`CI=true`), where it is not well.
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
        let how = if well { "well" } else { "NOT WELL" };
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

    /// Counts a step that was not taken, which is well.
    fn skipped(&mut self, name: &'static str, why: &'static str) {
        println!("== {name}: skipped: {why}");
        self.steps.push(Step { name, well: true, seconds: 0.0, lacked: Some(why) });
    }

    /// Says how long everything took and how it ended; whether all is well.
    fn end(&self, outcomes: &lanes::Outcomes) -> bool {
        print!("{}", times::table(&self.steps, outcomes));
        self.steps.iter().all(|step| step.well)
    }
}
