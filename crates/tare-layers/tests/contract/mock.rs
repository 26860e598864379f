//! A layer that starts nothing: it notes down what it is asked to do and can be told to fail. So the contract of layers
//! is held without root, engine or hypervisor, and by a layer of another crate than Tare's own.
//!
//! Its options, with their defaults first: `fail_in: none | open | facts | resources | start | state | mapped_files |
//! files_seen | log | stop | begin_command | await_command | end_command | freeze | thaw | begin_probe | end_probe |
//! close` and `delay: 0s`, which every call takes.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;
use tare_core::command::{CommandEnd, CommandStart, Ended};
use tare_core::config::{Fields, Node, Problems, parse};
use tare_core::fault::Fault;
use tare_core::host::{
    Availability, Facts, FilesSeen, Host, Instance, InstanceState, Layer, LocalOuter, MachineServices, OpenError,
    Property, ResourceReport, SeenFile, ServiceStart, TrialContext, Wait,
};
use tare_core::layer::{LayerOptions, LayerUse};
use tare_core::telemetry::{Scope, TelemetryRow};

/// The layer `mock`.
pub(crate) struct Mock;

/// Its options.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MockOptions {
    fail_in: String,
    delay_ms: u64,
}

impl Layer for Mock {
    type Options = MockOptions;

    const NAME: &'static str = "mock";
    const ABOUT: &'static str =
        "starts nothing and notes down what it is asked to do: for trying out everything above layers";

    fn read(node: &Node, problems: &mut Problems) -> Option<MockOptions> {
        let mut fields = Fields::of(node, "layer 'mock'", problems)?;
        let fail_in = fields.choice("fail_in", &CALLS, problems).unwrap_or("none");
        let delay = fields.duration("delay", problems).unwrap_or(Duration::ZERO);
        fields.finish(problems);
        Some(MockOptions { fail_in: fail_in.to_owned(), delay_ms: delay.as_millis() as u64 })
    }

    fn probe(_: &MockOptions, _: &MachineServices) -> Availability {
        Availability::Ready(Facts::from([("mock".to_owned(), "yes".to_owned())]))
    }

    fn words(_: &Facts) -> String {
        "nothing at all".to_owned()
    }

    fn open(
        options: MockOptions,
        outer: Box<dyn LocalOuter>,
        surroundings: &TrialContext,
    ) -> Result<Box<dyn Host>, OpenError> {
        let mock = MockHost {
            outer: outer.into_host(),
            surroundings: surroundings.clone(),
            fail_in: options.fail_in,
            delay: Duration::from_millis(options.delay_ms),
            running: BTreeSet::new(),
            started: BTreeSet::new(),
            commands: BTreeSet::new(),
            sampling: false,
            frozen: false,
        };
        match mock.note("open", "") {
            Ok(()) => Ok(Box::new(mock)),
            Err(fault) => {
                // The contract: on a failure the outer host has been closed.
                mock.outer.close()?;
                Err(OpenError::Failed(fault))
            }
        }
    }

    fn memory_bytes(_: &MockOptions, _: u64, _: u64) -> u64 {
        0
    }
}

const CALLS: [&str; 18] = [
    "none",
    "open",
    "facts",
    "resources",
    "start",
    "state",
    "mapped_files",
    "files_seen",
    "log",
    "stop",
    "begin_command",
    "await_command",
    "end_command",
    "freeze",
    "thaw",
    "begin_probe",
    "end_probe",
    "close",
];

/// What was asked of each trial's host, by run and trial.
static JOURNAL: Mutex<BTreeMap<(String, String), Vec<String>>> = Mutex::new(BTreeMap::new());

/// What a trial's mock host was asked to do, in order: "open", "start redis", "close" ... Handed over once.
pub(crate) fn take_calls(run: &str, trial: &str) -> Vec<String> {
    let mut journal = JOURNAL.lock().expect("no holder of this lock can panic");
    journal.remove(&(run.to_owned(), trial.to_owned())).unwrap_or_default()
}

struct MockHost {
    outer: Box<dyn Host>,
    surroundings: TrialContext,
    fail_in: String,
    delay: Duration,
    running: BTreeSet<String>,
    started: BTreeSet<String>,
    /// The instances that have a command beside them.
    commands: BTreeSet<String>,
    sampling: bool,
    frozen: bool,
}

impl MockHost {
    /// Notes down a call, takes its time, and fails if it was told to.
    fn note(&self, call: &str, about: &str) -> Result<(), Fault> {
        debug_assert!(CALLS.contains(&call), "{call} cannot be named by 'fail_in'");
        let key = (self.surroundings.run.clone(), self.surroundings.trial.clone());
        let text = format!("{call} {about}").trim_end().to_owned();
        JOURNAL.lock().expect("no holder of this lock can panic").entry(key).or_default().push(text);
        std::thread::sleep(self.delay);
        if self.fail_in == call {
            return Err(Fault::new(format!("the mock layer was told to fail in '{call}'"))
                .remedy("remove 'fail_in' from its options"));
        }
        Ok(())
    }

    fn check_running(&self, instance: &str) -> Result<(), Fault> {
        if self.running.contains(instance) {
            return Ok(());
        }
        Err(Fault::new(format!("no service runs under the name '{instance}'")))
    }
}

impl Host for MockHost {
    fn facts(&mut self) -> Result<Facts, Fault> {
        self.note("facts", "")?;
        let mut facts = self.outer.facts()?;
        facts.insert("mock".to_owned(), "yes".to_owned());
        Ok(facts)
    }

