//! Finding what belongs to a container on this machine: its cgroups, the proxies of its ports, the engine.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tare_core::telemetry::Scope;
use tare_core::units::CpuSet;

/// Programs that make up Docker Engine, by the names that the kernel keeps (15 bytes).
const DOCKER_PROGRAMS: [&str; 3] = ["dockerd", "containerd", "containerd-shim"];
/// Programs that make up Podman.
const PODMAN_PROGRAMS: [&str; 4] = ["podman", "conmon", "netavark", "aardvark-dns"];
/// The program that copies between a published port and the container where the kernel's address translation does not
/// apply.
const PROXY_PROGRAM: &str = "docker-proxy";

/// The longest entry in the kernel's log, bytes.
const LOG_ENTRY: usize = 8192;

/// The ids of all processes and the names of their programs.
fn processes() -> Vec<(u32, String)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    ids.filter_map(|pid| Some((pid, std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned())))
        .collect()
}

fn arguments(pid: u32) -> Vec<String> {
    let text = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    text.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The processes that proxy the ports published on `address`.
pub(crate) fn port_proxies(address: IpAddr, ports: &[u16]) -> Vec<u32> {
    let found = processes().into_iter().filter(|(_, name)| name == PROXY_PROGRAM);
    found.map(|(pid, _)| pid).filter(|pid| is_proxy_of(&arguments(*pid), address, ports)).collect()
}

fn is_proxy_of(arguments: &[String], address: IpAddr, ports: &[u16]) -> bool {
    let after = |name: &str| arguments.iter().skip_while(|word| *word != name).nth(1);
    let address_fits = after("-host-ip").is_some_and(|text| text.parse() == Ok(address));
    let port = after("-host-port").and_then(|text| text.parse::<u16>().ok());
    address_fits && port.is_some_and(|port| ports.contains(&port))
}

/// The processes that look after one container, given its id.
pub(crate) fn shims(container_id: &str) -> Vec<u32> {
    let found = processes().into_iter().filter(|(_, name)| name == "containerd-shim" || name == "conmon");
    found.map(|(pid, _)| pid).filter(|pid| arguments(*pid).iter().any(|word| word == container_id)).collect()
}

/// The engine's own processes, as a scope that serves no requests. Another engine may stand beside it.
pub(crate) fn engine_scope(is_podman: bool) -> Option<Scope> {
    let programs: &[&str] = if is_podman { &PODMAN_PROGRAMS } else { &DOCKER_PROGRAMS };
    let pids: Vec<u32> =
        processes().into_iter().filter(|(_, name)| programs.contains(&name.as_str())).map(|(pid, _)| pid).collect();
    let name = "container engine".to_owned();
    (!pids.is_empty()).then_some(Scope { name, serving: false, pids, cgroups: Vec::new() })
}

/// Keeps processes, with all their threads, on `cpus`. What cannot be moved has ended in the meantime.
pub(crate) fn confine(pids: &[u32], cpus: &CpuSet) {
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus.cpus().iter().filter(|cpu| (**cpu as usize) < rustix::thread::CpuSet::MAX_CPU) {
        set.set(*cpu as usize);
    }
    for pid in pids {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for task in tasks.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok()) {
            let _ = rustix::thread::sched_setaffinity(rustix::process::Pid::from_raw(task), &set);
        }
    }
}

/// Whether the kernel has killed a container's process for lack of memory, as far back as its log goes.
pub(crate) fn killed_for_memory(container_id: &str) -> bool {
    // Without this flag, reading would wait for the next kernel message.
    let log = File::options().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
    let Ok(mut log) = log else { return false };
    let mut entry = vec![0; LOG_ENTRY];
    loop {
        // Each call reads one entry.
        match log.read(&mut entry) {
            Ok(0) => return false,
            Ok(length) if is_kill_in(&String::from_utf8_lossy(&entry[..length]), container_id) => return true,
            Ok(_) => {}
            // It was overwritten while being read: the next entry is the oldest one left.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {}
            Err(_) => return false,
        }
    }
}

