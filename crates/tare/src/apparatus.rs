//! The real apparatus: layers opened on this machine, load driven by a process of its own.

use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::form::Form;
use tare_core::host::{Carrier, Host, OpenError, ServiceStart, Surroundings};
use tare_core::load::{LoadLine, LoadOrder, LoadPlan, LoadSummary, LoadTask, SecondRow, WindowRow};
use tare_core::units::CpuSet;
use tare_layers::leftovers;
use tare_layers::local::LocalHost;
use tare_layers::network::{GeneratorSeat, free_subnets};
use tare_runner::{Apparatus, Stop};

/// How long a connection may take to be accepted when readiness is asked for.
const CONNECT_LIMIT: Duration = Duration::from_millis(500);
/// How long a load process may take to end when it is told to.
const END_WITHIN: Duration = Duration::from_secs(2);
/// The end of the load process's standard error that is kept for a message.
const STDERR_KEPT: usize = 4096;

/// This machine, as a run uses it.
pub(crate) struct Machine {
    pub(crate) run: String,
    pub(crate) carrier: Arc<Carrier>,
    /// Where the load comes from; none puts it on the host's loopback.
    pub(crate) seat: Option<GeneratorSeat>,
    pub(crate) address: IpAddr,
    pub(crate) subnets: (u8, u8),
    pub(crate) cpus: CpuSet,
    pub(crate) scratch: PathBuf,
}

impl Apparatus for Machine {
    fn open_form(&mut self, label: &str, form: &Form, services: &[ServiceStart]) -> Result<Box<dyn Host>, OpenError> {
        let around = self.surroundings(label, services);
        let host = LocalHost::new(self.carrier.clone(), Surroundings { inner: form.layers.clone(), ..around.clone() })?;
        open_layers(Box::new(host), form, &around)
    }

    fn open_beside(
        &mut self,
        label: &str,
        place: u8,
        form: &Form,
        services: &[ServiceStart],
    ) -> Result<Box<dyn Host>, OpenError> {
        let Some(seat) = &self.seat else {
            let fault = Fault::new("forms cannot stand side by side when load comes from the host's loopback");
            return Err(OpenError::Unavailable(fault.remedy("use `from: outside` or `design: blocks`")));
        };
        let around = Surroundings { place, ..self.surroundings(label, services) };
        if form.layers.is_empty() {
            // A plain process listens at every address, so that its ports would be taken twice.
            let host = LocalHost::in_room(self.carrier.clone(), around, seat.room(place)?)?;
            return Ok(Box::new(host));
        }
        // What stands already has taken the subnets before.
        let around = Surroundings { address: seat.address_beside(place)?, subnets: free_subnets()?, ..around };
        let host = LocalHost::new(self.carrier.clone(), Surroundings { inner: form.layers.clone(), ..around.clone() })?;
        open_layers(Box::new(host), form, &around)
    }

    fn reachable(&mut self, endpoint: SocketAddr) -> bool {
        let Some(seat) = &self.seat else { return TcpStream::connect_timeout(&endpoint, CONNECT_LIMIT).is_ok() };
        seat.reach(endpoint, CONNECT_LIMIT).is_ok()
    }

    fn drive(
        &mut self,
        plan: &LoadPlan,
        limit: Duration,
        stop: &Stop,
        each_second: &mut dyn FnMut(&SecondRow),
    ) -> Result<LoadSummary, Fault> {
        let mut driver = self.driver(plan)?;
        driver.told = None;
        driver.wait(plan.task, limit, stop, each_second, &mut |_| LoadOrder::End)
    }

    fn guide(
        &mut self,
        plan: &LoadPlan,
        limit: Duration,
        stop: &Stop,
        each_second: &mut dyn FnMut(&SecondRow),
        next: &mut dyn FnMut(Option<&WindowRow>) -> LoadOrder,
    ) -> Result<LoadSummary, Fault> {
        let mut driver = self.driver(plan)?;
        driver.tell(&next(None))?;
        driver.wait(plan.task, limit, stop, each_second, next)
    }

    fn drive_both(
        &mut self,
        plans: [&LoadPlan; 2],
        limit: Duration,
        stop: &Stop,
        each_second: &mut dyn FnMut(usize, &SecondRow),
    ) -> [Result<LoadSummary, Fault>; 2] {
        let start = |plan: &LoadPlan| -> Result<Driver, Fault> {
            let mut driver = self.driver(plan)?;
            driver.told = None;
            Ok(driver)
        };
        let [first, second] = plans.map(|plan| (start(plan), plan.task));
        let (other_stop, (second, task)) = (stop.clone(), second);
        // The second one's seconds come when both are over: nobody could look at two lines at once.
        let other = std::thread::spawn(move || {
            let mut rows = Vec::new();
            let done = second.and_then(|mut driver| {
                driver.wait(task, limit, &other_stop, &mut |row: &SecondRow| rows.push(row.clone()), &mut |_| {
                    LoadOrder::End
                })
            });
            (done, rows)
        });
        let (driver, task) = first;
        let done = driver.and_then(|mut driver| {
            driver.wait(task, limit, stop, &mut |row| each_second(0, row), &mut |_| LoadOrder::End)
        });
        let (other, rows) = other.join().expect("waiting for a load process does not panic");
        rows.iter().for_each(|row| each_second(1, row));
        [done, other]
    }
}

