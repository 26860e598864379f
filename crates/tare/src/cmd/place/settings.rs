//! A placement as settings to paste, for the systems that people deploy with.

use super::placing::Placing;
use std::fmt::Write as _;
use tare_core::placement::{Manner, Placed};
use tare_core::units::CpuSet;
use tare_core::workload::Service;
use tare_report::paragraph;

/// Settings of one system.
pub(super) struct Settings {
    /// The system's name, as a key.
    pub(super) name: &'static str,
    /// What to know before pasting them.
    pub(super) about: String,
    /// The settings.
    pub(super) text: String,
}

impl Settings {
    /// The settings below a comment that is wrapped to `width` columns. Settings themselves are not wrapped.
    pub(super) fn show(&self, width: usize) -> String {
        let about: String = paragraph("", 0, &self.about, width - 2).lines().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "# {line}");
            text
        });
        format!("{about}{}", self.text)
    }
}

/// The settings that place `services` as in `placing`, for each system; `machine` holds all CPUs of the machine. Empty
/// if the kernel decides: then there is nothing to set.
pub(super) fn settings(placing: &Placing, services: &[Service], machine: &CpuSet) -> Vec<Settings> {
    let of = |service: &'_ Service| Some((service.clone(), placing.placement.services.get(&service.name)?.clone()));
    let placed: Vec<(Service, Placed)> = services.iter().filter_map(of).collect();
    if placing.manner == Manner::Free {
        return Vec::new();
    }
    let each = |text: &dyn Fn(&Service, &Placed) -> String| -> String {
        placed.iter().map(|(service, placed)| text(service, placed)).collect::<Vec<_>>().join("\n")
    };
    let hypervisor = &placing.placement.hypervisor;
    vec![
        Settings {
            name: "docker",
            about: "Docker, for containers of these names; `docker run` takes the same flags".to_owned(),
            text: each(&docker) + "\n",
        },
        Settings {
            name: "systemd",
            about: "systemd 243 or later, for units of these names, then `systemctl daemon-reload` and a restart"
                .to_owned(),
            text: each(&systemd),
        },
        Settings {
            name: "libvirt",
            about: "libvirt, for one domain per service: put these elements directly below <domain>, replacing those \
                    that are there"
                .to_owned(),
            text: each(&|service, placed| libvirt(service, placed, hypervisor)),
        },
        kubernetes(placing.manner, &placed, machine),
    ]
}

fn nodes(placed: &Placed) -> Option<CpuSet> {
    (!placed.memory.is_empty()).then(|| CpuSet::new(placed.memory.iter().copied()))
}

fn docker(service: &Service, placed: &Placed) -> String {
    let mut flags = vec![format!("--cpuset-cpus={}", placed.cpus)];
    flags.extend(nodes(placed).map(|nodes| format!("--cpuset-mems={nodes}")));
    flags.extend(service.resources.cpu_quota.map(|quota| format!("--cpus={quota}")));
    format!("docker update {} {}", flags.join(" "), service.name)
}

fn systemd(service: &Service, placed: &Placed) -> String {
    let mut text = format!(
        "# /etc/systemd/system/{}.service.d/placement.conf\n[Service]\nCPUAffinity={}\n",
        service.name, placed.cpus
    );
    if let Some(nodes) = nodes(placed) {
        let _ = writeln!(text, "NUMAPolicy=bind\nNUMAMask={nodes}");
    }
    if let Some(quota) = service.resources.cpu_quota {
        let _ = writeln!(text, "CPUQuota={:.0}%", quota * 100.0);
    }
    text
}

/// A virtual CPU for each CPU, bound to it, as in the guests that were measured.
fn libvirt(service: &Service, placed: &Placed, hypervisor: &CpuSet) -> String {
    let mut text =
        format!("<!-- {} -->\n<vcpu placement='static'>{}</vcpu>\n<cputune>\n", service.name, placed.cpus.len());
    for (at, cpu) in placed.cpus.cpus().iter().enumerate() {
        let _ = writeln!(text, "  <vcpupin vcpu='{at}' cpuset='{cpu}'/>");
    }
    // Threads that are no virtual CPUs run on the CPUs kept for them, if any, else on those of their guest.
    let others = if hypervisor.is_empty() { &placed.cpus } else { hypervisor };
    let _ = writeln!(text, "  <emulatorpin cpuset='{others}'/>\n</cputune>");
    if let Some(nodes) = nodes(placed) {
        let _ = writeln!(text, "<numatune>\n  <memory mode='strict' nodeset='{nodes}'/>\n</numatune>");
    }
    text
}

