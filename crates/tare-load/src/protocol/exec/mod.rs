//! Any existing load tool, run beside the form or inside it: its result is read by a declared parser and takes the
//! place of Tare's own measurements.
//!
//! Beside the form, the tool is a program of this machine, started in the load's network namespace and on the load's
//! CPUs. Inside, it is a program of the service's bundle, and the process that deployed the form runs it there exactly
//! as the service was started; this process says what to run and receives the result. Everything else is the same for
//! both. Tare measures the time from the tool's start to its end, and takes what the tool reports as reported. The
//! result therefore has no histogram, and its rate and times are the tool's: a tool that waits for answers before it
//! starts the next operation does not show the waiting that a user would have seen.

mod figure;
mod fio;
mod folder;
mod jmeter;
mod locust;
mod metric;
mod options;
mod parser;
mod process;
mod reach;
mod report;
mod samples;
#[cfg(test)]
mod tests;
mod tools;

#[cfg(any(test, fuzzing))]
pub(crate) use tools::chew;

use super::{ErasedProtocol, LoadProtocol, erased};
use crate::clock;
use crate::engine::{Emit, pin};
use crate::script::{Escape, FeedSpecs, Feeds, Names, Template, Values};
use figure::Concluded;
use folder::ToolFolder;
use options::{Options, Where, places, program_of};
use process::{Job, Outcome};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tare_core::command::{CommandStart, Ended};
use tare_core::config::{Node, Problems};
use tare_core::fault::{Doing, Fault};
use tare_core::load::{
    Check, Inside, InsideUse, LoadLine, LoadPlan, LoadProfile, LoadSummary, LoadTask, OperationSummary, OwnMetric,
    SecondRow,
};
use tools::ToolRow;

/// This protocol, for the list.
pub(super) const PROTOCOL: &dyn ErasedProtocol = erased::<Exec>();

/// How much longer than the measured time and the timeout a command may take by default.
const SLACK: Duration = Duration::from_secs(30);
/// How long populating may take, unless the workload says otherwise.
const POPULATE: Duration = Duration::from_secs(600);
/// How long one readiness check may take: at most this beside the form, at least this inside.
const READY: Duration = Duration::from_secs(1);
/// How long a tool may take to print its version.
const VERSION: Duration = Duration::from_secs(2);
/// The address at which a service is reached from inside its form, whatever leads there from outside.
const SERVICE_INSIDE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The directory in which a command inside the form starts, as a service does.
const DIRECTORY_INSIDE: &str = "/";

/// Stands for this protocol.
struct Exec;

impl LoadProtocol for Exec {
    type Options = Options;
    const NAME: &'static str = "exec";
    const ABOUT: &'static str = "any existing load tool: a command, and how its result is read";
    const TELLS_SECONDS: bool = false;

    fn read(node: &Node, problems: &mut Problems) -> Option<Options> {
        options::read(node, problems)
    }

    fn operations(options: &Options) -> Vec<String> {
        options.operations()
    }

    fn metrics(options: &Options) -> Vec<OwnMetric> {
        options.metrics.iter().map(|metric| metric.own.clone()).collect()
    }

    fn runs_inside(options: &Options) -> bool {
        options.place == Where::Inside
    }

    fn runs_within(options: &Options) -> Option<Duration> {
        options.within
    }

    /// The programs must be on this machine, unless they run inside the form: then they are in the service's bundle.
    fn check_needs(options: &Options) -> Result<(), Fault> {
        if options.place == Where::Inside { Ok(()) } else { options.find_programs() }
    }

    fn drive(plan: &LoadPlan, options: Options, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault> {
        let mut tool = Tool::new(&options, plan, emit)?;
        match plan.task {
            LoadTask::Ready => tool.ready(),
            LoadTask::Populate => tool.populate(),
            LoadTask::Run => tool.run(),
        }
    }
}

impl Options {
    /// An error names the missing program and the package that contains it.
    fn find_programs(&self) -> Result<(), Fault> {
        let mut commands = self.populate.iter().chain(&self.ready).chain([&self.command]);
        commands.try_for_each(|command| reach::check_program(&program(command, self)?, &command[0]))
    }
}

/// The names of the tools whose results are read without a declared parser: those of their programs.
pub fn known_tools() -> Vec<&'static str> {
    tools::TOOLS.iter().map(|row| row.name).collect()
}

