//! A host that starts nothing, notes down what it is asked for, and fails as its form's trouble says.

use super::{Log, Trouble};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use tare_core::command::{CommandEnd, CommandStart, Ended};
use tare_core::fault::Fault;
use tare_core::held::Held;
use tare_core::host::{
    Facts, FilesSeen, Host, Instance, InstanceState, OpenError, Property, ResourceReport, SeenFile, ServiceStart,
    TrialContext, Wait, WayIn,
};
use tare_core::layer::LayerUse;
use tare_core::profile::{Profile, Stack};
use tare_core::telemetry::{Rest, Scope, TelemetryRow};
use tare_runner::Stop;

pub(crate) struct LoggingHost {
    pub(super) form: String,
    pub(super) log: Log,
    pub(super) trouble: Trouble,
    pub(super) port: u16,
    pub(super) dead: Rc<Cell<bool>>,
    /// How often a command was waited for, and how many were begun.
    pub(super) awaited: u32,
    pub(super) begun: u32,
    /// What was stopped: nobody may ask for it any more.
    pub(super) gone: BTreeSet<String>,
    /// The run's.
    pub(super) stop: Stop,
}

// SAFETY: the host never leaves the test's thread; `Host` asks for Send because real ones may.
unsafe impl Send for LoggingHost {}

impl LoggingHost {
    fn say(&self, what: &str) {
        self.log.lock().unwrap().push(what.to_owned());
    }

