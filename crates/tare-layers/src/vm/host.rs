//! Guests presented as one host: their agents answer, and the hypervisors' processes are watched from outside.

use super::block;
use super::guest::{Guest, on_each, remove};
use super::process::vhost_threads;
use super::wiring::Wiring;
use crate::cgroup::freeze;
use crate::local::files;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tare_core::command::{CommandEnd, CommandStart};
use tare_core::fault::Fault;
use tare_core::held::Held;
use tare_core::host::{
    Facts, FilesSeen, Host, Instance, InstanceState, LocalOuter, MachineServices, OpenError, ResourceReport, SeenFile,
    ServiceStart, TrialContext, Wait, WayIn,
};
use tare_core::layer::LayerUse;
use tare_core::profile::Profile;
use tare_core::telemetry::{Rest, Scope, TelemetryRow, Vantage};

/// Round trips for one reading of the guest's clock; the shortest counts.
const CLOCK_TRIES: u32 = 8;
/// How long QEMU may take to end after the guest has powered off.
const OFF_WITHIN: Duration = Duration::from_secs(15);
/// The scope of the hypervisor's process.
const HYPERVISOR: &str = "hypervisor";
/// The scope of the process that carries the guest's network.
const PASST: &str = "passt";
/// How many of a bundle's files a guest is told about at once: a few MiB on the line, and in its memory.
const FILES_AT_ONCE: usize = 10_000;
/// How long telling a guest about more may take.
const FILES_WITHIN: Duration = Duration::from_secs(120);

/// Guests and the host they run on.
pub(super) struct VmHost {
    /// Owned until it is closed.
    outer: Option<Box<dyn Host>>,
    carrier: Arc<MachineServices>,
    /// At least one.
    guests: Vec<Guest>,
    wiring: Wiring,
    /// The guests' clocks when sampling began.
    clocks: Vec<Clock>,
    /// Whether their virtual CPUs are halted.
    frozen: bool,
    /// Whether somebody else may have stopped their hypervisors.
    held: bool,
}

/// A reading of the guest's clock: how far it is ahead of the host's, and when on the host's, ns.
type Clock = (i128, u64);

impl VmHost {
    /// Guests that answer, and what connects them.
    pub(super) fn new(outer: Box<dyn LocalOuter>, guests: Vec<Guest>, wiring: Wiring) -> Self {
        assert!(!guests.is_empty(), "a form in guests has one at least");
        let carrier = outer.carrier();
        VmHost {
            outer: Some(outer.into_host()),
            carrier,
            guests,
            wiring,
            clocks: Vec::new(),
            frozen: false,
            held: false,
        }
    }

    fn outer(&mut self) -> &mut dyn Host {
        self.outer.as_mut().expect("a host is not used after it was closed").as_mut()
    }

    fn several(&self) -> bool {
        self.guests.len() > 1
    }

    /// The number, from 0, of the guest that holds an instance. The only guest holds them all.
    fn holder(&self, instance: &str) -> Result<usize, Fault> {
        let at = self.guests.iter().position(|guest| guest.holds.iter().any(|held| held == instance));
        let at = at.or((!self.several()).then_some(0));
        at.ok_or_else(|| Fault::new(format!("no guest holds an instance '{instance}'")))
    }

    /// Asks the guest that holds an instance; if there are several guests, a fault says which one it was.
    fn ask<T>(&mut self, instance: &str, what: impl FnOnce(&mut Guest) -> Result<T, Fault>) -> Result<T, Fault> {
        let (at, several) = (self.holder(instance)?, self.several());
        what(&mut self.guests[at])
            .map_err(|fault| if several { fault.context(format!("guest {}", at + 1)) } else { fault })
    }

    /// The process of each hypervisor, and what carries its guest's network.
    fn scopes(&self) -> Vec<Scope> {
        let several = self.several();
        let scope = |what: &str, at: usize, pids| {
            let name = if several { format!("{what} {}", at + 1) } else { what.to_owned() };
            Scope { name, serving: true, pids, cgroups: Vec::new() }
        };
        let of_guest = |(at, guest): (usize, &Guest)| {
            let process = guest.process.lock();
            let qemu = process.pid();
            let hypervisor = scope(HYPERVISOR, at, std::iter::once(qemu).chain(vhost_threads(qemu)).collect());
            let passt = process.passt_pid().map(|pid| scope(PASST, at, vec![pid]));
            std::iter::once(hypervisor).chain(passt)
        };
        self.guests.iter().enumerate().flat_map(of_guest).collect()
    }

