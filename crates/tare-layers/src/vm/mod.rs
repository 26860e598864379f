//! The layer `vm`: QEMU guests, one or several, whose agents are hosts over virtio-serial lines.
//!
//! The guest boots a kernel directly, without firmware menus or a boot loader, with an initial file system that holds
//! only the agent and the modules. Bundles are read-only disks; a private bridge and a tap device connect it to the
//! host, or passt does. See [`crate::agent`] for what happens inside.

mod accelerator;
mod block;
mod boot;
pub(crate) mod confinement;
mod cpio;
mod dealing;
mod disks;
mod guest;
mod host;
mod initramfs;
mod leftovers;
mod machine;
mod micro;
mod modules;
mod options;
mod passt;
mod process;
mod qmp;
mod rungs;
mod size;
mod variants;
mod wiring;

pub use options::{Carried, Network, VmOptions};
#[cfg(any(test, fuzzing))]
pub(crate) use {
    block::chew as chew_content, modules::chew as chew_modules, process::chew as chew_console,
    qmp::chew as chew_control_line,
};

use crate::short_version;
use accelerator::Qemu;
use passt::Passt;
use std::path::Path;
use tare_core::config::{Node, Problems};
use tare_core::fault::Fault;
use tare_core::host::{
    Availability, CachedItem, Facts, Host, Layer, Leftover, LocalOuter, MachineServices, OpenError, TrialContext,
};
use tare_core::layer::{LayerRung, LayerUse, LayerVariant, Listens};
use tare_core::load::LoadOrigin;
use tare_core::workload::Service;

/// The layer `vm`. A guest has its own address. With passt that is an address of this machine too, at which passt
/// listens; then only a form that listens at every address is in its way. A guest inside a guest would need QEMU, a
/// kernel and its disks there; none of these are brought along, and opening the layer there says so.
pub struct Vm;

impl Layer for Vm {
    type Options = VmOptions;

    const NAME: &'static str = "vm";
    const ABOUT: &'static str =
        "a virtual machine: QEMU, under KVM where a guest really boots under it, else emulated and marked so";
    const MAY_BE_EMULATED: bool = true;

    fn read(node: &Node, problems: &mut Problems) -> Option<VmOptions> {
        options::read(node, problems)
    }

    /// Whether this machine can run guests, and how. The first call after a boot may take as long as a tiny guest needs
    /// to come alive; its answer is kept. If there is no kernel for guests yet, the store of bundles fetches and keeps
    /// one, as the first run would: which kernel guests have is part of the answer, for emulated guests too.
    fn probe(options: &VmOptions, carrier: &MachineServices) -> Availability {
        match examine(options, carrier) {
            Ok((facts, None)) => Availability::Ready(facts),
            Ok((facts, Some(why))) => Availability::Emulated(facts, why),
            Err(fault) => Availability::Unavailable(fault),
        }
    }

    fn words(facts: &Facts) -> String {
        words(facts)
    }

    fn ways() -> Vec<String> {
        Passt::ways()
    }

    fn open(
        options: VmOptions,
        outer: Box<dyn LocalOuter>,
        surroundings: &TrialContext,
    ) -> Result<Box<dyn Host>, OpenError> {
        boot::open(outer, options, surroundings)
    }

    fn listens(options: &VmOptions) -> Listens {
        match options.network {
            Network::Tap => Listens::Apart,
            // It listens on this machine, at the guest's address.
            Network::Passt => Listens::AtItsAddress,
        }
    }

    fn memory_bytes(options: &VmOptions, services: u64, inner: u64) -> u64 {
        size::memory_bytes(options, services, inner)
    }

    fn rungs(options: &VmOptions, _: &[LayerUse], _: LoadOrigin) -> Vec<LayerRung<VmOptions>> {
        rungs::rungs(options)
    }

    fn variants(options: &VmOptions, _: LoadOrigin) -> Vec<LayerVariant<VmOptions>> {
        variants::variants(options)
    }

    fn fits(options: &VmOptions, services: &[Service]) -> Result<(), Fault> {
        let dealt = dealing::dealt_out(services, options.guests)?;
        (0..options.guests as usize).try_for_each(|guest| {
            let own = services.iter().zip(&dealt).filter(|(_, at)| **at == guest);
            machine::takes_disks(options, disks::count(own.map(|(service, _)| service), &[]))
        })
    }

