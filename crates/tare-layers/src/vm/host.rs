//! A guest as a host: its agent answers, and the hypervisor's process is watched from outside.

use super::block;
use super::boot::Guest;
use super::process::vhost_threads;
use std::time::Duration;
use tare_core::command::{CommandEnd, CommandStart};
use tare_core::fault::Fault;
use tare_core::form::LayerUse;
use tare_core::host::{
    Facts, Host, Instance, InstanceState, MappedFile, OpenError, ResourceReport, ServiceStart, Surroundings,
};
use tare_core::telemetry::{Scope, TelemetryRow, Vantage};

/// Round trips for one reading of the guest's clock; the shortest of them counts.
const CLOCK_TRIES: u32 = 8;
/// How long QEMU may take to end after the guest has powered off.
const OFF_WITHIN: Duration = Duration::from_secs(15);
/// The scope of the hypervisor's process.
const HYPERVISOR: &str = "hypervisor";

/// A guest and the host it runs on.
pub(super) struct VmHost {
    /// Owned until it is closed.
    outer: Option<Box<dyn Host>>,
    guest: Guest,
    /// The guest's clock when sampling began.
    clock: Option<Clock>,
    /// Whether its virtual CPUs are halted.
    frozen: bool,
}

/// A reading of the guest's clock: how far it is ahead of the host's, and when on the host's, ns.
type Clock = (i128, u64);

impl VmHost {
    /// A guest that answers.
    pub(super) fn new(outer: Box<dyn Host>, guest: Guest) -> Self {
        VmHost { outer: Some(outer), guest, clock: None, frozen: false }
    }

    fn outer(&mut self) -> &mut dyn Host {
        self.outer.as_mut().expect("a host is not used after it was closed").as_mut()
    }

    fn scope(&self) -> Scope {
        let qemu = self.guest.process.lock().pid();
        let pids = std::iter::once(qemu).chain(vhost_threads(qemu)).collect();
        Scope { name: HYPERVISOR.to_owned(), serving: true, pids, cgroups: Vec::new() }
    }

    fn halt(&mut self, frozen: bool) -> Result<(), Fault> {
        if self.frozen != frozen {
            self.guest.qmp.execute(if frozen { "stop" } else { "cont" }, serde_json::json!({}))?;
            self.frozen = frozen;
        }
        Ok(())
    }

    fn shut_down(&mut self) -> Result<(), Fault> {
        // A guest that is halted cannot power off; one that is gone cannot go on, and that is seen below.
        let _ = self.halt(false);
        let guest = &mut self.guest;
        // A guest that is dead already has nothing to close.
        let alive = guest.agent.peer().check().is_ok();
        let closed = if alive { guest.agent.close_inside() } else { Ok(()) };
        let mut process = guest.process.lock();
        // A guest that has closed powers off by itself; one that does not answer is switched off.
        if !(alive && closed.is_ok() && process.wait(OFF_WITHIN)) {
            let _ = guest.qmp.execute("quit", serde_json::json!({}));
            process.wait(Duration::from_secs(3));
        }
        process.kill();
        closed
    }

    /// Ends the guest, removes what was made for it, closes the host around it. A second time, there is nothing to do.
    fn clear(&mut self) -> Result<(), Fault> {
        let Some(outer) = self.outer.take() else { return Ok(()) };
        let shut = self.shut_down();
        let unwired = self.guest.wiring.remove();
        for file in &self.guest.files {
            let _ = std::fs::remove_file(file);
        }
        let emptied = self.guest.claim.take().map_or(Ok(()), block::Claim::empty);
        let closed = outer.close();
        shut.and(unwired).and(emptied).and(closed)
    }
}

impl Host for VmHost {
    fn facts(&mut self) -> Result<Facts, Fault> {
        let mut facts = self.outer().facts()?;
        facts.extend(self.guest.facts.clone());
        let inside = self.guest.agent.facts()?;
        facts.extend(inside.into_iter().map(|(key, value)| (format!("guest.{key}"), value)));
        Ok(facts)
    }

    fn resources(&mut self, start: &ServiceStart) -> Result<ResourceReport, Fault> {
        self.guest.agent.resources(&self.guest.size.inside(start))
    }

    fn start(&mut self, start: &ServiceStart) -> Result<Instance, Fault> {
        let mut instance = self.guest.agent.start(&self.guest.size.inside(start))?;
        let inside = instance.path.strip_prefix("veth, ").unwrap_or(&instance.path);
        instance.path = format!("veth, private bridge, tap and virtio-net into a guest, {inside}");
        Ok(instance)
    }

    fn state(&mut self, instance: &str) -> Result<InstanceState, Fault> {
        self.guest.agent.peer().check()?;
        self.guest.agent.state(instance)
    }

