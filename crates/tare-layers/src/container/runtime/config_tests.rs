use super::super::super::options::{By, Capabilities, Network, RootKind, Seccomp};
use super::*;
use crate::sample;
use std::collections::BTreeMap;
use tare_core::workload::{Resources, Service, USUAL_PATH, Volume};

const VERSION_1: HostFacts = HostFacts { limits_swap: true, unified: false, capabilities: (1 << 41) - 1 };

fn least() -> ContainerOptions {
    ContainerOptions {
        by: By::Runtime,
        root: RootKind::Directory,
        network: Network::Host,
        limits: Limits::Affinity,
        seccomp: Seccomp::Unconfined,
        capabilities: Capabilities::All,
        namespaces: Namespaces::Host,
        ..ContainerOptions::default()
    }
}

fn start() -> ServiceStart {
    let service = Service {
        command: vec!["/bin/web".to_owned(), "-f".to_owned()],
        environment: BTreeMap::from([("MODE".to_owned(), "a b".to_owned())]),
        user: (100, 101),
        volumes: BTreeMap::from([("/data".to_owned(), Volume::of(1 << 20))]),
        resources: Resources { cpus: 2, cpu_quota: None, memory_bytes: 64 << 20 },
        ..sample::service("web")
    };
    ServiceStart::on(service, Some(CpuSet::new([1, 2])))
}

fn written(options: ContainerOptions, machine: HostFacts, change: impl Fn(&mut Order, &mut ServiceStart)) -> Value {
    let folder = |inside: &str, folder: &str, shared: bool| VolumeFolder {
        inside: inside.to_owned(),
        folder: folder.into(),
        shared,
        read_only: shared,
    };
    let volumes = [folder("/common", "/v/common", true), folder("/data", "/v/0", false)];
    let cpus = CpuSet::new([1, 2]);
    let mut order = Order {
        options,
        start: &start(),
        home: "/srv/web",
        root: Path::new("/assembled"),
        volumes: &volumes,
        probe: None,
        group: Path::new("tare-a1b2c3/web"),
        cpus: Some(&cpus),
        open_files: 1000,
        machine,
    };
    let mut changed = start();
    change(&mut order, &mut changed);
    config(&Order { start: &changed, ..order })
}

fn plain(options: ContainerOptions) -> Value {
    written(options, VERSION_1, |_, _| {})
}

/// The mount at a place.
fn mount_at<'a>(config: &'a Value, place: &str) -> &'a Value {
    let all = config["mounts"].as_array().unwrap();
    all.iter().find(|mount| mount["destination"] == place).unwrap_or_else(|| panic!("nothing at {place}: {all:#?}"))
}

#[test]
fn the_least_container_is_a_chroot_in_a_cgroup() {
    let config = plain(least());
    assert_eq!(config["root"], json!({ "path": "/assembled", "readonly": false }));
    assert_eq!(config["linux"]["namespaces"], json!([]));
    assert_eq!(config["linux"]["cgroupsPath"], "/tare-a1b2c3/web");
    assert!(config["linux"].get("seccomp").is_none());
    let process = &config["process"];
    assert_eq!((&process["args"], &process["cwd"]), (&json!(["/bin/web", "-f"]), &json!("/")));
    let elsewhere = written(least(), VERSION_1, |_, start| start.service.directory = Some("/srv".to_owned()));
    assert_eq!(elsewhere["process"]["cwd"], "/srv");
    assert_eq!(process["user"], json!({ "uid": 100, "gid": 101, "umask": 18 }));
    assert_eq!(process["env"], json!(["HOME=/srv/web", "MODE=a b", format!("PATH={USUAL_PATH}")]));
    let limit = |name: &str, most: u64| json!({ "type": name, "soft": most, "hard": most });
    assert_eq!(
        process["rlimits"],
        json!([limit("RLIMIT_NOFILE", 1000), limit("RLIMIT_NPROC", 16_384), limit("RLIMIT_CORE", 1)])
    );
    assert_eq!(process["capabilities"]["bounding"].as_array().unwrap().len(), 14);
    assert_eq!(mount_at(&config, "/sys")["options"], json!(["rbind", "rro"]));
    let volume = json!({ "destination": "/data", "type": "bind", "source": "/v/0", "options": ["rbind", "rw", "nosuid", "nodev"] });
    assert_eq!(*mount_at(&config, "/data"), volume);
    assert_eq!(mount_at(&config, "/common")["options"], json!(["rbind", "ro", "nosuid", "nodev"]));
    let last = config["mounts"].as_array().unwrap().last().unwrap();
    assert_eq!(last["destination"], "/common", "nothing is mounted in what others may change");
    // Its process is bound to its CPUs, so the group has no CPU set.
    assert_eq!(config["linux"]["resources"]["cpu"], json!({}));
}

