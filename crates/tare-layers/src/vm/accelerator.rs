//! Whether guests really run on the processor here. That /dev/kvm opens proves nothing: there are machines on which a
//! virtual machine can be made and then stands still. So a tiny guest is booted.

use super::initramfs;
use super::machine::{Engine, KERNEL_ARGUMENTS};
use super::process::Process;
use crate::agent::{GUEST_HELLO, GUEST_SAYS};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::host::Carrier;

/// How long the tiny guest may take. Under a working KVM it takes well below two seconds.
const ALIVE_WITHIN: Duration = Duration::from_secs(8);
/// The file in which the answer is kept until the machine boots anew.
const KEPT: &str = "kvm.json";
/// The hypervisor's program.
const QEMU: &str = "qemu-system-x86_64";

/// The hypervisor on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Qemu {
    pub(super) program: PathBuf,
    /// As it says itself: "7.2.22 (Debian ...)".
    pub(super) version: String,
}

impl Qemu {
    /// Finds it.
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
        Ok(Qemu { program, version: version.trim().to_owned() })
    }
}

/// What runs a guest's instructions here, and why not the processor itself if it does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Accelerator {
    pub(super) engine: Engine,
    /// Why the guest is emulated.
    pub(super) emulated: Option<Fault>,
}

/// Chooses what runs guests here: as `wanted` (`auto`, `kvm`, `tcg`), and KVM only where a guest really boots.
///
/// # Errors
/// When KVM is demanded and does not work, or there is no kernel to try it with.
pub(super) fn choose(qemu: &Qemu, carrier: &Carrier, wanted: &str) -> Result<Accelerator, Fault> {
    if wanted == "tcg" {
        let why = Fault::new("the study asks for emulation (accelerator: tcg)");
        return Ok(Accelerator { engine: Engine::Tcg, emulated: Some(why) });
    }
    match kvm_works(qemu, carrier) {
        Ok(()) => Ok(Accelerator { engine: Engine::Kvm, emulated: None }),
        Err(why) if wanted == "kvm" => Err(why.context("the study demands KVM")),
        Err(why) => Ok(Accelerator { engine: Engine::Tcg, emulated: Some(why) }),
    }
}

/// What was found out about KVM, and for which boot of which software.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Finding {
    boot: String,
    qemu: String,
    kernel: String,
    /// Why it does not work; none when it does.
    fault: Option<Fault>,
}

fn kvm_works(qemu: &Qemu, carrier: &Carrier) -> Result<(), Fault> {
    if let Err(error) = fs::File::options().read(true).write(true).open("/dev/kvm") {
        return Err(Fault::from_error("open /dev/kvm", &error)
            .remedy("use a machine with virtualisation (VT-x, AMD-V, or nested), switched on in its firmware"));
    }
    let kernel = carrier.bundles.kernel()?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").doing("read the id of this boot")?;
    let finding = Finding { boot, qemu: qemu.version.clone(), kernel: kernel.release.clone(), fault: None };
    if let Some(known) = kept(&kept_at(), &finding) {
        return known.map_or(Ok(()), Err);
    }
    let initial = initramfs::packed(&kernel, &carrier.program, &[])?;
    let fault = boot_tiny(qemu, &kernel.image, &initial).err();
    keep(&kept_at(), &Finding { fault: fault.clone(), ..finding })?;
    fault.map_or(Ok(()), Err)
}

fn kept_at() -> PathBuf {
    crate::environment::home().join(KEPT)
}

/// What is known already: `None` when nothing is, or it was found out under other circumstances.
fn kept(path: &Path, now: &Finding) -> Option<Option<Fault>> {
    let known: Finding = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let same = (&known.boot, &known.qemu, &known.kernel) == (&now.boot, &now.qemu, &now.kernel);
    same.then_some(known.fault)
}

fn keep(path: &Path, finding: &Finding) -> Result<(), Fault> {
    let doing = || format!("write {}", path.display());
    let unfinished = path.with_extension(format!("{}.new", std::process::id()));
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).doing(doing())?;
    let text = serde_json::to_vec(finding).expect("plain data can be written down");
    fs::write(&unfinished, text).doing(doing())?;
    fs::rename(&unfinished, path).doing(doing())
}

/// Boots a guest that says it is alive.
fn boot_tiny(qemu: &Qemu, kernel: &Path, initial: &Path) -> Result<(), Fault> {
    let kept = kept_at();
    let log = |kind: &str| kept.with_extension(format!("{}.{kind}", std::process::id()));
    let (console, own_log) = (log("console"), log("log"));
    fs::create_dir_all(kept.parent().unwrap_or(Path::new("/"))).doing("make the folder of what is kept")?;
    let result = boot_tiny_logged(qemu, kernel, initial, &console, &own_log);
    let _ = fs::remove_file(console);
    let _ = fs::remove_file(own_log);
    result
}

fn boot_tiny_logged(qemu: &Qemu, kernel: &Path, initial: &Path, console: &Path, own_log: &Path) -> Result<(), Fault> {
    let append = format!("{KERNEL_ARGUMENTS} {GUEST_HELLO}");
    let serial = format!("file:{}", console.display());
    let (kernel, initial) = (kernel.display().to_string(), initial.display().to_string());
    let arguments = [
        // Named like the guest of a run, so that it is found should it outlive a crash.
        ["-name", "tare-000kvm-probe"],
        ["-machine", "q35,accel=kvm"],
        ["-cpu", "host"],
        ["-smp", "1"],
        ["-m", "512M"],
        ["-display", "none"],
        ["-append", &append],
        ["-kernel", &kernel],
        ["-initrd", &initial],
        ["-serial", &serial],
    ];
    let switches = ["-nodefaults", "-no-user-config", "-no-reboot"].iter();
    let arguments: Vec<String> = arguments.iter().flatten().chain(switches).map(|word| (*word).to_owned()).collect();
    let started = Instant::now();
    let mut tiny = Process::start(&qemu.program, &arguments, &[], None, console, own_log)?;
    let remedy = "for true figures use a machine whose KVM runs guests; emulated figures stay out of verdicts";
    loop {
        if tiny.last_words().contains(GUEST_SAYS) {
            return Ok(());
        }
        if let Err(fault) = tiny.check() {
            return Err(fault.context("KVM is there, but a tiny guest does not run under it").remedy(remedy));
        }
        if started.elapsed() > ALIVE_WITHIN {
            let within = ALIVE_WITHIN.as_secs();
            let message = format!("/dev/kvm opens, but a tiny guest did not come alive under it within {within} s");
            return Err(Fault::new(message).remedy(remedy).with_log(tiny.last_words()));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_holds_for_its_boot_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/kvm.json");
        let finding = |boot: &str, fault| Finding { boot: boot.into(), qemu: "7".into(), kernel: "6".into(), fault };
        assert_eq!(kept(&path, &finding("a", None)), None);
        keep(&path, &finding("a", Some(Fault::new("stands still")))).unwrap();
        assert_eq!(kept(&path, &finding("a", None)), Some(Some(Fault::new("stands still"))));
        assert_eq!(kept(&path, &finding("b", None)), None);
        fs::write(&path, "{").unwrap();
        assert_eq!(kept(&path, &finding("a", None)), None);
    }
}
