use super::super::options::{By, EngineKind};
use super::*;
use crate::sample;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tare_core::workload::{Resources, Service, StopSignal, USUAL_PATH, Volume};

fn surroundings() -> TrialContext {
    let around = tare_testkit::sample::surroundings("abc123", Path::new("/run/tare/abc123"), [10, 99, 0, 1], (10, 99));
    TrialContext { cpus: CpuSet::new(0..4), ..around }
}

fn start() -> ServiceStart {
    let service = Service {
        command: vec!["/bin/db".to_owned(), "--fast".to_owned()],
        environment: BTreeMap::from([("MODE".to_owned(), "x".to_owned())]),
        ports: BTreeMap::from([("main".to_owned(), 6379)]),
        volumes: BTreeMap::from([("/data".to_owned(), Volume::of(1 << 20))]),
        resources: Resources { cpus: 2, memory_bytes: 64 << 20, ..Resources::default() },
        ..sample::service("db")
    };
    ServiceStart { instance: "db".to_owned(), ..ServiceStart::on(service, Some(CpuSet::new(1..3))) }
}

fn order<'a>(options: ContainerOptions, surroundings: &'a TrialContext, start: &'a ServiceStart) -> Order<'a> {
    static NONE: Accounts = Accounts { files: Vec::new(), warnings: Vec::new(), home: String::new() };
    let (accounts, published_at, by_podman) = (&NONE, surroundings.address, false);
    let (image, bundle, network, address, probe) = ("i", Path::new("/nowhere"), "n", None, None);
    let rootless = options.is_rootless();
    Order {
        options,
        surroundings,
        start,
        image,
        bundle,
        accounts,
        network,
        address,
        published_at,
        by_podman,
        rootless,
        probe,
    }
}

fn built(options: ContainerOptions, start: &ServiceStart, probe: Option<&Path>) -> (ContainerCreateBody, HostConfig) {
    let surroundings = surroundings();
    let order = Order { probe, ..order(options, &surroundings, start) };
    let mut body = container(&order, "tare-abc123-t1-db").unwrap();
    let host = body.host_config.take().unwrap();
    (body, host)
}

#[test]
fn podman_takes_no_user_namespace_from_its_settings() {
    let (surroundings, start) = (surroundings(), start());
    let mode = |by_podman| {
        let order = Order { by_podman, ..order(ContainerOptions::default(), &surroundings, &start) };
        container(&order, "tare-abc123-t1-db").unwrap().host_config.unwrap().userns_mode
    };
    assert_eq!((mode(true).as_deref(), mode(false)), (Some("host"), None));
}

#[test]
fn a_plain_user_s_engine_is_asked_for_no_limit_and_makes_the_service_that_user() {
    let options = ContainerOptions {
        engine: super::super::options::EngineKind::PodmanRootless,
        network: Network::Slirp4netns,
        limits: Limits::Affinity,
        ..ContainerOptions::default()
    };
    let (surroundings, start) = (surroundings(), start());
    let order = Order { by_podman: true, ..order(options, &surroundings, &start) };
    let host = container(&order, "tare-abc123-t1-db").unwrap().host_config.unwrap();
    assert_eq!((host.memory, host.memory_swap, host.cpu_quota, host.cpuset_cpus), (None, None, None, None));
    let (uid, gid) = start.service.user;
    assert_eq!(host.userns_mode, Some(format!("keep-id:uid={uid},gid={gid}")));
    assert_eq!(host.network_mode.as_deref(), Some("slirp4netns"));
    assert_eq!(host.port_bindings.unwrap().len(), 1);
}

#[test]
fn the_runtime_that_was_asked_for_is_named_to_who_takes_it() {
    let (surroundings, start) = (surroundings(), start());
    let runtime = super::super::runtime_name::RuntimeName::parse("runsc").unwrap();
    let asked = |runtime, by_podman| {
        let options = ContainerOptions { runtime, ..ContainerOptions::default() };
        let order = Order { by_podman, ..order(options, &surroundings, &start) };
        container(&order, "tare-abc123-t1-db").unwrap().host_config.unwrap().runtime
    };
    assert_eq!(asked(runtime, false).as_deref(), Some("runsc"));
    assert_eq!((asked(runtime, true), asked(Default::default(), false)), (None, None));
}

