use super::*;
use crate::bundle::{Recipe, Source};
use crate::topology::{Cache, Cpu, Device, DeviceKind};
use crate::workload::{Readiness, Resources, Service};
use proptest::prelude::*;
use std::time::Duration;

/// A machine with this many packages, each with `caches` last-level caches over `cores` cores of `threads` CPUs. The
/// second threads of all cores are numbered after the first ones, as most firmware does. Each package is a NUMA node.
pub(super) fn machine(packages: u32, caches: u32, cores: u32, threads: u32) -> Topology {
    let all = packages * caches * cores;
    let siblings = |core: u32| CpuSet::new((0..threads).map(move |thread| thread * all + core));
    let mut topology = Topology::default();
    for core in 0..all {
        let package = core / (caches * cores);
        for cpu in siblings(core).cpus() {
            topology.cpus.push(Cpu {
                cpu: *cpu,
                package: i64::from(package),
                die: 0,
                core: i64::from(core),
                siblings: siblings(core),
                node: Some(package),
                capacity: None,
            });
        }
    }
    topology.cpus.sort_by_key(|cpu| cpu.cpu);
    let of = |from: u32, to: u32| CpuSet::new((from..to).flat_map(|core| siblings(core).cpus().to_vec()));
    for package in 0..packages {
        topology.nodes.insert(package, of(package * caches * cores, (package + 1) * caches * cores));
    }
    for cache in 0..packages * caches {
        let cpus = of(cache * cores, (cache + 1) * cores).to_string();
        topology.caches.push(Cache { level: 3, kind: "Unified".into(), bytes: 32 << 20, cpus });
    }
    topology
}

fn wanted(service: &str, cpus: u32, policy: Policy) -> Wanted {
    Wanted { service: service.to_owned(), cpus, policy, near: None }
}

pub(super) fn aside(generator: u32) -> Aside {
    Aside { generator, ..Aside::default() }
}

/// What is refused, without the remedy.
fn wishes(refused: Result<Placement, Vec<Unmet>>) -> Vec<String> {
    refused.unwrap_err().into_iter().map(|unmet| unmet.wish).collect()
}

fn cpus(placement: &Placement, service: &str) -> String {
    placement.services[service].cpus.to_string()
}

#[test]
fn threads_of_a_core_stay_together_and_caches_are_not_crossed_without_need() {
    // Two packages of two caches, each over four cores of two threads: 32 CPUs.
    let topology = machine(2, 2, 4, 2);
    let services = [wanted("a", 4, Policy::Thread), wanted("b", 8, Policy::Core), wanted("c", 3, Policy::Thread)];
    let placement = place(&topology, &services, aside(2), false).unwrap();
    assert_eq!(placement.generator.to_string(), "15,31");
    assert_eq!(cpus(&placement, "b"), "0-3,16-19", "a whole cache");
    for service in ["a", "c"] {
        let cpus = &placement.services[service].cpus;
        let caches = topology.last_level();
        assert!(
            caches.iter().any(|cache| cpus.cpus().iter().all(|cpu| cache.cpus().contains(cpu))),
            "{service}: {cpus}"
        );
    }
    assert_eq!(placement.services["b"].memory, [0]);
}

#[test]
fn nodes_and_packages_are_given_whole_and_once() {
    let topology = machine(4, 1, 8, 2);
    let services = [wanted("a", 4, Policy::Node), wanted("b", 10, Policy::Socket), wanted("c", 2, Policy::Node)];
    let placement = place(&topology, &services, aside(4), false).unwrap();
    assert_eq!(cpus(&placement, "a"), "0-7,32-39");
    assert_eq!(
        (placement.services["a"].memory.as_slice(), placement.services["c"].memory.as_slice()),
        (&[0][..], &[1][..])
    );
    assert_eq!(cpus(&placement, "b"), "16-23,48-55");
    let more: Vec<Wanted> = (0..5).map(|n| wanted(&format!("s{n}"), 1, Policy::Node)).collect();
    let refused = wishes(place(&topology, &more, aside(0), false));
    assert_eq!(refused, ["service 's4': no NUMA node with 1 CPUs is left"]);
    let shared = place(&topology, &more, aside(0), true).unwrap();
    assert_eq!(shared.services["s4"].cpus, shared.services["s0"].cpus);
}

