//! systemd-nspawn: an OCI bundle, of which it understands a part, and arguments for the rest. The service is the first
//! process inside, its user a number: with `--user`, nspawn would run the image's own `getent` as root to look it up.

use super::super::super::options::Seccomp;
use super::super::config::{Order, process};
use super::{End, Told, write_secret};
use crate::local::root::{PROGRAM_INSIDE, Root, mount_private_memory, place_in};
use crate::local::{CORE_BYTES, PROCESSES, logs};
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use tare_core::fault::Fault;

/// The version of the specification that nspawn takes.
const VERSION: &str = "1.0.0";
/// Where nspawn keeps its locks while it runs, and would look for systemd.
const STATE: &str = "/run/systemd";
/// Where nspawn tells those inside about itself: it insists on a mount there.
const OF_MANAGER: &str = "/run/host";
/// What each message of nspawn begins with when it is told to name the place in its source.
const ORIGIN: &str = "src/nspawn/";
/// The signals by which a program ends, as nspawn calls them.
const SIGNALS: [(&str, i32); 12] = [
    ("KILL", libc::SIGKILL),
    ("SEGV", libc::SIGSEGV),
    ("ABRT", libc::SIGABRT),
    ("BUS", libc::SIGBUS),
    ("ILL", libc::SIGILL),
    ("FPE", libc::SIGFPE),
    ("TRAP", libc::SIGTRAP),
    ("SYS", libc::SIGSYS),
    ("TERM", libc::SIGTERM),
    ("PIPE", libc::SIGPIPE),
    ("XCPU", libc::SIGXCPU),
    ("ALRM", libc::SIGALRM),
];

/// Completes the root, which this thread has mounted, and the command that starts the container.
pub(super) fn prepare(told: &Told, tree: &Root, command: &mut Command) -> Result<End, Fault> {
    let order = &told.order;
    mount_private_memory(Path::new(STATE), "mode=755")?;
    if order.volumes.iter().any(|volume| volume.inside.starts_with(OF_MANAGER)) {
        let message = format!("service '{}' has a volume in {OF_MANAGER}", order.start.instance);
        let fault = Fault::new(format!("{message}, where systemd-nspawn has files of its own"));
        return Err(fault.remedy("mount it elsewhere, or leave 'by: nspawn' out").as_mistake());
    }
    // What is no directory tree of a system is refused, and that is known by its /usr.
    tree.furnish(order.root, &["/usr"])?;
    let run = place_in(order.root, "/run")?;
    mount_private_memory(&run.join("host"), "mode=755")?;
    write_secret(&told.directory.join("config.json"), &config(order).to_string())?;
    command.env("SYSTEMD_LOG_LOCATION", "1").env("SYSTEMD_NSPAWN_TMPFS_TMP", "0");
    if order.options.seccomp == Seccomp::Unconfined {
        command.env("SYSTEMD_SECCOMP", "0");
    }
    command.args(["--quiet", "--register=no", "--keep-unit", "--console=pipe"]);
    command.args(["--resolv-conf=off", "--timezone=off", "--link-journal=no"]);
    // nspawn takes no notice of the bundle's `noNewPrivileges`.
    command.arg("--no-new-privileges=yes");
    command.arg(format!("--machine={}", told.machine));
    command.arg(format!("--rlimit=NOFILE={}", order.open_files));
    command.arg(format!("--rlimit=NPROC={PROCESSES}")).arg(format!("--rlimit=CORE={CORE_BYTES}"));
    command.arg(format!("--bind={}:/run:rbind", escaped(&run)));
    if let Some(program) = order.probe {
        command.arg(format!("--bind-ro={}:{PROGRAM_INSIDE}", escaped(program)));
    }
    command.arg(format!("--oci-bundle={}", told.directory.display()));
    let (log, machine) = (told.log.to_owned(), told.machine.clone());
    Ok(Box::new(move |status| {
        let said = logs::tail(&log).unwrap_or_default();
        (signal_told(status, &said, &machine).map_or(status, ExitStatus::from_raw), 0)
    }))
}