fn program(command: &[String], options: &Options) -> Result<PathBuf, Fault> {
    let name = &command[0];
    let package = match ToolRow::find(program_of(name)) {
        Some(row) => row.package.map(str::to_owned),
        None => options.package.clone().filter(|_| command == options.command),
    };
    process::find_program(name).ok_or_else(|| {
        let what = if name.starts_with('/') { "does not exist or cannot be run" } else { "is not in PATH" };
        let remedy = match package {
            Some(package) => format!("apt-get install {package}"),
            None => format!("install {}; Debian may have no package of it", program_of(name)),
        };
        Fault::new(format!("the load tool '{name}' {what}")).remedy(remedy)
    })
}

/// A tool with its plan.
struct Tool<'a, 'e> {
    options: &'a Options,
    plan: &'a LoadPlan,
    names: Names,
    emit: &'a mut Emit<'e>,
    /// What the tool finds inside the form; none if it runs beside it.
    inside: Option<Inside>,
}

impl<'a, 'e> Tool<'a, 'e> {
    fn new(options: &'a Options, plan: &'a LoadPlan, emit: &'a mut Emit<'e>) -> Result<Self, Fault> {
        let inside = match options.place {
            Where::Beside => {
                process::end_on_signals();
                options.find_programs()?;
                None
            }
            Where::Inside => Some(plan.inside.ok_or_else(|| {
                Fault::new("a tool with `where: inside` runs inside a form, and there is none")
                    .remedy("write `where: beside`, or let a study deploy the workload: tare run")
            })?),
        };
        Ok(Tool { options, plan, names: places(), emit, inside })
    }

    fn ready(&mut self) -> Result<LoadSummary, Fault> {
        // Inside the form the limit must leave time to start anything there.
        let limit = if self.inside.is_some() { self.plan.timeout.max(READY) } else { self.plan.timeout.min(READY) };
        let options = self.options;
        match &options.ready {
            None if self.plan.endpoint == LoadPlan::NOWHERE => Ok(LoadSummary::default()),
            Some(command) => self.succeed(command, limit).map(|_| LoadSummary::default()),
            None => TcpStream::connect_timeout(&self.plan.endpoint, limit)
                .doing(format_args!("connect to {}", self.plan.endpoint))
                .map(|_| LoadSummary::default()),
        }
    }

    fn populate(&mut self) -> Result<LoadSummary, Fault> {
        let mut summary = LoadSummary::default();
        let options = self.options;
        for command in &options.populate {
            let outcome = self.succeed(command, options.within.unwrap_or(POPULATE))?;
            let name = format!("populated by {}", program_of(&command[0]));
            let took = tare_core::units::show_duration(outcome.took);
            summary.checks.push(Check {
                always: false,
                outcome: false,
                name,
                passed: true,
                detail: format!("it succeeded in {took}"),
            });
        }
        Ok(summary)
    }

    fn run(&mut self) -> Result<LoadSummary, Fault> {
        if self.plan.measure.is_zero() {
            return Err(Fault::new("a time of 0 s measures nothing").remedy("give 'measure' a duration above 0"));
        }
        self.check_profile()?;
        pin(self.plan.cpus.cpus())?;
        let (options, folder) = (self.options, ToolFolder::new(&self.options.files)?);
        let program = &options.command[0];
        if options.settle && !self.plan.settle.is_zero() {
            // It settles for its time, even if the tool would have continued.
            let arguments = self.fill(&options.command, self.plan.settle, &folder)?;
            let outcome = self.start(program, arguments.clone(), self.plan.settle)?;
            self.judge(&outcome, &arguments, true)?;
        }
        let command = self.fill(&options.command, self.plan.measure, &folder)?;
        folder.clear()?;
        // Reports that measuring begins; a row without length adds nothing.
        let began_ns = clock::monotonic_ns();
        self.emit.line(LoadLine::Second(SecondRow { at_ns: began_ns, measured: true, ..SecondRow::default() }))?;
        let limit = options.within.unwrap_or(self.plan.measure + self.plan.timeout + SLACK);
        let outcome = self.start(program, command.clone(), limit)?;
        let ended = self.judge(&outcome, &command, false);
        let wall_s = outcome.took.as_secs_f64();
        let concluded = folder.read_or(&command, &outcome.stdout).and_then(|text| self.conclude(&text, wall_s));
        let (concluded, metrics) = match (ended, concluded) {
            // A tool that reports what went wrong has said more than its exit code does.
            (Err(_), Ok(found)) if found.0.is_void() && outcome.ended != Ended::Late => found,
            (Err(fault), _) => return Err(fault),
            (Ok(()), found) => found.map_err(|fault| {
                let fault = self.advise(self.explain(fault).with_log(outcome.log())).as_mistake();
                self.with_denied(fault, &command)
            })?,
        };
        self.emit.line(LoadLine::Second(second(&outcome, &concluded)))?;
        Ok(LoadSummary { metrics, ..self.summary(&command, &outcome, concluded) })
    }

