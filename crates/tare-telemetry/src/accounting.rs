//! How the kernel accounts for CPU time, on which the accuracy of CPU times depends.
//!
//! - *By the tick*: whatever runs when the timer ticks is charged with the whole tick, so the user, system, interrupt
//!   and software interrupt times of `/proc/stat` are samples. A task's total run time is exact on every kernel (the
//!   scheduler's clock), and so is a CPU's idle time if ticks stop on idle CPUs.
//! - *Interrupts apart* (`IRQ_TIME_ACCOUNTING`): times of interrupts and software interrupts are exact and in no task's
//!   time. Without it they are part of the time of the task that they interrupted.

use crate::root::Root;
use flate2::read::GzDecoder;
use std::io::Read;

/// No kernel configuration is longer, bytes.
const CONFIG_MAX: u64 = 4 << 20;

/// Facts about the accounting of CPU time, by name. What cannot be determined is absent.
pub(crate) fn accounting(root: &Root) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let config = config(root);
    if let Some(config) = &config {
        facts.extend(value(config, "CONFIG_HZ").map(|hz| (TICK_HZ, hz.to_owned())));
        let by = match () {
            () if is_set(config, "CONFIG_VIRT_CPU_ACCOUNTING_NATIVE") => "exact",
            // Exact on CPUs that the command line names, by the tick on all others.
            () if is_set(config, "CONFIG_VIRT_CPU_ACCOUNTING_GEN") => "by the tick, exact on CPUs without one",
            () => "by the tick",
        };
        facts.push((BY, by.to_owned()));
        facts.push((STEAL, yes(is_set(config, "CONFIG_PARAVIRT_TIME_ACCOUNTING")).to_owned()));
    }
    facts.extend(interrupts_apart(root, config.as_deref()).map(|apart| (INTERRUPTS_APART, yes(apart).to_owned())));
    facts
}

/// How often the timer ticks, Hz.
const TICK_HZ: &str = "cpu.tick_hz";
/// How user and system times are measured.
const BY: &str = "cpu.accounting";
/// Whether time that a hypervisor takes away is kept out of tasks' time.
const STEAL: &str = "cpu.steal_apart";
pub(crate) use tare_core::record::INTERRUPTS_APART;

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

/// Whether interrupts are accounted for apart from tasks: by the kernel's configuration, else by the names of its
/// functions. They are not if the command line says so, or if an x86 processor has no reliable time-stamp counter, and
/// so no clock that is cheap enough (`sched_clock_irqtime` in the kernel's sources).
fn interrupts_apart(root: &Root, config: Option<&str>) -> Option<bool> {
    let words = root.text("proc/cmdline").unwrap_or_default();
    if words.split_ascii_whitespace().any(|word| word == "tsc=noirqtime") {
        return Some(false);
    }
    let is_x86 =
        root.text("proc/cpuinfo").is_some_and(|text| text.contains("vendor_id") && text.contains("cpu family"));
    // A counter that turns out to be unstable disappears from the list.
    let clocks = root.text("sys/devices/system/clocksource/clocksource0/available_clocksource").filter(|_| is_x86);
    if clocks.is_some_and(|clocks| !clocks.split_ascii_whitespace().any(|clock| clock == "tsc")) {
        return Some(false);
    }
    let built_in = config.map(|config| is_set(config, "CONFIG_IRQ_TIME_ACCOUNTING"));
    built_in.or_else(|| {
        let names = root.text("proc/kallsyms").filter(|names| names.contains(" account_idle_ticks"))?;
        Some(names.lines().any(|line| line.ends_with(" irqtime_account_irq")))
    })
}

/// The kernel's configuration: from the kernel itself, else from the installed file.
fn config(root: &Root) -> Option<String> {
    if let Ok(file) = std::fs::File::open(root.path("proc/config.gz")) {
        let mut text = String::new();
        let read = GzDecoder::new(file).take(CONFIG_MAX).read_to_string(&mut text);
        if read.is_ok() {
            return Some(text);
        }
    }
    let release = root.text("proc/sys/kernel/osrelease")?;
    let installed = [format!("boot/config-{release}"), format!("usr/lib/modules/{release}/config")];
    installed.iter().find_map(|path| root.text(path)).filter(|text| text.contains("CONFIG_"))
}

