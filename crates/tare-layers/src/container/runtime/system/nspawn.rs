//! systemd-nspawn: an OCI bundle, of which it understands a part, and arguments for the rest. The service is the first
//! process inside, its user a number: with `--user`, nspawn would run the image's own `getent` as root to look it up.

use super::super::super::options::Seccomp;
use super::super::config::{Order, process};
use super::{End, Told, write_secret};
use crate::local::root::{PROGRAM_INSIDE, Root, mount_private_memory, place_in};
use crate::local::volumes::VolumeFolder;
use crate::local::{CORE_BYTES, PROCESSES, logs};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use tare_core::fault::{Doing, Fault};

/// The version of the specification that nspawn takes.
const VERSION: &str = "1.0.0";
/// Where nspawn keeps its locks while it runs, and would look for systemd.
const STATE: &str = "/run/systemd";
/// Where nspawn tells those inside about itself, in `/run`: it insists on a mount there.
const OF_MANAGER: &str = "host";
/// What each message of nspawn begins with when it is told to name the place in its source.
const ORIGIN: &str = "src/nspawn/";
/// How many of nspawn's messages are told: a service may print any number of such lines.
const TOLD_MOST: usize = 3;
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
    // What is no directory tree of a system is refused, and that is known by its /usr.
    tree.furnish(order.root, &["/usr"])?;
    let run = place_in(order.root, "/run")?;
    refuse_volumes(order, &run)?;
    mount_private_memory(&run.join(OF_MANAGER), "mode=755")?;
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
    // What it is in every form. nspawn's own holds a tenth of the machine's memory, and programs run from it.
    command.arg("--tmpfs=/dev/shm:mode=1777,size=64m,nosuid,noexec");
    if let Some(program) = order.probe {
        command.arg(format!("--bind-ro={}:{PROGRAM_INSIDE}", escaped(program)));
    }
    command.arg(format!("--oci-bundle={}", told.directory.display()));
    let (log, machine) = (told.log.to_owned(), told.machine.clone());
    Ok(Box::new(move |status, seen| {
        let said = logs::tail(&log).unwrap_or_default();
        (signal_told(status, seen, &said, &machine).map_or(status, ExitStatus::from_raw), 0)
    }))
}

/// Refuses a volume where nspawn has files of its own, which would hide what is in it; and one that is `/run` itself:
/// what the service has left in it, such as a link, would lead what is made there out of the service's root.
fn refuse_volumes(order: &Order, run: &Path) -> Result<(), Fault> {
    let number = |path: &Path| {
        let facts = fs::metadata(path).doing(format!("look at {}", path.display()))?;
        Ok::<_, Fault>((facts.dev(), facts.ino()))
    };
    for VolumeFolder { inside, folder, .. } in order.volumes {
        let place = place_in(order.root, inside)?;
        if number(folder)? == number(run)? || place.starts_with(run.join(OF_MANAGER)) {
            let message = format!("service '{}' has a volume at {inside}", order.start.instance);
            let why = format!("systemd-nspawn has files of its own in /run/{OF_MANAGER}");
            let fault = Fault::new(format!("{message}, and {why}"));
            return Err(fault.remedy("mount it elsewhere, or leave 'by: nspawn' out").as_mistake());
        }
    }
    Ok(())
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
        "root": { "path": order.root, "readonly": false },
        "process": process,
        "linux": { "namespaces": namespaces },
    })
}

/// The signal that has ended the service, which nspawn does not tell by how it ends itself: as the kernel says it of
/// the service, `seen`. Where the kernel does not, nspawn's own words are all there is, in the service's own log: a
/// service that prints such a line last and ends with exit code 1 is said to have been killed.
fn signal_told(status: ExitStatus, seen: Option<ExitStatus>, said: &str, machine: &str) -> Option<i32> {
    if status.code() != Some(1) {
        return None;
    }
    match seen.map(|seen| (seen.signal(), seen.code())) {
        Some((Some(signal), _)) => return Some(signal),
        // The exit code that nspawn hands on is the service's own.
        Some((None, Some(1))) => return None,
        // Its first thread may have ended before, and otherwise than all of it.
        Some(_) | None => {}
    }
    let (_, name) = said.lines().next_back()?.split_once(&format!("Container {machine} terminated by signal "))?;
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
    Some(all[all.len().saturating_sub(TOLD_MOST)..].join("; "))
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
        let many = at("one") + "src/nspawn/n.c:2: two\nsrc/nspawn/n.c:3: three\nsrc/nspawn/n.c:4: four\n";
        assert_eq!(why(FAILED, &many).as_deref(), Some("two; three; four"), "a service may print any number");
    }

    #[test]
    fn the_kernel_s_word_goes_over_what_stands_in_the_service_s_log() {
        let line = |machine: &str| format!("src/nspawn/n.c:1: Container {machine} terminated by signal KILL.\n");
        let told = |code: i32, seen: Option<i32>, said: &str| {
            signal_told(ExitStatus::from_raw(code), seen.map(ExitStatus::from_raw), said, "tare-a1b2c3")
        };
        let (killed, other) = (line("tare-a1b2c3"), line("tare-other0"));
        assert_eq!(told(FAILED, None, &killed), Some(libc::SIGKILL));
        assert_eq!(told(FAILED, None, &other), None);
        assert_eq!(told(2 << 8, None, &killed), None);
        assert_eq!(told(FAILED, Some(FAILED), &killed), None, "the service has printed it");
        assert_eq!(told(FAILED, Some(libc::SIGSEGV), "ready\n"), Some(libc::SIGSEGV));
        assert_eq!(told(FAILED, Some(0), &killed), Some(libc::SIGKILL), "of its first thread");
        assert_eq!(told(2 << 8, Some(libc::SIGKILL), ""), None, "nspawn was not done with it");
    }

    #[test]
    fn a_path_with_a_colon_is_one_part_of_an_argument() {
        assert_eq!(escaped(Path::new("/a:b\\c")), "/a\\:b\\\\c");
    }
}
