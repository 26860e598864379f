//! Containers of an engine that a plain user runs: their limits are those of a group of the run, as a plain process's.

use super::{Inner, Running, observe, rootless, run};
use crate::cgroup::Group;
use crate::container::spec::{self, Order};
use std::path::PathBuf;
use tare_core::fault::{Doing, Fault};
use tare_core::host::ServiceStart;
use tare_core::units::CpuSet;
use tare_core::workload::Resources;

/// The lowest port at which everybody may listen in the machine's network.
pub(super) fn lowest_port() -> u16 {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or_default();
    text.trim().parse().unwrap_or(1024)
}

/// An engine's processes, in a container's group and on its CPUs for as long as this is kept: what they start then
/// begins there.
pub(super) struct Lent<'e> {
    pids: Vec<u32>,
    home: &'e Group,
    cpus: CpuSet,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // What cannot be moved has ended.
        let _ = self.pids.iter().try_for_each(|pid| enter(self.home, *pid));
        if !self.cpus.is_empty() {
            observe::confine(&self.pids, &self.cpus);
        }
    }
}

/// Moves a process, with all its threads, into a group.
fn enter(group: &Group, pid: u32) -> Result<(), Fault> {
    let write = |place: PathBuf| {
        std::fs::write(&place, pid.to_string()).doing(format!("move process {pid} into {}", place.display()))
    };
    group.entrances().try_for_each(write)
}

impl Inner {
    /// The group with a service's limits where its engine may not set them.
    pub(super) fn limits_of(&self, start: &ServiceStart) -> Result<Option<Group>, Fault> {
        if !self.options.is_rootless() {
            return Ok(None);
        }
        let resources = &start.service.resources;
        let cpu_quota = spec::cpu_quota(self.options.limits, resources);
        let limits = Resources { cpu_quota, ..*resources };
        Group::create(&self.surroundings.run, &start.instance, &limits).map(Some)
    }

    /// Creates and starts a container whose first process begins in this group.
    pub(super) fn launch_placed(&self, order: &Order, container: &str, group: &Group) -> Result<(), Fault> {
        let (start, fault) = (order.start, || Fault::new("the container engine of a plain user has ended"));
        let (user, _) = self.engine.rootless().ok_or_else(fault)?;
        let keeper = self.engine.keeper().ok_or_else(fault)?;
        // Made and examined as for any form, before their owners are shifted.
        let volumes = spec::volume_folders(order);
        crate::local::volumes::make_volumes(&volumes, &start.service, order.bundle)?;
        rootless::mount_volumes(keeper, user, start.service.user, &volumes)?;
        let cpus = spec::cpuset(self.options.limits, &self.surroundings.cpus, start)?;
        let place = |pid: u32| {
            let pid = self.examined(&start.instance, pid)?;
            if let Some(cpus) = &cpus {
                observe::confine(&[pid], cpus);
            }
            enter(group, pid)
        };
        run::launch(&self.engine, order, container, Some(&place))
    }

    /// A process of which a plain user's engine says that it is a container's, if it is one that this engine started:
    /// nothing else may be looked at, limited or ended for it.
    pub(super) fn examined(&self, instance: &str, pid: u32) -> Result<u32, Fault> {
        let Some((_, all)) = self.engine.rootless() else { return Ok(pid) };
        let own = self.running.get(instance).and_then(|running| running.group.as_ref());
        let is_own = all.members().contains(&pid) || own.is_some_and(|group| group.members().contains(&pid));
        is_own.then_some(pid).ok_or_else(|| {
            Fault::new(format!("Podman says that process {pid} is the container of '{instance}', and did not start it"))
        })
    }

    /// Has what the engine starts for this container begin in the container's group.
    pub(super) fn lend(&self, to: &Running) -> Result<Option<Lent<'_>>, Fault> {
        let (Some((_, home)), Some(group)) = (self.engine.rootless(), to.group.as_ref()) else { return Ok(None) };
        let is_podman = |pid: &u32| crate::processes::name(*pid) == "podman";
        let pids: Vec<u32> = home.members().into_iter().filter(is_podman).collect();
        let lent = Lent { pids, home, cpus: self.surroundings.cpus.clone() };
        if let Some(cpus) = spec::cpuset(self.options.limits, &self.surroundings.cpus, &to.start)? {
            observe::confine(&lent.pids, &cpus);
        }
        lent.pids.iter().try_for_each(|pid| enter(group, *pid))?;
        Ok(Some(lent))
    }

    /// The processes that make a plain user's network, and the engine's others.
    pub(super) fn helpers(&self) -> (Vec<u32>, Vec<u32>) {
        const NETWORK: [&str; 5] = ["slirp4netns", "rootlessport", "exe", "pasta", "pasta.avx2"];
        let all = self.engine.rootless().map(|(_, group)| group.members()).unwrap_or_default();
        all.into_iter().partition(|pid| NETWORK.contains(&crate::processes::name(*pid).as_str()))
    }
}