#[test]
fn a_service_gets_exactly_what_was_stated() {
    let (body, host) = built(ContainerOptions::default(), &start(), None);
    assert_eq!(body.cmd.unwrap(), ["/bin/db", "--fast"]);
    assert_eq!(body.entrypoint.unwrap(), Vec::<String>::new());
    assert_eq!(body.user.unwrap(), "999:998");
    assert_eq!(body.working_dir.as_deref(), Some("/"));
    let mut elsewhere = start();
    elsewhere.service.directory = Some("/srv".to_owned());
    assert_eq!(built(ContainerOptions::default(), &elsewhere, None).0.working_dir.as_deref(), Some("/srv"));
    assert_eq!(body.stop_signal.as_deref(), Some("SIGTERM"));
    elsewhere.service.stop_signal = StopSignal::parse("SIGQUIT").unwrap();
    assert_eq!(built(ContainerOptions::default(), &elsewhere, None).0.stop_signal.as_deref(), Some("SIGQUIT"));
    assert_eq!(body.env.unwrap(), ["HOME=".to_owned(), "MODE=x".to_owned(), format!("PATH={USUAL_PATH}")]);
    let labels = body.labels.unwrap();
    assert_eq!((labels[RUN_LABEL].as_str(), labels[NAME_LABEL].as_str()), ("abc123", "tare-abc123-t1-db"));
    assert_eq!(host.cpuset_cpus.unwrap(), "1-2");
    assert_eq!((host.memory, host.memory_swap), (Some(64 << 20), Some(64 << 20)));
    assert_eq!((host.cpu_quota, host.init, host.auto_remove), (None, Some(false), Some(false)));
    let binding = &host.port_bindings.unwrap()["6379/tcp"].clone().unwrap()[0];
    assert_eq!(binding.host_ip.as_deref(), Some("10.99.0.1"));
    assert_eq!(binding.host_port.as_deref(), Some("6379"));
    let mounts = host.mounts.unwrap();
    assert_eq!(mounts[0].source.as_deref(), Some("/run/tare/abc123/t1/.volumes/db/0"));
    assert_eq!(host.security_opt.unwrap(), ["no-new-privileges"]);
}

#[test]
fn a_service_that_runs_as_its_image_has_less_than_an_engine_leaves_it() {
    let mut start = start();
    (start.service.user, start.service.as_image) = ((0, 0), true);
    let options = ContainerOptions { read_only: true, ..ContainerOptions::default() };
    let (body, host) = built(options, &start, None);
    assert_eq!(body.user.as_deref(), Some("0:0"));
    assert_eq!(host.cap_drop.unwrap(), ["AUDIT_WRITE", "MKNOD", "NET_RAW"]);
    assert_eq!((host.cap_add, host.readonly_rootfs, host.pids_limit), (None, Some(false), Some(16_384)));
    assert_eq!(host.security_opt.unwrap(), ["no-new-privileges"]);
    assert!(host.tmpfs.unwrap().is_empty(), "it has the image's own /tmp and /run");
    assert!(options.refused_as_image(&start).is_none());
    for (options, named) in [
        (ContainerOptions { namespaces: Namespaces::Host, ..options }, "'namespaces: host'"),
        (ContainerOptions { capabilities: Capabilities::All, ..options }, "'capabilities: all'"),
        (ContainerOptions { seccomp: Seccomp::Unconfined, ..options }, "no filter of system calls"),
        (ContainerOptions::usual(By::Runtime, EngineKind::Auto), "no filter of system calls"),
        (ContainerOptions::usual(By::Nspawn, EngineKind::Auto), "nspawn's filter of system calls"),
        (ContainerOptions::usual(By::Lxc, EngineKind::Auto), "LXC's filter of system calls"),
    ] {
        assert!(options.refused_as_image(&start).unwrap().message.contains(named), "{named}");
        assert!(options.refused_as_image(&self::start()).is_none(), "it is no root");
    }
}

