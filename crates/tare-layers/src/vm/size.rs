//! How large a guest is, and which of the host's CPUs it gets.

use super::options::{RESERVE, VmOptions};
use std::collections::BTreeSet;
use tare_core::fault::Fault;
use tare_core::host::{GuestNeeds, ServiceStart, TrialContext};
use tare_core::units::CpuSet;
use tare_core::workload::volume_bytes;

/// Room on the writable disk in addition to what the services' volumes may need, bytes.
const DISK_SLACK: u64 = 512 << 20;

/// The size of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Size {
    /// The host's CPUs that run the virtual ones; virtual CPU i runs on the i-th, if they are pinned.
    pub(super) on: CpuSet,
    /// Virtual CPUs.
    pub(super) cpus: u32,
    /// Whether the virtual CPUs may run on any of these.
    pub(super) free: bool,
    /// Memory, bytes, whole MiB.
    pub(super) memory: u64,
    /// The NUMA nodes that its memory comes from; if empty, the kernel decides.
    pub(super) nodes: BTreeSet<u32>,
    /// The writable disk, bytes.
    pub(super) disk: u64,
}

impl Size {
    /// The size for what will be started in guest number `at`: the surroundings name what is started in it.
    ///
    /// # Errors
    /// When more CPUs are requested than there are for the system under test.
    pub(super) fn of(
        options: &VmOptions,
        surroundings: &TrialContext,
        needs: &[GuestNeeds],
        at: usize,
    ) -> Result<Size, Fault> {
        let free = surroundings.services.iter().any(|start| start.free);
        let wanted = service_cpus(surroundings);
        let asked = surroundings.services.iter().map(|start| start.service.resources.cpus).sum();
        let there = wanted.len().max(1) as u32;
        // In no form do services that may run on any CPU have more CPUs than there are.
        let usual = if free { there.min(asked) } else { there };
        let cpus = options.cpus.unwrap_or(usual);
        let on = if cpus as usize == wanted.len() || free {
            wanted
        } else {
            let own = surroundings.cpus.cpus().iter().copied();
            CpuSet::new(own.skip(at * cpus as usize).take(cpus as usize))
        };
        if on.len() < cpus as usize {
            let (there, guests) = (surroundings.cpus.len(), options.guests);
            let who = if guests > 1 { format!("{guests} guests are") } else { "the guest is".to_owned() };
            let each = if guests > 1 { " each" } else { "" };
            let noun = if cpus == 1 { "CPU" } else { "CPUs" };
            let message = format!("{who} to have {cpus} {noun}{each}, for the system under test there are {there}");
            return Err(Fault::new(message).remedy("ask for fewer CPUs in the options of the layer 'vm'"));
        }
        let services: u64 = surroundings.services.iter().map(|start| start.service.resources.memory_bytes).sum();
        let inner: u64 = needs.iter().map(|needs| needs.memory_bytes).sum();
        let memory = memory(options, services, inner);
        let volumes = volume_bytes(surroundings.services.iter().map(|start| &start.service));
        // What an inner engine writes for its containers: twice the memory it asks for is a generous estimate.
        let disk = (volumes + DISK_SLACK + 2 * inner).div_ceil(1 << 20) << 20;
        let nodes = surroundings.services.iter().flat_map(|start| start.memory.iter().copied()).collect();
        Ok(Size { on, cpus, free, memory, nodes, disk })
    }

    /// The start as the guest should see it: the host's CPU and node numbers mean nothing there. A service that has
    /// every virtual CPU is not confined again.
    pub(super) fn inside(&self, start: &ServiceStart) -> ServiceStart {
        let position = |cpu: u32| self.on.cpus().iter().position(|on| *on == cpu).map(|at| at as u32);
        let own = start.cpus.as_ref().filter(|_| !self.free);
        let cpus = own.map(|cpus| CpuSet::new(cpus.cpus().iter().filter_map(|cpu| position(*cpu))));
        let cpus = cpus.filter(|cpus| !cpus.is_empty() && cpus.len() < self.cpus as usize);
        ServiceStart { cpus, free: false, memory: Vec::new(), ..start.clone() }
    }

    /// The CPUs in the guest's numbering.
    pub(super) fn cpus_inside(&self) -> CpuSet {
        CpuSet::new(0..self.cpus)
    }
}

/// The memory of a guest, bytes, whole MiB: for its services, for itself, and for what the layers in it need.
fn memory(options: &VmOptions, services: u64, inner: u64) -> u64 {
    options.memory.unwrap_or(services + RESERVE + inner).div_ceil(1 << 20) << 20
}

/// This machine's memory that a deployment takes: that of all its guests.
pub(super) fn memory_bytes(options: &VmOptions, services: u64, inner: u64) -> u64 {
    let guests = u64::from(options.guests);
    let others = guests - 1;
    match options.memory {
        Some(_) => guests * memory(options, 0, 0),
        // Each guest has its own system and the layers in it; rounding up to whole MiB adds less than one.
        None => memory(options, services, inner) + others * (memory(options, 0, inner) + (1 << 20)),
    }
}