    fn mapped_files(&mut self, instance: &str) -> Result<Vec<MappedFile>, Fault> {
        self.guest.agent.mapped_files(instance)
    }

    fn log(&mut self, instance: &str) -> Result<String, Fault> {
        self.guest.agent.log(instance)
    }

    fn stop(&mut self, instance: &str) -> Result<(), Fault> {
        self.guest.agent.stop(instance)
    }

    fn begin_command(&mut self, instance: &str, command: &CommandStart) -> Result<(), Fault> {
        self.guest.agent.begin_command(instance, command)
    }

    fn await_command(&mut self, instance: &str, patience: Duration) -> Result<Option<CommandEnd>, Fault> {
        let end = self.guest.agent.await_command(instance, patience)?;
        // The hypervisor's process has spent it, and is sampled.
        Ok(end.map(|end| CommandEnd { cpu_s: Some(0.0), ..end }))
    }

    fn end_command(&mut self, instance: &str) -> Result<(), Fault> {
        self.guest.agent.end_command(instance)
    }

    fn freeze(&mut self) -> Result<(), Fault> {
        self.halt(true)
    }

    fn thaw(&mut self) -> Result<(), Fault> {
        self.halt(false)
    }

    fn begin_probe(&mut self, outside: &[Scope], period: Duration) -> Result<(), Fault> {
        self.clock = Some(self.guest.agent.clock_offset(CLOCK_TRIES)?);
        // What an inner layer has outside itself is in the guest, as this host is.
        self.guest.agent.begin_probe(outside, period)?;
        let scope = self.scope();
        self.outer().begin_probe(&[scope], period)
    }

    fn end_probe(&mut self) -> Result<Vec<TelemetryRow>, Fault> {
        let inside = self.guest.agent.end_probe();
        let end = self.guest.agent.clock_offset(CLOCK_TRIES);
        // Ended in any case, or the next trial would find it running.
        let mut rows = self.outer().end_probe()?;
        let end = end?;
        let begin = self.clock.take().unwrap_or(end);
        rows.extend(inside?.into_iter().map(|row| as_seen_here(row, begin, end)));
        rows.sort_by(|a, b| (a.at_ns, &a.scope).cmp(&(b.at_ns, &b.scope)));
        Ok(rows)
    }

    fn open(mut self: Box<Self>, layer: &LayerUse, surroundings: &Surroundings) -> Result<Box<dyn Host>, OpenError> {
        let size = &self.guest.size;
        let inside = Surroundings {
            services: surroundings.services.iter().map(|start| size.inside(start)).collect(),
            inner: surroundings.inner.clone(),
            ..self.guest.plan.surroundings.clone()
        };
        match self.guest.agent.open_inside(layer, &inside) {
            Ok(()) => Ok(self),
            Err(error) => {
                let _ = self.close();
                Err(error)
            }
        }
    }

    fn close(mut self: Box<Self>) -> Result<(), Fault> {
        self.clear()
    }
}

impl Drop for VmHost {
    fn drop(&mut self) {
        // Only after a panic is there anything left here; a leftover is found by its name.
        let _ = self.clear();
    }
}

/// A guest's row on the host's clock. The two clocks may run at different speeds (an emulated guest's does): the
/// offset is taken to change evenly between two readings. CPU time in the guest is spent by the hypervisor's process,
/// which counts already, so the row's own does not.
fn as_seen_here(mut row: TelemetryRow, begin: Clock, end: Clock) -> TelemetryRow {
    let there = i128::from(row.at_ns);
    let (first, last) = (i128::from(begin.1) + begin.0, i128::from(end.1) + end.0);
    let offset = if last > first { begin.0 + (end.0 - begin.0) * (there - first) / (last - first) } else { end.0 };
    row.at_ns = u64::try_from(there - offset).unwrap_or(0);
    row.vantage = Vantage::Guest;
    row.serving = false;
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
        // The guest booted 900 s after the host; its clock is slow by 1 s in 100 s.
        let second = 1_000_000_000_u64;
        let begin = (-(900 * i128::from(second)), 1000 * second);
        let end = (-(901 * i128::from(second)), 1100 * second);
        for (there, here) in [(100, 1000.0), (199, 1100.0), (149, 1000.0 + 49.0 / 0.99)] {
            let moved = as_seen_here(row(there * second), begin, end);
            assert!((moved.at_ns as f64 / 1e9 - here).abs() < 1e-6, "{there}: {}", moved.at_ns);
            assert_eq!((moved.vantage, moved.serving), (Vantage::Guest, false));
        }
        // One reading only.
        assert_eq!(as_seen_here(row(100 * second), begin, begin).at_ns, 1000 * second);
    }
}
