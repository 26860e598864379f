//! A run on this machine, from its mark to its report: shared by `tare run` and `tare resume`.

use crate::apparatus::LocalApparatus;
use crate::awake::Awake;
use crate::cli::Format;
use crate::layers::LAYERS;
use crate::progress::Progress;
use crate::report::{plain_style, render, terminal_style};
use crate::terminal::{note, print};
use crate::written::write_own_file;
use crate::{EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, history, outlook, paths};
use anyhow::Result;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tare_bundle::DataSets;
use tare_core::fault::Fault;
use tare_core::host::MachineServices;
use tare_core::load::LoadOrigin;
use tare_core::record::{Header, Record, TrialRecord};
use tare_core::trial::Outcome;
use tare_core::units::CpuSet;
use tare_layers::asking;
use tare_layers::home;
use tare_layers::leftovers;
use tare_layers::local::LoadGroup;
use tare_layers::lock::MachineLock;
use tare_layers::network::{GeneratorSeat, Networks, free_subnets};
use tare_layers::numbers;
use tare_layers::owner;
use tare_layers::run_mark::RunMark;
use tare_report::Style;
use tare_runner::{Clock, Ending, RecordDir, Run, Stop, SystemClock};

/// The keys of [`Header::placement`].
pub(crate) const GENERATOR: &str = "generator";
/// See [`GENERATOR`].
pub(crate) const SERVICES: &str = "services";
/// See [`GENERATOR`].
pub(crate) const HYPERVISOR: &str = "hypervisors' own threads";
/// See [`GENERATOR`].
pub(crate) const INTERRUPTS: &str = "interrupts";

/// Checks that this process may do what a run needs.
///
/// # Errors
/// When it is not root.
pub(crate) fn require_root(verb: &str) -> Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let fault = Fault::new("making network namespaces, mounts and cgroups needs root");
    Err(fault.remedy(format!("sudo tare {verb}, preferably on a machine that is used for nothing else")).into())
}

/// The interval between checks whether the machine is free.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// Locks this machine for `what`, such as `tare run canonical`, until the lock is dropped. With `wait`, waits for
/// another run to end.
///
/// # Errors
/// Without `wait`, if another run has the lock: which one, and since when.
pub(crate) fn take_machine(what: &str, wait: bool) -> Result<MachineLock> {
    let mut told = None;
    loop {
        let holder = match MachineLock::take(what)? {
            Ok(lock) => return Ok(lock),
            Err(holder) => holder,
        };
        let since = holder.since.and_then(|since| jiff::Timestamp::try_from(since).ok());
        let since = since.map_or_else(String::new, |since| since.strftime(" since %Y-%m-%d %H:%M:%S UTC").to_string());
        let busy = format!("a run is in progress on this machine{since} ({})", holder.what);
        if !wait {
            let fault = Fault::new(format!("{busy}; two runs would disturb each other"));
            return Err(fault.remedy("wait for it to end, or use --wait").into());
        }
        // Another run may have been faster. Name each one waited for once.
        if told.as_ref() != Some(&holder) {
            note(&format!("{busy}; waiting for it to end"));
            told = Some(holder);
        }
        std::thread::sleep(ASK_AGAIN);
    }
}

/// Refuses to start on a machine on which a dead run left something, or where Tare's home belongs to somebody else.
///
/// # Errors
/// What was found, and how to remove it.
pub(crate) fn require_clean_host() -> Result<()> {
    home::claim()?;
    let found = leftovers::of_dead_runs(LAYERS)?;
    if found.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> = found.iter().take(5).map(|left| format!("{} {}", left.kind, left.name)).collect();
    let more = if found.len() > 5 { format!(" and {} more", found.len() - 5) } else { String::new() };
    let fault =
        Fault::new(format!("a dead run left {}{more} on this machine, which would bias this run", shown.join(", ")));
    Err(fault.remedy("tare clean").into())
}

/// Removes what the run with this id left; returns the number of things removed.
///
/// # Errors
/// When something of it cannot be seen or removed.
pub(crate) fn remove_of_run(run: &str) -> Result<usize> {
    if owner::live_runs().iter().any(|live| live == run) {
        return Ok(0);
    }
    let mut found = leftovers::leftovers(LAYERS)?;
    found.retain(|left| left.run == run);
    for left in &found {
        leftovers::remove_of_dead_run(LAYERS, left)?;
    }
    Ok(found.len())
}