/// Whether a kernel log entry reports a process that was killed for lack of memory in a container's group, whose name
/// contains the container's id with every engine.
fn is_kill_in(entry: &str, container_id: &str) -> bool {
    let after = |key: &str| entry.split_once(key).map(|(_, rest)| rest.split(',').next().unwrap_or_default());
    let group = after("oom-kill:").and_then(|_| after("task_memcg="));
    !container_id.is_empty() && group.is_some_and(|group| group.contains(container_id))
}

/// The directories of a process's cgroups: one on v2, one per controller on v1.
pub(crate) fn cgroups(pid: u32) -> Vec<String> {
    let membership = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    cgroup_directories(&membership, &mounts).into_iter().filter(|path| Path::new(path).is_dir()).collect()
}

/// The control group of a container's process that holds all of the container and nothing else: the one of version 2,
/// or any of version 1. Its name contains the container's id with every engine, and the process may be in a group below
/// it, as with crun under systemd; it may also be in groups of others.
pub(crate) fn own_group(pid: u32, container_id: &str) -> Option<PathBuf> {
    let groups = cgroups(pid);
    let freezes = |group: &Path| group.join("cgroup.freeze").exists();
    // In version 1, a group's list of processes does not include those in groups below it.
    let own = groups.iter().filter_map(|group| {
        let (group, named) = (Path::new(group), called_after(Path::new(group), container_id)?);
        Some(if freezes(named) { named } else { group })
    });
    own.min_by_key(|group| !freezes(group)).map(Path::to_path_buf)
}

/// The group at a path, or the one above it, whose name contains a container's id.
pub(crate) fn called_after<'g>(group: &'g Path, container_id: &str) -> Option<&'g Path> {
    let name = |group: &Path| group.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    group.ancestors().find(|group| !container_id.is_empty() && name(group).contains(container_id))
}

/// Where the cgroups named in `/proc/<pid>/cgroup` are mounted, according to `/proc/self/mountinfo`.
fn cgroup_directories(membership: &str, mounts: &str) -> Vec<String> {
    let mut directories = Vec::new();
    for line in membership.lines() {
        // "4:cpu,cpuacct:/docker/<id>" on v1, "0::/docker/<id>" on v2.
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        if path == "/" {
            continue;
        }
        directories.extend(mounts.lines().find_map(|mount| cgroup_in_mount(mount, controllers, path)));
    }
    directories.sort();
    directories.dedup();
    directories
}

/// The directory of `path` below one mount, if the mount is that of `controllers`.
fn cgroup_in_mount(mount: &str, controllers: &str, path: &str) -> Option<String> {
    let (before, after) = mount.split_once(" - ")?;
    let mut tail = after.split(' ');
    let (kind, options) = (tail.next()?, tail.nth(1)?);
    let fits = match controllers {
        "" => kind == "cgroup2",
        // "name=systemd" counts nothing.
        _ if controllers.starts_with("name=") => false,
        _ => kind == "cgroup" && controllers.split(',').all(|name| options.split(',').any(|option| option == name)),
    };
    let mut head = before.split(' ').skip(3);
    let (root, point) = (head.next()?, head.next()?);
    let below = if root == "/" { Some(path) } else { path.strip_prefix(root) };
    // A group whose name merely begins like the root's is another one.
    let below = below.filter(|below| below.is_empty() || below.starts_with('/'));
    fits.then(|| below.map(|below| format!("{point}{below}")))?
}

/// Reads any text as what the kernel says about a process's control groups: first the process's groups and, after an
/// empty line, where they are mounted. Each is found once, below a place where something is mounted.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew_groups(text: &str) {
    let (membership, mounts) = text.split_once("\n\n").unwrap_or((text, ""));
    let found = cgroup_directories(membership, mounts);
    assert!(found.is_sorted() && found.len() <= membership.lines().count(), "{found:?}");
    for directory in &found {
        let mut rests = mounts.split([' ', '\n']).filter_map(|point| directory.strip_prefix(point));
        assert!(rests.any(|rest| rest.is_empty() || rest.starts_with('/')), "{directory}");
    }
}

