//! Builds of a workload's own source that exceed their limits: each is ended with a message and leaves nothing behind,
//! even if Tare is killed.

use crate::end_to_end::lab::{Lab, flat, said, text};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A workload whose program is made by a shell's script.
fn workload(lab: &Lab, script: &str) -> PathBuf {
    lab.write("greedy/script", script);
    lab.write(
        "greedy/workload.yaml",
        "workload: greedy\n\
         services:\n  \
           one:\n    \
             bundle: {packages: [netcat-openbsd]}\n    \
             build:\n      \
               packages: [hostname]\n      \
               sources: [script]\n      \
               command: [sh, ./script]\n      \
               installs: {/usr/bin/made: made}\n    \
             command: [/usr/bin/made]\n    \
             ports: {one: 9999}\n    \
             ready: {port: one, within: 5s}\n    \
             resources: {cpus: 1, memory: 64MiB}\n\
         load: {protocol: {tcp: {request: x, reply: {until: y}}}}\n",
    )
}

/// Builds it; `alter` changes the command before it is started.
fn build(lab: &Lab, script: &str, alter: impl FnOnce(&mut Command)) -> String {
    let file = workload(lab, script);
    let mut command = lab.command(&["bundle", "build", "--workload", text(&file)]);
    alter(&mut command);
    let output = command.output().unwrap();
    // Lines are broken where a terminal's would be.
    let said = flat(&said(&output));
    assert!(!output.status.success() && !said.contains("panicked"), "{said}");
    said
}

/// Processes whose command line holds this.
fn processes(mark: &str) -> usize {
    let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = all.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
    lines.filter(|line| line.replace('\0', " ").starts_with(mark)).count()
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A group of this test's own that has so much memory; none where groups cannot be bounded.
fn bounded_group(name: &str, bytes: u64) -> Option<PathBuf> {
    let places = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
    places.into_iter().find_map(|(root, limit)| {
        let group = Path::new(root).join(name);
        fs::create_dir(&group).ok()?;
        let bounded = fs::write(group.join(limit), bytes.to_string());
        bounded.is_ok().then_some(group.clone()).or_else(|| fs::remove_dir(&group).ok().and(None))
    })
}

#[test]
fn a_build_is_bounded_and_ends_with_tare() {
    let Some(lab) = Lab::open(&["mmdebstrap", "unshare"]) else { return };
    let mark = format!("sleep {}.5", 2000 + std::process::id());

    // Forks: what is more than it may have is refused to it, and what it has started goes with it.
    let forked = build(&lab, &format!("while :; do {mark} & done\n"), |_| {});
    assert!(forked.contains("`sh ./script` failed") && forked.contains("fork"), "{forked}");
    until("what it has forked stays", || processes(&mark) == 0);

    // Memory: of what Tare itself may have, so that nobody else of this machine is short of it.
    match bounded_group("test-of-a-build", 640 << 20) {
        None => println!("skipped: memory cannot be bounded here"),
        Some(group) => {
            let entrance = fs::OpenOptions::new().write(true).open(group.join("cgroup.procs")).unwrap();
            let hungry = build(&lab, "head -c 3000000000 /dev/zero | tail -c 2900000000 >made\n", |command| {
                let enter = move || Ok(rustix::io::write(&entrance, b"0").map(drop)?);
                // SAFETY: one system call, on a descriptor that was opened before.
                unsafe { command.pre_exec(enter) };
            });
            fs::remove_dir(&group).unwrap();
            assert!(hungry.contains("` ran out of 480 MiB of memory"), "{hungry}");
        }
    }

    // The disk, which is a small one.
    let disk = lab.path("disk");
    fs::create_dir(&disk).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tare-test", &disk, "tmpfs", flags, Some(c"size=1200m,mode=0755")).unwrap();
    let script = "n=0; while :; do head -c 20000000 /dev/zero >file$n; n=$((n + 1)); done 2>/dev/null\n";
    let wrote = build(&lab, script, |command| _ = command.env("TARE_HOME", disk.join("home")));
    rustix::mount::unmount(&disk, rustix::mount::UnmountFlags::DETACH).unwrap();
    assert!(wrote.contains(", as the disk is full") && wrote.contains("TARE_HOME"), "{wrote}");
    lab.expect_clean();

    // Killed: what it has started ends at once, and its group is what `tare clean` finds.
    let file = workload(&lab, &format!("{mark} & exec {mark}\n"));
    let mut tare = lab.command(&["bundle", "build", "--workload", text(&file)]);
    let mut tare = tare.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("it does not build", || processes(&mark) == 2);
    tare.kill().unwrap();
    tare.wait().unwrap();
    until("it outlives Tare", || processes(&mark) == 0);
    lab.expect(0, &["clean"]);
    lab.expect_clean();
}
