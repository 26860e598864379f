//! What is seen of running containers from outside: their processes and control groups, their files, the engine.

use super::{Command, Inner, observe, runtimes};
use crate::container::options::Namespaces;
use crate::{cgroup, local, processes};
use std::path::Path;
use tare_core::fault::Fault;
use tare_core::host::{Facts, FilesSeen, SeenFile, ServiceStart, Wait};
use tare_core::telemetry::Scope;

impl Inner {
    /// What is sampled on the outer host because of this layer.
    pub(super) fn scopes(&self) -> Result<Vec<Scope>, Fault> {
        let mut scopes = Vec::new();
        let mut ports = Vec::new();
        for (instance, running) in &self.running {
            let pid = self.pid(instance)?;
            let (name, cgroups) = (instance.clone(), self.groups(instance, pid)?);
            scopes.push(Scope { name, serving: true, pids: self.roots(instance, pid, &cgroups)?, cgroups });
            ports.extend(running.start.service.ports.values().copied());
        }
        if self.options.publishes() {
            let mut pids = observe::port_proxies(self.published_at(), &ports);
            pids.extend(self.helpers().0);
            let proxy = Scope { name: "port proxy".to_owned(), serving: true, pids, cgroups: Vec::new() };
            scopes.extend(Some(proxy).filter(|scope| !scope.pids.is_empty()));
        }
        if self.engine.rootless().is_some() {
            let (name, pids) = ("container engine".to_owned(), self.helpers().1);
            scopes.push(Scope { name, serving: false, pids, cgroups: Vec::new() });
            return Ok(scopes);
        }
        scopes.extend(observe::engine_scope(self.engine.is_podman()));
        Ok(scopes)
    }

    /// The processes that the scope of a container must name. Only without a PID namespace of its own do daemons leave
    /// the tree of its first one.
    fn roots(&self, instance: &str, pid: u32, groups: &[String]) -> Result<Vec<u32>, Fault> {
        if self.options.namespaces == Namespaces::Own || self.runtime.sealed.is_some() {
            return Ok(vec![pid]);
        }
        let command = self.known(instance)?.command.as_ref().and_then(Command::leader);
        Ok(processes::roots(pid, cgroup::members_of_all(groups), command))
    }

    /// The control groups of a container. What keeps a container in a machine of its own may put that into a group of
    /// all such machines, which would count others' time, too: then its process is counted alone.
    fn groups(&self, instance: &str, pid: u32) -> Result<Vec<String>, Fault> {
        if let Some(group) = &self.known(instance)?.group {
            return Ok(group.directories().iter().map(|directory| directory.display().to_string()).collect());
        }
        let mut groups = observe::cgroups(pid);
        if self.runtime.sealed.is_some() {
            let id = self.inspect(instance)?.id.unwrap_or_default();
            groups.retain(|group| observe::called_after(Path::new(group), &id).is_some());
        }
        Ok(groups)
    }

    /// The files that a service has mapped; none where the container keeps them to itself.
    pub(super) fn mapped_files(&self, instance: &str, wait: Wait) -> Result<Vec<SeenFile>, Fault> {
        let pid = self.pid(instance)?;
        if self.runtime.sealed.is_some() {
            return Ok(Vec::new());
        }
        let command = self.known(instance)?.command.as_ref().and_then(Command::leader);
        let members = cgroup::members_of_all(&self.groups(instance, pid)?);
        local::mapped_files(pid, &processes::of_service(pid, members, command), wait)
    }

    /// How the files that a service sees compare with its bundle's.
    pub(super) fn files_seen(
        &self,
        start: &ServiceStart,
        said: Option<&[SeenFile]>,
        wait: Wait,
    ) -> Result<FilesSeen, Fault> {
        if let Some(hidden) = self.runtime.hides_files() {
            return Err(hidden);
        }
        let pid = self.pid(&start.instance)?;
        local::files::files_seen(pid, &local::files::of_bundle(&self.carrier, start, said, wait)?, wait)
    }

    pub(super) fn facts(&self) -> Result<Facts, Fault> {
        let mut facts = runtimes::facts(&self.engine, &self.runtime)?;
        facts.extend(self.options.facts());
        let image = if self.guest_engine.is_some() { "the bundle's disk, mounted as its layer" } else { "imported" };
        facts.insert("container.image".to_owned(), image.to_owned());
        if let Some(link) = &self.link {
            facts.insert("container.bridge".to_owned(), link.bridge.clone());
        }
        let ports: Vec<u16> = self.running.values().flat_map(|r| r.start.service.ports.values().copied()).collect();
        if let Some((user, _)) = self.engine.rootless() {
            facts.insert("container.user".to_owned(), user.name.clone());
            facts.insert("container.limited_by".to_owned(), "a control group of the run".to_owned());
        }
        if self.options.publishes() && !ports.is_empty() && !self.engine.is_podman() {
            let proxied = !observe::port_proxies(self.published_at(), &ports).is_empty();
            facts.insert("engine.userland_proxy".to_owned(), proxied.to_string());
        }
        Ok(facts)
    }
}