/// The CPUs, out of those for the system under test, that the services should have.
fn service_cpus(surroundings: &TrialContext) -> CpuSet {
    let placed: Option<Vec<&CpuSet>> = surroundings.services.iter().map(|start| start.cpus.as_ref()).collect();
    match placed {
        Some(sets) if !sets.is_empty() => CpuSet::new(sets.iter().flat_map(|set| set.cpus().iter().copied())),
        _ => {
            let asked: u32 = surroundings.services.iter().map(|start| start.service.resources.cpus).sum();
            CpuSet::new(surroundings.cpus.cpus().iter().copied().take(asked.max(1) as usize))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use std::collections::BTreeMap;
    use std::path::Path;
    use tare_core::workload::{Resources, Service, Volume};
    use tare_testkit::sample::surroundings;

    fn start(cpus: u32, on: Option<&str>) -> ServiceStart {
        let resources = Resources { cpus, memory_bytes: 100 << 20, ..Resources::default() };
        let volumes = BTreeMap::from([("/data".to_owned(), Volume::of(1 << 30))]);
        let service = Service { resources, volumes, ..sample::service("a") };
        ServiceStart::on(service, on.map(|text| CpuSet::parse(text).unwrap()))
    }

    fn around(services: Vec<ServiceStart>) -> TrialContext {
        let around = surroundings("abc123", Path::new("/s"), [10, 0, 0, 1], (10, 0));
        TrialContext { cpus: CpuSet::new([1, 3, 5]), services, ..around }
    }

    #[test]
    fn a_guest_is_as_large_as_its_services() {
        let size = Size::of(&VmOptions::default(), &around(vec![start(1, None), start(1, None)]), &[], 0).unwrap();
        assert_eq!((size.cpus, size.on.to_string().as_str()), (2, "1,3"));
        assert_eq!(size.memory, (200 << 20) + RESERVE);
        assert!(size.disk > 2 << 30);
        let needs = GuestNeeds { memory_bytes: 1 << 30, ..GuestNeeds::default() };
        let with_engine = Size::of(&VmOptions::default(), &around(vec![start(1, None)]), &[needs], 0).unwrap();
        assert_eq!(with_engine.memory, (100 << 20) + RESERVE + (1 << 30));
        assert_eq!(memory_bytes(&VmOptions::default(), 100 << 20, 1 << 30), with_engine.memory);
        let fixed = VmOptions { memory: Some(2 << 30), ..VmOptions::default() };
        assert_eq!(memory_bytes(&fixed, 100 << 20, 1 << 30), 2 << 30);
        let two = |memory| VmOptions { guests: 2, memory, ..VmOptions::default() };
        assert_eq!(memory_bytes(&two(Some(2 << 30)), 100 << 20, 1 << 30), 4 << 30);
        let each = [1, 2].map(|n| Size::of(&VmOptions::default(), &around(vec![start(1, None); n]), &[], 0).unwrap());
        let both: u64 = each.iter().map(|size| size.memory).sum();
        let said = memory_bytes(&two(None), 300 << 20, 0);
        assert!((both..both + (2 << 20)).contains(&said), "{said} for {both}");
    }

    #[test]
    fn guests_of_a_stated_size_get_cpus_one_after_the_other() {
        let options = VmOptions { guests: 3, cpus: Some(1), ..VmOptions::default() };
        let around = around(vec![start(2, Some("1,3"))]);
        let on = |at| Size::of(&options, &around, &[], at).map(|size| size.on.to_string());
        assert_eq!([on(0), on(1), on(2)], ["1", "3", "5"].map(|cpu| Ok(cpu.to_owned())));
        let fault = on(3).unwrap_err();
        assert!(fault.message.contains("3 guests are to have 1 CPU each"), "{fault}");
    }

    #[test]
    fn cpu_numbers_are_those_of_the_guest() {
        let services = vec![start(1, Some("3")), start(1, Some("5"))];
        let size = Size::of(&VmOptions::default(), &around(services.clone()), &[], 0).unwrap();
        assert_eq!((size.cpus, size.on.to_string().as_str()), (2, "3,5"));
        assert_eq!(size.inside(&services[1]).cpus, Some(CpuSet::new([1])));
        assert_eq!(size.inside(&start(2, Some("3,5"))).cpus, None, "it has all of them");
        let size = Size::of(&VmOptions::default(), &around(vec![start(1, Some("1,3,5"))]), &[], 0).unwrap();
        assert_eq!(size.cpus, 3, "a service may be given more than it asks for, such as a whole node");
    }

    #[test]
    fn who_may_run_anywhere_gets_as_many_virtual_cpus_as_it_asks_for() {
        let services = vec![ServiceStart { free: true, memory: vec![1, 0], ..start(2, Some("1,3,5")) }];
        let size = Size::of(&VmOptions::default(), &around(services.clone()), &[], 0).unwrap();
        assert_eq!((size.cpus, size.free, size.on.to_string().as_str()), (2, true, "1,3,5"));
        let inside = size.inside(&services[0]);
        assert_eq!((inside.cpus, inside.free, inside.memory), (None, false, Vec::new()));
        assert_eq!(size.nodes, BTreeSet::from([0, 1]));
        let many = vec![ServiceStart { free: true, ..start(2, Some("1,3,5")) }; 3];
        let size = Size::of(&VmOptions::default(), &around(many), &[], 0).unwrap();
        assert_eq!(size.cpus, 3, "and no more than there are");
    }

    #[test]
    fn more_cpus_than_there_are_is_a_fault() {
        let options = VmOptions { cpus: Some(4), ..VmOptions::default() };
        let fault = Size::of(&options, &around(vec![start(1, None)]), &[], 0).unwrap_err();
        assert!(fault.message.contains("4 CPUs") && fault.message.contains("there are 3"), "{fault}");
    }
}