/// The input of [`conduct`].
pub(crate) struct Session<'a> {
    pub(crate) header: &'a Header,
    pub(crate) record: RecordDir,
    pub(crate) done: Vec<TrialRecord>,
    pub(crate) carrier: Arc<MachineServices>,
    pub(crate) json: bool,
    /// Whether what fails is kept standing for somebody to look into it.
    pub(crate) keep_failed: bool,
    pub(crate) stop: Stop,
}

/// Carries out a run; returns how it ended.
///
/// # Errors
/// When the run could not start, or its record could not be written.
pub(crate) fn conduct(session: Session) -> Result<Ending> {
    let Session { header, record, done, carrier, json, keep_failed, stop } = session;
    on_machine(header, carrier, keep_failed, |machine, generator_cpus| {
        let pace = outlook::pace(&header.study, &header.workload, Some(&header.forms));
        let mut log = record.event_log()?;
        let run = Run { header, generator_cpus, service_cpus: machine.cpus.clone(), record, done, pace };
        let mut progress = Progress::of(&header.study, json);
        let clock = SystemClock::new();
        let ran = run.carry_out(machine, &clock, &stop, &mut |event| {
            progress.show(event);
            // For those who watch from outside: `tare serve` reads the record.
            if event.is_within_trial() {
                log.note(&clock.timestamp(), event);
            }
        });
        progress.end();
        ran
    })
}

/// Has `work` done on this machine, as a run or outside of one: under the mark of the header's run, with its networks.
/// `work` also gets the CPUs of the load. Nothing of it is left afterwards.
///
/// # Errors
/// When it could not begin, what `work` returned, or when something was left.
pub(crate) fn on_machine<T>(
    header: &Header,
    carrier: Arc<MachineServices>,
    keep_failed: bool,
    work: impl FnOnce(&mut LocalApparatus, CpuSet) -> Result<T, Fault>,
) -> Result<T> {
    let cpus = |key: &str| CpuSet::parse(header.placement.get(key).map_or("", String::as_str));
    let generator_cpus = cpus(GENERATOR).map_err(Fault::new)?;
    let service_cpus = cpus(SERVICES).map_err(Fault::new)?;
    numbers::check_free(&own_numbers(header))?;
    let _awake = Awake::as_asked(header.study.design.idle)?;
    let mark = RunMark::create(&header.run)?;
    let sets = [service_cpus, cpus(HYPERVISOR).map_err(Fault::new)?];
    let opened = open_machine(header, carrier, sets, mark.scratch(), keep_failed);
    let worked = opened.and_then(|mut machine| {
        let worked = work(&mut machine, generator_cpus);
        let closed = close_machine(machine);
        let done = worked?;
        closed.map(|()| done)
    });
    let unmarked = mark.close();
    let done = worked?;
    unmarked?;
    Ok(done)
}

/// The user numbers that are assigned to services, over all forms.
fn own_numbers(header: &Header) -> BTreeSet<u32> {
    let forms = header.study.forms.iter();
    let services = forms.flat_map(|form| header.study.deployed(&header.workload, form).services);
    services.filter(|service| service.own_user).map(|service| service.user.0).collect()
}

fn open_machine(
    header: &Header,
    carrier: Arc<MachineServices>,
    sets: [CpuSet; 2],
    scratch: PathBuf,
    keep_failed: bool,
) -> Result<LocalApparatus, Fault> {
    let (subnets, mut beside) = (free_subnets()?, Networks::of(&header.run));
    let (seat, address) = match header.study.from {
        // A tool inside the form is not reached from outside, but the service's readiness is checked from there.
        LoadOrigin::Outside | LoadOrigin::Inside => {
            let seat = GeneratorSeat::open(&header.run, subnets)?;
            let address = seat.host_address();
            (Some(seat), address)
        }
        LoadOrigin::Host => {
            beside.keep(0, subnets);
            (None, IpAddr::V4(Ipv4Addr::LOCALHOST))
        }
    };
    let reached = note_whom_networks_let_in(seat.as_ref(), &beside, false);
    let [cpus, hypervisor] = sets;
    let run = header.run.clone();
    // Where none can be made, the load says why.
    let group = LoadGroup::make(&run).ok().flatten();
    // Without a store, data are loaded in each trial.
    let data_sets = DataSets::open(&paths::bundles()).ok();
    Ok(LocalApparatus {
        run,
        carrier,
        seat,
        address,
        subnets,
        beside,
        reached,
        cpus,
        hypervisor,
        scratch,
        group,
        data_sets,
        keep_failed,
    })
}

