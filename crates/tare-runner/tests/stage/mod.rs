//! Hosts that only write down what is asked of them, loads that come from nowhere, and a clock that only the test
//! moves.

#![allow(dead_code)] // each test needs another part of it

mod host;
mod lengths;
mod ran;

use host::LoggingHost;
use lengths::{cpu_by_turn, lengths, one_turn};
pub(crate) use ran::{Ran, fresh, once, outcomes, run, run_keeping, run_paced, run_with};

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tare_core::bundle::{Recipe, Source};
use tare_core::command::CommandStart;
use tare_core::fault::Fault;
use tare_core::form::Form;
use tare_core::host::{Facts, Host, OpenError, ServiceStart};
use tare_core::load::{Check, LoadPlan, LoadProfile, LoadSummary, LoadTask, OperationSummary, SecondRow};
use tare_core::plan::plan;
use tare_core::record::{Asker, FormState, Header, SCHEMA};
use tare_core::study::Study;
use tare_core::workload::{Readiness, Service, Workload};
use tare_runner::{Apparatus, Clock, DataSet, Restored, RunInside, Stop};

#[derive(Default)]
pub(crate) struct TestClock(Cell<Duration>);

impl Clock for TestClock {
    fn now(&self) -> Duration {
        self.0.get()
    }
    fn timestamp(&self) -> String {
        let seconds = self.0.get().as_secs();
        format!("2026-01-01T{:02}:{:02}:{:02}Z", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
    }
    fn sleep(&self, time: Duration) {
        self.0.set(self.0.get() + time);
    }
}

pub(crate) type Log = Arc<Mutex<Vec<String>>>;

/// What goes wrong, by form.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Trouble {
    None,
    Open,
    Absent,
    Start,
    NeverReady,
    /// Its service ends by itself before it is ready, or while the data set is filled in.
    DiesAtStart,
    DiesWhileFilled,
    /// The same as the first, because another listens at its port.
    LosesItsPort,
    DiesUnderLoad,
    /// It refuses some operations.
    Refuses,
    WrongAnswers,
    OtherBits,
    /// Shows nobody which files its service has mapped.
    HidesBits,
    /// A script is not as in the bundle.
    OtherScript,
    /// What its bundle holds is too much to be compared.
    ManyFiles,
    /// The user wants an end while it is compared.
    StoppedWhileCompared,
    /// The user asks for the end of the run after this block, while it is loaded.
    AskedToEnd,
    /// As many answers take a tenth longer.
    Slow,
    /// It loses a fifth of its rate in turns of 10 ms.
    Cold,
    /// It is opened after so many seconds.
    Takes(u64),
    Close,
    /// The load has a command run inside the form.
    Inside,
    /// It cannot be run.
    InsideFails,
    /// It runs until the user wants an end.
    InsideEndless,
    /// It cannot be profiled.
    NoProfiler,
    /// Its volumes stand nowhere on this machine.
    Nowhere,
    /// What its services leave cannot be kept.
    KeepFails,
    /// A kept copy cannot be restored.
    RestoreFails,
    /// No service starts on a restored copy.
    BadCopy,
    /// A service does not start, and repeats what it was told.
    Blabs,
    /// Its services start without something.
    Lacks,
    /// The service `seed`, which ends by itself, does not do its work.
    SeedFails,
    /// The command that asks its service never succeeds, or only the third time.
    Unwell,
    WellInTime,
}

pub(crate) struct TestApparatus<'a> {
    log: Log,
    clock: &'a TestClock,
    /// By form, and how many times it was opened before.
    troubles: &'a dyn Fn(&str, u32) -> Trouble,
    opened: BTreeMap<String, u32>,
    /// By port: what is wrong with the host that has it, and whether it is dead.
    hosts: BTreeMap<u16, (Trouble, Rc<Cell<bool>>)>,
    /// The data sets that are kept.
    kept: Vec<DataSet>,
    stop_in_run: Option<u32>,
    /// Whether what failed is kept standing for [`KEPT_FOR`], and whether the user then wants an end.
    keeps_failed: Option<bool>,
    stop: Stop,
    runs: u32,
}

/// How long somebody looks into what is kept standing.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(600);

impl TestApparatus<'_> {
    /// What is wrong with the host that was opened last, and whether it is dead.
    fn last(&self) -> (Trouble, Rc<Cell<bool>>) {
        self.hosts.values().next_back().expect("a host is open").clone()
    }
    /// Settles and measures: one second each, however long that takes.
    fn pass_the_time(&self, plan: &LoadPlan, each_second: &mut dyn FnMut(&SecondRow)) {
        for (measured, time) in [(false, plan.settle), (true, plan.measure)] {
            self.clock.sleep(time);
            each_second(&SecondRow { measured, operations: 10, ..SecondRow::default() });
        }
    }
    fn say(&self, what: &str, data: &DataSet) {
        let makers: Vec<&str> = data.makers.iter().map(|maker| maker.name.as_str()).collect();
        let places: Vec<String> = data.places.iter().map(|place| place.display().to_string()).collect();
        self.log.lock().unwrap().push(format!("{what} {} of {}", places.join(" "), makers.join(" ")));
    }
}