    fn resources(&mut self, start: &ServiceStart) -> Result<ResourceReport, Fault> {
        self.note("resources", &start.instance)?;
        let cpus = start.service.resources.cpus;
        let value = Property { value: cpus.to_string(), number: Some(cpus.into()), tolerance: 0.0, matters: true };
        Ok(ResourceReport { properties: BTreeMap::from([("cpus".to_owned(), value)]) })
    }

    fn start(&mut self, start: &ServiceStart) -> Result<Instance, Fault> {
        self.note("start", &start.instance)?;
        if !self.running.insert(start.instance.clone()) {
            return Err(Fault::new(format!("a service runs under the name '{}' already", start.instance)));
        }
        self.started.insert(start.instance.clone());
        let endpoint = |port: &u16| SocketAddr::new(self.surroundings.address, *port);
        let ports = start.service.ports.iter();
        Ok(Instance {
            instance: start.instance.clone(),
            endpoints: ports.map(|(name, port)| (name.clone(), endpoint(port))).collect(),
            peers: BTreeMap::new(),
            path: "nowhere: nothing was started".to_owned(),
            cpus: start.cpus.clone(),
            warnings: Vec::new(),
        })
    }

    fn state(&mut self, instance: &str) -> Result<InstanceState, Fault> {
        self.note("state", instance)?;
        self.check_running(instance).map(|()| InstanceState::Running)
    }

    fn mapped_files(&mut self, instance: &str, _: Wait) -> Result<Vec<SeenFile>, Fault> {
        self.note("mapped_files", instance)?;
        self.check_running(instance)?;
        Ok(vec![SeenFile { path: "/nothing".to_owned(), digest: format!("sha256:{}", "0".repeat(64)) }])
    }

    fn files_seen(&mut self, start: &ServiceStart, _: Option<&[SeenFile]>, _: Wait) -> Result<FilesSeen, Fault> {
        self.note("files_seen", &start.instance)?;
        self.check_running(&start.instance)?;
        Ok(FilesSeen::default())
    }

    fn log(&mut self, instance: &str) -> Result<String, Fault> {
        self.note("log", instance)?;
        if !self.started.contains(instance) {
            return Err(Fault::new(format!("no service was started under the name '{instance}'")));
        }
        Ok(String::new())
    }

    fn stop(&mut self, instance: &str) -> Result<(), Fault> {
        self.note("stop", instance)?;
        self.check_running(instance)?;
        self.running.remove(instance);
        self.commands.remove(instance);
        Ok(())
    }

    fn begin_command(&mut self, instance: &str, _: &CommandStart) -> Result<(), Fault> {
        self.note("begin_command", instance)?;
        self.check_running(instance)?;
        if !self.commands.insert(instance.to_owned()) {
            return Err(Fault::new(format!("a command runs beside '{instance}' already")));
        }
        Ok(())
    }

    fn await_command(&mut self, instance: &str, _: Duration) -> Result<Option<CommandEnd>, Fault> {
        self.note("await_command", instance)?;
        if !self.commands.remove(instance) {
            return Err(Fault::new(format!("no command runs beside '{instance}'")));
        }
        Ok(Some(CommandEnd {
            ended: Ended::Exit(0),
            stdout: String::new(),
            stderr: String::new(),
            took: self.delay,
            cpu_s: Some(0.0),
        }))
    }

    fn end_command(&mut self, instance: &str) -> Result<(), Fault> {
        self.note("end_command", instance)?;
        self.commands.remove(instance);
        Ok(())
    }

    fn freeze(&mut self) -> Result<(), Fault> {
        self.note("freeze", "")?;
        self.frozen = true;
        Ok(())
    }

    fn thaw(&mut self) -> Result<(), Fault> {
        if std::mem::take(&mut self.frozen) { self.note("thaw", "") } else { Ok(()) }
    }

    fn begin_probe(&mut self, _: &[Scope], _: Duration) -> Result<(), Fault> {
        self.note("begin_probe", "")?;
        self.sampling = true;
        Ok(())
    }

    fn end_probe(&mut self) -> Result<Vec<TelemetryRow>, Fault> {
        self.note("end_probe", "")?;
        if !std::mem::take(&mut self.sampling) {
            return Err(Fault::new("this host is not being sampled"));
        }
        Ok(Vec::new())
    }

    fn open(self: Box<Self>, layer: &LayerUse, _: &TrialContext) -> Result<Box<dyn Host>, OpenError> {
        let fault = Fault::new(format!("nothing can be opened in a mock layer, not even '{}'", layer.layer));
        self.close()?;
        Err(OpenError::Unavailable(fault.remedy("make 'mock' the innermost layer")))
    }

    fn close(self: Box<Self>) -> Result<(), Fault> {
        let noted = self.note("close", "");
        // Even when told to fail it must leave nothing behind.
        self.outer.close()?;
        noted
    }
}

/// What is read of options is written down with all defaults.
pub(crate) fn options_are_written_down() {
    let read = |text: &str| {
        let mut problems = Problems::new("s.yaml", text);
        let node = parse(text, &mut problems).unwrap();
        let value = LayerOptions::read(&Mock, &node, &mut problems);
        (value, problems.len())
    };
    assert_eq!(read("{}"), (Some(serde_json::json!({ "fail_in": "none", "delay_ms": 0 })), 0));
    let (value, problems) = read("{fail_in: start, delay: 20ms}");
    assert_eq!((value.unwrap()["delay_ms"].as_u64(), problems), (Some(20), 0));
    assert_eq!(read("{fail_in: strat}").1, 1);
}