/// Warns that other machines can reach the run's networks, unless that is `known`. Returns whether they can.
fn note_whom_networks_let_in(seat: Option<&GeneratorSeat>, beside: &Networks, known: bool) -> bool {
    let Some(why) = seat.and_then(GeneratorSeat::reached_by_others).or_else(|| beside.reached_by_others()) else {
        return false;
    };
    if !known {
        let text = "warning: other machines could reach published ports, containers and guests by routing through this";
        note(&format!("{text} one, because the rules that would drop such packets could not be set: {why}"));
    }
    true
}

fn close_machine(machine: LocalApparatus) -> Result<(), Fault> {
    // Covers networks of later forms, and links that appeared during the run.
    note_whom_networks_let_in(machine.seat.as_ref(), &machine.beside, machine.reached);
    drop(machine.group);
    machine.seat.map_or(Ok(()), GeneratorSeat::close)
}

/// Prints where a run's page and its record are.
pub(crate) fn say_where(page: &Path, record: &Path) {
    print(&format!("\nreport: {}", paths::relative(page).display()));
    print(&format!("record: {}", paths::relative(record).display()));
}

/// Prints the report of a run that has ended, and where it is. Returns the exit code.
///
/// # Errors
/// When the record cannot be read, or its page cannot be written.
pub(crate) fn show_end(path: &Path, ending: Ending, json: bool, verbose: bool) -> Result<u8> {
    let record = tare_runner::read_record(path)?;
    let html = keep_report(path, &record)?;
    let style = if json { plain_style() } else { Style { verbose, ..terminal_style() } };
    print(&render(&record, if json { Format::Json } else { Format::Terminal }, &style)?);
    if !json {
        say_where(&html, path);
    }
    Ok(exit_code(&record, ending))
}

/// Writes a run's page into its record, and adds the run to the history.
///
/// # Errors
/// When the page cannot be written.
pub(crate) fn keep_report(path: &Path, record: &Record) -> Result<PathBuf> {
    let html = path.join("report.html");
    write_own_file(&html, &render(record, Format::Html, &plain_style())?)?;
    if let Err(error) = history::add(record, path) {
        note(&format!("warning: could not add the run to the history: {error:#}"));
    }
    Ok(html)
}

/// The exit code of a run.
pub(crate) fn exit_code(record: &Record, ending: Ending) -> u8 {
    if ending == Ending::Interrupted {
        return EXIT_INTERRUPTED;
    }
    let bad = |trial: &tare_core::record::TrialData| {
        matches!(trial.record.outcome, Outcome::Failed { .. } | Outcome::Invalid { .. })
    };
    if record.trials.iter().any(bad) { EXIT_FAILED } else { EXIT_OK }
}

/// Ctrl-C and SIGTERM raise the stop; a second one exits at once. SIGUSR1 asks for the end after a block. The stop is
/// the same however often this is called.
///
/// # Errors
/// When no handler can be installed.
pub(crate) fn stop_on_signals() -> Result<Stop> {
    static STOP: OnceLock<Stop> = OnceLock::new();
    if let Some(stop) = STOP.get() {
        return Ok(stop.clone());
    }
    let stop = Stop::default();
    let raised = stop.clone();
    ctrlc::set_handler(move || {
        if raised.raised() {
            note("\nexiting at once; `tare clean` removes what is left");
            std::process::exit(i32::from(EXIT_INTERRUPTED));
        }
        raised.raise();
        note("\ninterrupted: taking the trial down; what was measured is kept; interrupt again to exit at once");
    })?;
    let asked = stop.clone();
    asking::on_end_after_block(move |by| {
        let said = format!("\n{by} asked the run to end: it does so after the block that is being measured");
        if asked.end_after_block(by) {
            note(&said);
        }
    })?;
    Ok(STOP.get_or_init(|| stop).clone())
}

/// The time as in the names of records' folders, to the second: `20260131-235959`.
pub(crate) fn folder_stamp() -> String {
    let stamp = SystemClock::new().timestamp();
    stamp.chars().filter(char::is_ascii_digit).collect::<String>().split_at(8).0.to_owned()
        + "-"
        + &stamp.chars().filter(char::is_ascii_digit).skip(8).collect::<String>()
}