impl Apparatus for TestApparatus<'_> {
    fn restore(&mut self, data: &DataSet) -> Result<Restored, Fault> {
        let (trouble, dead) = self.last();
        if !self.kept.contains(data) {
            return Ok(Restored::Missing);
        }
        self.say("restore", data);
        dead.set(true);
        if trouble == Trouble::RestoreFails { Err(Fault::new("no room")) } else { Ok(Restored::Whole) }
    }
    fn keep(&mut self, data: &DataSet) -> Result<(), Fault> {
        self.say("keep", data);
        if self.last().0 == Trouble::KeepFails {
            return Err(Fault::new("no room"));
        }
        self.kept.push(data.clone());
        Ok(())
    }
    fn forget(&mut self, data: &DataSet) -> Result<(), Fault> {
        self.say("forget", data);
        self.kept.retain(|kept| kept != data);
        Ok(())
    }
    fn open_form(&mut self, _: &str, form: &Form, _: &[ServiceStart]) -> Result<Box<dyn Host>, OpenError> {
        self.log.lock().unwrap().push(format!("open {}", form.name));
        let opened = self.opened.entry(form.name.clone()).or_default();
        let trouble = (self.troubles)(&form.name, *opened);
        *opened += 1;
        match trouble {
            Trouble::Open => return Err(OpenError::Failed(Fault::new("it would not open"))),
            Trouble::Absent => return Err(OpenError::Unavailable(Fault::new("none here").remedy("install one"))),
            Trouble::Takes(seconds) => self.clock.sleep(Duration::from_secs(seconds)),
            _ => {}
        }
        let (port, dead) = (7000 + self.hosts.len() as u16, Rc::new(Cell::new(false)));
        self.hosts.insert(port, (trouble, dead.clone()));
        let (form, log, stop) = (form.name.clone(), self.log.clone(), self.stop.clone());
        let gone = BTreeSet::new();
        Ok(Box::new(LoggingHost { form, log, trouble, port, dead, awaited: 0, begun: 0, gone, stop }))
    }
    fn keeps_failed(&self) -> bool {
        self.keeps_failed.is_some()
    }
    fn hold(&mut self, stop: &Stop) {
        self.log.lock().unwrap().push("hold".to_owned());
        self.clock.sleep(KEPT_FOR);
        if self.keeps_failed == Some(true) {
            stop.raise();
        }
    }
    fn reachable(&mut self, endpoint: SocketAddr) -> bool {
        self.hosts[&endpoint.port()].0 != Trouble::NeverReady
    }
    fn drive(
        &mut self,
        plan: &LoadPlan,
        limit: Duration,
        stop: &Stop,
        inside: &mut RunInside,
        each_second: &mut dyn FnMut(&SecondRow),
    ) -> Result<LoadSummary, Fault> {
        let needed = if plan.task == LoadTask::Run { plan.settle + plan.measure } else { Duration::ZERO };
        assert!(limit >= needed, "it is given the time that it needs");
        if let Some(turns) = plan.turns.as_ref().filter(|turns| !turns.beside.is_empty()) {
            let plans: Vec<LoadPlan> = std::iter::once(plan).chain(&turns.beside).cloned().collect();
            assert!(plans.iter().all(|other| other.seed == plan.seed), "all are asked the same things");
            self.log.lock().unwrap().push(format!("turns {:?} {:?}", turns.at_least, turns.compared_to));
            let mut by_load = Vec::new();
            for (at, plan) in plans.into_iter().enumerate() {
                let cpu_by_turn = cpu_by_turn(turns, at);
                let lengths = lengths(turns, self.hosts[&plan.endpoint.port()].0 == Trouble::Cold);
                let alone = LoadPlan { turns: Some(Box::default()), ..plan };
                let driven = self.drive(&alone, limit, stop, inside, each_second);
                by_load.push(driven.map(|load| LoadSummary { lengths, cpu_by_turn, ..load }));
            }
            return Ok(LoadSummary { by_load, ..LoadSummary::default() });
        }
        self.log.lock().unwrap().push(format!("drive {:?}", plan.task));
        if plan.task == LoadTask::Populate
            && let Some((Trouble::DiesWhileFilled, dead)) = self.hosts.get(&plan.endpoint.port())
        {
            dead.set(true);
            return Err(Fault::new("connection reset"));
        }
        if plan.task != LoadTask::Run {
            return Ok(LoadSummary::default());
        }
        self.runs += 1;
        if Some(self.runs) == self.stop_in_run {
            stop.raise();
            return Err(Fault::new("interrupted"));
        }
        if self.hosts[&plan.endpoint.port()].0 == Trouble::AskedToEnd {
            stop.end_after_block(asker());
        }
        self.pass_the_time(plan, each_second);
        let (trouble, dead) = &self.hosts[&plan.endpoint.port()];
        if matches!(trouble, Trouble::Inside | Trouble::InsideFails | Trouble::InsideEndless) {
            if *trouble == Trouble::InsideEndless {
                stop.raise();
            }
            assert_eq!(plan.inside.map(|inside| inside.cpus), Some(1), "the service's CPUs are told");
            assert_eq!(inside(&tool())?.stdout, "fine");
        }
        if *trouble == Trouble::DiesUnderLoad {
            dead.set(true);
            return Err(Fault::new("connection reset"));
        }
        let passed = *trouble != Trouble::WrongAnswers;
        let detail = "10 sent, 10 counted".to_owned();
        let mut checks = vec![Check { always: false, outcome: false, name: "counts".to_owned(), passed, detail }];
        let errors = if *trouble == Trouble::Refuses { 30 } else { 0 };
        if errors > 0 {
            let (name, detail) = ("the service could be reached".to_owned(), "connection refused".to_owned());
            checks.push(Check { always: false, outcome: true, name, passed: false, detail });
        }
        let operations = BTreeMap::from([("GET".to_owned(), OperationSummary { errors, ..operation() })]);
        let failures = BTreeMap::from([("connection refused".to_owned(), errors)]);
        // No two measurements are the same: one per cent up or down.
        let unlike = i64::from(self.runs * 7919 % 21) - 10 + if *trouble == Trouble::Slow { 100 } else { 0 };
        let (measure_start_ns, measure_end_ns) = (1, (1_000_000_001 + unlike * 1_000_000).cast_unsigned());
        let active_ns = measure_end_ns - measure_start_ns;
        Ok(LoadSummary {
            measure_start_ns,
            measure_end_ns,
            operations,
            checks,
            failures,
            turns: plan.turns.as_ref().map(|_| one_turn(active_ns)),
            ..LoadSummary::default()
        })
    }
    fn drive_all(
        &mut self,
        plans: &[LoadPlan],
        limit: Duration,
        stop: &Stop,
        insides: Vec<&mut RunInside>,
        each_second: &mut dyn FnMut(usize, &SecondRow),
    ) -> Vec<Result<LoadSummary, Fault>> {
        assert!(plans[0].cpus != plans[1].cpus, "each has generator's CPUs of its own");
        // The two of a duet are asked the same things, instances of one deployment are not.
        assert_eq!(plans[0].seed == plans[1].seed, !insides.is_empty());
        let mut nothing = |_: &CommandStart| Err(Fault::new("nothing runs inside here"));
        let mut insides = insides.into_iter();
        let mut drive = |(at, plan): (usize, &LoadPlan)| {
            let inside = insides.next().unwrap_or(&mut nothing);
            self.drive(plan, limit, stop, inside, &mut |row| each_second(at, row))
        };
        let mut driven = Vec::new();
        for (at, plan) in plans.iter().enumerate() {
            driven.push(drive((at, plan)));
        }
        driven
    }
}

