//! Whether guests really run on the processor here. That /dev/kvm opens proves nothing: on some machines a virtual
//! machine can be created but then does not run. So a tiny guest is booted.

use super::confinement::{Cell, Handed, SANDBOX, again, as_it_is};
use super::initramfs;
use super::machine::{Engine, KERNEL_ARGUMENTS};
use super::options::VmOptions;
use super::process::Process;
use crate::agent::{GUEST_HELLO, GUEST_SAYS};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::host::MachineServices;
use tare_core::units::exact_duration;
use tare_core::workload::USUAL_PATH;

/// How long the tiny guest may take. Under a working KVM it takes well below two seconds.
const ALIVE_WITHIN: Duration = Duration::from_secs(8);
/// The file that keeps the answer until the machine reboots.
const KEPT: &str = "kvm.json";
/// The processors that a guest may be given under KVM, in the order in which they are tried: all features, and all
/// except the register that tells a kernel which flaws the processor does not have. Some hosts let QEMU read that
/// register but not set it.
const ALL_OF_KVM: [&str; 2] = ["host", "host,-arch-capabilities"];
/// What QEMU says when it is refused that register, IA32_ARCH_CAPABILITIES.
const REFUSED_CAPABILITIES: &str = "failed to set MSR 0x10a";
/// The processor that QEMU's translator provides: everything it can do.
const ALL_OF_TCG: &str = "max";
/// The hypervisor's program.
const QEMU: &str = "qemu-system-x86_64";

/// The hypervisor on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Qemu {
    pub(super) program: PathBuf,
    /// As it reports it: "7.2.22 (Debian ...)".
    pub(super) version: String,
    /// Whether it was built with a system call filter.
    pub(super) sandbox: bool,
}

impl Qemu {
    /// Finds QEMU on this machine.
    ///
    /// # Errors
    /// When it is not installed or does not run.
    pub(super) fn find() -> Result<Qemu, Fault> {
        let missing = || {
            Fault::new("QEMU is not installed, so this machine can run no guests")
                .remedy("apt-get install qemu-system-x86")
        };
        let program = crate::environment::path().into_iter().map(|dir| dir.join(QEMU)).find(|path| path.is_file());
        let program = program.ok_or_else(missing)?;
        let said = Command::new(&program).arg("--version").output().doing("ask QEMU for its version")?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let version = said.lines().next().and_then(|line| line.split("version ").nth(1)).ok_or_else(missing)?;
        let filtered = Command::new(&program).args(["-sandbox", SANDBOX, "--version"]).output();
        let sandbox = filtered.is_ok_and(|output| output.status.success());
        Ok(Qemu { program, version: version.trim().to_owned(), sandbox })
    }

    /// Whether it can emulate this machine type.
    ///
    /// # Errors
    /// When it does not say.
    pub(super) fn offers(&self, machine: &str) -> Result<bool, Fault> {
        let said = self.command().args(["-machine", "help"]).output().doing("ask QEMU for its machine types")?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        Ok(said.lines().any(|line| line.split_whitespace().next() == Some(machine)))
    }

    /// Whether it can be joined to passt as the options say.
    ///
    /// # Errors
    /// That it cannot, or does not say.
    pub(super) fn check_passt(&self, options: &VmOptions) -> Result<(), Fault> {
        let backend = if options.vhost_user { "vhost-user" } else { "stream" };
        let said = self.command().args(["-netdev", "help"]).output().doing("ask QEMU for its network backends")?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        if said.lines().any(|line| line.trim() == backend) {
            return Ok(());
        }
        let fault = Fault::new(format!("QEMU {} has no network backend '{backend}', which passt needs", self.version));
        Err(fault.remedy("use 'network: tap', or install QEMU 7.2 or newer, such as Debian's qemu-system-x86"))
    }

    /// A command that starts QEMU with nothing in its environment but where programs are.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().env("PATH", USUAL_PATH);
        command
    }
}

