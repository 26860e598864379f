//! The runtime's program: where it is, which version, and calls to it that cannot hang.

use super::super::options::{By, ContainerOptions};
use super::super::programs;
use super::super::runtime_name::RuntimeName;
use crate::marks;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::host::Facts;

/// How long a call may take: a tenth of a second is usual.
const CALL_LIMIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// The runtimes that are looked for, in this order, unless one is asked for.
const USUAL: [&str; 2] = ["runc", "crun"];

/// A runtime that is installed.
#[derive(Debug)]
pub(super) struct Program {
    name: String,
    path: PathBuf,
}

/// The program by which systemd starts a container.
const NSPAWN: &str = "systemd-nspawn";
/// The program by which LXC does.
const LXC: &str = "lxc-start";

impl Program {
    /// The program that starts the containers that the options ask for.
    ///
    /// # Errors
    /// When it is not installed.
    pub(super) fn of(options: &ContainerOptions) -> Result<Program, Fault> {
        match options.by {
            By::Nspawn => Program::one_of(&[NSPAWN], &programs::folders()),
            By::Lxc => Program::one_of(&[LXC], &programs::folders()),
            By::Engine | By::Runtime => Program::find(options.runtime),
        }
    }

    /// What it is called.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The runtime that was requested.
    ///
    /// # Errors
    /// When it is not installed.
    pub(super) fn find(which: RuntimeName) -> Result<Program, Fault> {
        Program::find_in(which, &programs::folders())
    }

    fn find_in(which: RuntimeName, folders: &[PathBuf]) -> Result<Program, Fault> {
        Program::one_of(&which.named().map_or_else(|| USUAL.to_vec(), |name| vec![name]), folders)
    }

