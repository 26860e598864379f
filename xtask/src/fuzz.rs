//! Fuzzing: runs the targets of all crates, by cargo-fuzz and a nightly compiler.

use crate::Mistyped;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// What to fuzz.
#[derive(Args)]
pub(crate) struct Wanted {
    /// How long to run each target, minutes; may be a fraction
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Run the one named target on this file only, as in the command printed after a crash
    #[arg(long, value_name = "FILE")]
    repeat: Option<PathBuf>,
    /// Targets to run, one after the other [default: all]
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

/// The package with all targets in one program, and the program's name.
const PACKAGE: &str = "xtask/fuzz";
const PROGRAM: &str = "any";

/// Commands that must work, and how to install what they need.
const NEEDS: &[(&[&str], &str)] = &[
    (&["+nightly", "--version"], "rustup toolchain install nightly --profile minimal"),
    (&["+nightly", "fuzz", "--version"], "cargo install cargo-fuzz --locked"),
];

/// Where targets run, and by which cargo.
struct Place<'a> {
    cargo: &'a Path,
    root: &'a Path,
    corpus: PathBuf,
    artifacts: PathBuf,
}

/// How a target went.
struct Run {
    name: String,
    executions: u64,
    seconds: f64,
    coverage: u64,
    end: End,
}

/// How a target ended.
#[derive(Debug, PartialEq)]
enum End {
    /// It ran for its time.
    Well,
    /// It crashed on this input.
    Crashed(PathBuf),
    /// It ended otherwise, for example killed by the kernel for lack of memory: how, and the log.
    Failed(String, PathBuf),
}