    fn expect(&self, instance: &str) {
        assert!(!self.gone.contains(instance), "{instance} was stopped");
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
        self.gone.remove(&start.instance);
        if self.trouble == Trouble::BadCopy && self.dead.get() {
            return Err(Fault::new("the files are damaged"));
        }
        if self.trouble == Trouble::Blabs {
            let told = &start.service.environment["KEY"];
            self.say(&format!("told {told}"));
            return Err(Fault::new(format!("KEY={told} is wrong")).with_log(format!("not {told}!")));
        }
        if self.trouble == Trouble::Start {
            return Err(Fault::new("port 7000 is taken"));
        }
        let endpoints = BTreeMap::from([("main".to_owned(), SocketAddr::from(([127, 0, 0, 1], self.port)))]);
        let (instance, path) = (start.instance.clone(), "direct".to_owned());
        let warnings =
            (self.trouble == Trouble::Lacks).then(|| format!("{instance} has no name")).into_iter().collect();
        Ok(Instance { instance, endpoints, peers: BTreeMap::new(), path, cpus: None, warnings })
    }
    fn volumes(&self, start: &ServiceStart) -> Option<Vec<PathBuf>> {
        let place = |at: usize| Path::new("/places").join(&start.instance).join(at.to_string());
        (self.trouble != Trouble::Nowhere).then(|| (0..start.service.volumes.len()).map(place).collect())
    }
    fn state(&mut self, instance: &str) -> Result<InstanceState, Fault> {
        self.expect(instance);
        if instance == "seed" {
            let code = if self.trouble == Trouble::SeedFails { 3 } else { 0 };
            return Ok(InstanceState::Ended(format!("exit code {code}")));
        }
        let at_start = matches!(self.trouble, Trouble::DiesAtStart | Trouble::LosesItsPort);
        let dies = matches!(self.trouble, Trouble::DiesUnderLoad | Trouble::DiesWhileFilled);
        let died = at_start || (dies && self.dead.get());
        Ok(if died { InstanceState::Ended("killed by signal 9".to_owned()) } else { InstanceState::Running })
    }
    fn mapped_files(&mut self, instance: &str, _: Wait) -> Result<Vec<SeenFile>, Fault> {
        self.expect(instance);
        if self.trouble == Trouble::HidesBits {
            return Ok(Vec::new());
        }
        let digest = if self.trouble == Trouble::OtherBits { "sha256:bb" } else { "sha256:aa" };
        Ok(vec![SeenFile { path: "/usr/bin/toy".to_owned(), digest: digest.to_owned() }])
    }
    fn files_seen(&mut self, start: &ServiceStart, _: Option<&[SeenFile]>, wait: Wait) -> Result<FilesSeen, Fault> {
        self.say(&format!("files of {}", start.instance));
        if self.trouble == Trouble::ManyFiles {
            return Err(Fault::new("its bundle has too many"));
        }
        if self.trouble == Trouble::StoppedWhileCompared {
            self.stop.raise();
        }
        wait.check()?;
        let differing = if self.trouble == Trouble::OtherScript { vec!["/app.py".to_owned()] } else { Vec::new() };
        Ok(FilesSeen { compared: 7, differing, ..FilesSeen::default() })
    }
    fn log(&mut self, instance: &str) -> Result<String, Fault> {
        self.expect(instance);
        let port = self.trouble == Trouble::LosesItsPort;
        Ok(if port { "bind: Address already in use" } else { "the last words" }.to_owned())
    }
    fn ways_in(&mut self, instance: &str) -> Vec<WayIn> {
        self.expect(instance);
        vec![WayIn::new(WayIn::SHELL, format!("enter {instance} of {}", self.form))]
    }
    fn begin_command(&mut self, instance: &str, command: &CommandStart) -> Result<(), Fault> {
        self.say(&format!("begin {} beside {instance}", command.command.join(" ")));
        self.begun += 1;
        Ok(())
    }
    fn await_command(&mut self, _: &str, patience: Duration) -> Result<Option<CommandEnd>, Fault> {
        self.awaited += 1;
        match self.trouble {
            Trouble::InsideFails => Err(Fault::new("could not run tool: no such file")),
            Trouble::InsideEndless => Ok(None),
            _ if !self.awaited.is_multiple_of(3) => Ok(None),
            trouble => Ok(Some(CommandEnd {
                ended: match trouble {
                    Trouble::Unwell => Ended::Exit(1),
                    Trouble::WellInTime if self.begun < 3 => Ended::Late,
                    _ => Ended::Exit(0),
                },
                stdout: "fine".to_owned(),
                stderr: if trouble == Trouble::Unwell { "but not yet".to_owned() } else { String::new() },
                took: patience,
                cpu_s: None,
            })),
        }
    }
    fn end_command(&mut self, instance: &str) -> Result<(), Fault> {
        self.say(&format!("end the command beside {instance}"));
        Ok(())
    }
    fn freeze(&mut self) -> Result<(), Fault> {
        self.say(&format!("freeze {}", self.form));
        Ok(())
    }
    fn thaw(&mut self) -> Result<(), Fault> {
        self.say(&format!("thaw {}", self.form));
        Ok(())
    }
    fn held(&mut self) -> Result<Vec<Held>, Fault> {
        self.say(&format!("held {}", self.form));
        Ok(vec![Held::Group("/nowhere".into())])
    }
    fn serving(&mut self) -> Result<Vec<Scope>, Fault> {
        Ok(vec![Scope { name: self.form.clone(), serving: true, pids: Vec::new(), cgroups: Vec::new() }])
    }
    fn stop(&mut self, instance: &str) -> Result<(), Fault> {
        self.say(&format!("stop {instance}"));
        self.expect(instance);
        self.gone.insert(instance.to_owned());
        Ok(())
    }
    fn begin_probe(&mut self, _: &[Scope], _: Duration) -> Result<(), Fault> {
        self.say("begin probe");
        Ok(())
    }
    fn rest_probe(&mut self, rests: &[Rest]) -> Result<(), Fault> {
        let told = |rest: &Rest| format!("{:?} for {:?}", rest.after, rest.lasts);
        self.say(&format!("rest at {}", rests.iter().map(told).collect::<Vec<_>>().join(", ")));
        Ok(())
    }
    fn end_probe(&mut self) -> Result<Vec<TelemetryRow>, Fault> {
        self.say("end probe");
        Ok(Vec::new())
    }
    fn begin_profile(&mut self, _: &[Scope]) -> Result<(), Fault> {
        self.say("begin profile");
        if self.trouble == Trouble::NoProfiler { Err(Fault::new("nothing can be watched")) } else { Ok(()) }
    }
    fn end_profile(&mut self, from_ns: u64, to_ns: u64) -> Result<Profile, Fault> {
        self.say("end profile");
        let stacks = vec![Stack { frames: vec!["toy".to_owned(), "main".to_owned()], samples: 3 }];
        let calls = BTreeMap::from([("toy".to_owned(), BTreeMap::from([("read".to_owned(), 10.0)]))]);
        Ok(Profile { from_ns, to_ns, stacks_per_s: 10, calls, stacks, ..Profile::default() })
    }
    fn open(self: Box<Self>, _: &LayerUse, _: &TrialContext) -> Result<Box<dyn Host>, OpenError> {
        unreachable!("the runner leaves layers to the apparatus")
    }
    fn close(self: Box<Self>) -> Result<(), Fault> {
        self.say("close");
        if self.trouble == Trouble::Close { Err(Fault::new("a mount is left")) } else { Ok(()) }
    }
}
