//! What a comparison needs: programs built and installed, servers, an order for each round.

use crate::Options;
use crate::ours;
use crate::output_of;
use crate::process::{find, run};
use crate::servers::{Kind, Server};
use crate::tool::{Job, Outcome, Tool};
use crate::toolbox::{TOOLS, Toolbox};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Programs of the servers, and the packages that have them.
const SERVERS: &[(&str, &str)] = &[
    ("redis-server", "redis-server"),
    ("nginx", "nginx"),
    ("postgresql", "initdb"),
    ("mariadb-server", "mariadbd"),
    ("strace", "strace"),
];

/// See the module.
pub(crate) struct Workshop {
    pub(crate) tools: Toolbox,
    /// How many rounds, if it was said.
    rounds: Option<u32>,
    case: Option<String>,
    pub(crate) quick: bool,
    folder: PathBuf,
    servers: u32,
    order: u64,
    command: String,
}

impl Workshop {
    /// Installs the tools that packages have, and builds our own.
    ///
    /// # Errors
    /// When something does not build, or the machine has one CPU only.
    pub(crate) fn open(root: &Path, options: &Options) -> Result<Workshop> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        ensure!(cpus >= 2, "client and server need a CPU each; this machine has {cpus}");
        install(root)?;
        let folder = std::env::temp_dir().join(format!("tare-comparison-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        // PostgreSQL's own user must get through to its folder.
        let opened = Command::new("chmod").arg("755").arg(&folder).status()?;
        ensure!(opened.success(), "could not open {} to others", folder.display());
        let floor = folder.join("floor");
        let source = root.join("xtask/benchmark/floor.c");
        output_of("gcc", &["-O2", "-Wall", "-o", &floor.to_string_lossy(), &source.to_string_lossy()], root)?;
        let ours = BTreeMap::from([("floor", floor), ("drive", build_drive(root)?)]);
        let quoted = |argument: String| if argument.contains(' ') { format!("'{argument}'") } else { argument };
        let arguments: Vec<String> = std::env::args().skip(1).map(quoted).collect();
        Ok(Workshop {
            tools: Toolbox::open(ours),
            rounds: options.rounds,
            case: options.case.clone(),
            quick: options.quick,
            folder,
            servers: 0,
            order: options.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            command: format!("cargo xtask bench {}", arguments.join(" ")),
        })
    }

    /// The command line that this is.
    pub(crate) fn command(&self) -> &str {
        &self.command
    }

    /// Whether a case with this title was asked for.
    pub(crate) fn wants(&self, title: &str) -> bool {
        self.case.as_deref().is_none_or(|case| title.contains(case))
    }

    /// How many rounds: what was said, else one of these two.
    pub(crate) fn rounds(&self, quick: u32, full: u32) -> u32 {
        self.rounds.unwrap_or(if self.quick { quick } else { full })
    }

    /// A file of this name, for a short while.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A fresh server.
    ///
    /// # Errors
    /// See [`Server::start`].
    pub(crate) fn server(&mut self, kind: Kind) -> Result<Server> {
        self.servers += 1;
        Server::start(kind, &self.folder.join(format!("server-{}", self.servers)))
    }

    /// A job with Tare's options, and the data set written that it needs.
    ///
    /// # Errors
    /// When Tare does not take its options or cannot write the data set.
    pub(crate) fn prepared(&self, job: Job) -> Result<Job> {
        let program = self.tools.program(&ours::TARE).context("Tare's load process was not built")?;
        let limit = Duration::from_secs(60);
        let (protocol, options) = ours::protocol_of(job.ask);
        let finished = run(Command::new(program).args(["options", protocol]), &options, limit)?;
        let job = Job { options: serde_json::from_str(&finished.stdout)?, ..job };
        if let Some(plan) = ours::populate(&job) {
            ours::summary(&run(&mut Command::new(program), &plan, limit)?)?;
        }
        Ok(job)
    }

    /// All items in an order that was not used before.
    pub(crate) fn shuffled<T: Copy>(&mut self, items: &[T]) -> Vec<T> {
        let mut items = items.to_vec();
        for left in (1..items.len()).rev() {
            items.swap(left, self.below(left as u64 + 1) as usize);
        }
        items
    }

    /// A number below `bound`, by xorshift.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.order ^= self.order << 13;
        self.order ^= self.order >> 7;
        self.order ^= self.order << 17;
        ((u128::from(self.order) * u128::from(bound)) >> 64) as u64
    }