/// A path as a part of an argument with colons.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace('\\', "\\\\").replace(':', "\\:")
}

/// The whole of `config.json`.
fn config(order: &Order) -> Value {
    let namespaces: Vec<Value> =
        ["mount", "pid", "ipc", "uts", "cgroup"].iter().map(|kind| json!({ "type": kind })).collect();
    let mut process = process(order);
    // Refused, or told by arguments.
    let without = |of: &mut Value, key| of.as_object_mut().and_then(|of| of.remove(key));
    without(&mut process["user"], "umask");
    without(&mut process, "rlimits");
    without(&mut process, "noNewPrivileges");
    json!({
        "ociVersion": VERSION,
        "root": { "path": order.root, "readonly": order.options.read_only },
        "process": process,
        "linux": { "namespaces": namespaces },
    })
}

/// The signal that has ended the service, which nspawn itself only writes down, in the service's own log: a service
/// that prints such a line last and ends with exit code 1 is said to have been killed.
fn signal_told(status: ExitStatus, said: &str, machine: &str) -> Option<i32> {
    let last = said.lines().next_back().filter(|_| status.code() == Some(1))?;
    let (_, name) = last.split_once(&format!("Container {machine} terminated by signal "))?;
    SIGNALS.iter().find(|(known, _)| *known == name.trim_end_matches('.')).map(|(_, number)| *number)
}

/// What stands at the end of the service's log in the form of nspawn's messages, if nspawn may have failed by itself.
/// The service writes to the same log, and may have printed it.
pub(super) fn last_words(status: ExitStatus, said: &str) -> Option<String> {
    let message = |line: &str| {
        let (place, message) = line.split_once(": ")?;
        place.contains(ORIGIN).then(|| message.to_owned())
    };
    let last = said.lines().next_back().and_then(message).filter(|_| status.code() == Some(1))?;
    if last.contains(" terminated by signal ") {
        return None;
    }
    let all: Vec<String> = said.lines().filter_map(message).filter(|line| line != "Child died too early.").collect();
    Some(all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: i32 = 1 << 8;

    #[test]
    fn what_nspawn_says_is_found_in_the_service_s_log() {
        let at = |line: &str| format!("ready\n../src/nspawn/nspawn.c:3310: {line}\n");
        let why = |code: i32, said: &str| last_words(ExitStatus::from_raw(code), said);
        let gone = at("execv(/bin/x) failed: No such file or directory");
        assert_eq!(why(FAILED, &gone).as_deref(), Some("execv(/bin/x) failed: No such file or directory"));
        let two =
            at("Failed to change to specified working directory /x: y") + "src/nspawn/n.c:1: Child died too early.\n";
        assert_eq!(why(FAILED, &two).as_deref(), Some("Failed to change to specified working directory /x: y"));
        assert_eq!(why(0, &gone), None);
        assert_eq!(why(FAILED, "error: no configuration\n"), None, "the service's own");
        let forged = "started\nthe service prints src/nspawn/: refused\n";
        assert_eq!(why(FAILED, forged).as_deref(), Some("refused"), "nothing tells it from nspawn's");
        assert_eq!(why(2 << 8, forged), None, "nspawn ends otherwise");
        assert_eq!(why(FAILED, &format!("{forged}and more\n")), None, "nspawn has the last word");
        let killed = at("Container tare-a1b2c3 terminated by signal KILL.");
        assert_eq!(why(FAILED, &killed), None);
        assert_eq!(signal_told(ExitStatus::from_raw(FAILED), &killed, "tare-a1b2c3"), Some(libc::SIGKILL));
        assert_eq!(signal_told(ExitStatus::from_raw(FAILED), &killed, "tare-other0"), None);
        assert_eq!(signal_told(ExitStatus::from_raw(2 << 8), &killed, "tare-a1b2c3"), None);
    }

    #[test]
    fn a_path_with_a_colon_is_one_part_of_an_argument() {
        assert_eq!(escaped(Path::new("/a:b\\c")), "/a\\:b\\\\c");
    }
}