/// Runs the targets and reports the results. Exit code 1 if one crashed or failed, 2 if something is missing.
pub(crate) fn run(root: &Path, wanted: &Wanted) -> Result<ExitCode> {
    for (arguments, remedy) in NEEDS {
        let there = Command::new("cargo").args(*arguments).stdin(Stdio::null()).output();
        if !there.is_ok_and(|output| output.status.success()) {
            eprintln!("error: fuzzing needs 'cargo {}', which does not work\n  to do: {remedy}", arguments.join(" "));
            return Ok(ExitCode::from(2));
        }
    }
    if wanted.minutes.is_nan() || wanted.minutes <= 0.0 {
        bail!(Mistyped("--minutes must be above 0".to_owned()));
    }
    let package = with_versions(root)?;
    let (corpus, artifacts) = (package.join("corpus"), package.join("artifacts"));
    let place = Place { cargo: Path::new("cargo"), root, corpus, artifacts };
    let known = place.write_corpus()?;
    if let Some(unknown) = wanted.targets.iter().find(|name| !known.contains(name)) {
        eprintln!("error: there is no target '{unknown}'; known: {}", known.join(", "));
        return Ok(ExitCode::from(2));
    }
    if let Some(file) = &wanted.repeat {
        let [name] = &wanted.targets[..] else {
            bail!(Mistyped("--repeat needs the name of one target".to_owned()));
        };
        let well =
            place.fuzz(name).arg(fs::canonicalize(file)?).status().context("could not run cargo fuzz")?.success();
        return Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let targets = if wanted.targets.is_empty() { known } else { wanted.targets.clone() };
    let runs = place.run_all(&targets, wanted.minutes)?;
    print!("{}", table(&runs, root));
    Ok(if runs.iter().all(|run| run.end == End::Well) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The package, with the same versions as everywhere else; what only fuzzing needs is added to them.
fn with_versions(root: &Path) -> Result<PathBuf> {
    let package = root.join(PACKAGE);
    fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock")).context("could not copy Cargo.lock")?;
    Ok(package)
}

impl Place<'_> {
    /// `cargo fuzz run` of a target, up to its corpus.
    fn fuzz(&self, target: &str) -> Command {
        let mut command = Command::new(self.cargo);
        command.args(["+nightly", "fuzz", "run", "--fuzz-dir", PACKAGE, PROGRAM]);
        command.env("TARE_FUZZ", target).current_dir(self.root).stdin(Stdio::null());
        command
    }

    /// Builds the program and has it write the initial corpus of each target; returns the names of all targets.
    fn write_corpus(&self) -> Result<Vec<String>> {
        let output = self.fuzz("").env("TARE_FUZZ_CORPUS", &self.corpus).stderr(Stdio::inherit()).output();
        let output = output.context("could not run cargo fuzz")?;
        ensure!(output.status.success(), "could not build the targets, or write their samples; see above");
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }

    /// Runs one after the other. If one fails, the others still get their time.
    fn run_all(&self, targets: &[String], minutes: f64) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        for name in targets {
            print!("{name:<16}");
            std::io::stdout().flush()?;
            let run = self.run(name, minutes)?;
            let end = match run.end {
                End::Well => "",
                End::Crashed(_) => ", CRASHED",
                End::Failed(..) => ", FAILED",
            };
            println!("{:>12} executions{end}", run.executions);
            runs.push(run);
        }
        Ok(runs)
    }

    fn run(&self, name: &str, minutes: f64) -> Result<Run> {
        let crashes = self.artifacts.join(name);
        fs::create_dir_all(&crashes).with_context(|| format!("could not make {}", crashes.display()))?;
        let seconds = (minutes * 60.0).max(1.0);
        let mut command = self.fuzz(name);
        command.arg(self.corpus.join(name)).arg("--").arg(format!("-artifact_prefix={}/", crashes.display()));
        // libFuzzer refuses a dictionary without words.
        let words = self.corpus.join(format!("{name}.words"));
        if fs::metadata(&words).is_ok_and(|file| file.len() > 0) {
            command.arg(format!("-dict={}", words.display()));
        }
        // Taking ten seconds, or allocating 128 MiB at once, is a finding too.
        command.args(["-print_final_stats=1", "-timeout=10", "-malloc_limit_mb=128", "-rss_limit_mb=2048"]);
        command.arg(format!("-max_total_time={seconds:.0}"));
        let output = command.output().context("could not run cargo fuzz")?;
        let said = String::from_utf8_lossy(&output.stderr);
        let log = self.artifacts.join(format!("{name}.log"));
        fs::write(&log, said.as_bytes()).with_context(|| format!("could not write {}", log.display()))?;
        let crash = said.lines().find_map(|line| line.split("Test unit written to ").nth(1)).map(PathBuf::from);
        let end = match crash {
            Some(crash) => End::Crashed(crash),
            None if output.status.success() => End::Well,
            None => End::Failed(output.status.to_string(), log),
        };
        let (executions, coverage) = counts(&said);
        Ok(Run { name: name.to_owned(), executions, seconds, coverage, end })
    }
}

/// The numbers of executions and of covered edges that libFuzzer reports.
fn counts(said: &str) -> (u64, u64) {
    let after = |line: &str, what: &str| line.split(what).nth(1)?.split_whitespace().next()?.parse().ok();
    let last = |what: &str| said.lines().rev().find_map(|line| after(line, what));
    let begun = said.lines().rev().find_map(|line| line.strip_prefix('#')?.split_whitespace().next()?.parse().ok());
    (last("stat::number_of_executed_units:").or(begun).unwrap_or(0), last(" cov: ").unwrap_or(0))
}

fn table(runs: &[Run], root: &Path) -> String {
    let mut text =
        format!("\n{:<16} {:>12} {:>9} {:>9} {:>8}\n", "target", "executions", "a second", "coverage", "crashes");
    for Run { name, executions, seconds, coverage, end } in runs {
        let rate = *executions as f64 / seconds;
        let crashes = match end {
            End::Well => "0",
            End::Crashed(_) => "1",
            End::Failed(..) => "failed",
        };
        let _ = writeln!(text, "{name:<16} {executions:>12} {rate:>9.0} {coverage:>9} {crashes:>8}");
    }
    let shown = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    for Run { name, end, .. } in runs {
        let _ = match end {
            End::Well => Ok(()),
            End::Crashed(input) => {
                writeln!(text, "\n{name} crashed; again: cargo xtask fuzz {name} --repeat {}", shown(input))
            }
            End::Failed(how, log) => {
                writeln!(text, "\n{name} ended early without a crash ({how}); see {}", shown(log))
            }
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libfuzzers_output_is_parsed() {
        let said = "#2\tINITED cov: 31 ft: 32 corp: 1/1b exec/s: 0 rss: 40Mb\n\
                    #4096\tpulse  cov: 77 ft: 99 corp: 9/99b exec/s: 2048 rss: 41Mb\n\
                    #5000\tDONE   cov: 78 ft: 99 corp: 9/99b exec/s: 2500 rss: 41Mb\n\
                    stat::number_of_executed_units: 5001\nstat::average_exec_per_sec:     2500\n";
        assert_eq!(counts(said), (5001, 78));
        assert_eq!(counts("#4096\tpulse  cov: 77 ft: 99\n==1== ERROR: libFuzzer: deadly signal\n"), (4096, 77));
        assert_eq!(counts(""), (0, 0));
    }

    /// The gate builds no package outside of the workspace, and only a nightly compiler can run this one.
    #[test]
    fn the_program_of_all_targets_compiles() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(1).expect("the workspace");
        let package = with_versions(root).expect("there are versions");
        let folder = tempfile::tempdir().expect("a folder");
        let mut cargo = Command::new("cargo");
        cargo
            .arg("check")
            .arg("--manifest-path")
            .arg(package.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(folder.path());
        cargo.env("RUSTFLAGS", "--cfg fuzzing");
        // Nothing is linked, so libFuzzer need not be compiled, for which there may be no compiler.
        cargo.env("CUSTOM_LIBFUZZER_PATH", "/nowhere/libFuzzer.a").stdin(Stdio::null());
        let output = cargo.output().expect("there is a cargo");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn a_crash_is_reported_with_the_command_that_repeats_it() {
        let run =
            |name: &str, end: End| Run { name: name.to_owned(), executions: 1200, seconds: 60.0, coverage: 77, end };
        let ends = [
            run("tar", End::Well),
            run("yaml", End::Crashed("/w/a/crash-1".into())),
            run("elf", End::Failed("signal: 9 (SIGKILL)".to_owned(), "/w/a/elf.log".into())),
        ];
        let expected = "
target             executions  a second  coverage  crashes
tar                      1200        20        77        0
yaml                     1200        20        77        1
elf                      1200        20        77   failed

yaml crashed; again: cargo xtask fuzz yaml --repeat a/crash-1

elf ended early without a crash (signal: 9 (SIGKILL)); see a/elf.log
";
        assert_eq!(table(&ends, Path::new("/w")), expected);
    }

    #[test]
    fn a_target_that_is_killed_leaves_the_others_their_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let cargo = folder.path().join("cargo");
        let script = "#!/bin/sh\ncase $TARE_FUZZ in first) kill -9 $$;; esac\n\
                      echo 'stat::number_of_executed_units: 5' >&2\n\
                      [ $TARE_FUZZ != second ] || { echo 'Test unit written to /a/crash' >&2; exit 77; }\n";
        fs::write(&cargo, script).expect("it can be written");
        fs::set_permissions(&cargo, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it is ours");
        let (corpus, artifacts) = (folder.path().join("corpus"), folder.path().join("artifacts"));
        let place = Place { cargo: &cargo, root: folder.path(), corpus, artifacts };
        let runs = place.run_all(&["first", "second", "third"].map(str::to_owned), 1.0).expect("cargo is there");
        let log = folder.path().join("artifacts/first.log");
        let killed = End::Failed("signal: 9 (SIGKILL)".to_owned(), log);
        let ends: Vec<(u64, End)> = runs.into_iter().map(|run| (run.executions, run.end)).collect();
        assert_eq!(ends, [(0, killed), (5, End::Crashed("/a/crash".into())), (5, End::Well)]);
    }
}