/// Kubernetes chooses the CPUs itself; only the set to choose from and the rules can be given.
fn kubernetes(manner: Manner, placed: &[(Service, Placed)], machine: &CpuSet) -> Settings {
    let taken = CpuSet::new(placed.iter().flat_map(|(_, placed)| placed.cpus.cpus().iter().copied()));
    let kept = CpuSet::new(machine.cpus().iter().copied().filter(|cpu| !taken.cpus().contains(cpu)));
    let settings = |about: &str, text: String| Settings { name: "kubernetes", about: about.to_owned(), text };
    if matches!(manner, Manner::Cache | Manner::Node) {
        let about = "Kubernetes: nothing to paste. Its CPU manager gives a container either exclusive CPUs or all the shared \
                     ones; it cannot let certain services share certain CPUs";
        return settings(about, String::new());
    }
    if kept.is_empty() {
        let about = "Kubernetes: nothing to paste. Its CPU manager needs at least one CPU that is not exclusive to a \
                     container, and these services take all of them";
        return settings(about, String::new());
    }
    let mut about = format!(
        "Kubernetes, the node's /var/lib/kubelet/config.yaml and each container's resources. Guaranteed: each container \
         gets its number of CPUs, from {taken}, exclusively. "
    );
    about += if placed.len() == 1 {
        "With one service, these are its CPUs. "
    } else {
        "Not guaranteed: which of them; the kubelet chooses, and prefers whole cores and few nodes. "
    };
    about += "Nor is local memory guaranteed, unless memoryManagerPolicy is Static, whose reservedMemory depends on the \
              machine. First drain the node, stop the kubelet, remove /var/lib/kubelet/cpu_manager_state, and start it \
              again; nothing else on the machine may ask for whole CPUs";
    let mut text = String::from("cpuManagerPolicy: static\n");
    if manner == Manner::Core {
        text += "cpuManagerPolicyOptions:\n  full-pcpus-only: \"true\"\n";
    }
    let local = placed.iter().all(|(_, placed)| placed.memory.len() <= 1);
    let policy = if local { "single-numa-node" } else { "best-effort" };
    let _ = write!(text, "topologyManagerPolicy: {policy}\nreservedSystemCPUs: \"{kept}\"\n");
    for (service, placed) in placed {
        let (cpus, memory) = (placed.cpus.len(), service.resources.memory_bytes);
        let both = format!("{{cpu: \"{cpus}\", memory: \"{memory}\"}}");
        let name = &service.name;
        let _ = write!(text, "# container {name}\nresources:\n  requests: {both}\n  limits: {both}\n");
    }
    settings(&about, text)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{candidates_of, shop};
    use super::*;

    /// The settings of the best candidate in this manner, by system.
    fn of(manner: Manner, system: &str) -> (String, String) {
        let (topology, workload) = (super::super::tests::machine(), shop());
        let all = candidates_of(&workload, &topology);
        let candidate = all.iter().find(|candidate| candidate.manner == manner).unwrap();
        let machine = CpuSet::new(0..16);
        let mut settings = settings(&Placing::ranked(candidate), &workload.services, &machine);
        settings.retain(|settings| settings.name == system);
        settings.pop().map(|settings| (settings.about, settings.text)).unwrap_or_default()
    }

    #[test]
    fn docker_gets_flags_for_update() {
        let wanted = "docker update --cpuset-cpus=0-1,8-9 --cpuset-mems=0 --cpus=1.5 db\n\
                      docker update --cpuset-cpus=2 --cpuset-mems=0 web\n";
        assert_eq!(of(Manner::Thread, "docker").1, wanted);
    }

    #[test]
    fn systemd_gets_drop_ins() {
        let wanted = "# /etc/systemd/system/db.service.d/placement.conf\n[Service]\nCPUAffinity=0-1,8-9\nNUMAPolicy=bind\n\
                      NUMAMask=0\nCPUQuota=150%\n\n\
                      # /etc/systemd/system/web.service.d/placement.conf\n[Service]\nCPUAffinity=2\nNUMAPolicy=bind\n\
                      NUMAMask=0\n";
        assert_eq!(of(Manner::Thread, "systemd").1, wanted);
    }

    #[test]
    fn libvirt_gets_a_virtual_cpu_for_each_cpu() {
        let wanted = "<!-- web -->\n<vcpu placement='static'>2</vcpu>\n<cputune>\n  <vcpupin vcpu='0' cpuset='2'/>\n  \
                      <vcpupin vcpu='1' cpuset='10'/>\n  <emulatorpin cpuset='2,10'/>\n</cputune>\n<numatune>\n  \
                      <memory mode='strict' nodeset='0'/>\n</numatune>\n";
        let (_, text) = of(Manner::Core, "libvirt");
        assert!(text.ends_with(wanted), "{text}");
    }

    #[test]
    fn kubernetes_reserves_what_no_service_has_and_says_what_it_guarantees() {
        let (about, text) = of(Manner::Core, "kubernetes");
        let wanted = "cpuManagerPolicy: static\ncpuManagerPolicyOptions:\n  full-pcpus-only: \"true\"\n\
                      topologyManagerPolicy: single-numa-node\nreservedSystemCPUs: \"3-7,11-15\"\n\
                      # container db\nresources:\n  requests: {cpu: \"4\", memory: \"1073741824\"}\n  \
                      limits: {cpu: \"4\", memory: \"1073741824\"}\n\
                      # container web\nresources:\n  requests: {cpu: \"2\", memory: \"1073741824\"}\n  \
                      limits: {cpu: \"2\", memory: \"1073741824\"}\n";
        assert_eq!(text, wanted);
        assert!(about.contains("from 0-2,8-10") && about.contains("Not guaranteed: which of them"), "{about}");
        // No settings for what it cannot express.
        let (about, text) = of(Manner::Node, "kubernetes");
        assert!(text.is_empty() && about.contains("cannot let"), "{about}: {text}");
    }

    #[test]
    fn the_kernels_own_placement_needs_no_settings() {
        assert_eq!(of(Manner::Free, "docker"), Default::default());
    }
}
