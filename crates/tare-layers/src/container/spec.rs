//! What the engine is asked to create: a pure function of the service, the options and the surroundings.

use super::options::{Capabilities, ContainerOptions, Limits, Namespaces, Network, Seccomp, Storage};
use crate::local::accounts::{Accounts, environment};
use crate::local::volumes::{VolumeFolder, volume_folders as volume_folders_of};
use crate::local::{self, content::has_directory};
use crate::network;
use bollard::models::{
    ContainerCreateBody, EndpointIpamConfig, EndpointSettings, HostConfig, HostConfigCgroupnsModeEnum,
    HostConfigLogConfig, Mount, MountType, NetworkingConfig, PortBinding, PortMap, ResourcesUlimits, RestartPolicy,
    RestartPolicyNameEnum,
};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use tare_core::fault::Fault;
use tare_core::host::{ServiceStart, TrialContext};
use tare_core::units::CpuSet;
use tare_core::workload::{Resources, Service};

/// The label that holds the run's id; anything without it is not ours.
pub(crate) const RUN_LABEL: &str = "tare.run";
/// The label that holds the name of the object that carries it. Images made from our containers pass their labels on,
/// but what is made from those images has another name.
pub(crate) const NAME_LABEL: &str = "tare.name";
/// The label that holds the instance's name.
const INSTANCE_LABEL: &str = "tare.instance";
/// Where the resource probe is inside the container.
const PROGRAM_INSIDE: &str = "/.tare-program";
/// The period of a CPU quota in microseconds, the default of the kernel and of every engine.
pub(super) const QUOTA_PERIOD_US: f64 = 100_000.0;
/// Directories, in memory, that every form lets a service write to.
const IN_MEMORY: [&str; 2] = ["/tmp", "/run"];
/// Capabilities that engines leave a container's root, and that a service which runs as its image does has in no form,
/// see [`IMAGE_BOUNDS`](crate::local::confinement::IMAGE_BOUNDS).
const NOT_AS_IMAGE: [&str; 3] = ["AUDIT_WRITE", "MKNOD", "NET_RAW"];

/// What a container is made from.
pub(crate) struct Order<'a> {
    /// The layer's options.
    pub(crate) options: ContainerOptions,
    /// Where it is.
    pub(crate) surroundings: &'a TrialContext,
    /// The service.
    pub(crate) start: &'a ServiceStart,
    /// The image's name.
    pub(crate) image: &'a str,
    /// The bundle's tree, which the image is made from.
    pub(crate) bundle: &'a Path,
    /// The files that name the service's own user, and its home.
    pub(crate) accounts: &'a Accounts,
    /// The private network's name; unused with the host's own network.
    pub(crate) network: &'a str,
    /// Its address there; none to have the engine choose one.
    pub(crate) address: Option<Ipv4Addr>,
    /// The host's address on which ports are published.
    pub(crate) published_at: IpAddr,
    /// Whether Podman makes the container. Unless told otherwise, it puts the container into the user namespace from
    /// its settings, with users of this machine that nothing knows and so nothing watches.
    pub(crate) by_podman: bool,
    /// Whether a plain user runs the engine: it may limit nothing, and the service is that user to this machine.
    pub(crate) rootless: bool,
    /// The statically linked program that runs in the service's place to report what it gets, if any.
    pub(crate) probe: Option<&'a Path>,
}

/// The labels of something that a run makes under a name.
pub(crate) fn labels(run: &str, name: &str) -> HashMap<String, String> {
    HashMap::from([(RUN_LABEL.to_owned(), run.to_owned()), (NAME_LABEL.to_owned(), name.to_owned())])
}

/// The container's name.
pub(crate) fn container_name(surroundings: &TrialContext, instance: &str) -> String {
    format!("tare-{}-{}-{instance}", surroundings.run, surroundings.trial)
}

/// The service's volumes that are folders of the host. What is shared is one with any storage, but the resource probe
/// gets none of it: the first service begins it.
pub(crate) fn volume_folders(order: &Order) -> Vec<VolumeFolder> {
    let mut all = volume_folders_of(&order.surroundings.scratch, &order.start.instance, order.start);
    let in_container = order.options.storage == Storage::Overlay;
    all.retain(|volume| if volume.shared { order.probe.is_none() } else { !in_container });
    all
}