    /// The result, and the values of its own metrics.
    fn conclude(&self, text: &str, wall_s: f64) -> Result<(Concluded, BTreeMap<String, f64>), Fault> {
        let concluded = self.options.parser.conclude(text, wall_s)?;
        let metrics = match &self.options.metrics[..] {
            [] => BTreeMap::new(),
            metrics => metric::values(metrics, &parser::document(text)?)?,
        };
        Ok((concluded, metrics))
    }

    /// Adds how the command must be written for its result to be read, as far as that is known.
    fn explain(&self, fault: Fault) -> Fault {
        match ToolRow::of(&self.options.parser) {
            _ if !fault.remedy.is_empty() => fault,
            Some(row) => fault.remedy(format!("write the command so that its result can be read: {}", row.form)),
            None => fault.remedy("see below what it printed, and what the parser looks for"),
        }
    }

    /// Adds what to do about a tool's message, if that is known.
    fn advise(&self, fault: Fault) -> Fault {
        let advice = ToolRow::of(&self.options.parser).map_or(&[][..], |row| row.advice);
        match advice.iter().find(|(words, _)| fault.log.contains(words)) {
            Some((_, remedy)) => fault.remedy(*remedy),
            None => fault,
        }
    }

    fn summary(&mut self, command: &[String], outcome: &Outcome, concluded: Concluded) -> LoadSummary {
        let wall_s = outcome.took.as_secs_f64();
        let options = self.options;
        let name = program_of(&options.command[0]);
        let ran = if self.inside.is_some() { "inside the form" } else { "beside the form" };
        let mut facts =
            BTreeMap::from([("tool.command".to_owned(), command.join(" ")), ("tool.ran".to_owned(), ran.to_owned())]);
        // A tool inside the form is part of what is measured, not a generator that could be the limit.
        let (cpu_s, cpus) = match self.inside {
            Some(_) => (0.0, 0),
            None => (outcome.cpu_ns as f64 / clock::SECOND_NS as f64, self.plan.cpus.len().max(1)),
        };
        let busy = (cpus > 0).then(|| cpu_s / wall_s / cpus as f64);
        facts.extend(busy.map(|busy| ("tool.busy".to_owned(), format!("{:.0} % of {cpus} CPU(s)", busy * 100.0))));
        let limit = options.busy_max;
        let saturated = busy.filter(|busy| !self.plan.cpus.is_empty() && *busy > limit).map(|busy| {
            let (share, limit) = (busy * 100.0, limit * 100.0);
            format!("{name} was busy for {share:.0} % of its CPU time, above {limit:.0} %: it may be what was measured")
        });
        facts.extend(self.version().map(|version| ("tool.version".to_owned(), version)));
        facts.extend(concluded.facts);
        let detail = format!("{} right, {} not, in {wall_s:.1} s", concluded.operations, concluded.errors);
        let mut operations = concluded.by_operation;
        if operations.is_empty() {
            let (count, errors) = (concluded.operations, concluded.errors);
            operations
                .insert(options.operation.clone(), OperationSummary { count, errors, ..OperationSummary::default() });
        }
        let passed = self.judge(outcome, command, false).is_ok();
        let ended = Check { always: false, outcome: false, name: format!("{name} ended well"), passed, detail };
        // What the tool does not count is not part of the measured time either, nor is the CPU time it took.
        let unmeasured = concluded.unmeasured.min(outcome.took);
        let measured_share = 1.0 - unmeasured.as_secs_f64() / wall_s;
        let inside = outcome.inside.map(|used| InsideUse { cpu_s: used.cpu_s.map(|cpu_s| cpu_s * measured_share) });
        let failures = (concluded.errors > 0).then(|| ("reported by the tool".to_owned(), concluded.errors));
        LoadSummary {
            measure_start_ns: (outcome.span.0 + clock::span_ns(unmeasured)).min(outcome.span.1),
            measure_end_ns: outcome.span.1,
            operations,
            offered: concluded.operations.saturating_add(concluded.errors),
            started: concluded.operations + concluded.errors,
            generator_cpu_s: cpu_s,
            generator_cpus: cpus as u32,
            saturated,
            checks: std::iter::once(ended).chain(concluded.checks).collect(),
            failures: failures.into_iter().collect(),
            facts,
            reported: concluded.reported,
            inside,
            ..LoadSummary::default()
        }
    }

