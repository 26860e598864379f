//! The order in which a run does things, what it keeps when something fails, and how it goes on: on hosts that only
//! write down what is asked of them, under a clock that only the test moves.

use base64::Engine;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tare_core::bundle::{Recipe, Source};
use tare_core::fault::Fault;
use tare_core::form::{Form, LayerUse};
use tare_core::host::{
    Facts, Host, Instance, InstanceState, MappedFile, OpenError, Property, ResourceReport, ServiceStart, Surroundings,
};
use tare_core::load::{Check, LoadPlan, LoadProfile, LoadSummary, LoadTask, OperationSummary, SecondRow};
use tare_core::plan::plan;
use tare_core::record::{FormState, Header, SCHEMA};
use tare_core::study::{LoadOrigin, Study};
use tare_core::telemetry::{Scope, TelemetryRow};
use tare_core::trial::{Outcome, Stage};
use tare_core::units::CpuSet;
use tare_core::workload::{ProtocolUse, Readiness, Resources, Service, Workload};
use tare_runner::{Apparatus, Clock, Ending, Event, RecordDir, Run, Stop, read_record};

#[derive(Default)]
struct TestClock(Cell<Duration>);

impl Clock for TestClock {
    fn now(&self) -> Duration {
        self.0.get()
    }
    fn timestamp(&self) -> String {
        format!("2026-01-01T00:00:{:02}Z", self.0.get().as_secs() % 60)
    }
    fn sleep(&self, time: Duration) {
        self.0.set(self.0.get() + time);
    }
}

type Log = Arc<Mutex<Vec<String>>>;

/// What goes wrong, by form.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    None,
    Open,
    Absent,
    Start,
    NeverReady,
    DiesUnderLoad,
    WrongAnswers,
    OtherBits,
    Close,
}

struct LoggingHost {
    log: Log,
    trouble: Trouble,
    dead: Rc<Cell<bool>>,
}

// SAFETY: the host never leaves the test's thread; `Host` asks for Send because real ones may.
unsafe impl Send for LoggingHost {}

impl LoggingHost {
    fn say(&self, what: &str) {
        self.log.lock().unwrap().push(what.to_owned());
    }
}

impl Host for LoggingHost {
    fn facts(&mut self) -> Result<Facts, Fault> {
        Ok(BTreeMap::from([("kernel".to_owned(), "1".to_owned())]))
    }
    fn resources(&mut self, _: &ServiceStart) -> Result<ResourceReport, Fault> {
        self.say("resources");
        let cpus = Property { value: "1".to_owned(), number: Some(1.0), tolerance: 0.0, matters: true };
        Ok(ResourceReport { properties: BTreeMap::from([("cpus".to_owned(), cpus)]) })
    }
    fn start(&mut self, start: &ServiceStart) -> Result<Instance, Fault> {
        self.say(&format!("start {}", start.instance));
        if self.trouble == Trouble::Start {
            return Err(Fault::new("port 7000 is taken"));
        }
        let endpoints = BTreeMap::from([("main".to_owned(), "127.0.0.1:7000".parse().unwrap())]);
        Ok(Instance { instance: start.instance.clone(), endpoints, path: "direct".to_owned() })
    }
    fn state(&mut self, _: &str) -> Result<InstanceState, Fault> {
        let died = self.trouble == Trouble::DiesUnderLoad && self.dead.get();
        Ok(if died { InstanceState::Ended("killed by signal 9".to_owned()) } else { InstanceState::Running })
    }
    fn mapped_files(&mut self, _: &str) -> Result<Vec<MappedFile>, Fault> {
        let digest = if self.trouble == Trouble::OtherBits { "sha256:bb" } else { "sha256:aa" };
        Ok(vec![MappedFile { path: "/usr/bin/toy".to_owned(), digest: digest.to_owned() }])
    }
    fn log(&mut self, _: &str) -> Result<String, Fault> {
        Ok("the last words".to_owned())
    }
    fn stop(&mut self, instance: &str) -> Result<(), Fault> {
        self.say(&format!("stop {instance}"));
        Ok(())
    }
    fn begin_probe(&mut self, _: &[Scope], _: Duration) -> Result<(), Fault> {
        self.say("begin probe");
        Ok(())
    }
    fn end_probe(&mut self) -> Result<Vec<TelemetryRow>, Fault> {
        self.say("end probe");
        Ok(Vec::new())
    }
    fn open(self: Box<Self>, _: &LayerUse, _: &Surroundings) -> Result<Box<dyn Host>, OpenError> {
        unreachable!("the runner leaves layers to the apparatus")
    }
    fn close(self: Box<Self>) -> Result<(), Fault> {
        self.say("close");
        if self.trouble == Trouble::Close { Err(Fault::new("a mount is left")) } else { Ok(()) }
    }
}