/// Who asks for the end of a run.
pub(crate) fn asker() -> Asker {
    Asker { user: 0, program: Some("bash".to_owned()) }
}

/// What a load wants run inside the form.
fn tool() -> CommandStart {
    let command = ["tool", "-x"].map(str::to_owned).to_vec();
    CommandStart { command, environment: BTreeMap::new(), directory: "/".into(), within: Duration::from_secs(1) }
}

pub(crate) fn operation() -> OperationSummary {
    let mut histogram = hdrhistogram::Histogram::<u64>::new(3).unwrap();
    histogram.record_n(100_000, 10).unwrap();
    let service_time = tare_testkit::histogram::encode(&histogram);
    OperationSummary { count: 10, response_time: service_time.clone(), service_time, ..Default::default() }
}

pub(crate) fn study(forms: &[&str], repeat: u32) -> (Study, Workload) {
    let second = Duration::from_secs(1);
    let ready = Readiness::Port { port: "main".into(), within: second };
    let toy = Service {
        own_user: false,
        ports: BTreeMap::from([("main".into(), 7000)]),
        stop_within: second,
        ..Service::of("toy", Recipe::plain(Source::Packages(vec!["toy".into()])), vec!["/usr/bin/toy".into()], ready)
    };
    let closed = LoadProfile::Closed { connections: 1, pipeline: 1 };
    let forms = forms.iter().map(|name| Form { name: (*name).into(), ..Form::default() }).collect();
    let (settle, measure, timeout) = (second, second, second);
    let study = Study { repeat, settle, measure, timeout, seed: Some(7), ..Study::of("order", "toy", closed, forms) };
    (study, tare_testkit::sample::workload("toy", vec![toy]))
}

pub(crate) fn header(forms: &[&str], repeat: u32) -> Header {
    let (study, workload) = study(forms, repeat);
    let state =
        FormState { describe: String::new(), emulated: None, unavailable: None, facts: Facts::new(), placement: None };
    Header {
        schema: SCHEMA,
        tare: "0".into(),
        run: "abcdef".into(),
        started: "2026-01-01T00:00:00Z".into(),
        command: "tare run".into(),
        plan: plan(&study, &[], 7),
        forms: forms.iter().map(|name| ((*name).to_owned(), state.clone())).collect(),
        study,
        workload,
        seed: 7,
        environment: Facts::new(),
        topology: None,
        bundles: BTreeMap::new(),
        placement: BTreeMap::new(),
    }
}