    fn version(&mut self) -> Option<String> {
        let options = self.options;
        let program = &options.command[0];
        let row = ToolRow::find(program_of(program)).filter(|row| !row.version.is_empty())?;
        let arguments: Vec<String> = row.version.iter().map(|argument| (*argument).to_owned()).collect();
        let outcome = self.start(program, arguments, VERSION).ok()?;
        tools::version_in(row.name, &(outcome.stdout + &outcome.stderr))
    }

    /// A load that the command does not mention would be claimed but not made.
    fn check_profile(&self) -> Result<(), Fault> {
        let (kind, wanted) = match &self.plan.profile {
            LoadProfile::Closed { .. } => return Ok(()),
            LoadProfile::Open { .. } => ("open", "rate"),
            LoadProfile::Users { .. } => ("users", "users"),
            LoadProfile::Steps { .. } | LoadProfile::Replay { .. } | LoadProfile::Guided { .. } => {
                return Err(Fault::new("a tool cannot be led through levels or a file")
                    .remedy("give the study a closed load, an open one or one of users"));
            }
        };
        let slot = self.names.slot(wanted);
        let mentions = |text: &String| Template::compile(text, &self.names).is_ok_and(|text| text.uses(slot));
        if self.options.command.iter().any(mentions) {
            return Ok(());
        }
        Err(Fault::new(format!(
            "the study asks for a load of kind '{kind}', but the tool's command has no ${{{wanted}}}"
        ))
        .remedy(format!("put ${{{wanted}}} where the tool takes it, or give the study a closed load")))
    }

    /// The values of a command's placeholders.
    fn values(&self, load: Duration, folder: Option<&ToolFolder>) -> Values {
        let mut values = Values::new(&self.names);
        let slot = |name: &str| self.names.slot(name).expect("a name of the table");
        let mut number = |name: &str, number: u64| values.set_number(slot(name), number as i64);
        let plan = self.plan;
        number("port", plan.endpoint.port().into());
        number("seconds", (load.as_secs_f64().ceil() as u64).max(1));
        number("seed", plan.seed & 0x7fff_ffff);
        number("llc_bytes", last_level_cache_bytes(Path::new("/sys/devices/system/cpu")));
        number("cpus", self.inside.map_or(plan.cpus.len().max(1) as u64, |inside| inside.cpus.into()));
        match &plan.profile {
            LoadProfile::Closed { connections, pipeline } => {
                number("connections", (*connections).into());
                number("pipeline", (*pipeline).into());
            }
            LoadProfile::Open { rate, connections, .. } => {
                number("connections", (*connections).into());
                number("rate", rate.round() as u64);
            }
            LoadProfile::Users { users, .. } => number("users", (*users).into()),
            LoadProfile::Steps { .. } | LoadProfile::Replay { .. } | LoadProfile::Guided { .. } => {}
        }
        let host = self.inside.map_or(plan.endpoint.ip(), |_| SERVICE_INSIDE);
        values.text_mut(slot("host")).extend_from_slice(host.to_string().as_bytes());
        let [output, files] = folder.map_or(["", ""], |folder| [folder.output.as_str(), folder.files.as_str()]);
        values.text_mut(slot("output")).extend_from_slice(output.as_bytes());
        values.text_mut(slot("files")).extend_from_slice(files.as_bytes());
        values
    }

    /// The arguments of a command with its placeholders filled in.
    fn fill(&self, command: &[String], load: Duration, folder: &ToolFolder) -> Result<Vec<String>, Fault> {
        let values = self.values(load, Some(folder));
        command[1..].iter().map(|argument| self.filled(argument, &values)).collect()
    }

    fn filled(&self, text: &str, values: &Values) -> Result<String, Fault> {
        let template = Template::compile(text, &self.names).map_err(Fault::new)?;
        let mut out = Vec::new();
        if !template.write(values, &Feeds::new(&FeedSpecs::default()), Escape::None, &mut out) {
            return Err(Fault::new(format!("the study's load has nothing to put into '{text}' of the tool's command"))
                .remedy("write a number there, or choose a load that has it"));
        }
        Ok(String::from_utf8(out).expect("texts are made of texts"))
    }

