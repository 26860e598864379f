//! The gate: what `./test` runs when everything is installed, cheap checks first.

use crate::{output_of, tidy};
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Runs every step and says how it went; a failed step does not keep the next ones from running, except that nothing
/// is tested that does not build.
pub(crate) fn run(root: &Path) -> Result<bool> {
    // The development build: it traps overflows, which the released one does not, and the tests bring it anyway.
    let binary = program(root, "debug")?;
    let mut gate = Gate { root, failed: Vec::new() };
    gate.cargo("formatting", &["fmt", "--all", "--check"])?;
    gate.cargo("clippy", &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])?;
    gate.step("tidy", || tidy::run(root))?;
    let built = gate.cargo("build", &["test", "--workspace", "--no-run", "--locked"])?;
    let mut counts = Counts::default();
    if built {
        gate.step("leftovers of dead runs", || clean(root, &binary))?;
        gate.step("tests", || run_tests(root, &binary, &mut counts))?;
    }
    if !gate.failed.is_empty() {
        println!("\nnot well: {}", gate.failed.join(", "));
    }
    println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped);
    Ok(gate.failed.is_empty())
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

struct Gate<'a> {
    root: &'a Path,
    failed: Vec<&'static str>,
}

impl Gate<'_> {
    fn step(&mut self, name: &'static str, run: impl FnOnce() -> Result<bool>) -> Result<bool> {
        println!("\n== {name}");
        std::io::stdout().flush()?;
        let started = Instant::now();
        let well = run()?;
        println!("== {name}: {} in {:.0} s", if well { "well" } else { "NOT WELL" }, started.elapsed().as_secs_f64());
        if !well {
            self.failed.push(name);
        }
        Ok(well)
    }

    fn cargo(&mut self, name: &'static str, arguments: &[&str]) -> Result<bool> {
        let root = self.root;
        self.step(name, || {
            let status = Command::new("cargo").args(arguments).current_dir(root).stdin(Stdio::null()).status();
            Ok(status.context("could not run cargo")?.success())
        })
    }
}

/// Removes what an earlier run or test that was killed left on this machine: a guest that still works would disturb
/// every test that looks at times, and `tare run` refuses to start beside it.
fn clean(root: &Path, binary: &Path) -> Result<bool> {
    let status = Command::new(binary).arg("clean").current_dir(root).stdin(Stdio::null()).status();
    Ok(status.with_context(|| format!("could not run {}", binary.display()))?.success())
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

/// Runs all tests and shows what they say, without the output of those that passed; but a test that was skipped says
/// so in its output, and that is shown and counted.
fn run_tests(root: &Path, binary: &Path, counts: &mut Counts) -> Result<bool> {
    let arguments = ["test", "--workspace", "--no-fail-fast", "--locked", "--", "--show-output"];
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(root).env("TARE_BIN", binary);
    let mut cargo = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("could not run cargo")?;
    let output = cargo.stdout.take().context("cargo has no output")?;
    let mut filter = Filter::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        if let Some(shown) = filter.line(&String::from_utf8_lossy(&line), counts) {
            println!("{shown}");
        }
    }
    Ok(cargo.wait()?.success())
}

/// Reads the output of test programs line by line.
#[derive(Default)]
struct Filter {
    in_passed: bool,
    /// Whether the program is one of the standard harness, which sums up itself.
    standard: bool,
    test: String,
    /// Tests of the current program that passed in its eyes but said that they were skipped.
    said_skipped: u64,
}

impl Filter {
    /// What to show of this line, if anything.
    fn line(&mut self, line: &str, counts: &mut Counts) -> Option<String> {
        if let Some(result) = line.strip_prefix("test result: ") {
            (self.in_passed, self.standard) = (false, false);
            let count = |word: &str| -> u64 {
                let before = result.split(word).next().unwrap_or_default();
                before.trim_end().rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
            };
            let said_skipped = std::mem::take(&mut self.said_skipped);
            counts.passed += count(" passed").saturating_sub(said_skipped);
            counts.failed += count(" failed");
            counts.skipped += count(" ignored") + said_skipped;
        } else if line.starts_with("running ") && line.ends_with(['t', 's']) {
            self.standard = true;
        } else if !self.standard && line.starts_with("test ") {
            counts.passed += u64::from(line.ends_with("... ok"));
            counts.failed += u64::from(line.ends_with("... FAILED"));
            counts.skipped += u64::from(line.contains("... skipped: "));
        } else if !self.standard && line.starts_with("skipped: ") {
            // The whole program, or a part of a test that goes on without it.
            counts.skipped += 1;
        } else if line == "successes:" {
            self.in_passed = true;
        } else if line == "failures:" {
            self.in_passed = false;
        } else if self.in_passed {
            if let Some(test) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
                test.clone_into(&mut self.test);
            } else if let (Some(why), false) = (line.strip_prefix("skipped: "), self.test.is_empty()) {
                // One skip a test, however often it says so.
                self.said_skipped += 1;
                let shown = format!("skipped {}: {why}", std::mem::take(&mut self.test));
                return Some(shown);
            }
            return None;
        }
        if self.in_passed { None } else { Some(line.to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_harness_of_its_own_is_counted_line_by_line() {
        let (mut filter, mut counts) = (Filter::default(), Counts::default());
        let output = "running 1 test\ntest a ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored\n\
                      test own ... ok\n  it says something\ntest other ... FAILED\n\
                      test rooted ... skipped: it needs root\nskipped: the contract of 'vm': no KVM\n";
        let shown = output.lines().filter_map(|line| filter.line(line, &mut counts)).count();
        assert_eq!(counts, Counts { passed: 2, failed: 1, skipped: 2 });
        assert_eq!(shown, output.lines().count(), "a skip is shown");
    }

    #[test]
    fn skipped_tests_are_shown_and_counted_and_passed_ones_are_quiet() {
        let output = "\
running 3 tests
test a ... ok
test b ... ok
test c ... FAILED

successes:

---- a stdout ----
much to say
---- b stdout ----
skipped: no engine here
skipped: really

successes:
    a
    b

failures:

---- c stdout ----
skipped: said by a failed one
oh

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        let (mut filter, mut counts) = (Filter::default(), Counts::default());
        let shown: Vec<String> = output.lines().filter_map(|line| filter.line(line, &mut counts)).collect();
        assert!(shown.contains(&"skipped b: no engine here".to_owned()), "{shown:#?}");
        assert!(shown.contains(&"oh".to_owned()) && !shown.contains(&"much to say".to_owned()), "{shown:#?}");
        assert_eq!(counts, Counts { passed: 1, failed: 1, skipped: 1 });
    }
}