/// Thirteen services of a published study on its two sockets of ten cores: bound by hand there, which brought a fifth
/// more users (Weathervane on Docker and vSphere, figure 8).
#[test]
fn the_auction_of_the_paper_lies_as_it_was_bound_by_hand() {
    let topology = machine(2, 1, 10, 2);
    let sizes = [4, 4, 2, 2, 2, 2, 2, 2, 1, 1, 2, 4, 4];
    let services: Vec<Wanted> =
        sizes.iter().enumerate().map(|(n, cpus)| wanted(&format!("s{n:02}"), *cpus, Policy::Thread)).collect();
    let placement = place(&topology, &services, aside(0), false).unwrap();
    let mut seen = Vec::new();
    for wish in &services {
        let placed = &placement.services[&wish.service];
        assert_eq!(placed.cpus.len(), wish.cpus as usize);
        assert_eq!(placed.memory.len(), 1, "{}: {} crosses sockets", wish.service, placed.cpus);
        assert!(placed.cpus.cpus().iter().all(|cpu| !seen.contains(cpu)));
        seen.extend(placed.cpus.cpus());
        if wish.cpus > 1 {
            let whole =
                |cpu: &u32| topology.cpu(*cpu).unwrap().siblings.cpus().iter().all(|s| placed.cpus.cpus().contains(s));
            assert!(placed.cpus.cpus().iter().all(whole), "{}: {} shares a core", wish.service, placed.cpus);
        }
    }
}

#[test]
fn a_machine_whose_firmware_tells_little_is_planned_for_too() {
    // As on some Arm machines: no packages, no nodes, no caches.
    let mut topology = machine(1, 1, 6, 1);
    topology.cpus.iter_mut().for_each(|cpu| (cpu.package, cpu.node) = (-1, None));
    (topology.nodes, topology.caches) = Default::default();
    let services = [wanted("a", 2, Policy::Core), wanted("b", 3, Policy::Thread)];
    let placement = place(&topology, &services, aside(1), false).unwrap();
    assert_eq!((cpus(&placement, "a"), cpus(&placement, "b")), ("0-1".to_owned(), "2-4".to_owned()));
    assert!(placement.services["a"].memory.is_empty(), "there is no node to bind it to");
    let said = wishes(place(&topology, &[wanted("a", 1, Policy::Node)], aside(1), false));
    assert_eq!(said, ["service 'a': this machine reports no NUMA node"]);
    assert_eq!(
        place(&topology, &[wanted("a", 1, Policy::Socket)], aside(1), false).unwrap().services["a"].cpus.len(),
        5
    );
}

#[test]
fn near_is_heeded_while_there_is_room() {
    let topology = machine(2, 1, 4, 1);
    let near = |service: &str| Wanted { near: Some(1), ..wanted(service, 3, Policy::Thread) };
    let placement = place(&topology, &[near("a"), near("b")], aside(0), false).unwrap();
    assert_eq!((cpus(&placement, "a"), cpus(&placement, "b")), ("4-6".to_owned(), "0-2".to_owned()));
}

#[test]
fn what_cannot_be_met_is_refused_with_every_reason() {
    let topology = machine(1, 1, 2, 1);
    let services = [
        wanted("a", 1, Policy::Explicit(CpuSet::new([0, 7]))),
        wanted("b", 3, Policy::Free),
        wanted("c", 2, Policy::Core),
        wanted("d", 5, Policy::Node),
    ];
    let refused = wishes(place(&topology, &services, aside(1), false));
    let wanted = [
        "service 'a': CPUs 7 are not there, are offline, or are kept aside",
        "service 'd': it asks for 5 CPUs, and no NUMA node has more than 1 for services",
        "service 'c': it asks for whole cores with 2 CPUs, and those that are left have 1",
        "service 'b': it asks for 3 CPUs, and there are 1 for services",
    ];
    assert_eq!(refused, wanted);
    let greedy = wishes(place(&topology, &[], aside(2), false));
    assert_eq!(greedy, ["2 CPUs are to be kept aside for the generator, and only 2 are left"]);
    let twice = [wanted_at("a", [0]), wanted_at("b", [0])];
    let refused = wishes(place(&topology, &twice, aside(0), false));
    assert_eq!(refused, ["service 'b': CPUs 0 serve another service already"]);
    assert!(place(&topology, &twice, aside(0), true).is_ok());
}