struct TestApparatus<'a> {
    log: Log,
    clock: &'a TestClock,
    troubles: BTreeMap<String, Trouble>,
    now: Trouble,
    dead: Rc<Cell<bool>>,
    stop_in_run: Option<u32>,
    runs: u32,
}

impl Apparatus for TestApparatus<'_> {
    fn open_form(&mut self, _: &str, form: &Form, _: &[ServiceStart]) -> Result<Box<dyn Host>, OpenError> {
        self.log.lock().unwrap().push(format!("open {}", form.name));
        self.now = self.troubles.get(&form.name).copied().unwrap_or(Trouble::None);
        self.dead.set(false);
        match self.now {
            Trouble::Open => Err(OpenError::Failed(Fault::new("it would not open"))),
            Trouble::Absent => Err(OpenError::Unavailable(Fault::new("none here").remedy("install one"))),
            trouble => Ok(Box::new(LoggingHost { log: self.log.clone(), trouble, dead: self.dead.clone() })),
        }
    }
    fn reachable(&mut self, _: SocketAddr) -> bool {
        self.now != Trouble::NeverReady
    }
    fn drive(
        &mut self,
        plan: &LoadPlan,
        _: Duration,
        stop: &Stop,
        each_second: &mut dyn FnMut(&SecondRow),
    ) -> Result<LoadSummary, Fault> {
        self.log.lock().unwrap().push(format!("drive {:?}", plan.task));
        if plan.task != LoadTask::Run {
            return Ok(LoadSummary::default());
        }
        self.runs += 1;
        if Some(self.runs) == self.stop_in_run {
            stop.raise();
            return Err(Fault::new("interrupted"));
        }
        for measured in [false, true] {
            self.clock.sleep(Duration::from_secs(1));
            each_second(&SecondRow { measured, operations: 10, ..SecondRow::default() });
        }
        if self.now == Trouble::DiesUnderLoad {
            self.dead.set(true);
            return Err(Fault::new("connection reset"));
        }
        let passed = self.now != Trouble::WrongAnswers;
        let check = Check { name: "counts".to_owned(), passed, detail: "10 sent, 10 counted".to_owned() };
        let operations = BTreeMap::from([("GET".to_owned(), operation())]);
        let (measure_start_ns, measure_end_ns) = (1, 1_000_000_001);
        Ok(LoadSummary { measure_start_ns, measure_end_ns, operations, checks: vec![check], ..LoadSummary::default() })
    }
}

fn operation() -> OperationSummary {
    let mut histogram = hdrhistogram::Histogram::<u64>::new(3).unwrap();
    histogram.record_n(100_000, 10).unwrap();
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
    let service_time = base64::engine::general_purpose::STANDARD.encode(bytes);
    OperationSummary { count: 10, errors: 0, response_time: service_time.clone(), service_time }
}