/// What runs a guest's instructions here, and if that is not the processor itself, why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Accelerator {
    pub(super) engine: Engine,
    /// The processor model that guests are given: QEMU's `-cpu`.
    pub(super) cpu: String,
    /// Why the guest is emulated.
    pub(super) emulated: Option<Fault>,
}

impl Accelerator {
    fn emulating(why: Fault) -> Accelerator {
        Accelerator { engine: Engine::Tcg, cpu: ALL_OF_TCG.to_owned(), emulated: Some(why) }
    }
}

/// Chooses what runs guests here: as `wanted` (`auto`, `kvm`, `tcg`), and KVM only if a guest really boots.
///
/// # Errors
/// When KVM is demanded and does not work, or there is no kernel to try it with.
pub(super) fn choose(qemu: &Qemu, carrier: &MachineServices, wanted: &str) -> Result<Accelerator, Fault> {
    if wanted == "tcg" {
        return Ok(Accelerator::emulating(Fault::new("the study asks for emulation (accelerator: tcg)")));
    }
    match kvm_works(qemu, carrier) {
        Ok(cpu) => Ok(Accelerator { engine: Engine::Kvm, cpu, emulated: None }),
        Err(why) if wanted == "kvm" => Err(why.context("the study demands KVM")),
        Err(why) => Ok(Accelerator::emulating(why)),
    }
}

/// What was found out about KVM, and for which boot and software versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Finding {
    boot: String,
    qemu: String,
    kernel: String,
    /// The processor model with which guests come alive, or why none does.
    outcome: Result<String, Fault>,
}

/// The processor model with which guests come alive under KVM.
///
/// # Errors
/// Why none does.
fn kvm_works(qemu: &Qemu, carrier: &MachineServices) -> Result<String, Fault> {
    if let Err(error) = File::options().read(true).write(true).open("/dev/kvm") {
        return Err(Fault::from_error("open /dev/kvm", &error)
            .remedy("use a machine with virtualisation (VT-x, AMD-V, or nested), switched on in its firmware"));
    }
    let kernel = carrier.bundles.kernel()?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").doing("read the id of this boot")?;
    let under = [&boot, &qemu.version, &kernel.release];
    if let Some(known) = kept(&kept_at(), under) {
        return known;
    }
    let initial = initramfs::packed(&kernel, &carrier.program, &[])?;
    let folder = crate::home::claim()?;
    let tiny = Tiny { qemu, kernel: &kernel.image, initial: &initial, folder: &folder, alive_within: ALIVE_WITHIN };
    let outcome = tiny.try_all()?;
    let [boot, qemu, kernel] = under.map(String::clone);
    keep(&kept_at(), &Finding { boot, qemu, kernel, outcome: outcome.clone() })?;
    outcome
}

fn kept_at() -> PathBuf {
    crate::environment::home().join(KEPT)
}

/// What is already known: `None` when nothing is, or it was found under another boot, QEMU or kernel.
fn kept(path: &Path, under: [&String; 3]) -> Option<Result<String, Fault>> {
    let known: Finding = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let same = [&known.boot, &known.qemu, &known.kernel] == under;
    same.then_some(known.outcome)
}

fn keep(path: &Path, finding: &Finding) -> Result<(), Fault> {
    let doing = || format!("write {}", path.display());
    let unfinished = path.with_extension(format!("{}.new", std::process::id()));
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).doing(doing())?;
    let text = serde_json::to_vec(finding).expect("plain data can be written down");
    fs::write(&unfinished, text).doing(doing())?;
    fs::rename(&unfinished, path).doing(doing())
}

/// A guest that says it is alive, and nothing else.
struct Tiny<'a> {
    qemu: &'a Qemu,
    kernel: &'a Path,
    initial: &'a Path,
    /// Where its logs are while it runs.
    folder: &'a Path,
    /// How long it may take.
    alive_within: Duration,
}

/// Why it did not come alive.
enum Lifeless {
    /// QEMU ended, or the kernel in it panicked.
    Ended(Fault),
    /// It ran, but produced no output.
    StoodStill(Fault),
}