    fn start(&mut self, name: &str, arguments: Vec<String>, limit: Duration) -> Result<Outcome, Fault> {
        let values = self.values(self.plan.measure, None);
        let environment = self.options.environment.iter();
        let environment = environment
            .map(|(name, value)| Ok((name.clone(), self.filled(value, &values)?)))
            .collect::<Result<Vec<_>, Fault>>()?;
        let directory = self.options.directory.as_deref();
        if self.inside.is_none() {
            let path = program(&[name.to_owned()], self.options)?;
            let (arguments, environment, limit_ns) = (&arguments, &environment, clock::span_ns(limit));
            return process::run(&Job { program: &path, arguments, environment, directory, limit_ns });
        }
        let command = std::iter::once(name.to_owned()).chain(arguments).collect();
        // The same format of numbers everywhere.
        let environment = [("LC_ALL".to_owned(), "C".to_owned())].into_iter().chain(environment).collect();
        let directory = directory.unwrap_or(DIRECTORY_INSIDE).to_owned();
        let began_ns = clock::monotonic_ns();
        let end = self.emit.inside(CommandStart { command, environment, directory, within: limit })?;
        Ok(Outcome::inside(end, (began_ns, clock::monotonic_ns())))
    }

    /// Runs a command that must succeed.
    fn succeed(&mut self, command: &[String], limit: Duration) -> Result<Outcome, Fault> {
        let folder = ToolFolder::new(&self.options.files)?;
        let arguments = self.fill(command, self.plan.measure, &folder)?;
        let outcome = self.start(&command[0], arguments.clone(), limit)?;
        self.judge(&outcome, &arguments, false).map_err(|fault| fault.context(program_of(&command[0])))?;
        Ok(outcome)
    }

    /// Names the file that a tool beside the form was not allowed to read, if that is why it failed.
    fn with_denied(&self, fault: Fault, arguments: &[String]) -> Fault {
        let beside = self.inside.is_none();
        match beside.then(|| reach::denied(arguments, self.options.directory.as_deref(), &fault.log)).flatten() {
            Some(remedy) => fault.remedy(remedy),
            None => fault,
        }
    }

    /// Whether a command with these arguments ended as it should; with `timed`, reaching its time limit is a regular
    /// end.
    fn judge(&self, outcome: &Outcome, arguments: &[String], timed: bool) -> Result<(), Fault> {
        match outcome.ended {
            Ended::Late if timed => Ok(()),
            Ended::Late => {
                let took = tare_core::units::show_duration(outcome.took);
                Err(Fault::new(format!("the tool had not ended after {took}, and was ended"))
                    .remedy("let it do less, or raise 'within' of protocol 'exec'")
                    .with_log(outcome.log()))
            }
            Ended::Exit(code) if self.options.exit_codes.iter().any(|good| i32::from(*good) == code) => Ok(()),
            ended => {
                let fault = Fault::new(format!("the tool failed: {ended}")).with_log(outcome.log());
                // This is how the kernel ends a process when its control group is out of memory.
                let full = matches!(ended, Ended::Signal(9)) && self.inside.is_some();
                let remedy = "if nobody else did it, it used up its memory: raise 'memory' of 'resources'";
                let fault = self.advise(if full { fault.remedy(remedy) } else { fault });
                Err(self.with_denied(fault, arguments))
            }
        }
    }
}

/// The total size of this machine's last-level caches, bytes; 0 if the kernel does not report it. `folder` is
/// `/sys/devices/system/cpu`.
fn last_level_cache_bytes(folder: &Path) -> u64 {
    // By level and by the CPUs that share it, so that each is counted once.
    let mut caches: BTreeMap<(u32, String), u64> = BTreeMap::new();
    let entries = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    for cache in entries(folder.to_owned()).flat_map(|cpu| entries(cpu.join("cache"))) {
        let read = |name: &str| std::fs::read_to_string(cache.join(name)).ok().map(|text| text.trim().to_owned());
        let level = read("level").and_then(|level| level.parse().ok());
        let bytes = read("size").and_then(|size| size.strip_suffix('K')?.parse::<u64>().ok()).map(|kib| kib << 10);
        if let (Some(level), Some(bytes), Some(shared)) = (level, bytes, read("shared_cpu_list")) {
            caches.insert((level, shared), bytes);
        }
    }
    let last = caches.keys().map(|(level, _)| *level).max();
    caches.iter().filter(|((level, _), _)| Some(*level) == last).map(|(_, bytes)| bytes).sum()
}

/// The whole measurement as one row.
fn second(outcome: &Outcome, concluded: &Concluded) -> SecondRow {
    let time = |name: &str| concluded.reported.get(name).copied().unwrap_or(0.0);
    SecondRow {
        at_ns: outcome.span.1,
        measured: true,
        seconds: outcome.took.as_secs_f64(),
        operations: concluded.operations,
        errors: concluded.errors,
        p50_us: time("p50_us"),
        p99_us: time("p99_us"),
        max_us: time("max_us"),
        ..SecondRow::default()
    }
}
