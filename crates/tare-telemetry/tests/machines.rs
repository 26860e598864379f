//! Machines that are not at hand, as trees of the files by which they tell of themselves.

use proptest::prelude::*;
use std::path::Path;
use tare_core::telemetry::{METRICS, Scope, TelemetryRow};
use tare_core::topology::DeviceKind;
use tare_telemetry::{Root, SOURCES, Sampler, checks_at, environment_at, resource_report, topology_at};
use tare_testkit::files;
use tempfile::TempDir;

fn write(root: &Path, file: &str, text: &str) {
    files::write(&root.join(file), text);
}

fn tree(files: &[(&str, &str)]) -> (TempDir, Root) {
    let directory = files::tree(files);
    let root = Root::at(directory.path());
    (directory, root)
}

/// One CPU: its package, core, siblings and the CPUs that share its last-level cache.
fn cpu(root: &Path, cpu: u32, package: i64, core: u32, siblings: &str, shared: &str) {
    let directory = format!("sys/devices/system/cpu/cpu{cpu}");
    write(root, &format!("{directory}/topology/physical_package_id"), &format!("{package}\n"));
    write(root, &format!("{directory}/topology/core_id"), &format!("{core}\n"));
    write(root, &format!("{directory}/topology/thread_siblings_list"), &format!("{siblings}\n"));
    for (name, text) in [("level", "3"), ("type", "Unified"), ("size", "32768K"), ("shared_cpu_list", shared)] {
        write(root, &format!("{directory}/cache/index3/{name}"), text);
    }
}

#[test]
fn two_sockets_with_smt_and_a_cpu_offline() {
    let (keep, root) = tree(&[
        ("sys/devices/system/cpu/online", "0-6\n"),
        ("sys/devices/system/cpu/cpu7/online", "0\n"),
        ("sys/devices/system/node/node0/cpulist", "0-1,4-5\n"),
        ("sys/devices/system/node/node1/cpulist", "2-3,6\n"),
        ("sys/devices/system/node/node2/cpulist", "\n"),
    ]);
    let layout =
        [(0, 0, "0,4"), (1, 0, "1,5"), (2, 1, "2,6"), (3, 1, "3"), (4, 0, "0,4"), (5, 0, "1,5"), (6, 1, "2,6")];
    for (number, package, siblings) in layout {
        cpu(keep.path(), number, package, number % 4, siblings, if package == 0 { "0-1,4-5" } else { "2-3,6" });
    }
    let topology = topology_at(&root);
    assert_eq!((topology.cpus.len(), topology.packages(), topology.cores().len()), (7, 2, 4));
    assert!(topology.smt());
    assert_eq!(topology.offline.to_string(), "7");
    assert_eq!(topology.nodes.len(), 2, "a node of memory only has no CPUs");
    assert_eq!(topology.cpus[6].node, Some(1));
    let facts = environment_at(&root);
    assert_eq!((facts["cpu.cores"].as_str(), facts["cpu.offline"].as_str()), ("4", "7"));
}

#[test]
fn devices_hang_on_nodes() {
    let (_keep, root) = tree(&[
        ("sys/devices/system/cpu/online", "0\n"),
        ("sys/class/net/eth0/device/numa_node", "1\n"),
        ("sys/class/net/eth1/device/vendor", "0x1af4\n"),
        ("sys/class/net/lo/mtu", "65536\n"),
        ("sys/block/nvme0n1/device/numa_node", "0\n"),
        ("sys/block/sda/device/numa_node", "-1\n"),
        ("sys/block/loop0/size", "0\n"),
    ]);
    let devices = topology_at(&root).devices;
    let found: Vec<(DeviceKind, &str, Option<u32>)> =
        devices.iter().map(|device| (device.kind, device.name.as_str(), device.node)).collect();
    let (network, disk) = (DeviceKind::Network, DeviceKind::Disk);
    let wanted = [(network, "eth0", Some(1)), (network, "eth1", None), (disk, "nvme0n1", Some(0)), (disk, "sda", None)];
    assert_eq!(found, wanted);
}

#[test]
fn one_package_with_several_last_level_caches() {
    let (keep, root) = tree(&[("sys/devices/system/cpu/online", "0-7\n")]);
    for number in 0..8 {
        cpu(keep.path(), number, 0, number, &number.to_string(), if number < 4 { "0-3" } else { "4-7" });
    }
    let groups: Vec<String> = topology_at(&root).last_level().iter().map(ToString::to_string).collect();
    assert_eq!(groups, ["0-3", "4-7"]);
}

