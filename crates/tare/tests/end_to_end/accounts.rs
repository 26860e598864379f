//! The parts of CPU time add up to the machine's busy time, on the kernel that the test runs on: some kernels charge
//! interrupts to what they interrupt, others keep them apart.

use crate::end_to_end::lab::Lab;
use std::path::Path;
use std::process::{Child, Command};

/// The rest may be so much of the busy time, either way, where other processes are told apart: ticks and moments are
/// not exact. The kernel samples its busy time by ticks, 250 a second and CPU: in [`MEASURE`] two CPUs have 10,000, of
/// which the number of busy ones is off by less than 0.5 %.
const REST_AT_MOST: f64 = 0.01;
const MEASURE: &str = "20s";
/// Other processes, threads of the kernel and idle CPUs may be so much of it, of their own or in the rest: 2 % on a
/// shared machine, and up to 20 % on an emulated one whose own CPUs are taken away. A part that is left out, the
/// generator or a service, is a third or more.
const OTHERS_AT_MOST: f64 = 0.25;
/// And so much less than nothing: they are what is left of counters that are read once a second, less the generator's,
/// which are read to the moment.
const OTHERS_AT_LEAST: f64 = -0.05;

#[test]
fn the_parts_of_cpu_time_are_what_the_machine_was_busy_with() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap", "chrt"]) else { return };
    let forms = "{native: [], published: [container: {}], hostnet: [container: {network: host}]}";
    if !held_to_their_bounds(&lab, forms, false) {
        std::fs::remove_dir_all(lab.path("record")).unwrap();
        // What idle CPUs do is in the rest there, and some 1 % of the busy time, so none is idle.
        let cpus = std::thread::available_parallelism().unwrap().get();
        let awake: Vec<Awake> = (0..cpus).map(Awake::keep).collect();
        held_to_their_bounds(&lab, "{native: [], hostnet: [container: {network: host}]}", true);
        drop(awake);
    }
}

/// Runs these forms and holds each of their accounts to the bounds; whether the work of idle CPUs was told from the
/// rest in all of them: the kernel must count what run queues do for that, and interrupts in the time of tasks.
fn held_to_their_bounds(lab: &Lab, forms: &str, awake: bool) -> bool {
    lab.run(&format!(
        "study: accounts\nworkload: redis\nbaseline: native\ndesign: blocks\nrepeat: 1\n\
         load: {{closed: {{connections: 20}}}}\ntime: {{settle: 500ms, measure: {MEASURE}}}\nforms: {forms}\n",
    ));
    let report = lab.report(&lab.path("record"));
    let apart = report["environment"]["cpu.interrupts_apart"].as_str().unwrap_or("unknown");
    let accounts = report["analysis"]["cpu"].as_array().unwrap();
    assert!(accounts.len() >= 3, "each form, and the baseline twice: {accounts:?}");
    let mut idle_told = true;
    for account in accounts {
        let busy = account["busy_us"].as_f64().unwrap();
        let parts = account["parts"].as_array().unwrap();
        let sum: f64 = parts.iter().map(|part| part["us"].as_f64().unwrap()).sum();
        assert!((sum / busy - 1.0).abs() < 1e-6, "{account}");
        let share = |name: &str| {
            let of_name = parts.iter().filter(|part| part["user"].to_string().contains(name));
            of_name.map(|part| part["us"].as_f64().unwrap()).sum::<f64>() / busy
        };
        let [rest, others, idle] = ["\"rest\"", "\"others\"", "\"idle-cpus\""].map(share);
        let [told_rest, told_others, told_idle] = [rest, others, idle].map(|share| format!("{:.2} %", 100.0 * share));
        println!(
            "interrupts apart: {apart}, CPUs kept awake: {awake}: rest {told_rest}, others {told_others}, idle CPUs \
             {told_idle} of {account}"
        );
        assert!(share("generator") > 0.1 && share("redis") > 0.1, "{account}");
        let told = parts.iter().any(|part| part["user"] == "others");
        assert_eq!(told, all_tasks_are_seen(), "other tasks are told where the time of all is: {account}");
        let of_idle = parts.iter().any(|part| part["user"] == "idle-cpus");
        assert!(!of_idle || apart != "yes", "{account}");
        idle_told &= of_idle;
        assert!(!told || !(awake || of_idle) || rest.abs() < REST_AT_MOST, "{account}");
        let beside = rest + others + idle;
        assert!(beside > OTHERS_AT_LEAST && (awake || beside < OTHERS_AT_MOST), "{account}");
        assert_eq!(share("interrupts") > 0.0, apart == "yes", "{account}");
    }
    idle_told
}

/// Whether this machine shows the time of all its tasks, as it does at the root of control groups: of version 1, or of
/// version 2 where every task in that group can be seen. A container has its own group there.
fn all_tasks_are_seen() -> bool {
    let groups = Path::new("/sys/fs/cgroup");
    let has = |name: &str| groups.join(name).exists();
    if has("cpuacct/release_agent") || has("cpu,cpuacct/release_agent") {
        return true;
    }
    let loose = std::fs::read_to_string(groups.join("cgroup.threads"));
    let all_are_here = loose.is_ok_and(|ids| ids.lines().all(|id| id != "0"));
    has("cgroup.controllers") && !has("cgroup.events") && all_are_here
}

/// A process that takes what nobody else wants of a CPU, until it is dropped.
struct Awake(Child);

impl Awake {
    fn keep(cpu: usize) -> Awake {
        let mut command = Command::new("chrt");
        command.args(["--idle", "0", "taskset", "--cpu-list", &cpu.to_string(), "sh", "-c", "while :; do :; done"]);
        Awake(command.spawn().unwrap())
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}