    fn hypervisors(&self) -> Vec<Held> {
        let of_guest = |guest: &Guest| {
            let process = guest.process.lock();
            [Some(process.pid()), process.passt_pid()].into_iter().flatten().map(Held::Process)
        };
        self.guests.iter().flat_map(of_guest).collect()
    }

    fn halt(&mut self, frozen: bool) -> Result<(), Fault> {
        if std::mem::take(&mut self.held) {
            freeze::thaw(&self.hypervisors())?;
        }
        if self.frozen != frozen {
            let word = if frozen { "stop" } else { "cont" };
            on_each(&mut self.guests, |guest| guest.qmp.execute(word, serde_json::json!({})))?;
            self.frozen = frozen;
        }
        Ok(())
    }

    /// Ends the guests, removes what was made for them, and closes the host around them. A second call has nothing to
    /// do.
    fn clear(&mut self) -> Result<(), Fault> {
        let Some(outer) = self.outer.take() else { return Ok(()) };
        // A halted guest cannot power off; one that is gone cannot be resumed, which is noticed below.
        let _ = self.halt(false);
        let shut = on_each(&mut self.guests, shut_down).map(drop);
        let unwired = self.wiring.remove();
        self.guests.iter().for_each(|guest| remove(&guest.files));
        let claims = self.guests.iter_mut().filter_map(|guest| guest.claim.take());
        let emptied = claims.map(block::Claim::empty).fold(Ok(()), Result::and);
        let closed = outer.close();
        shut.and(unwired).and(emptied).and(closed)
    }
}

fn shut_down(guest: &mut Guest) -> Result<(), Fault> {
    // A guest that is already dead has nothing to close.
    let alive = guest.agent.peer().check().is_ok();
    let closed = if alive { guest.agent.close_inside() } else { Ok(()) };
    let mut process = guest.process.lock();
    // A guest that has closed powers off by itself; one that does not answer is killed.
    if !(alive && closed.is_ok() && process.wait(OFF_WITHIN)) {
        let _ = guest.qmp.execute("quit", serde_json::json!({}));
        process.wait(Duration::from_secs(3));
    }
    process.kill();
    closed
}

impl Host for VmHost {
    fn facts(&mut self) -> Result<Facts, Fault> {
        let mut facts = self.outer().facts()?;
        let inside = on_each(&mut self.guests, |guest| guest.agent.facts())?;
        // The guests are alike: one speaks for all, except for where each is and what is in it.
        facts.extend(self.guests[0].facts.clone());
        facts.extend(inside[0].iter().map(|(key, value)| (format!("guest.{key}"), value.clone())));
        if self.several() {
            facts.insert("vm.guests".to_owned(), self.guests.len().to_string());
            for (at, guest) in self.guests.iter().enumerate() {
                facts.insert(format!("vm.on_cpus@{}", at + 1), guest.size.on.to_string());
                facts.insert(format!("vm.memory_bytes@{}", at + 1), guest.size.memory.to_string());
                facts.insert(format!("vm.holds@{}", at + 1), guest.holds.join(", "));
            }
            facts.retain(|key, _| key != "vm.on_cpus" && key != "vm.memory_bytes");
        }
        Ok(facts)
    }

    fn resources(&mut self, start: &ServiceStart) -> Result<ResourceReport, Fault> {
        self.ask(&start.instance, |guest| guest.agent.resources(&guest.size.inside(start)))
    }

    fn start(&mut self, start: &ServiceStart) -> Result<Instance, Fault> {
        let mut instance = self.ask(&start.instance, |guest| guest.agent.start(&guest.size.inside(start)))?;
        let inside = instance.path.strip_prefix("veth, ").unwrap_or(&instance.path);
        instance.path = self.wiring.path(inside);
        Ok(instance)
    }

    fn beside(&self, start: &ServiceStart, other: &str) -> bool {
        self.holder(&start.instance) == self.holder(other)
    }