fn study(forms: &[&str], repeat: u32) -> (Study, Workload) {
    let service = Service {
        name: "toy".into(),
        recipe: Recipe { source: Source::Packages(vec!["toy".into()]), files: Vec::new() },
        command: vec!["/usr/bin/toy".into()],
        environment: BTreeMap::new(),
        user: (65534, 65534),
        ports: BTreeMap::from([("main".into(), 7000)]),
        ready: Readiness::Port { port: "main".into(), within: Duration::from_secs(1) },
        volumes: BTreeMap::new(),
        resources: Resources { cpus: 1, cpu_quota: None, memory_bytes: 64 << 20 },
        stop_within: Duration::from_secs(1),
        options: BTreeMap::new(),
    };
    let spoken = ProtocolUse {
        protocol: "null".into(),
        service: "toy".into(),
        port: "main".into(),
        options: serde_json::Value::Null,
    };
    let workload =
        Workload { name: "toy".into(), about: String::new(), services: vec![service], protocol: spoken, qos: None };
    let study = Study {
        name: "order".into(),
        question: String::new(),
        workload: "toy".into(),
        baseline: forms[0].into(),
        repeat,
        at_most: None,
        from: LoadOrigin::Outside,
        load: LoadProfile::Closed { connections: 1, pipeline: 1 },
        settle: Duration::from_secs(1),
        measure: Duration::from_secs(1),
        timeout: Duration::from_secs(1),
        design: Default::default(),
        qos: None,
        peak: None,
        emulated_blocks: 1,
        forms: forms.iter().map(|name| Form { name: (*name).into(), layers: Vec::new() }).collect(),
        options: BTreeMap::new(),
        seed: Some(7),
    };
    (study, workload)
}

fn header(forms: &[&str], repeat: u32) -> Header {
    let (study, workload) = study(forms, repeat);
    let state = FormState { describe: String::new(), emulated: None, unavailable: None, facts: Facts::new() };
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
        bundles: BTreeMap::new(),
        placement: BTreeMap::new(),
    }
}

struct Ran {
    log: Vec<String>,
    ending: Ending,
    events: Vec<Event>,
}

fn run(path: &Path, header: &Header, troubles: &[(&str, Trouble)], stop_in_run: Option<u32>) -> Ran {
    let clock = TestClock::default();
    let log = Log::default();
    let mut apparatus = TestApparatus {
        log: log.clone(),
        clock: &clock,
        troubles: troubles.iter().map(|(form, trouble)| ((*form).to_owned(), *trouble)).collect(),
        now: Trouble::None,
        dead: Rc::default(),
        stop_in_run,
        runs: 0,
    };
    let (record, done) = if path.join("record.json").exists() {
        let done = read_record(path).unwrap().trials.into_iter().map(|trial| trial.record).collect();
        (RecordDir::open(path).unwrap(), done)
    } else {
        (RecordDir::create(path, header).unwrap(), Vec::new())
    };
    let cpus = CpuSet::new([0]);
    let run = Run { header, generator_cpus: cpus.clone(), service_cpus: cpus, record, done };
    let mut events = Vec::new();
    let ending = run.carry_out(&mut apparatus, &clock, &Stop::default(), &mut |event| events.push(event.clone()));
    let log = log.lock().unwrap().clone();
    Ran { log, ending: ending.unwrap(), events }
}

fn outcomes(path: &Path) -> BTreeMap<String, Vec<Outcome>> {
    let mut outcomes: BTreeMap<String, Vec<Outcome>> = BTreeMap::new();
    for trial in read_record(path).unwrap().trials {
        outcomes.entry(trial.record.trial.arm()).or_default().push(trial.record.outcome);
    }
    outcomes
}

#[test]
fn a_trial_goes_through_its_stages_in_order_and_leaves_nothing_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let ran = run(&path, &header(&["plain"], 1), &[], None);
    let one = [
        "open plain",
        "resources",
        "start toy",
        "drive Ready",
        "drive Populate",
        "begin probe",
        "drive Run",
        "end probe",
        "stop toy",
        "close",
    ];
    // The control comes second, on a deployment of its own, without another resource probe.
    let wanted: Vec<&str> = one.iter().chain(one.iter().filter(|step| **step != "resources")).copied().collect();
    assert_eq!(ran.log, wanted);
    assert_eq!(ran.ending, Ending::Complete);
    let stages: Vec<Stage> = ran
        .events
        .iter()
        .filter_map(|e| if let Event::StageStarted { stage } = e { Some(*stage) } else { None })
        .collect();
    use Stage::{Deploy, Measure, Populate, Provision, Settle, Teardown, Verify};
    assert_eq!(stages[..7], [Provision, Deploy, Populate, Settle, Measure, Verify, Teardown]);
    assert!(read_record(&path).unwrap().end.is_some_and(|end| end.how == "complete"));
}