#[test]
fn what_names_a_user_of_its_own_can_be_read_and_no_more() {
    let (surroundings, start) = (surroundings(), start());
    let files = vec![("/usr/etc/passwd".to_owned(), PathBuf::from("/x/passwd"))];
    let accounts = Accounts { files, home: "/srv/db".to_owned(), ..Accounts::default() };
    let options = ContainerOptions { storage: Storage::Overlay, ..Default::default() };
    let order = Order { accounts: &accounts, ..order(options, &surroundings, &start) };
    let container = container(&order, "x").unwrap();
    assert!(container.env.unwrap().contains(&"HOME=/srv/db".to_owned()));
    let mounts = container.host_config.unwrap().mounts.unwrap();
    let told = (mounts[0].source.as_deref(), mounts[0].target.as_deref(), mounts[0].read_only);
    assert_eq!(told, (Some("/x/passwd"), Some("/usr/etc/passwd"), Some(true)));
    assert_eq!(mounts.len(), 1);
}

#[test]
fn low_ports_are_free_to_all_in_a_network_of_its_own() {
    let sysctls = |network, port| {
        let mut start = start();
        start.service.ports.insert("low".to_owned(), port);
        built(ContainerOptions { network, ..Default::default() }, &start, None).1.sysctls
    };
    let bound = sysctls(Network::Published, 80).unwrap();
    assert_eq!(bound["net.ipv4.ip_unprivileged_port_start"], "0");
    assert_eq!(sysctls(Network::Published, 1024), None);
    assert_eq!(sysctls(Network::Host, 80), None, "an engine refuses to change the host's");
}

#[test]
fn only_published_ports_are_published() {
    for network in [Network::Bridge, Network::Host] {
        let (body, host) = built(ContainerOptions { network, ..Default::default() }, &start(), None);
        assert_eq!(body.exposed_ports, None);
        assert!(host.port_bindings.unwrap().is_empty());
        assert_eq!(host.network_mode.unwrap(), if network == Network::Host { "host" } else { "n" });
    }
}

#[test]
fn the_quota_is_the_smaller_of_the_two() {
    let mut start = start();
    let quota = ContainerOptions { limits: Limits::Quota, ..Default::default() };
    let (_, host) = built(quota, &start, None);
    assert_eq!((host.cpu_quota, host.cpuset_cpus.as_deref()), (Some(200_000), Some("0-3")));
    start.service.resources.cpu_quota = Some(0.5);
    assert_eq!(built(quota, &start, None).1.cpu_quota, Some(50_000));
    assert_eq!(built(ContainerOptions::default(), &start, None).1.cpu_quota, Some(50_000));
}

#[test]
fn memory_is_bound_to_nodes() {
    assert_eq!(built(ContainerOptions::default(), &start(), None).1.cpuset_mems, None);
    let start = ServiceStart { memory: vec![0, 1, 3], ..start() };
    assert_eq!(built(ContainerOptions::default(), &start, None).1.cpuset_mems.as_deref(), Some("0-1,3"));
}

#[test]
fn a_confined_host_is_not_confined_again() {
    let start = ServiceStart { cpus: None, ..start() };
    for limits in [Limits::Cpuset, Limits::Quota, Limits::None] {
        let (_, host) = built(ContainerOptions { limits, ..Default::default() }, &start, None);
        assert_eq!(host.cpuset_cpus, None, "{limits:?}");
    }
}

#[test]
fn more_cpus_than_there_are_is_a_fault() {
    let start = ServiceStart { cpus: Some(CpuSet::new([3])), ..start() };
    let surroundings = surroundings();
    let options = ContainerOptions::default();
    let order = order(options, &surroundings, &start);
    assert!(container(&order, "x").unwrap_err().message.contains("wants 2 CPUs"));
}

