//! Waits until a service is ready.

use crate::inside::inside;
use crate::trial::{Early, Entry, Trial, no_address, with_end_explained};
use std::collections::BTreeMap;
use std::time::Duration;
use tare_core::command::{CommandEnd, CommandStart, Ended};
use tare_core::fault::Fault;
use tare_core::host::{Host, Instance, InstanceState, ServiceStart};
use tare_core::load::LoadTask;
use tare_core::units::exact_duration;
use tare_core::workload::Readiness;

/// How often readiness is checked.
const READY_POLL: Duration = Duration::from_millis(20);

/// What services print when their port is taken.
const PORT_TAKEN: [&str; 3] = ["address already in use", "address in use", "eaddrinuse"];

/// How many characters of a command, and of the end of what it printed, a message shows.
const COMMAND_SHOWN: usize = 120;
const OUTPUT_SHOWN: usize = 400;

/// Whether a service's output says that its port is taken.
fn lost_its_port(log: &str) -> bool {
    let log = log.to_lowercase();
    PORT_TAKEN.iter().any(|words| log.contains(words))
}

/// What is known of the command that is run until it succeeds.
#[derive(Default)]
struct Attempts {
    /// Whether it has succeeded; it is not run again.
    succeeded: bool,
    /// When it is run next, by the clock.
    next: Duration,
    /// How the last attempt failed, in words.
    last: String,
}

impl Trial<'_, '_> {
    /// Waits until a service is ready. One that ends by itself is gone then.
    pub(crate) fn wait_ready(
        &mut self,
        host: &mut dyn Host,
        start: &ServiceStart,
        instance: &Instance,
    ) -> Result<(), Early> {
        let name = &start.instance;
        let began = self.clock.now();
        let within = start.service.ready.within() * self.slowdown();
        let mut attempts = Attempts::default();
        loop {
            let state = host.state(name)?;
            let spent = self.clock.now().saturating_sub(began);
            if start.service.ready.ends() && state.succeeded() {
                return self.finish(host, name, spent);
            }
            if let InstanceState::Ended(how) = state {
                return Err(self.ended(host, start, &how));
            }
            let left = within.saturating_sub(spent);
            let Some(last) = self.ready(host, start, instance, &mut attempts, left)? else { return Ok(()) };
            if self.stop.raised() {
                return Err(Fault::new("interrupted").into());
            }
            if self.clock.now().saturating_sub(began) > within {
                let fault =
                    Fault::new(format!("service {name} was not ready within {}: {last}", exact_duration(within)));
                let fault = fault.remedy("read its output below; raise `ready: within:` if it only needs more time");
                return Err(fault.with_log(host.log(name).unwrap_or_default()).into());
            }
            self.clock.sleep(READY_POLL);
        }
    }

    /// Removes what is left of a service that has done its work: in every form it is gone, with all that it started.
    fn finish(&mut self, host: &mut dyn Host, name: &str, spent: Duration) -> Result<(), Early> {
        // Its host may forget it with its end, and why a later service failed may stand here.
        if let Ok(log) = host.log(name) {
            self.data.record.logs.insert(name.to_owned(), log);
        }
        host.stop(name)?;
        self.data.record.finished.insert(name.to_owned(), spent.as_secs_f64());
        Ok(())
    }

    /// Why a service that has ended is not ready.
    fn ended(&mut self, host: &mut dyn Host, start: &ServiceStart, how: &str) -> Early {
        let name = &start.instance;
        let log = host.log(name).unwrap_or_default();
        // An early end is a result of the form, unless the machine is to blame because the port is taken.
        if !lost_its_port(&log) {
            self.data.record.service_ended = Some(name.clone());
        }
        let fault = if start.service.ready.ends() {
            let fault = Fault::new(format!("service {name} did not do its work: {how}"));
            fault.remedy("read its output below; it is ready once it has ended with exit code 0")
        } else {
            with_end_explained(Fault::new(format!("service {name} ended before it was ready: {how}")), how)
        };
        fault.with_log(log).into()
    }

    /// `None` if it is ready, else why it is not. A command may take the time that is `left`.
    fn ready(
        &mut self,
        host: &mut dyn Host,
        start: &ServiceStart,
        instance: &Instance,
        attempts: &mut Attempts,
        left: Duration,
    ) -> Result<Option<String>, Early> {
        match &start.service.ready {
            Readiness::Log { text, .. } => {
                let found = host.log(&start.instance)?.contains(text.as_str());
                Ok((!found).then(|| format!("its output does not contain '{text}'")))
            }
            Readiness::Port { port, .. } => self.port_ready(host, start, instance, port),
            Readiness::Ended { .. } => Ok(Some("it has not ended".to_owned())),
            Readiness::Command { .. } => {
                if !attempts.succeeded {
                    self.attempt(host, start, attempts, left);
                }
                if !attempts.succeeded {
                    return Ok(Some(attempts.last.clone()));
                }
                let inputs = self.inputs;
                let spoken = &inputs.workload.protocol;
                match spoken.port.as_ref().filter(|_| spoken.service == start.service.role()) {
                    Some(port) => self.port_ready(host, start, instance, port),
                    None => Ok(None),
                }
            }
        }
    }