    fn state(&mut self, instance: &str) -> Result<InstanceState, Fault> {
        self.ask(instance, |guest| {
            guest.agent.peer().check()?;
            guest.agent.state(instance)
        })
    }

    fn mapped_files(&mut self, instance: &str, wait: Wait) -> Result<Vec<SeenFile>, Fault> {
        self.ask(instance, |guest| guest.agent.mapped_files(instance, wait))
    }

    fn files_seen(&mut self, start: &ServiceStart, said: Option<&[SeenFile]>, wait: Wait) -> Result<FilesSeen, Fault> {
        let files = files::of_bundle(&self.carrier, start, said, wait)?;
        self.ask(&start.instance, |guest| {
            let (inside, mut seen, began) = (guest.size.inside(start), FilesSeen::default(), Instant::now());
            for piece in files.chunks(FILES_AT_ONCE) {
                // If it is not asked at all, it stays in step, and its guest is shut down as usual.
                wait.check()?;
                if began.elapsed() > FILES_WITHIN {
                    return Err(Fault::new("its bundle has files that take more than 2m to read in the guest"));
                }
                seen.add(guest.agent.files_seen(&inside, Some(piece), wait)?);
            }
            Ok(seen)
        })
    }

    fn log(&mut self, instance: &str) -> Result<String, Fault> {
        self.ask(instance, |guest| guest.agent.log(instance))
    }

    fn ways_in(&mut self, instance: &str) -> Vec<WayIn> {
        let Ok(at) = self.holder(instance) else { return Vec::new() };
        let process = self.guests[at].process.lock();
        let guest =
            format!("QEMU is process {}; no shell runs in the guest, only Tare's agent and services", process.pid());
        vec![WayIn::new("guest", guest), WayIn::new("console", process.console().display().to_string())]
    }

    fn stop(&mut self, instance: &str) -> Result<(), Fault> {
        self.ask(instance, |guest| guest.agent.stop(instance))
    }

    fn begin_command(&mut self, instance: &str, command: &CommandStart) -> Result<(), Fault> {
        self.ask(instance, |guest| guest.agent.begin_command(instance, command))
    }

    fn await_command(&mut self, instance: &str, patience: Duration) -> Result<Option<CommandEnd>, Fault> {
        let end = self.ask(instance, |guest| guest.agent.await_command(instance, patience))?;
        // The hypervisor's process has used this time, and is sampled.
        Ok(end.map(|end| CommandEnd { cpu_s: Some(0.0), ..end }))
    }

    fn end_command(&mut self, instance: &str) -> Result<(), Fault> {
        self.ask(instance, |guest| guest.agent.end_command(instance))
    }

    fn freeze(&mut self) -> Result<(), Fault> {
        self.halt(true)
    }

    fn thaw(&mut self) -> Result<(), Fault> {
        self.halt(false)
    }

    fn held(&mut self) -> Result<Vec<Held>, Fault> {
        self.held = true;
        Ok(self.hypervisors())
    }

    fn serving(&mut self) -> Result<Vec<Scope>, Fault> {
        Ok(self.scopes())
    }

    fn begin_probe(&mut self, outside: &[Scope], period: Duration) -> Result<(), Fault> {
        assert!(outside.is_empty() || !self.several(), "layers inside guests are opened by the guests themselves");
        // What an inner layer has outside itself is in the guest, as this host is.
        self.clocks = on_each(&mut self.guests, |guest| {
            let clock = guest.agent.clock_offset(CLOCK_TRIES)?;
            guest.agent.begin_probe(outside, period)?;
            Ok(clock)
        })?;
        let scopes = self.scopes();
        self.outer().begin_probe(&scopes, period)
    }

    fn rest_probe(&mut self, rests: &[Rest]) -> Result<(), Fault> {
        on_each(&mut self.guests, |guest| guest.agent.rest_probe(rests))?;
        self.outer().rest_probe(rests)
    }