/// The container to create under this name.
///
/// # Errors
/// When the service wants more CPUs than there are.
pub(crate) fn container(order: &Order, name: &str) -> Result<ContainerCreateBody, Fault> {
    let service = &order.start.service;
    let mut labels = labels(&order.surroundings.run, name);
    labels.insert(INSTANCE_LABEL.to_owned(), order.start.instance.clone());
    let environment = environment(&service.environment, &order.accounts.home);
    let command = match order.probe {
        Some(_) => vec![PROGRAM_INSIDE.to_owned(), "resources".to_owned()],
        None => service.command.clone(),
    };
    let published = order.options.publishes() && order.probe.is_none();
    let ports: Vec<u16> = if published { service.ports.values().copied().collect() } else { Vec::new() };
    let (uid, gid) = service.user;
    Ok(ContainerCreateBody {
        image: Some(order.image.to_owned()),
        // An empty entry point, not an absent one: the image must not add its own.
        entrypoint: Some(Vec::new()),
        cmd: Some(command),
        env: Some(environment.iter().map(|(key, value)| format!("{key}={value}")).collect()),
        user: Some(format!("{uid}:{gid}")),
        working_dir: Some(service.directory.clone().unwrap_or_else(|| "/".to_owned())),
        labels: Some(labels),
        exposed_ports: published.then(|| ports.iter().map(|port| format!("{port}/tcp")).collect()),
        stop_signal: Some(service.stop_signal.to_string()),
        host_config: Some(host_config(order, &ports)?),
        networking_config: order.address.map(|address| seated(order.network, address)),
        ..Default::default()
    })
}

fn host_config(order: &Order, ports: &[u16]) -> Result<HostConfig, Fault> {
    let resources = &order.start.service.resources;
    let memory = i64::try_from(resources.memory_bytes).unwrap_or(i64::MAX);
    let open_files = i64::try_from(open_files()).unwrap_or(i64::MAX);
    let network = match order.options.network {
        Network::Host => "host",
        Network::Slirp4netns => "slirp4netns",
        Network::Pasta => "pasta",
        Network::Published | Network::Translated | Network::Bridge => order.network,
    };
    let quota = cpu_quota(order.options.limits, resources).filter(|_| !order.rootless);
    let memory = (!order.rootless).then_some(memory);
    let (uid, gid) = order.start.service.user;
    let users = if order.rootless { format!("keep-id:uid={uid},gid={gid}") } else { "host".to_owned() };
    let cpus = cpuset(order.options.limits, &order.surroundings.cpus, order.start)?.filter(|_| !order.rootless);
    let shared = order.options.namespaces == Namespaces::Host;
    let as_image = order.start.service.as_image;
    Ok(HostConfig {
        network_mode: Some(network.to_owned()),
        port_bindings: Some(port_bindings(order, ports)),
        // Podman takes it from nobody: its service was started with it.
        runtime: order.options.runtime.named().filter(|_| !order.by_podman).map(str::to_owned),
        cpuset_cpus: cpus.map(|cpus| cpus.to_string()),
        cpuset_mems: nodes(&order.start.memory),
        cpu_period: quota.map(|_| QUOTA_PERIOD_US as i64),
        cpu_quota: quota.map(|cpus| (cpus * QUOTA_PERIOD_US).round() as i64),
        memory,
        // The sum of memory and swap: the same figure means no swap.
        memory_swap: memory,
        ulimits: Some(vec![
            ulimit("nofile", open_files),
            ulimit("nproc", local::PROCESSES.cast_signed()),
            ulimit("core", local::CORE_BYTES.cast_signed()),
        ]),
        security_opt: Some(security(order.options)),
        cap_drop: as_image.then(|| NOT_AS_IMAGE.map(str::to_owned).to_vec()),
        // The kernel limits the processes of each user, but not those of the machine's root.
        pids_limit: as_image.then_some(local::PROCESSES.cast_signed()),
        cap_add: (order.options.capabilities == Capabilities::All).then(|| vec!["ALL".to_owned()]),
        pid_mode: shared.then(|| "host".to_owned()),
        // What services leave in the machine's IPC namespace would outlive them.
        ipc_mode: Some("private".to_owned()),
        uts_mode: shared.then(|| "host".to_owned()),
        userns_mode: order.by_podman.then_some(users),
        cgroupns_mode: shared.then_some(HostConfigCgroupnsModeEnum::HOST),
        extra_hosts: names(order),
        sysctls: low_ports(order),
        readonly_rootfs: Some(order.options.read_only && !as_image),
        tmpfs: Some(in_memory(order)),
        mounts: Some(mounts(order)),
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(HashMap::from([
                ("max-size".to_owned(), "8m".to_owned()),
                ("max-file".to_owned(), "2".to_owned()),
            ])),
        }),
        restart_policy: Some(RestartPolicy { name: Some(RestartPolicyNameEnum::NO), maximum_retry_count: None }),
        auto_remove: Some(false),
        init: Some(false),
        ..Default::default()
    })
}