#[test]
fn an_arm_machine_without_packages_and_with_unlike_cores() {
    let info = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\nFeatures\t: fp asimd atomics\n";
    let (keep, root) = tree(&[("sys/devices/system/cpu/online", "0-1\n"), ("proc/cpuinfo", info)]);
    cpu(keep.path(), 0, -1, 0, "0", "0-1");
    cpu(keep.path(), 1, -1, 1, "1", "0-1");
    write(keep.path(), "sys/devices/system/cpu/cpu1/cpu_capacity", "446\n");
    let topology = topology_at(&root);
    assert_eq!((topology.packages(), topology.cores().len(), topology.smt()), (1, 2, false));
    assert_eq!(topology.cpus[1].capacity, Some(446));
    assert_eq!(environment_at(&root)["cpu.model"], "Arm implementer 0x41 part 0xd0c");
}

fn scope(pids: &[u32], cgroups: &[&str]) -> Scope {
    let cgroups = cgroups.iter().map(|path| (*path).to_owned()).collect();
    Scope { name: "service".to_owned(), serving: true, pids: pids.to_vec(), cgroups }
}

fn service(rows: &[TelemetryRow]) -> &TelemetryRow {
    rows.iter().find(|row| row.scope == "service").expect("the service has a row")
}

#[test]
fn cgroups_of_version_1_beside_an_idle_version_2() {
    let (_keep, root) = tree(&[
        ("proc/stat", "cpu 1 0 0 0 0 0 0 0 0 0\n"),
        ("sys/fs/cgroup/cpuacct/x/cpuacct.usage", "2500000000\n"),
        ("sys/fs/cgroup/cpuacct/x/cpuacct.stat", "user 150\nsystem 100\n"),
        ("sys/fs/cgroup/cpu/x/cpu.stat", "nr_periods 10\nnr_throttled 4\nthrottled_time 1500000000\n"),
        ("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "4096\n"),
        ("sys/fs/cgroup/unified/x/cpu.stat", "usage_usec 9\nuser_usec 5\nsystem_usec 4\n"),
    ]);
    let directories: Vec<String> =
        ["unified", "cpuacct", "cpu", "memory"].iter().map(|name| format!("/sys/fs/cgroup/{name}/x")).collect();
    let directories: Vec<&str> = directories.iter().map(String::as_str).collect();
    let rows = Sampler::new(&root, &[scope(&[], &directories)]).unwrap().sample();
    let values = &service(&rows).values;
    assert_eq!((values["cpu_total_s"], values["throttled_s"], values["throttled_periods"]), (2.5, 1.5, 4.0));
    assert_eq!(values["memory_bytes"], 4096.0);
    assert!(!values.contains_key("psi_cpu_some_s"), "what cannot be read is absent");
}

#[test]
fn cgroups_of_version_2() {
    let cpu = "usage_usec 3000000\nuser_usec 2000000\nsystem_usec 1000000\nnr_periods 1\nnr_throttled 1\n\
               throttled_usec 250000\n";
    let (keep, root) = tree(&[
        ("proc/stat", "cpu 1 0 0 0 0 0 0 0 0 0\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpu memory io\n"),
        ("sys/fs/cgroup/x/cpu.stat", cpu),
        ("sys/fs/cgroup/x/cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=42000000\n"),
        ("sys/fs/cgroup/x/memory.current", "8192\n"),
        ("sys/fs/cgroup/x/io.stat", "8:0 rbytes=100 wbytes=7 rios=1 wios=1\n8:16 rbytes=1 wbytes=2\n"),
    ]);
    let mut sampler = Sampler::new(&root, &[scope(&[], &["/sys/fs/cgroup/x"])]).unwrap();
    let first = sampler.sample();
    let values = &service(&first).values;
    assert_eq!((values["cpu_total_s"], values["cpu_user_s"], values["throttled_s"]), (3.0, 2.0, 0.25));
    assert_eq!((values["psi_cpu_some_s"], values["disk_read_bytes"], values["disk_write_bytes"]), (42.0, 101.0, 9.0));
    write(keep.path(), "sys/fs/cgroup/x/cpu.stat", "usage_usec 1000000\n");
    assert_eq!(service(&sampler.sample()).values["cpu_total_s"], 3.0, "a counter fell");
}

#[test]
fn all_tasks_of_the_machine_are_counted_with_either_version_of_control_groups() {
    let stat = ("proc/stat", "cpu 1 0 0 0 0 0 0 0 0 0\n");
    let of = |files: &[(&str, &str)]| {
        let (keep, root) = tree(files);
        let rows = Sampler::new(&root, &[]).unwrap().sample();
        drop(keep);
        rows[0].values.get("cpu_tasks_s").copied()
    };
    let usage = ("sys/fs/cgroup/cpu,cpuacct/cpuacct.usage", "2500000000\n");
    assert_eq!(of(&[stat, usage, ("sys/fs/cgroup/cpu,cpuacct/release_agent", "\n")]), Some(2.5));
    assert_eq!(of(&[stat, usage]), None, "a container sees its own group there");
    let version_2 = [
        stat,
        ("sys/fs/cgroup/cgroup.controllers", "cpu\n"),
        ("sys/fs/cgroup/cpu.stat", "usage_usec 99000000\n"),
        ("sys/fs/cgroup/system.slice/cpu.stat", "usage_usec 1000000\n"),
        ("sys/fs/cgroup/user.slice/cpu.stat", "usage_usec 500000\n"),
        ("proc/2/schedstat", "250000000 1 1\n"),
        ("proc/9/schedstat", "0 0 0\n"),
        ("proc/9/stat", "9 (a b) S 2 0 0 0 -1 0 0 0 0 0 40 80 0 0 20 0 2 0 1 0 0\n"),
        ("proc/9/task/9/stat", "9 (a b) S 2 0 0 0 -1 0 0 0 0 0 4 8 0 0 20 0 2 0 1 0 0\n"),
    ];
    let with = |more: &[(&'static str, &'static str)]| of(&[&version_2[..], more].concat());
    let loose = ("sys/fs/cgroup/cgroup.threads", "2\n9\n");
    assert_eq!(with(&[loose]), Some(1.87), "groups below the root, whose own is made of ticks, and tasks in the root");
    assert_eq!(with(&[]), None, "a container of a kernel that lists no threads");
    assert_eq!(with(&[("sys/fs/cgroup/cgroup.threads", "0\n2\n")]), None, "some tasks cannot be seen");
    assert_eq!(with(&[loose, ("sys/fs/cgroup/cgroup.events", "populated 1\n")]), None, "that is not the root");
}

#[test]
fn what_has_ended_stays_in_the_sum_of_all_tasks() {
    let (keep, root) = tree(&[
        ("proc/stat", "cpu 1 0 0 0 0 0 0 0 0 0\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpu\n"),
        ("sys/fs/cgroup/cgroup.threads", "2\n9\n"),
        ("sys/fs/cgroup/a/cpu.stat", "usage_usec 1000000\n"),
        ("proc/2/schedstat", "250000000 1 1\n"),
        ("proc/9/schedstat", "500000000 1 1\n"),
    ]);
    let mut sampler = Sampler::new(&root, &[]).unwrap();
    let mut read = || sampler.sample()[0].values["cpu_tasks_s"];
    assert_eq!(read(), 1.75);
    std::fs::remove_dir_all(keep.path().join("sys/fs/cgroup/a")).unwrap();
    write(keep.path(), "sys/fs/cgroup/cgroup.threads", "2\n");
    write(keep.path(), "proc/2/schedstat", "375000000 1 2\n");
    assert_eq!(read(), 1.875);
}

#[test]
fn a_task_that_has_the_number_of_one_that_ended_is_counted_too() {
    let (keep, root) = tree(&[
        ("proc/stat", "cpu 1 0 0 0 0 0 0 0 0 0\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpu\n"),
        ("sys/fs/cgroup/cgroup.threads", "9\n"),
        ("proc/9/schedstat", "500000000 1 1\n"),
    ]);
    let mut sampler = Sampler::new(&root, &[]).unwrap();
    let mut read = || sampler.sample()[0].values["cpu_tasks_s"];
    assert_eq!(read(), 0.5);
    // The file of a task that has ended cannot be read any more, though it is held open.
    write(keep.path(), "proc/9/schedstat", "");
    std::fs::remove_file(keep.path().join("proc/9/schedstat")).unwrap();
    write(keep.path(), "proc/9/schedstat", "125000000 1 1\n");
    assert_eq!(read(), 0.5, "what the first one used stays");
    assert_eq!(read(), 0.625);
}

#[test]
fn how_long_cpus_had_tasks_is_told_where_it_is_told_of_all() {
    let stat = ("proc/stat", "cpu 1 0 0 0 0 0 0 0 0 0\ncpu0 1 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\n");
    let of = |schedstat: &str| {
        let (_keep, root) = tree(&[stat, ("proc/schedstat", schedstat)]);
        Sampler::new(&root, &[]).unwrap().sample()[0].values.get("cpu_occupied_s").copied()
    };
    let cpu0 = "timestamp 42\ncpu0 0 0 0 0 0 0 1500000000 31280123173 14390\ndomain0 3 1 2 3 4 5 6 7 8 9\n";
    let cpu1 = "cpu1 0 0 0 0 0 0 250000000 24596344860 14429\n";
    assert_eq!(of(&format!("version 15\n{cpu0}{cpu1}")), Some(1.75));
    assert_eq!(of(&format!("version 15\n{cpu0}")), None, "one CPU is missing");
    assert_eq!(of(&format!("version 14\n{cpu0}{cpu1}")), None, "in another unit");
}

#[test]
fn inside_a_guest_nobody_adds_up_its_tasks() {
    let (_keep, root) = tree(&[
        ("proc/stat", "cpu 1 0 0 0 0 0 0 0 0 0\ncpu0 1 0 0 0 0 0 0 0 0 0\n"),
        ("proc/schedstat", "version 15\ncpu0 0 0 0 0 0 0 1500000000 31280123173 14390\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpu\n"),
        ("sys/fs/cgroup/cgroup.threads", "2\n"),
        ("proc/2/schedstat", "250000000 1 1\n"),
    ]);
    let told = |mut sampler: Sampler| {
        let rows = sampler.sample();
        ["cpu_tasks_s", "cpu_occupied_s", "cpu_user_s@0"].map(|metric| rows[0].values.get(metric).copied())
    };
    let sampler = || Sampler::new(&root, &[]).unwrap();
    assert_eq!(told(sampler()), [Some(0.25), Some(1.5), Some(0.01)]);
    assert_eq!(told(sampler().inside_a_guest()), [None, None, Some(0.01)]);
}

#[test]
fn the_machine_counts_disks_and_interfaces_once() {
    let stat = "cpu  300 0 100 900 50 2 3 20 100 0\ncpu1 300 0 100 900 50 2 3 20 100 0\nctxt 77\nprocs_running 2\n";
    let disks =
        "8 0 sda 1 0 10 0 1 0 20 0 0 0 0\n8 1 sda1 1 0 10 0 1 0 20 0 0 0 0\n7 0 loop0 1 0 99 0 1 0 99 0 0 0 0\n";
    let net = "Inter-|\n face |\n    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n  eth0: 100 2 0 0 0 0 0 0 50 1 0 0 0 0 0 0\n";
    let (_keep, root) = tree(&[
        ("proc/stat", stat),
        ("proc/diskstats", disks),
        ("proc/net/dev", net),
        ("sys/block/sda/size", "1\n"),
        ("sys/block/loop0/size", "1\n"),
    ]);
    let rows = Sampler::new(&root, &[]).unwrap().sample();
    let values = &rows[0].values;
    assert_eq!((values["cpu_user_s@1"], values["cpu_guest_s"], values["cpu_steal_s"]), (2.0, 1.0, 0.2));
    assert_eq!((values["disk_read_bytes"], values["disk_write_bytes"]), (5120.0, 10240.0));
    assert_eq!((values["net_rx_bytes"], values["net_tx_packets"], values["load_running"]), (100.0, 1.0, 2.0));
}

#[test]
fn a_branch_that_another_scope_names_is_counted_there_only() {
    let line = |pid: u32, parent: u32, user: u32| {
        format!("{pid} (x) S {parent} 1 1 0 -1 0 0 0 0 0 {user} 0 0 0 20 0 1 0 {pid} 4096 1 0\n")
    };
    let (_keep, root) = tree(&[
        ("proc/1/stat", &line(1, 0, 0)),
        ("proc/10/stat", &line(10, 1, 100)),
        ("proc/11/stat", &line(11, 10, 200)),
        ("proc/12/stat", &line(12, 11, 300)),
        ("proc/9/stat", &line(9, 12, 50)),
    ]);
    let branch = Scope { name: "branch".to_owned(), ..scope(&[12], &[]) };
    let rows = Sampler::new(&root, &[scope(&[10], &[]), branch]).unwrap().sample();
    assert_eq!(service(&rows).values["cpu_total_s"], 3.0);
    assert_eq!(rows.iter().find(|row| row.scope == "branch").unwrap().values["cpu_total_s"], 3.5);
}

#[test]
fn threads_are_counted_where_they_were_seen() {
    let stat = |cpu: u32| {
        let zeroes = "0 ".repeat(14);
        format!("10 (x) S 1 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 10 4096 1 {zeroes}{cpu} 0 0 0 0 0\n")
    };
    let task = "proc/10/task/10";
    let first = "1 (y) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 4096 1 0\n";
    let machine = ("proc/stat", "cpu 1 0 0 0 0 0 0 0 0 0\n");
    let (keep, root) = tree(&[machine, ("proc/1/stat", first), ("proc/10/stat", &stat(5))]);
    write(keep.path(), &format!("{task}/stat"), &stat(5));
    write(keep.path(), &format!("{task}/schedstat"), "1000000000 5 7\n");
    let mut sampler = Sampler::new(&root, &[scope(&[10], &[])]).unwrap();
    let mut on = |runs: u32, ns: u64, cpu: u32| {
        write(keep.path(), &format!("{task}/stat"), &stat(cpu));
        write(keep.path(), &format!("{task}/schedstat"), &format!("{ns} 5 {runs}\n"));
        let rows = sampler.sample();
        let values = &service(&rows).values;
        [3, 5].map(|cpu| values.get(&format!("cpu_on_s@{cpu}")).copied().map(|s| (s * 10.0).round() / 10.0))
    };
    assert_eq!(on(7, 1_000_000_000, 5), [None, None], "what it used before it was watched it may have used anywhere");
    assert_eq!(on(8, 1_500_000_000, 5), [None, Some(0.5)]);
    assert_eq!(on(9, 1_700_000_000, 3), [Some(0.2), Some(0.5)]);
    assert_eq!(on(9, 1_700_000_000, 5), [Some(0.2), Some(0.5)], "it has not run since");
}

#[test]
fn nothing_at_all_is_said_and_never_panics() {
    let (_keep, root) = tree(&[]);
    let fault = Sampler::new(&root, &[]).err().expect("nothing can be sampled");
    assert!(fault.message.contains("/proc") && !fault.remedy.is_empty());
    assert!(topology_at(&root).cpus.is_empty());
    assert!(!environment_at(&root).contains_key("kernel"));
    assert!(!checks_at(&root).is_empty());
}

#[test]
fn every_source_delivers_known_metrics_only_and_says_why_it_cannot() {
    let (_keep, root) = tree(&[]);
    for source in SOURCES {
        for metric in source.metrics {
            assert!(METRICS.iter().any(|known| known.name == *metric), "{}: {metric}", source.name);
        }
        if let tare_telemetry::SourceState::Unavailable { why, how_to_check } = (source.probe)(&root) {
            assert!(!why.is_empty() && !how_to_check.is_empty(), "{}", source.name);
        }
    }
}

#[test]
fn the_environment_tells_nobodys_name() {
    let (_keep, root) = tree(&[
        ("proc/sys/kernel/hostname", "secret-name\n"),
        ("etc/hostname", "secret-name\n"),
        ("proc/cmdline", "root=secret-name\n"),
        ("sys/class/dmi/id/product_serial", "secret-name\n"),
        ("sys/class/net/eth0/address", "secret-name\n"),
        ("proc/sys/kernel/osrelease", "6.1.0\n"),
    ]);
    let facts = environment_at(&root);
    assert_eq!(facts["kernel"], "6.1.0");
    assert!(facts.values().all(|value| !value.contains("secret-name")), "{facts:?}");
    assert!(checks_at(&Root::machine()).iter().all(|check| !check.meaning.is_empty()));
    assert!(resource_report().properties.contains_key("cpus"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn counters_never_fall_whatever_comes_and_goes(
        rounds in proptest::collection::vec(proptest::collection::vec((2_u32..7, 0_u32..500, 0_u32..300), 0..5), 2..8),
    ) {
        let (keep, root) = tree(&[("proc/stat", "cpu 1 0 0 0 0 0 0 0 0 0\n")]);
        let stat = |pid: u32, user: u32, reaped: u32| {
            format!("{pid} (x) S 2 1 1 0 -1 0 {user} 0 0 0 {user} 1 {reaped} 0 20 0 1 0 5 4096 1 0\n")
        };
        let mut sampler = Sampler::new(&root, &[scope(&[2], &[])]).unwrap();
        let mut last: Option<TelemetryRow> = None;
        for round in rounds {
            for pid in 2..7 {
                let _ = std::fs::remove_dir_all(keep.path().join(format!("proc/{pid}")));
            }
            for (pid, user, reaped) in round {
                write(keep.path(), &format!("proc/{pid}/stat"), &stat(pid, user, reaped));
            }
            let rows = sampler.sample();
            let Some(row) = rows.into_iter().find(|row| row.scope == "service") else { continue };
            if let Some(last) = &last {
                for name in ["cpu_user_s", "cpu_system_s", "cpu_total_s", "minor_faults"] {
                    if let Some(before) = last.values.get(name) {
                        prop_assert!(row.values[name] >= *before);
                    }
                }
            }
            last = Some(row);
        }
    }
}