impl Machine {
    fn driver(&self, plan: &LoadPlan) -> Result<Driver, Fault> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("drive").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that Ctrl-C reaches Tare only, which then decides.
        command.process_group(0);
        leftovers::mark_process(&self.run, &mut command);
        if let Some(seat) = &self.seat {
            seat.enter(&mut command);
        }
        Driver::start(command, plan)
    }

    fn surroundings(&self, label: &str, services: &[ServiceStart]) -> Surroundings {
        Surroundings {
            run: self.run.clone(),
            trial: label.to_owned(),
            scratch: self.scratch.join(label),
            address: self.address,
            subnets: self.subnets,
            cpus: self.cpus.clone(),
            services: services.to_vec(),
            inner: Vec::new(),
            place: 0,
        }
    }
}

/// Opens the layers of a form on this machine, outermost first.
fn open_layers(mut host: Box<dyn Host>, form: &Form, around: &Surroundings) -> Result<Box<dyn Host>, OpenError> {
    for (at, layer) in form.layers.iter().enumerate() {
        host = host.open(layer, &Surroundings { inner: form.layers[at + 1..].to_vec(), ..around.clone() })?;
    }
    Ok(host)
}

/// A load process under way; killed when dropped.
pub(crate) struct Driver {
    child: Child,
    /// Where orders go, while the load is guided.
    told: Option<ChildStdin>,
    lines: Receiver<Result<LoadLine, Fault>>,
    stderr: std::thread::JoinHandle<String>,
}

impl Driver {
    pub(crate) fn start(mut command: Command, plan: &LoadPlan) -> Result<Driver, Fault> {
        let mut child = command.spawn().doing("start the load process")?;
        let mut stdin = child.stdin.take().expect("standard input is piped");
        let stdout = child.stdout.take().expect("standard output is piped");
        let mut stderr = child.stderr.take().expect("standard error is piped");
        let mut plan = serde_json::to_vec(plan).doing("encode the load plan")?;
        plan.push(b'\n');
        stdin.write_all(&plan).doing("hand the plan to the load process")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let parsed = line
                    .doing("read from the load process")
                    .and_then(|line| serde_json::from_str(&line).doing(format!("read the load process's line {line}")));
                if sender.send(parsed).is_err() {
                    return;
                }
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            let kept = text.len().saturating_sub(STDERR_KEPT);
            String::from_utf8_lossy(&text[kept..]).into_owned()
        });
        Ok(Driver { child, told: Some(stdin), lines, stderr })
    }

    /// Hands on an order; after the last one the input is closed. A load process that is gone says so itself.
    fn tell(&mut self, order: &LoadOrder) -> Result<(), Fault> {
        let Some(told) = &mut self.told else { return Ok(()) };
        let mut line = serde_json::to_vec(order).doing("encode an order for the load")?;
        line.push(b'\n');
        let gone = told.write_all(&line).and_then(|()| told.flush()).is_err();
        if gone || *order == LoadOrder::End {
            self.told = None;
        }
        Ok(())
    }

    pub(crate) fn wait(
        &mut self,
        task: LoadTask,
        limit: Duration,
        stop: &Stop,
        each_second: &mut dyn FnMut(&SecondRow),
        next: &mut dyn FnMut(Option<&WindowRow>) -> LoadOrder,
    ) -> Result<LoadSummary, Fault> {
        let began = Instant::now();
        loop {
            if stop.raised() {
                return Err(Fault::new("interrupted"));
            }
            if began.elapsed() > limit {
                let limit = tare_core::units::show_duration(limit);
                return Err(Fault::new(format!("the load process did not end its task {task:?} within {limit}")));
            }
            match self.lines.recv_timeout(Duration::from_millis(100)) {
                Ok(Ok(LoadLine::Second(row))) => each_second(&row),
                Ok(Ok(LoadLine::Window(row))) if self.told.is_some() => self.tell(&next(Some(&row)))?,
                Ok(Ok(LoadLine::Window(_))) => {}
                Ok(Ok(LoadLine::Done(summary))) => {
                    let _ = self.child.wait();
                    return Ok(*summary);
                }
                Ok(Ok(LoadLine::Failed(fault)) | Err(fault)) => return Err(fault),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.died()),
            }
        }
    }

    fn died(&mut self) -> Fault {
        let how = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let (_, empty) = (self.lines.try_recv(), std::thread::spawn(String::new));
        let stderr = std::mem::replace(&mut self.stderr, empty).join().unwrap_or_default();
        Fault::new(format!("the load process died without a word: {how}")).with_log(stderr)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A tool that it has started must end before it does; kindly first, then not.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), Signal::TERM);
            let given_up = Instant::now() + END_WITHIN;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < given_up {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