/// Reads any text as an entry of the kernel's log, and as the name of a killed process, which must not make it look
/// like a kill in anybody else's container.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew_log(text: &str) {
    let told = is_kill_in(text, "abc12");
    assert!(!told || ["oom-kill:", "task_memcg=", "abc12"].iter().all(|word| text.contains(word)), "{text}");
    assert!(!is_kill_in(text, ""));
    let entry = format!("6,1,2,-;oom-kill:constraint=X,task_memcg=/docker/abc12,task={text},pid=7");
    assert!(is_kill_in(&entry, "abc12") && !is_kill_in(&entry, "abc13"), "{entry}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_are_found_below_their_mounts() {
        let mounts = "30 20 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      31 20 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      32 20 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let membership =
            "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n3:pids:/docker/x\n1:name=systemd:/docker/x\n0::/";
        let found = cgroup_directories(membership, mounts);
        assert_eq!(found, ["/sys/fs/cgroup/cpu,cpuacct/docker/x", "/sys/fs/cgroup/memory/docker/x"]);
        let v2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(cgroup_directories("0::/system.slice/d.scope\n", v2), ["/sys/fs/cgroup/system.slice/d.scope"]);
        let nested = "29 23 0:26 /outer /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(cgroup_directories("0::/outer/d\n", nested), ["/sys/fs/cgroup/d"]);
        assert_eq!(cgroup_directories("0::/outer\n", nested), ["/sys/fs/cgroup"]);
        assert!(cgroup_directories("0::/outer-one/d\n", nested).is_empty(), "that is another's");
    }

    #[test]
    fn a_container_s_own_group_has_its_id_and_may_lie_above_its_process() {
        let own = |group: &str| called_after(Path::new(group), "abc12").map(|group| group.display().to_string());
        for group in ["/sys/fs/cgroup/docker/abc12", "/sys/fs/cgroup/system.slice/docker-abc12.scope"] {
            assert_eq!(own(group).as_deref(), Some(group));
        }
        let scope = "/sys/fs/cgroup/machine.slice/libpod-abc12.scope";
        assert_eq!(own(&format!("{scope}/container")).as_deref(), Some(scope));
        assert_eq!(own("/sys/fs/cgroup/system.slice/containerd.service"), None, "that is the engine's");
        assert_eq!(called_after(Path::new("/sys/fs/cgroup/docker/abc12"), ""), None);
    }

    /// What Linux 6.1 wrote about a Docker 20.10 container under systemd.
    #[test]
    fn the_kernels_log_tells_whose_process_was_killed() {
        let entry = include_str!("fixtures/v2-oom-kill.kmsg");
        let id = "0211861791b176f0d5d6e0c6ea0bb3f6d8abb576a8ab16bcf5aa490403e6a613";
        let told = |id: &str| entry.lines().filter(|line| is_kill_in(line, id)).count();
        assert_eq!(told(id), 1);
        assert_eq!(told("96ff02105f6ce1737032550986b06d1714f8fbd5cb41cac7b5bc3628ef496369"), 0);
        assert_eq!(told(""), 0);
    }

    #[test]
    fn only_proxies_of_our_ports_are_ours() {
        let line = "/usr/sbin/docker-proxy -proto tcp -host-ip 10.9.0.1 -host-port 6379 -container-ip 10.9.16.2";
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let address: IpAddr = "10.9.0.1".parse().unwrap();
        assert!(is_proxy_of(&words, address, &[80, 6379]));
        assert!(!is_proxy_of(&words, address, &[80]));
        assert!(!is_proxy_of(&words, "0.0.0.0".parse().unwrap(), &[6379]));
        assert!(!is_proxy_of(&[], address, &[6379]));
    }
}