fn value<'c>(config: &'c str, name: &str) -> Option<&'c str> {
    config.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

fn is_set(config: &str, name: &str) -> bool {
    value(config, name) == Some("y")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn facts(files: &[(&str, &[u8])]) -> Vec<(&'static str, String)> {
        let keep = tare_testkit::files::tree(files);
        accounting(&Root::at(keep.path()))
    }

    fn fact<'f>(facts: &'f [(&'static str, String)], name: &str) -> Option<&'f str> {
        facts.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    const TICKS: &str = "CONFIG_HZ_250=y\nCONFIG_HZ=250\nCONFIG_TICK_CPU_ACCOUNTING=y\n\
                         CONFIG_PARAVIRT_TIME_ACCOUNTING=y\n# CONFIG_IRQ_TIME_ACCOUNTING is not set\n";

    #[test]
    fn a_kernel_tells_its_own_configuration() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(TICKS.as_bytes()).unwrap();
        let told = facts(&[("proc/config.gz", &packed.finish().unwrap())]);
        let of = |name| fact(&told, name);
        assert_eq!((of(TICK_HZ), of(BY), of(STEAL)), (Some("250"), Some("by the tick"), Some("yes")));
        assert_eq!(of(INTERRUPTS_APART), Some("no"));
    }

    #[test]
    fn what_was_installed_is_read_and_the_command_line_goes_over_it() {
        let config = "CONFIG_HZ=1000\nCONFIG_VIRT_CPU_ACCOUNTING_GEN=y\nCONFIG_IRQ_TIME_ACCOUNTING=y\n";
        let installed = [("proc/sys/kernel/osrelease", b"6.1\n".as_slice()), ("boot/config-6.1", config.as_bytes())];
        let told = facts(&installed);
        assert_eq!(fact(&told, INTERRUPTS_APART), Some("yes"));
        assert_eq!(fact(&told, BY), Some("by the tick, exact on CPUs without one"));
        let told = facts(&[&installed[..], &[("proc/cmdline", b"quiet tsc=noirqtime\n")]].concat());
        assert_eq!(fact(&told, INTERRUPTS_APART), Some("no"));
    }

    #[test]
    fn a_processor_without_a_steady_counter_accounts_by_ticks_whatever_is_built_in() {
        let config = ("boot/config-6.1", b"CONFIG_IRQ_TIME_ACCOUNTING=y\n".as_slice());
        let release = ("proc/sys/kernel/osrelease", b"6.1\n".as_slice());
        let apart = |clocks: &'static str, processor: &'static str| {
            let clocks = ("sys/devices/system/clocksource/clocksource0/available_clocksource", clocks.as_bytes());
            let told = facts(&[config, release, clocks, ("proc/cpuinfo", processor.as_bytes())]);
            fact(&told, INTERRUPTS_APART).map(str::to_owned)
        };
        assert_eq!(
            apart("kvm-clock tsc acpi_pm \n", "vendor_id\t: GenuineIntel\ncpu family\t: 6\n").as_deref(),
            Some("yes")
        );
        assert_eq!(apart("hpet acpi_pm \n", "vendor_id\t: AuthenticAMD\ncpu family\t: 25\n").as_deref(), Some("no"));
        assert_eq!(apart("tod\n", "vendor_id       : IBM/S390\n").as_deref(), Some("yes"));
        assert_eq!(apart("arch_sys_counter\n", "CPU implementer\t: 0x41\n").as_deref(), Some("yes"));
    }

    #[test]
    fn without_a_configuration_the_kernels_names_tell() {
        let idle = "0000 T account_idle_ticks\n";
        let with = format!("{idle}0000 T irqtime_account_irq\n");
        let told = |names: &str| facts(&[("proc/kallsyms", names.as_bytes())]);
        assert_eq!(fact(&told(idle), INTERRUPTS_APART), Some("no"));
        assert_eq!(fact(&told(&with), INTERRUPTS_APART), Some("yes"));
        assert_eq!((told("").len(), facts(&[]).len()), (0, 0), "names that nobody may read tell nothing");
    }
}