/// The seat of a container on the private network.
fn seated(network: &str, address: Ipv4Addr) -> NetworkingConfig {
    let seat = EndpointIpamConfig { ipv4_address: Some(address.to_string()), ..Default::default() };
    let settings = EndpointSettings { ipam_config: Some(seat), ..Default::default() };
    NetworkingConfig { endpoints_config: Some(HashMap::from([(network.to_owned(), settings)])) }
}

fn ulimit(name: &str, most: i64) -> ResourcesUlimits {
    ResourcesUlimits { name: Some(name.to_owned()), soft: Some(most), hard: Some(most) }
}

/// The names that a service can look up. An engine writes them to the container's /etc/hosts, below what it has there
/// of its own; even with the host's network, where it would otherwise copy the host's file.
fn names(order: &Order) -> Option<Vec<String>> {
    let names = &order.start.names;
    (!names.is_empty()).then(|| names.iter().map(|(name, address)| format!("{name}:{address}")).collect())
}

/// What lets a service listen below 1024 in a network of its own. Some engines do this unasked, others do not.
fn low_ports(order: &Order) -> Option<HashMap<String, String>> {
    let low = order.start.service.ports.values().any(|port| *port < network::USUAL_BOUND);
    let own = order.options.network != Network::Host;
    (low && own).then(|| HashMap::from([("net.ipv4.ip_unprivileged_port_start".to_owned(), "0".to_owned())]))
}

/// What is added to the engine's own confinement, to match a plain process, and what is removed from it.
fn security(options: ContainerOptions) -> Vec<String> {
    let words = [
        (true, "no-new-privileges"),
        (options.seccomp == Seccomp::Unconfined, "seccomp=unconfined"),
        (options.capabilities == Capabilities::All, "apparmor=unconfined"),
    ];
    words.iter().filter(|(is, _)| *is).map(|(_, word)| (*word).to_owned()).collect()
}

/// Open files that the service may have: the same number as in every form, or as many as this machine lets root have,
/// which is fewer where even root may not raise its own limit.
pub(super) fn open_files() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let own = getrlimit(Resource::Nofile);
    match own.maximum {
        Some(most) if most < local::OPEN_FILES => {
            let raised = Rlimit { current: own.current, maximum: Some(local::OPEN_FILES) };
            setrlimit(Resource::Nofile, raised).map_or(most, |()| local::OPEN_FILES)
        }
        _ => local::OPEN_FILES,
    }
}

/// The CPUs that the container may run on: the service's own, or `all`, those of the system under test. `None` if the
/// host itself is already confined.
///
/// # Errors
/// When the service wants more CPUs than it is given.
pub(super) fn cpuset(limits: Limits, all: &CpuSet, start: &ServiceStart) -> Result<Option<CpuSet>, Fault> {
    let Some(own) = &start.cpus else { return Ok(None) };
    if !matches!(limits, Limits::Cpuset | Limits::Affinity) {
        return Ok(Some(all.clone()).filter(|cpus| !cpus.is_empty()));
    }
    let wanted = start.service.resources.cpus as usize;
    if own.len() < wanted {
        let message = format!("service '{}' wants {wanted} CPUs, and {} are left to it", start.instance, own.len());
        return Err(Fault::new(message).remedy("lower 'cpus' of the service, or use a machine with more"));
    }
    Ok(Some(own.clone()))
}