impl Tiny<'_> {
    /// Boots it with one processor model after another, as long as another may help. Returns the one that works, or
    /// what was tried and the result of each.
    ///
    /// # Errors
    /// When it could not be tried, which says nothing about KVM.
    fn try_all(&self) -> Result<Result<String, Fault>, Fault> {
        let mut tried = Vec::new();
        let mut log = String::new();
        for cpu in ALL_OF_KVM {
            let (fault, next) = match self.boot(cpu)? {
                None => return Ok(Ok(cpu.to_owned())),
                // If QEMU is refused the register, it may do without what the register reports.
                Some(Lifeless::Ended(fault)) => {
                    let next = fault.log.contains(REFUSED_CAPABILITIES);
                    (fault, next)
                }
                Some(Lifeless::StoodStill(fault)) => (fault, false),
            };
            tried.push(format!("with `-cpu {cpu}` {}", fault.message));
            log = fault.log;
            if !next {
                break;
            }
        }
        let message = format!("/dev/kvm opens, but no tiny guest came alive under it: {}", tried.join("; "));
        let remedy = "for true figures use a machine whose KVM runs guests; emulated figures stay out of verdicts";
        Ok(Err(Fault::new(message).remedy(remedy).with_log(log)))
    }

    /// Boots it; `None` when it came alive.
    ///
    /// # Errors
    /// When QEMU cannot be started, or was killed.
    fn boot(&self, cpu: &str) -> Result<Option<Lifeless>, Fault> {
        let log = |kind: &str| self.folder.join(format!("kvm.{}.{kind}", std::process::id()));
        let (console, own_log) = (log("console"), log("log"));
        let mut handed = Handed::default();
        let outcome = self
            .arguments(cpu, &console, &mut handed)
            .and_then(|arguments| {
                let cell = Cell::new(true, &handed, None)?;
                Process::start(self.qemu.command(), &arguments, cell, &console, &own_log)
            })
            .and_then(|guest| self.watch(guest));
        let _ = fs::remove_file(console);
        let _ = fs::remove_file(own_log);
        outcome
    }

    fn watch(&self, mut guest: Process) -> Result<Option<Lifeless>, Fault> {
        let started = Instant::now();
        loop {
            if guest.last_words().contains(GUEST_SAYS) {
                return Ok(None);
            }
            if let Err(fault) = guest.check() {
                if guest.was_killed() {
                    let fault = Fault::new("the tiny guest that shows whether KVM works was killed by somebody else");
                    return Err(
                        fault.remedy("try again; a clean-up of another run or a want of memory may have ended it")
                    );
                }
                return Ok(Some(Lifeless::Ended(fault)));
            }
            if started.elapsed() > self.alive_within {
                let within = exact_duration(self.alive_within);
                let message = format!("it stood still: no sign of life within {within}, and no error from QEMU");
                return Ok(Some(Lifeless::StoodStill(Fault::new(message).with_log(guest.last_words()))));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn arguments(&self, cpu: &str, console: &Path, handed: &mut Handed) -> Result<Vec<String>, Fault> {
        let append = format!("{KERNEL_ARGUMENTS} {GUEST_HELLO}");
        let console = File::create(console).doing("make the guest's console log")?;
        let (console, set) = as_it_is(handed.add(console));
        let serial = format!("file:{console}");
        let (kernel, initial) = (again(handed.add_readable(self.kernel)?), again(handed.add_readable(self.initial)?));
        let arguments = [
            // Named like a run's guest, so that it is found if it outlives a crash.
            ["-name", "tare-000kvm-probe"],
            ["-machine", "q35,accel=kvm"],
            ["-cpu", cpu],
            ["-smp", "1"],
            ["-m", "512M"],
            ["-display", "none"],
            ["-append", &append],
            ["-kernel", &kernel],
            ["-initrd", &initial],
            ["-add-fd", &set],
            ["-serial", &serial],
        ];
        let sandbox: &[&str] = if self.qemu.sandbox { &["-sandbox", SANDBOX] } else { &[] };
        let switches = ["-nodefaults", "-no-user-config", "-no-reboot"].iter();
        let words = arguments.iter().flatten().chain(sandbox).chain(switches);
        Ok(words.map(|word| (*word).to_owned()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Longer than a script takes on a busy machine.
    const PATIENT: Duration = Duration::from_secs(60);

    #[test]
    fn a_finding_holds_for_its_boot_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/kvm.json");
        let known = |boot: &str| kept(&path, [boot, "7", "6"].map(str::to_owned).each_ref());
        assert_eq!(known("a"), None);
        for outcome in [Err(Fault::new("stands still")), Ok("host".to_owned())] {
            let finding = Finding { boot: "a".into(), qemu: "7".into(), kernel: "6".into(), outcome: outcome.clone() };
            keep(&path, &finding).unwrap();
            assert_eq!(known("a"), Some(outcome));
            assert_eq!(known("b"), None);
        }
        fs::write(&path, "{").unwrap();
        assert_eq!(known("a"), None);
    }

    /// The result of guests under a QEMU that is this script; `$cpu` and `$console`, the number of an open file, are
    /// what it is given.
    fn tried(script: &str, alive_within: Duration) -> Result<String, Fault> {
        try_all(script, alive_within).unwrap()
    }

    fn try_all(script: &str, alive_within: Duration) -> Result<Result<String, Fault>, Fault> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("qemu");
        let told = "while [ $# -gt 0 ]; do case $1 in -cpu) cpu=$2;; -serial) console=${2##*/};; esac; shift; done";
        let refuse = format!(
            "refuse() {{ echo \"error: failed to set MSR $1 to 0x69\" >&2; exit 1; }}\nalive() {{ echo \
                              {GUEST_SAYS} >&$console; }}"
        );
        // Of the ubiquitous shells, this one supports two-digit file numbers.
        fs::write(&program, format!("#!/bin/bash\n{told}\n{refuse}\n{script}\n")).unwrap();
        for path in [folder.path(), &program] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let qemu = Qemu { program, version: "7".to_owned(), sandbox: false };
        let kernel = Path::new("/dev/null");
        let tiny = Tiny { qemu: &qemu, kernel, initial: kernel, folder: folder.path(), alive_within };
        let outcome = tiny.try_all();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "its logs are gone");
        outcome
    }

    #[test]
    fn a_guest_gets_the_processor_with_which_it_lives() {
        assert_eq!(tried("alive; exec sleep 9", PATIENT), Ok("host".to_owned()));
        let without = "case $cpu in host) refuse 0x10a;; esac; alive; exec sleep 9";
        assert_eq!(tried(without, PATIENT), Ok("host,-arch-capabilities".to_owned()));
    }

    #[test]
    fn a_guest_that_somebody_killed_says_nothing_of_kvm() {
        let fault = try_all("kill -KILL $$", PATIENT).unwrap_err();
        assert!(fault.message.contains("killed by somebody else") && fault.remedy.contains("try again"), "{fault}");
    }

    #[test]
    fn what_was_tried_is_told_with_what_came_of_it() {
        let seconds = Duration::from_secs(2);
        let both = tried("case $cpu in host) refuse 0x10a;; esac; exec sleep 9", seconds).unwrap_err();
        for wanted in [
            "with `-cpu host` the guest is gone: QEMU ended (exit status: 1): error: failed to set MSR 0x10a to 0x69",
            "; with `-cpu host,-arch-capabilities` it stood still: no sign of life within 2 s",
        ] {
            assert!(both.message.contains(wanted), "{wanted}: {both}");
        }
        let still = tried("exec sleep 9", Duration::from_millis(300)).unwrap_err();
        assert!(still.message.ends_with("no sign of life within 300 ms, and no error from QEMU"), "{still}");
        assert!(!still.message.contains("arch-capabilities"), "{still}");
        let other = tried("refuse 0x480", PATIENT).unwrap_err();
        assert!(other.message.contains("0x480") && !other.message.contains("arch-capabilities"), "{other}");
    }
}