    /// Runs the command of a service once, if it is time. None is left running afterwards.
    fn attempt(&self, host: &mut dyn Host, start: &ServiceStart, attempts: &mut Attempts, left: Duration) {
        let Readiness::Command { command, every, timeout, .. } = &start.service.ready else { return };
        if self.clock.now() < attempts.next {
            return;
        }
        let wanted = CommandStart {
            command: command.clone(),
            environment: BTreeMap::new(),
            directory: start.service.directory.clone().unwrap_or_else(|| "/".to_owned()),
            within: (*timeout * self.slowdown()).min(left).max(READY_POLL),
        };
        let ended = inside(host, &start.instance, self.stop)(&wanted);
        attempts.next = self.clock.now() + *every;
        match ended {
            Ok(end) if end.ended == Ended::Exit(0) => attempts.succeeded = true,
            Ok(end) => attempts.last = failed(command, &end),
            // It may be too early for it: whether the service is gone is asked before the next attempt.
            Err(fault) => attempts.last = fault.message,
        }
    }

    /// The same for a port, at which the load's protocol is asked if it is spoken there.
    fn port_ready(
        &mut self,
        host: &mut dyn Host,
        start: &ServiceStart,
        instance: &Instance,
        port: &str,
    ) -> Result<Option<String>, Early> {
        let Some(endpoint) = instance.endpoints.get(port).copied() else { return Err(no_address(port)) };
        if !self.apparatus.reachable(endpoint) {
            return Ok(Some(format!("{endpoint} accepts no connection")));
        }
        let spoken = &self.inputs.workload.protocol;
        if spoken.service != start.service.role() || spoken.port.as_deref() != Some(port) {
            return Ok(None);
        }
        let (instance, also, services) = (instance.instance.clone(), Vec::new(), BTreeMap::new());
        let entry = Entry { instance, endpoint, also, services };
        let plan = self.load_plan(&entry, LoadTask::Ready);
        let answer = self.drive(host, &entry, &plan, start.service.ready.within());
        Ok(answer.err().map(|fault| fault.message))
    }
}

/// How an attempt failed: the command, how it ended, and the end of what it printed, on one line.
fn failed(command: &[String], end: &CommandEnd) -> String {
    let line = |text: &str| {
        let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        plain.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let command = line(&command.join(" "));
    let mut shown: String = command.chars().take(COMMAND_SHOWN).collect();
    if shown.len() < command.len() {
        shown += "...";
    }
    let said = line(&format!("{} {}", end.stdout, end.stderr));
    let left_out = said.chars().count().saturating_sub(OUTPUT_SHOWN);
    let said: String = said.chars().skip(left_out).collect();
    let before = if left_out > 0 { "..." } else { "" };
    match said.is_empty() {
        true => format!("the command '{shown}' failed: {}; it printed nothing", end.ended),
        false => format!("the command '{shown}' failed: {}; it printed: {before}{said}", end.ended),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_lost_its_port_says_so() {
        assert!(lost_its_port("1:M # bind: Address already in use"));
        assert!(lost_its_port("Error: listen EADDRINUSE: address already in use 0.0.0.0:80"));
        assert!(lost_its_port("{badmatch,{error,eaddrinuse}}"));
        assert!(!lost_its_port("Segmentation fault (core dumped)"));
    }

    #[test]
    fn a_failed_attempt_is_told_on_one_line_with_the_end_of_its_output() {
        let end = |ended, stdout: &str, stderr: &str| CommandEnd {
            ended,
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
            took: Duration::ZERO,
            cpu_s: None,
        };
        let words = |line: &str| ["/bin/sh", "-c", line].map(str::to_owned);
        let told = failed(&words("ask ||\n exit 1"), &end(Ended::Exit(7), "no\n\u{1b}answer\n", "refused"));
        let wanted = "the command '/bin/sh -c ask || exit 1' failed: exit code 7; it printed: no answer refused";
        assert_eq!(told, wanted);
        let told = failed(&words(&"x".repeat(1000)), &end(Ended::Late, "", &format!("{}last", "é".repeat(1000))));
        assert!(told.contains("xxx...' failed: its time was over; it printed: ...é"), "{told}");
        assert!(told.ends_with("élast") && told.chars().count() < 700, "{told}");
        let told = failed(&words("x"), &end(Ended::Signal(9), "\n", ""));
        assert_eq!(told, "the command '/bin/sh -c x' failed: killed by signal 9; it printed nothing");
    }
}