#[test]
fn each_wish_that_cannot_be_met_comes_with_what_to_do_about_it() {
    let topology = machine(1, 1, 4, 1);
    let remedies = |services: &[Wanted], generator, over_commit| -> Vec<&'static str> {
        let refused = place(&topology, services, aside(generator), over_commit).unwrap_err();
        refused.into_iter().map(|unmet| unmet.remedy).collect()
    };
    let many = [wanted("a", 3, Policy::Thread), wanted("b", 3, Policy::Core)];
    assert_eq!(remedies(&many, 0, false), [unmet::SHARE]);
    // A service that already shares is not told to share.
    assert_eq!(remedies(&[wanted("a", 5, Policy::Thread)], 0, true), [unmet::LESS]);
    assert_eq!(remedies(&[wanted("a", 5, Policy::Node)], 0, false), [unmet::LESS]);
    assert_eq!(remedies(&[wanted("a", 5, Policy::Free)], 0, false), [unmet::LESS]);
    assert_eq!(remedies(&[], 4, false), [unmet::LESS]);
    assert_eq!(remedies(&[wanted_at("a", [7])], 0, false), [unmet::OTHERS]);
    assert_eq!(remedies(&[wanted_at("a", [0]), wanted_at("b", [0])], 0, false), [unmet::FREE_ONES]);
}

fn wanted_at(service: &str, cpus: impl IntoIterator<Item = u32>) -> Wanted {
    wanted(service, 1, Policy::Explicit(CpuSet::new(cpus)))
}

proptest! {
    #[test]
    fn sets_are_disjoint_as_large_as_asked_and_within_the_machine(
        (packages, caches, cores, threads) in (1u32..3, 1u32..3, 1u32..5, 1u32..3),
        asked in proptest::collection::vec((1u32..6, proptest::bool::ANY), 1..6),
        generator in 0u32..3,
    ) {
        let topology = machine(packages, caches, cores, threads);
        let policy = |whole: bool| if whole { Policy::Core } else { Policy::Thread };
        let services: Vec<Wanted> =
            asked.iter().enumerate().map(|(n, (cpus, whole))| wanted(&format!("s{n}"), *cpus, policy(*whole))).collect();
        let Ok(placement) = place(&topology, &services, aside(generator), false) else {
            // Refused only when it would not fit, or there are too few whole cores.
            let taken = |(cpus, whole): &(u32, bool)| if *whole { cpus.next_multiple_of(threads) } else { *cpus };
            let asked: u32 = asked.iter().map(taken).sum();
            let there = packages * caches * cores * threads;
            // A generator may split a core, and so may single CPUs.
            prop_assert!(asked + generator + threads * (services.len() as u32 + 1) > there, "{asked} of {there}");
            return Ok(());
        };
        let mut seen: Vec<u32> = placement.generator.cpus().to_vec();
        prop_assert_eq!(placement.generator.len(), generator as usize);
        for wish in &services {
            let cpus = placement.services[&wish.service].cpus.cpus();
            match wish.policy {
                Policy::Thread => prop_assert_eq!(cpus.len(), wish.cpus as usize),
                _ => {
                    prop_assert_eq!(cpus.len(), wish.cpus.next_multiple_of(threads) as usize);
                    for cpu in cpus {
                        let siblings = &topology.cpu(*cpu).unwrap().siblings;
                        prop_assert!(siblings.cpus().iter().all(|cpu| cpus.contains(cpu)), "a core is split");
                    }
                }
            }
            prop_assert!(cpus.iter().all(|cpu| topology.cpu(*cpu).is_some() && !seen.contains(cpu)));
            seen.extend(cpus);
        }
    }
}