    fn end_probe(&mut self) -> Result<Vec<TelemetryRow>, Fault> {
        let inside =
            on_each(&mut self.guests, |guest| Ok((guest.agent.end_probe(), guest.agent.clock_offset(CLOCK_TRIES))));
        // Ended in any case, otherwise the next trial would find it running.
        let mut rows = self.outer().end_probe()?;
        let (several, begun) = (self.several(), std::mem::take(&mut self.clocks));
        for (at, (seen, end)) in inside?.into_iter().enumerate() {
            let end = end?;
            let begin = begun.get(at).copied().unwrap_or(end);
            let holds = &self.guests[at].holds;
            rows.extend(seen?.into_iter().map(|row| {
                let mut row = as_seen_here(row, begin, end);
                if several && !holds.contains(&row.scope) {
                    row.scope = format!("{} of guest {}", row.scope, at + 1);
                }
                row
            }));
        }
        rows.sort_by(|a, b| (a.at_ns, &a.scope).cmp(&(b.at_ns, &b.scope)));
        Ok(rows)
    }

    fn begin_profile(&mut self, _: &[Scope]) -> Result<(), Fault> {
        // The guests are not asked: their event counters are not this machine's.
        let scopes = self.scopes();
        self.outer().begin_profile(&scopes)
    }

    fn end_profile(&mut self, from_ns: u64, to_ns: u64) -> Result<Profile, Fault> {
        self.outer().end_profile(from_ns, to_ns)
    }

    fn open(mut self: Box<Self>, layer: &LayerUse, surroundings: &TrialContext) -> Result<Box<dyn Host>, OpenError> {
        // Each guest knows best which of the services it holds.
        let refused: Mutex<Option<OpenError>> = Mutex::new(None);
        let opened = on_each(&mut self.guests, |guest| {
            let held = surroundings.services.iter().filter(|start| guest.holds.contains(&start.instance));
            let inside = TrialContext {
                services: held.map(|start| guest.size.inside(start)).collect(),
                inner: surroundings.inner.clone(),
                ..guest.plan.surroundings.clone()
            };
            guest.agent.open_inside(layer, &inside).map_err(|error| match error {
                OpenError::Failed(fault) => fault,
                OpenError::Unavailable(fault) => {
                    let mut refused = refused.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    *refused = Some(OpenError::Unavailable(fault.clone()));
                    fault
                }
            })
        });
        let refused = refused.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        match opened {
            Ok(_) => Ok(self),
            Err(fault) => {
                let _ = self.close();
                Err(refused.unwrap_or(OpenError::Failed(fault)))
            }
        }
    }

    fn close(mut self: Box<Self>) -> Result<(), Fault> {
        self.clear()
    }
}

impl Drop for VmHost {
    fn drop(&mut self) {
        // Only after a panic is anything left here; a leftover is found by its name.
        let _ = self.clear();
    }
}

/// A guest's row on the host's clock. The two clocks may run at different speeds (an emulated guest's does): the offset
/// is assumed to change evenly between two readings.
fn as_seen_here(mut row: TelemetryRow, begin: Clock, end: Clock) -> TelemetryRow {
    let there = i128::from(row.at_ns);
    let (first, last) = (i128::from(begin.1) + begin.0, i128::from(end.1) + end.0);
    let offset = if last > first { begin.0 + (end.0 - begin.0) * (there - first) / (last - first) } else { end.0 };
    row.at_ns = u64::try_from(there - offset).unwrap_or(0);
    row.vantage = Vantage::Guest;
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn row(at_ns: u64) -> TelemetryRow {
        TelemetryRow { at_ns, vantage: Vantage::Host, scope: "a".into(), serving: true, values: BTreeMap::new() }
    }

    #[test]
    fn rows_of_the_guest_move_to_the_clock_of_the_host() {
        // The guest booted 900 s after the host; its clock loses 1 s in 100 s.
        let second = 1_000_000_000_u64;
        let begin = (-(900 * i128::from(second)), 1000 * second);
        let end = (-(901 * i128::from(second)), 1100 * second);
        for (there, here) in [(100, 1000.0), (199, 1100.0), (149, 1000.0 + 49.0 / 0.99)] {
            let moved = as_seen_here(row(there * second), begin, end);
            assert!((moved.at_ns as f64 / 1e9 - here).abs() < 1e-6, "{there}: {}", moved.at_ns);
            assert_eq!((moved.vantage, moved.serving), (Vantage::Guest, true));
        }
        // A single reading.
        assert_eq!(as_seen_here(row(100 * second), begin, begin).at_ns, 1000 * second);
    }
}