    /// The first of these programs that is there.
    fn one_of(names: &[&str], folders: &[PathBuf]) -> Result<Program, Fault> {
        let found = names.iter().find_map(|name| {
            let path = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file())?;
            Some(Program { name: (*name).to_owned(), path })
        });
        found.ok_or_else(|| {
            let message = format!("there is no {} on this machine to start a container with", names.join(" and no "));
            let remedy = match names[0] {
                NSPAWN => "apt-get install systemd-container".to_owned(),
                LXC => "apt-get install lxc".to_owned(),
                // No distribution that we know has it.
                "youki" => "put the program youki into /usr/local/bin (https://github.com/youki-dev/youki)".to_owned(),
                name => format!("apt-get install {name}"),
            };
            Fault::new(message).remedy(remedy)
        })
    }

    /// Why it starts no container if control groups are below `groups`, if it does not.
    pub(super) fn refuses_below(&self, groups: &Path) -> Option<Fault> {
        refuses_below(&self.name, groups)
    }

    /// What it is, for the record.
    pub(super) fn facts(&self) -> Facts {
        let mut facts = Facts::from([("runtime.name".to_owned(), self.name.clone())]);
        let version = programs::version_of(&self.path);
        facts.extend(version.map(|version| ("runtime.version".to_owned(), version)));
        facts
    }

    /// A call for a run, marked as the run's: the runtime keeps its state in `state`, and writes its messages to `log`.
    pub(super) fn command(&self, run: &str, state: &Path, log: &Path) -> Command {
        let mut command = Command::new(&self.path);
        marks::mark_process(run, &mut command);
        command.arg("--root").arg(state).arg("--log").arg(log).args(["--log-format", "json"]);
        if self.name == "crun" {
            // The alternative asks systemd, which not every machine has; runc uses it only when told to.
            command.arg("--cgroup-manager=cgroupfs");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Runs a call to its end.
    ///
    /// # Errors
    /// What the runtime says in `log`; or that it does not end.
    pub(super) fn run(&self, command: &mut Command, log: &Path, doing: &str) -> Result<(), Fault> {
        let mut child = command.spawn().doing(format!("run {}", self.path.display()))?;
        let deadline = Instant::now() + CALL_LIMIT;
        let status = loop {
            match child.try_wait().doing(format!("wait for {}", self.name))? {
                Some(status) => break status,
                None if Instant::now() >= deadline => {
                    let _ = child.kill();
                    let _ = child.wait();
                    let seconds = CALL_LIMIT.as_secs();
                    return Err(Fault::new(format!("could not {doing}: {} did not end in {seconds} s", self.name)));
                }
                None => std::thread::sleep(LOOK_EVERY),
            }
        };
        if status.success() {
            return Ok(());
        }
        let said = last_message(&fs::read_to_string(log).unwrap_or_default()).unwrap_or_else(|| status.to_string());
        Err(Fault::new(format!("could not {doing}: {} refused: {said}", self.name)))
    }
}

/// Why a runtime starts no container if control groups are below `groups`, if it does not: crun supports versions 1 and
/// 2, but not a machine that has both.
pub(in super::super) fn refuses_below(runtime: &str, groups: &Path) -> Option<Fault> {
    let unified = groups.join("unified/cgroup.controllers");
    let both = fs::read_to_string(&unified).is_ok_and(|controllers| !controllers.trim().is_empty());
    (runtime == "crun" && both).then(|| {
        let message = format!(
            "crun starts no container on a machine with control groups of both versions: {} names controllers",
            unified.display()
        );
        Fault::new(message).remedy("use runc, or boot with 'systemd.unified_cgroup_hierarchy=1'")
    })
}

/// The last message in a runtime's log, which says why it gave up.
fn last_message(log: &str) -> Option<String> {
    let message = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?["msg"].as_str().map(str::to_owned);
    log.lines().rev().find_map(message)
}

/// Reads any text as a runtime's log: the message that is reported is in it.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(log: &str) {
    let told = last_message(log);
    assert!(told.is_none_or(|told| told.len() <= log.len()), "{log}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crun_starts_nothing_beside_both_versions_of_control_groups() {
        let folder = tempfile::tempdir().unwrap();
        let [runc, crun] = ["runc", "crun"].map(|name| Program { name: name.to_owned(), path: PathBuf::new() });
        assert!(crun.refuses_below(folder.path()).is_none(), "one version alone");
        let unified = folder.path().join("unified");
        tare_testkit::files::write(&unified.join("cgroup.controllers"), "\n");
        assert!(crun.refuses_below(folder.path()).is_none(), "the second one controls nothing");
        fs::write(unified.join("cgroup.controllers"), "hugetlb\n").unwrap();
        let why = crun.refuses_below(folder.path()).expect("both");
        assert!(why.message.contains("unified/cgroup.controllers"), "{why}");
        assert!(runc.refuses_below(folder.path()).is_none());
    }

    #[test]
    fn a_runtime_is_found_by_its_name_or_said_to_be_missing() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().join("none"), folder.path().to_owned()];
        let [auto, runc, crun, youki] = ["auto", "runc", "crun", "youki"].map(|name| RuntimeName::parse(name).unwrap());
        let fault = Program::find_in(auto, &folders).unwrap_err();
        assert_eq!(fault.message, "there is no runc and no crun on this machine to start a container with");
        assert!(fault.to_string().contains("apt-get install runc"), "{fault}");
        fs::write(folder.path().join("crun"), "").unwrap();
        assert_eq!(Program::find_in(auto, &folders).unwrap().name, "crun");
        let fault = Program::find_in(runc, &folders).unwrap_err();
        assert!(fault.message.starts_with("there is no runc on"), "{fault}");
        fs::write(folder.path().join("runc"), "").unwrap();
        assert_eq!(Program::find_in(auto, &folders).unwrap().name, "runc", "every engine has that one");
        assert_eq!(Program::find_in(crun, &folders).unwrap().name, "crun");
        let fault = Program::find_in(youki, &folders).unwrap_err();
        assert!(fault.message.starts_with("there is no youki on"), "{fault}");
        assert!(fault.remedy.contains("/usr/local/bin"), "{fault}");
    }

    #[test]
    fn of_a_log_the_last_message_counts() {
        let log = "{\"level\":\"warning\",\"msg\":\"first\"}\n{\"level\":\"error\",\"msg\":\"why not\"}\nnoise\n";
        assert_eq!(last_message(log).as_deref(), Some("why not"));
        assert_eq!(last_message("noise\n"), None);
    }

    #[test]
    fn a_call_that_fails_says_what_the_runtime_said() {
        let folder = tempfile::tempdir().unwrap();
        let (path, log) = (folder.path().join("crun"), folder.path().join("log"));
        let program = Program { name: "crun".to_owned(), path: PathBuf::from("/bin/sh") };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo '{\"msg\": \"no such thing\"}' > \"$0\"; exit 1"]).arg(&log);
        let fault = program.run(&mut command, &log, "do it").unwrap_err();
        assert_eq!(fault.message, "could not do it: crun refused: no such thing");
        let words = |name: &str| {
            let program = Program { name: name.to_owned(), path: path.clone() };
            let command = program.command("a1b2c3", Path::new("/s"), Path::new("/l"));
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(words("runc"), ["--root", "/s", "--log", "/l", "--log-format", "json"]);
        assert_eq!(words("crun").last().map(String::as_str), Some("--cgroup-manager=cgroupfs"));
    }
}