    /// Has each tool do a job in each round, in random order. Outcomes by tool, then by round. A tool that fails is
    /// left out from then on; its complaint is what it comes to.
    pub(crate) fn rounds_of(&mut self, tools: &[&'static Tool], job: &Job, rounds: u32) -> Vec<Entry> {
        let mut entries: Vec<Entry> = tools.iter().map(|tool| Entry::new(tool)).collect();
        let order: Vec<usize> = (0..tools.len()).collect();
        for round in 0..=rounds {
            for at in self.shuffled(&order) {
                let entry = &mut entries[at];
                if entry.failed.is_some() {
                    continue;
                }
                // The first round counts for nothing but the expectation.
                let job = Job { expected: entry.expected.unwrap_or(job.expected), ..job.clone() };
                let job = if round == 0 { Job { seconds: 1.0, ..job } } else { job };
                match self.tools.run(entry.tool, &job) {
                    Err(error) => entry.failed = Some(format!("{error:#}")),
                    Ok(outcome) => {
                        entry.expected = Some(outcome.throughput());
                        if round > 0 {
                            entry.outcomes.push(outcome);
                        }
                    }
                }
            }
        }
        entries
    }

    /// What the machine is.
    pub(crate) fn machine(&self) -> String {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (cpus, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
        let count = cpus.lines().filter(|line| line.starts_with("processor")).count();
        let memory = memory.lines().next().and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        let release = read("/proc/sys/kernel/osrelease");
        format!(
            "Machine: {}, {count} CPUs, {:.1} GiB, Linux {}.",
            model.trim_start_matches([':', ' ', '\t']),
            memory.unwrap_or(0.0) / 1024.0 / 1024.0,
            release.trim()
        )
    }

    /// Packages of servers and tools with their versions.
    pub(crate) fn versions(&self) -> Vec<String> {
        // PostgreSQL's package is called after its version; the one without says nothing.
        let packages = TOOLS.iter().filter_map(|tool| tool.package).filter(|package| *package != "postgresql");
        let mut packages: Vec<&str> = packages.chain(["redis-server", "nginx", "postgresql-[0-9]*"]).collect();
        packages.sort_unstable();
        packages.dedup();
        let versions = |package: &str| {
            let arguments = ["-W", "-f", "${db:Status-Status} ${Package} ${Version}\n", package];
            let said = output_of("dpkg-query", &arguments, Path::new("/")).unwrap_or_default();
            said.lines().filter_map(|line| line.strip_prefix("installed ")).map(str::to_owned).collect::<Vec<_>>()
        };
        packages.into_iter().flat_map(versions).collect()
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What a tool came to in the rounds of a comparison.
pub(crate) struct Entry {
    pub(crate) tool: &'static Tool,
    pub(crate) outcomes: Vec<Outcome>,
    /// Why it was left out.
    pub(crate) failed: Option<String>,
    expected: Option<f64>,
}

impl Entry {
    fn new(tool: &'static Tool) -> Entry {
        Entry { tool, outcomes: Vec::new(), failed: None, expected: None }
    }

    /// A figure of each round.
    pub(crate) fn each(&self, figure: impl Fn(&Outcome) -> f64) -> Vec<f64> {
        self.outcomes.iter().map(figure).collect()
    }
}

/// Installs the packages of servers and tools that are missing, with what `./test` installs with.
fn install(root: &Path) -> Result<()> {
    let tools = TOOLS.iter().filter_map(|tool| Some((tool.package?, tool.program)));
    let missing = tools.chain(SERVERS.iter().copied()).filter(|(_, program)| find(program).is_none());
    let needs: Vec<String> = missing.map(|(package, program)| format!("{package}={program}")).collect();
    if needs.is_empty() {
        return Ok(());
    }
    let script = format!(". xtask/install.sh; log_dir=$(mktemp -d); install_packages {}", needs.join(" "));
    let status = Command::new("bash").args(["-c", &script]).current_dir(root).status()?;
    ensure!(status.success(), "could not install {}", needs.join(" "));
    Ok(())
}

/// Builds Tare's load process by itself.
fn build_drive(root: &Path) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("TARE_DRIVE") {
        return Ok(path.into());
    }
    release(root, &["--package", "tare-load", "--example", "drive"])
}

/// Builds a program as it is released: where it is then.
pub(crate) fn release(root: &Path, which: &[&str]) -> Result<PathBuf> {
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--locked"]).args(which);
    build.arg("--message-format=json-render-diagnostics").current_dir(root).stderr(Stdio::inherit());
    let built = build.output().context("could not run cargo")?;
    ensure!(built.status.success(), "cargo could not build {}", which.join(" "));
    let told = String::from_utf8_lossy(&built.stdout);
    let made = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs = made.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    programs.next_back().context("cargo does not say where it put what it built")
}