fn read(text: &str, kept: Option<&mut ReservedCpus>) -> Result<Rules, String> {
    let read = crate::config::read("study.yaml", text, |node, problems| Rules::read(node, kept, problems));
    read.map_err(|problems| format!("{problems:?}"))
}

#[test]
fn rules_are_a_word_or_a_map() {
    let rules = read("core", None).unwrap();
    assert_eq!((rules.rule.policy, rules.local_memory, rules.over_commit), (Policy::Core, true, false));
    let mut kept = ReservedCpus::default();
    let text = "{near: eth0, memory: any, over_commit: true, aside: {generator: 4, interrupts: 1}, services: {db: node, \
                web: {cpus: \"4-5\", near: sda}, app: {policy: free}}}";
    let rules = read(text, Some(&mut kept)).unwrap();
    assert_eq!((rules.rule.policy.clone(), rules.local_memory, rules.over_commit), (Policy::Thread, false, true));
    assert_eq!(kept, ReservedCpus { generator: Some(4), hypervisor: 0, interrupts: 1 });
    let rule = |policy, near: &str| Rule { policy, near: Some(near.to_owned()) };
    assert_eq!(rules.services["db"], rule(Policy::Node, "eth0"));
    assert_eq!(rules.services["web"], rule(Policy::Explicit(CpuSet::new([4, 5])), "sda"));
    assert_eq!(rules.services["app"], rule(Policy::Free, "eth0"));
    for (wrong, why) in [
        ("sockets", "socket"),
        ("{policy: core, cpus: \"1\"}", "either"),
        ("{cpus: \"\"}", "names no CPU"),
        ("{cpus: 3-1}", "3-1"),
        ("{aside: {generator: 1}}", "aside"),
        ("{services: {db: {polcy: core}}}", "polcy"),
    ] {
        let said = read(wrong, None).unwrap_err();
        assert!(said.contains(why), "{wrong}: {said}");
    }
}

pub(super) fn service(name: &str) -> Service {
    let ready = Readiness::Log { text: String::new(), within: Duration::ZERO };
    let resources = Resources { cpus: 2, cpu_quota: None, memory_bytes: 1 << 20 };
    Service { resources, ..Service::of(name, Recipe::plain(Source::Packages(Vec::new())), Vec::new(), ready) }
}

#[test]
fn a_device_is_near_to_a_node() {
    let mut topology = machine(2, 1, 4, 1);
    let device = |name: &str, node| Device { kind: DeviceKind::Network, name: name.to_owned(), node };
    topology.devices = vec![device("eth0", Some(1)), device("eth1", None)];
    let services = [service("a"), service("b")];
    let place = |text: &str| read(text, None).unwrap().place(&services, aside(1), &topology);
    let placed = place("{policy: core, services: {a: {near: eth0}, b: {near: eth1}}}").unwrap();
    assert_eq!((cpus(&placed, "a").as_str(), placed.services["a"].memory.as_slice()), ("4-5", [1].as_slice()));
    assert_eq!(cpus(&placed, "b"), "0-1", "the firmware does not say where eth1 hangs");
    assert_eq!(place("{policy: core, memory: any}").unwrap().services["a"].memory, Vec::<u32>::new());
    let said = place("{near: eth9}").unwrap_err();
    assert!(said.len() == 2 && said[0].wish.contains("eth9") && said[0].wish.contains("eth0, eth1"), "{said:?}");
    assert_eq!(said[0].remedy, unmet::DEVICE);
    // Everything that is wrong, not only the first mistake.
    let said = place("{policy: core, services: {a: {near: eth9, cpus: \"7\"}}}").unwrap_err();
    assert!(said.len() == 2 && said[0].wish.contains("eth9") && said[1].wish.contains("CPUs 7"), "{said:?}");
    let bare = Topology { devices: Vec::new(), ..topology.clone() };
    let said = read("{near: eth9}", None).unwrap().place(&services, aside(1), &bare).unwrap_err();
    assert!(said[0].wish.ends_with("there are: none") && said[0].remedy == unmet::NO_DEVICE, "{said:?}");
}