#[test]
fn every_trouble_is_a_row_and_the_other_trials_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let troubles = [
        ("a-open", Trouble::Open),
        ("b-absent", Trouble::Absent),
        ("c-start", Trouble::Start),
        ("d-never-ready", Trouble::NeverReady),
        ("e-dies", Trouble::DiesUnderLoad),
        ("f-wrong", Trouble::WrongAnswers),
        ("h-close", Trouble::Close),
    ];
    let mut forms = vec!["plain"];
    forms.extend(troubles.iter().map(|(form, _)| *form));
    let ran = run(&path, &header(&forms, 2), &troubles, None);
    assert_eq!(ran.ending, Ending::Complete);
    let outcomes = outcomes(&path);
    assert_eq!(outcomes["plain"], [Outcome::Measured, Outcome::Measured]);
    assert_eq!(outcomes["h-close"], [Outcome::Measured, Outcome::Measured]);
    let check = |form: &str, stage: Stage, text: &str| {
        for outcome in &outcomes[form] {
            assert!(matches!(outcome, Outcome::Failed { stage: at, .. } if *at == stage), "{form}: {outcome:?}");
            assert!(outcome.why().unwrap().message.contains(text), "{form}: {outcome:?}");
        }
    };
    check("a-open", Stage::Provision, "would not open");
    check("c-start", Stage::Deploy, "port 7000 is taken");
    check("d-never-ready", Stage::Deploy, "not ready within");
    check("e-dies", Stage::Measure, "killed by signal 9");
    assert!(matches!(&outcomes["b-absent"][0], Outcome::Skipped { why } if why.remedy == "install one"));
    assert!(matches!(&outcomes["f-wrong"][0], Outcome::Invalid { why } if why.message.contains("counts")));
    // Whatever was opened was closed.
    let count = |what: &str| ran.log.iter().filter(|line| line.starts_with(what)).count();
    let refused = outcomes["a-open"].len() + outcomes["b-absent"].len();
    assert_eq!(count("open"), count("close") + refused);
}

#[test]
fn other_bits_void_a_trial() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    run(&path, &header(&["plain", "other"], 2), &[("other", Trouble::OtherBits)], None);
    let record = read_record(&path).unwrap();
    let invalid: Vec<_> = record.trials.iter().filter(|t| t.record.outcome.word() == "invalid").collect();
    assert!(!invalid.is_empty());
    let why = invalid[0].record.outcome.why().unwrap();
    assert!(why.message.contains("/usr/bin/toy is sha256:"), "{why}");
}

#[test]
fn an_interrupted_run_goes_on_without_losing_or_repeating_a_trial() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let header = header(&["plain", "boxed"], 3);
    let first = run(&path, &header, &[], Some(4));
    assert_eq!(first.ending, Ending::Interrupted);
    assert_eq!(read_record(&path).unwrap().trials.len(), 3);
    assert_eq!(first.log.last().map(String::as_str), Some("close"), "the trial under way was taken down");
    let second = run(&path, &header, &[], None);
    assert_eq!(second.ending, Ending::Complete);
    assert_eq!(second.log.iter().filter(|line| *line == "drive Run").count(), 9 - 3);
    assert_eq!(read_record(&path).unwrap().trials.len(), 9);
}

#[test]
fn no_block_is_begun_that_would_end_too_late() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let mut header = header(&["plain"], 10);
    // Two arms of 2 s each: a block takes 4 s.
    header.study.at_most = Some(Duration::from_secs(9));
    let ran = run(&path, &header, &[], None);
    assert_eq!(ran.ending, Ending::BudgetSpent);
    assert_eq!(read_record(&path).unwrap().trials.len(), 4);
}

#[test]
fn a_record_is_never_overwritten_and_a_damaged_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let header = header(&["plain"], 1);
    run(&path, &header, &[], None);
    assert!(RecordDir::create(&path, &header).unwrap_err().message.contains("never overwritten"));
    std::fs::write(path.join("trials/0000/trial.json"), "{").unwrap();
    assert!(read_record(&path).unwrap_err().message.contains("damaged"));
    assert!(read_record(folder.path()).unwrap_err().message.contains("no record.json"));
}