#[test]
fn the_probe_differs_only_in_program_and_ports() {
    let start = start();
    let (body, host) = built(ContainerOptions::default(), &start, Some(Path::new("/x/program")));
    let (service_body, service_host) = built(ContainerOptions::default(), &start, None);
    assert_eq!(body.cmd.unwrap(), [PROGRAM_INSIDE, "resources"]);
    assert!(host.port_bindings.unwrap().is_empty());
    assert_eq!(host.mounts.unwrap().len(), service_host.mounts.unwrap().len() + 1);
    assert_eq!((body.env, body.user), (service_body.env, service_body.user));
    assert_eq!((host.memory, host.cpuset_cpus), (service_host.memory, service_host.cpuset_cpus));
    assert_eq!((host.ulimits, host.tmpfs), (service_host.ulimits, service_host.tmpfs));
}

#[test]
fn what_is_shared_is_a_folder_of_the_host_with_any_storage() {
    let mut start = start();
    start.service.volumes.insert("/srv".to_owned(), Volume::shared("site", 1 << 20, true));
    let mounts = |storage, probe| {
        let (_, host) = built(ContainerOptions { storage, ..Default::default() }, &start, probe);
        let own = host.mounts.unwrap().into_iter().filter(|mount| mount.target.as_deref() != Some(PROGRAM_INSIDE));
        own.map(|mount| (mount.target.unwrap(), mount.source.unwrap(), mount.read_only.unwrap())).collect::<Vec<_>>()
    };
    let of = |inside: &str, folder: &str, read_only| {
        (inside.to_owned(), format!("/run/tare/abc123/t1/.volumes/{folder}"), read_only)
    };
    let (own, shared) = (of("/data", "db/0", false), of("/srv", ".shared/site.1", true));
    assert_eq!(mounts(Storage::Volume, None), [own.clone(), shared.clone()]);
    assert_eq!(mounts(Storage::Overlay, None), [shared]);
    let probe = Some(Path::new("/usr/bin/tare"));
    assert_eq!(mounts(Storage::Volume, probe), [own], "the first service begins what is shared");
    let surroundings = surroundings();
    let order = order(ContainerOptions { storage: Storage::Overlay, ..Default::default() }, &surroundings, &start);
    assert_eq!(volume_archive(&order).unwrap().len(), 512 + 1024);
}

#[test]
fn overlay_volumes_are_directories_of_the_service() {
    let (surroundings, start) = (surroundings(), start());
    let options = ContainerOptions { storage: Storage::Overlay, ..Default::default() };
    let order = order(options, &surroundings, &start);
    assert!(volume_folders(&order).is_empty());
    let archive = volume_archive(&order).unwrap();
    assert_eq!(archive.len(), 512 + 1024);
    assert_eq!(&archive[..6], b"data/\0");
    assert_eq!(&archive[108..115], b"0001747");
    // The checksum counts its own field as blanks.
    let mut header = archive[..512].to_vec();
    let stated = u32::from_str_radix(std::str::from_utf8(&header[148..154]).unwrap(), 8).unwrap();
    header[148..156].fill(b' ');
    assert_eq!(stated, header.iter().map(|byte| u32::from(*byte)).sum::<u32>());
}

#[test]
fn names_of_services_are_those_of_hosts() {
    let extra = |start: &ServiceStart, network| {
        built(ContainerOptions { network, ..Default::default() }, start, None).1.extra_hosts
    };
    let names = [("db", "10.99.0.2"), ("six", "fd00::1")];
    let names = names.map(|(name, at)| (name.to_owned(), at.parse::<IpAddr>().unwrap())).into();
    let start = ServiceStart { names, ..start() };
    for network in [Network::Published, Network::Bridge, Network::Host] {
        assert_eq!(extra(&start, network).unwrap(), ["db:10.99.0.2", "six:fd00::1"]);
    }
    assert_eq!(extra(&self::start(), Network::Published), None);
}

#[test]
fn a_container_gets_the_address_that_its_own_name_leads_to() {
    let (surroundings, start) = (surroundings(), start());
    let seat = |address| {
        let order = Order { address, ..order(ContainerOptions::default(), &surroundings, &start) };
        let settings = container(&order, "tare-abc123-t1-db").unwrap().networking_config?.endpoints_config?;
        settings["n"].ipam_config.clone()?.ipv4_address
    };
    assert_eq!(seat(Some([10, 99, 16, 254].into())).as_deref(), Some("10.99.16.254"));
    assert_eq!(seat(None), None);
}