#[test]
fn limits_are_those_that_were_asked_for() {
    let cpu = |limits| plain(ContainerOptions { limits, ..least() })["linux"]["resources"]["cpu"].clone();
    assert_eq!(cpu(Limits::Cpuset), json!({ "cpus": "1-2" }));
    assert_eq!(cpu(Limits::None), json!({ "cpus": "1-2" }), "whatever the caller fences it in with");
    assert_eq!(cpu(Limits::Quota), json!({ "cpus": "1-2", "period": 100_000, "quota": 200_000 }));
    let own = written(least(), VERSION_1, |_, start| {
        start.service.resources.cpu_quota = Some(0.5);
        start.memory = vec![0, 1];
    });
    assert_eq!(own["linux"]["resources"]["cpu"], json!({ "period": 100_000, "quota": 50_000, "mems": "0-1" }));
    let fenced =
        written(ContainerOptions { limits: Limits::Cpuset, ..least() }, VERSION_1, |order, _| order.cpus = None);
    assert_eq!(fenced["linux"]["resources"]["cpu"], json!({}), "the host itself is confined already");
}

#[test]
fn memory_goes_without_swap_in_each_version() {
    let memory = |machine| written(least(), machine, |_, _| {})["linux"]["resources"]["memory"].clone();
    // The same for version 2, where a runtime turns a sum equal to the limit into "no swap".
    assert_eq!(memory(VERSION_1), json!({ "limit": 64 << 20, "swap": 64 << 20 }));
    let no_sum = HostFacts { limits_swap: false, ..VERSION_1 };
    assert_eq!(memory(no_sum), json!({ "limit": 64 << 20, "swappiness": 0 }));
}

#[test]
fn namespaces_of_its_own_have_file_systems_that_fit() {
    let own = ContainerOptions { namespaces: Namespaces::Own, ..least() };
    let kinds = |machine| {
        let config = written(own, machine, |_, _| {});
        let all = config["linux"]["namespaces"].as_array().unwrap().clone();
        all.iter().map(|namespace| namespace["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(VERSION_1), ["mount", "pid", "ipc", "uts"], "the network stays the host's");
    assert_eq!(kinds(HostFacts { unified: true, ..VERSION_1 }), ["mount", "pid", "ipc", "uts", "cgroup"]);
    let config = plain(own);
    assert_eq!(mount_at(&config, "/sys")["type"], "sysfs");
    assert_eq!(mount_at(&config, "/sys/fs/cgroup")["type"], "cgroup");
}

#[test]
fn what_else_is_asked_for_is_written_down() {
    let config = plain(ContainerOptions { read_only: true, root: RootKind::Overlay, ..least() });
    assert_eq!(config["root"]["readonly"], true);
    let few = HostFacts { capabilities: 0b1001, ..VERSION_1 };
    let config = written(least(), few, |_, _| {});
    assert_eq!(config["process"]["capabilities"]["permitted"], json!(["CAP_CHOWN", "CAP_FOWNER"]), "those there are");
    let config = written(least(), VERSION_1, |order, _| order.probe = Some(Path::new("/usr/bin/tare")));
    assert_eq!(config["process"]["args"], json!([PROGRAM_INSIDE, "resources"]));
    assert_eq!(mount_at(&config, PROGRAM_INSIDE)["source"], "/usr/bin/tare");
}