/// The NUMA nodes that the container's memory comes from, in the kernel's notation.
pub(super) fn nodes(of: &[u32]) -> Option<String> {
    (!of.is_empty()).then(|| CpuSet::new(of.iter().copied()).to_string())
}

/// CPU time per second of real time, in CPUs.
pub(super) fn cpu_quota(limits: Limits, resources: &Resources) -> Option<f64> {
    let whole = (limits == Limits::Quota).then(|| f64::from(resources.cpus));
    match (whole, resources.cpu_quota) {
        (Some(whole), Some(own)) => Some(whole.min(own)),
        (whole, own) => whole.or(own),
    }
}

fn port_bindings(order: &Order, ports: &[u16]) -> PortMap {
    let binding =
        |port: u16| PortBinding { host_ip: Some(order.published_at.to_string()), host_port: Some(port.to_string()) };
    ports.iter().map(|port| (format!("{port}/tcp"), Some(vec![binding(*port)]))).collect()
}

fn in_memory(order: &Order) -> HashMap<String, String> {
    let Service { volumes, as_image, .. } = &order.start.service;
    if *as_image {
        return HashMap::new();
    }
    let free = IN_MEMORY.iter().filter(|path| !volumes.contains_key(**path));
    free.map(|path| ((*path).to_owned(), "rw,exec,nosuid,nodev,mode=1777".to_owned())).collect()
}

fn mounts(order: &Order) -> Vec<Mount> {
    let bind = |inside: String, outside: &Path, read_only: bool| Mount {
        target: Some(inside),
        source: Some(outside.display().to_string()),
        typ: Some(MountType::BIND),
        read_only: Some(read_only),
        ..Default::default()
    };
    let volumes = volume_folders(order).into_iter();
    let volumes = volumes.map(|volume| bind(volume.inside, &volume.folder, volume.read_only));
    let accounts = order.accounts.files.iter().map(|(inside, outside)| bind(inside.clone(), outside, true));
    let program = order.probe.map(|program| bind(PROGRAM_INSIDE.to_owned(), program, true));
    volumes.chain(accounts).chain(program).collect()
}

/// A tar archive with nothing but a directory for each volume that is not shared, owned by the service: it makes the
/// volumes of `storage: overlay` writable before the container starts.
///
/// # Errors
/// When a path is too long for the format.
pub(crate) fn volume_archive(order: &Order) -> Result<Vec<u8>, Fault> {
    let mut archive = Vec::new();
    // One that runs as its image does finds those that its image has, as they are.
    let lacking = |path: &&String| !(order.start.service.as_image && has_directory(order.bundle, path));
    let own = order.start.service.volumes.iter().filter(|(_, volume)| volume.shared.is_none());
    for path in own.map(|(path, _)| path).filter(lacking) {
        archive.extend_from_slice(&directory_header(path, order.start.service.user)?);
    }
    archive.extend_from_slice(&[0; 1024]);
    Ok(archive)
}

/// One header of the ustar format (POSIX.1-1988): a directory.
///
/// # Errors
/// When the path is too long for the format.
pub(crate) fn directory_header(path: &str, (uid, gid): (u32, u32)) -> Result<[u8; 512], Fault> {
    let name = format!("{}/", path.trim_matches('/'));
    if name.len() > 100 {
        return Err(Fault::new(format!("the volume's path {path} is longer than 98 bytes")).remedy("use a shorter one"));
    }
    let mut header = [0_u8; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, &name);
    put(100, "0000755");
    put(108, &format!("{uid:07o}"));
    put(116, &format!("{gid:07o}"));
    put(124, "00000000000");
    put(136, "00000000000");
    put(148, "        ");
    put(156, "5");
    put(257, "ustar");
    put(263, "00");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