    fn leftovers() -> Result<Vec<Leftover>, Fault> {
        Ok(leftovers::find())
    }

    fn remove(leftover: &Leftover) -> Result<(), Fault> {
        leftovers::remove(leftover)
    }

    fn kept() -> Result<Vec<CachedItem>, Fault> {
        Ok(initramfs::kept())
    }

    fn forget(kept: &CachedItem) -> Result<(), Fault> {
        initramfs::forget(kept)
    }
}

fn examine(options: &VmOptions, carrier: &MachineServices) -> Result<(Facts, Option<Fault>), Fault> {
    let qemu = Qemu::find()?;
    let passt = Passt::wanted(options)?;
    if passt.is_some() {
        qemu.check_passt(options)?;
    } else if !Path::new("/dev/net/tun").exists() {
        return Err(Fault::new("there is no /dev/net/tun, so a guest can have no network").remedy("modprobe tun"));
    }
    if let Carried::Block(device) = &options.disk {
        block::examine(device, 0)?;
    }
    let kernel = carrier.bundles.kernel()?;
    if options.is_micro() {
        micro::check(&qemu, &kernel)?;
    }
    let found = accelerator::choose(&qemu, carrier, &options.accelerator)?;
    let facts = [
        ("vm.accelerator", found.engine.name().to_owned()),
        ("vm.cpu", found.cpu),
        ("vm.qemu", qemu.version),
        ("vm.kernel", kernel.release),
        ("vm.kernel_origin", kernel.origin),
    ];
    // The usual machine is not named: facts of older records are still the same facts.
    let machine =
        Some(("vm.machine", options.machine.clone())).filter(|_| options.machine != VmOptions::default().machine);
    let facts = facts.into_iter().chain(machine).map(|(key, value)| (key.to_owned(), value));
    let by_passt = passt.iter().flat_map(|passt| passt.facts(options));
    let facts = facts.chain(by_passt.map(|(key, value)| (format!("vm.{key}"), value)));
    Ok((facts.collect(), found.emulated))
}

/// `QEMU 7.2 under KVM, guests with Linux 6.1.0-56-cloud-amd64`.
fn words(facts: &Facts) -> String {
    let fact = |key: &str| facts.get(key).map_or("", String::as_str);
    let under = if fact("vm.accelerator") == "kvm" { " under KVM" } else { "" };
    let cpu = fact("vm.cpu");
    // Guests are expected to see the whole processor, or all that an emulated one offers.
    let cpu = if cpu.contains(',') { format!(", processor {cpu}") } else { String::new() };
    let machine = fact("vm.machine");
    // Guests are expected to have this one.
    let machine = if matches!(machine, "" | "q35") { String::new() } else { format!(", machine type {machine}") };
    // Guests are expected to have a tap device.
    let network = fact("vm.network").replacen("passt", &format!("passt {}", fact("vm.passt")), 1);
    let network = if network.is_empty() { network } else { format!(", network by {network}") };
    let (qemu, kernel) = (short_version(fact("vm.qemu")), fact("vm.kernel"));
    format!("QEMU {qemu}{under}, guests with Linux {kernel}{machine}{network}{cpu}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_passt_listens_on_this_machine() {
        for (network, wanted) in [(Network::Tap, Listens::Apart), (Network::Passt, Listens::AtItsAddress)] {
            let options = VmOptions { network, ..VmOptions::default() };
            assert_eq!(Vm::listens(&options), wanted, "{network:?}");
        }
    }

    #[test]
    fn what_is_other_than_usual_is_named() {
        let said = |machine: &str| {
            let facts = [
                ("vm.machine", machine),
                ("vm.accelerator", "kvm"),
                ("vm.cpu", "host"),
                ("vm.qemu", "7.2.22 (Debian 1:7.2+dfsg-7)"),
                ("vm.kernel", "6.1.0-56-cloud-amd64"),
            ];
            words(&facts.map(|(key, value)| (key.to_owned(), value.to_owned())).into())
        };
        assert_eq!(said("microvm"), said("q35") + ", machine type microvm");
        let facts = [("vm.network", "passt by vhost-user"), ("vm.passt", "2024_11_27")];
        let said = words(&facts.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        assert!(said.ends_with(", network by passt 2024_11_27 by vhost-user"), "{said}");
    }
}
