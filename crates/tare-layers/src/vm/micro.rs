//! QEMU's machine `microvm`, which has no PCI, few devices and no clock but the processor's: what it needs of QEMU, of
//! the guest's kernel and of this machine.

use super::accelerator::Qemu;
use super::machine::Engine;
use super::modules;
use super::options::MICROVM;
use std::time::Duration;
use tare_clock::monotonic_ns;
use tare_core::bundle::Kernel;
use tare_core::fault::Fault;

/// The kernel's driver for the places where its devices are.
const DRIVER: &str = "virtio_mmio";
/// How long the processor's counter is watched to learn its speed: readings are good to a microsecond or so, hence the
/// speed to some twenty millionths.
const WATCHED: Duration = Duration::from_millis(50);
/// Readings before and after, of which the quickest counts: the fewest others ran between clock and counter.
const TRIES: u32 = 8;

/// Whether this QEMU has the machine, and the guests' kernel a driver for its devices.
///
/// # Errors
/// Which of the two does not, or that QEMU cannot be asked.
pub(super) fn check(qemu: &Qemu, kernel: &Kernel) -> Result<(), Fault> {
    if !qemu.offers(MICROVM)? {
        let fault = Fault::new(format!("QEMU {} has no machine type '{MICROVM}'", qemu.version));
        return Err(fault.remedy("use 'machine: q35', or install a QEMU that has it, such as Debian's qemu-system-x86"));
    }
    if !modules::has(kernel, DRIVER) {
        let message = format!(
            "the guest's kernel {} has no module '{DRIVER}', so it finds no device of the machine type '{MICROVM}'",
            kernel.release
        );
        let remedy = "use 'machine: q35', or another kernel for guests, such as Debian's linux-image-cloud-amd64";
        return Err(Fault::new(message).remedy(remedy));
    }
    Ok(())
}

/// What the guest's kernel must be told about its clock, followed by a space if it is anything.
///
/// The machine's ACPI tables say that there is no legacy timer, and the kernel has no other to learn the speed of the
/// processor's counter from; nor does it trust the counters of several virtual CPUs to agree. KVM tells guests the
/// speed. An emulated guest reads this machine's counter, so the speed of that is what it has to know.
///
/// # Errors
/// When this machine's processor has no counter whose speed can be measured.
pub(super) fn clock_arguments(engine: Engine) -> Result<String, Fault> {
    match engine {
        Engine::Kvm => Ok(String::new()),
        Engine::Tcg => {
            let khz = counter_khz().ok_or_else(|| {
                let guest = format!("an emulated guest of the machine type '{MICROVM}'");
                let why = "must be told the speed of this machine's time-stamp counter, which cannot be measured here";
                Fault::new(format!("{guest} {why}")).remedy("use 'machine: q35'")
            })?;
            Ok(format!("tsc=reliable tsc_early_khz={khz} "))
        }
    }
}

/// Refuses a thread of its own for disks where the machine cannot have one.
///
/// # Errors
/// For an emulated guest: the machine's devices are told of work by the kernel's KVM, or not at all by another thread.
pub(super) fn check_disks(iothread: bool, engine: Engine) -> Result<(), Fault> {
    if !iothread || engine == Engine::Kvm {
        return Ok(());
    }
    let message = format!("an emulated guest of the machine type '{MICROVM}' cannot have a thread for its disks");
    Err(Fault::new(message).remedy("leave 'iothread' out, or use 'machine: q35'"))
}

/// The speed of the processor's time-stamp counter, kHz; `None` where it does not count.
fn counter_khz() -> Option<u64> {
    let begin = reading();
    std::thread::sleep(WATCHED);
    khz(begin, reading())
}

/// The clock, ns, and the counter at the same moment.
fn reading() -> (u64, u64) {
    let one = |_: u32| {
        let before_ns = monotonic_ns();
        let ticks = counter();
        let took_ns = monotonic_ns() - before_ns;
        (took_ns, before_ns + took_ns / 2, ticks)
    };
    let (_, at_ns, ticks) = (0..TRIES).map(one).min().expect("there are several");
    (at_ns, ticks)
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    let low: u64;
    let high: u64;
    // SAFETY: it puts the counter into the two registers that are named, whose upper halves it clears, and touches
    // nothing else; Linux lets every process read the counter.
    unsafe {
        std::arch::asm!("lfence", "rdtsc", out("rax") low, out("rdx") high, options(nomem, nostack, preserves_flags));
    }
    (high << 32) | low
}

/// Elsewhere QEMU gives emulated guests another counter, which is not read.
#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    0
}

/// The counter's speed by two readings, kHz.
fn khz(begin: (u64, u64), end: (u64, u64)) -> Option<u64> {
    let ns = end.0.checked_sub(begin.0)?;
    let ticks = end.1.checked_sub(begin.1)?;
    ticks.checked_mul(1_000_000)?.checked_div(ns).filter(|khz| *khz > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    #[test]
    fn the_counters_speed_follows_from_two_readings() {
        assert_eq!(khz((1_000, 7), (50_001_000, 105_000_007)), Some(2_100_000));
        assert_eq!(khz((1_000, 7), (1_000, 8)), None, "no time went by");
        assert_eq!(khz((1_000, 7), (2_000, 7)), None, "it stands still");
        assert_eq!(khz((1_000, 7), (2_000, 6)), None, "it was set back");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn an_emulated_guest_is_told_how_fast_this_machines_counter_is() {
        assert_eq!(clock_arguments(Engine::Kvm), Ok(String::new()));
        let said = || {
            let text = clock_arguments(Engine::Tcg).unwrap();
            let speed = text.strip_prefix("tsc=reliable tsc_early_khz=").and_then(|text| text.strip_suffix(' '));
            speed.unwrap_or_else(|| panic!("{text:?}")).parse::<u64>().unwrap()
        };
        let (first, second) = (said(), said());
        assert!((100_000..20_000_000).contains(&first), "{first} kHz");
        assert!(first.abs_diff(second) < first / 100, "{first} and {second} kHz");
    }

    /// What is said of a QEMU that has these machines and a kernel with these modules.
    fn told(machines: &str, modules: &str) -> Option<Fault> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("qemu");
        fs::write(&program, format!("#!/bin/sh\n[ \"$*\" = '-machine help' ] && printf '{machines}'\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.path().join("modules.dep"), modules).unwrap();
        let qemu = Qemu { program, version: "7.2".to_owned(), sandbox: false };
        let kernel = Kernel {
            image: Path::new("/nowhere").to_owned(),
            modules: folder.path().to_owned(),
            release: "6.1.0".to_owned(),
            origin: "a test".to_owned(),
        };
        check(&qemu, &kernel).err()
    }

    #[test]
    fn what_the_machine_needs_is_named_where_it_is_missing() {
        let machines = "Supported machines are:\\nmicrovm              microvm (i386)\\npc   Standard PC\\n";
        let modules = "kernel/drivers/virtio/virtio_mmio.ko:\n";
        assert_eq!(told(machines, modules), None);
        let fault = told("pc                   like a microvm\\n", modules).unwrap();
        assert!(fault.message.contains("QEMU 7.2 has no machine type 'microvm'"), "{fault}");
        assert!(fault.remedy.contains("machine: q35"), "{fault}");
        let fault = told(machines, "kernel/drivers/virtio/virtio_pci.ko:\n").unwrap();
        assert!(fault.message.contains("6.1.0 has no module 'virtio_mmio'"), "{fault}");
        assert!(fault.remedy.contains("machine: q35"), "{fault}");
    }
}
