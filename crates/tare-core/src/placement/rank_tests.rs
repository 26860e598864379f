use super::super::tests::{aside, machine, service};
use super::*;
use crate::placement::{Wanted, cost, place};
use proptest::prelude::*;

fn sized(name: &str, cpus: u32) -> Service {
    let mut service = service(name);
    service.resources.cpus = cpus;
    service
}

/// What is assumed about `services`, with only these pairs talking instead of all.
fn demand(services: &[Service], talk: &[(&str, &str, f64)]) -> Demand {
    let pair = |(a, b, share): &(&str, &str, f64)| (((*a).to_owned(), (*b).to_owned()), *share);
    Demand { talk: talk.iter().map(pair).collect(), ..Demand::assumed(services) }
}

fn ranked(services: &[Service], topology: &Topology, talk: &[(&str, &str, f64)]) -> Vec<Candidate> {
    candidates(services, aside(1), topology, &demand(services, talk)).unwrap()
}

fn node(topology: &Topology, placement: &Placement, service: &str) -> Vec<u32> {
    topology.nodes_of(&placement.services[service].cpus)
}

fn cache(topology: &Topology, placement: &Placement, service: &str) -> Vec<usize> {
    let cpus = placement.services[service].cpus.cpus();
    let caches = topology.last_level().into_iter().enumerate();
    caches.filter(|(_, cache)| cpus.iter().any(|cpu| cache.cpus().contains(cpu))).map(|(at, _)| at).collect()
}

#[test]
fn who_talks_comes_onto_one_node_and_who_does_not_keeps_away() {
    // So much per node that no three fit on one.
    let topology = machine(2, 1, 6, 1);
    let services = [sized("web", 3), sized("db", 3), sized("batch", 3)];
    let best = |talk: &[(&str, &str, f64)]| ranked(&services, &topology, talk)[0].placement.clone();
    let together = best(&[("web", "db", 0.5)]);
    assert_eq!(node(&topology, &together, "web"), node(&topology, &together, "db"), "{together:?}");
    assert_ne!(node(&topology, &together, "web"), node(&topology, &together, "batch"), "{together:?}");
    assert_eq!(best(&[("db", "web", 0.5)]).services, together.services, "in either order");
    let other = best(&[("web", "batch", 0.5)]);
    assert_eq!(node(&topology, &other, "web"), node(&topology, &other, "batch"), "{other:?}");
}

#[test]
fn who_talks_shares_a_cache_where_a_package_has_several() {
    // Two packages of two caches over four cores each.
    let topology = machine(2, 2, 4, 1);
    let services = [sized("a", 2), sized("b", 2), sized("c", 2), sized("d", 2)];
    let best = &ranked(&services, &topology, &[("a", "c", 0.4), ("b", "d", 0.4)])[0];
    let cache = |service: &str| cache(&topology, &best.placement, service);
    assert_eq!((cache("a").len(), cache("b").len()), (1, 1), "{best:?}");
    assert_eq!([cache("a"), cache("b")], [cache("c"), cache("d")], "{best:?}");
    assert_ne!(cache("a"), cache("b"), "who has nothing to say to each other has caches apart: {best:?}");
}

#[test]
fn who_talks_to_a_device_comes_near_to_it() {
    use crate::topology::{Device, DeviceKind};
    let mut topology = machine(2, 1, 4, 2);
    let device = |name: &str, node| Device { kind: DeviceKind::Network, name: name.to_owned(), node };
    topology.devices = vec![device("eth0", Some(1)), device("eth1", Some(0)), device("eth2", None)];
    let services = [sized("web", 2)];
    let on = |name: &str| {
        let best = &ranked(&services, &topology, &[("web", name, 0.2)])[0];
        node(&topology, &best.placement, "web")
    };
    assert_eq!((on("eth0"), on("eth1")), (vec![1], vec![0]));
    assert_eq!(on("eth2"), [0], "nobody tells where it hangs");
}

#[test]
fn what_is_lost_is_what_the_formula_says() {
    let topology = machine(1, 1, 2, 2);
    let of = |a: &[u32], b: &[u32], need: f64| {
        let placed = |cpus: &[u32]| Placed { cpus: CpuSet::new(cpus.iter().copied()), free: false, memory: Vec::new() };
        let services = [("a".to_owned(), placed(a)), ("b".to_owned(), placed(b))].into();
        let placement = Placement { services, ..Placement::default() };
        let cpus = [("a".to_owned(), need), ("b".to_owned(), 1.0)].into();
        cost(&topology, &placement, &Demand { cpus, talk: BTreeMap::new() })
    };
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    // CPUs 0 and 2 are one core, 1 and 3 the other.
    let apart = of(&[0, 2], &[1, 3], 2.0);
    close(apart.cores, 0.7);
    close(apart.waiting, 0.0);
    close(apart.caches, 0.02);
    // One CPU of each core: b is busy half of the time on each, a always.
    close(of(&[0, 1], &[2, 3], 2.0).cores, 0.7 * 2.0 * 0.5);
    // All on all CPUs: each is kept half busy by a and a quarter busy by b.
    let shared = of(&[0, 1, 2, 3], &[0, 1, 2, 3], 2.0);
    close(shared.waiting, 0.1 * 4.0 * 0.5 * 0.25);
    close(shared.cores, 0.7 * 2.0 * (1.0 * 0.5 - 2.0 * 0.5 * 0.25));
    // Three CPUs are wanted and two are there; b comes on top of one that has none to spare.
    close(of(&[0, 2], &[1, 3], 3.0).waiting, 1.0);
    close(of(&[0, 2], &[2], 2.0).waiting, 1.0 + 0.1);
    let far = machine(2, 1, 2, 1);
    let both = Placed { cpus: CpuSet::new(0..4), free: true, memory: Vec::new() };
    let placement = Placement { services: [("a".to_owned(), both)].into(), ..Placement::default() };
    let demand = Demand { cpus: [("a".to_owned(), 2.0)].into(), talk: BTreeMap::new() };
    close(cost(&far, &placement, &demand).distance, 0.5 * 2.0 * 0.5 * 0.3);
}

/// The services of a published study and whom they talk to, with the assignment that its authors found by hand (node 0:
/// four application servers and both stores; node 1: the rest), which supported a fifth more users than the kernel's
/// own.
#[test]
fn the_paper_s_assignment_or_a_better_one_is_found() {
    let topology = machine(2, 1, 10, 2);
    let mut services: Vec<Service> = (1..=6).map(|n| sized(&format!("app{n}"), 2)).collect();
    services.extend(["web1", "web2", "mongo", "postgres"].map(|name| sized(name, 4)));
    services.extend([sized("rabbit", 2), sized("zookeeper", 1), sized("config", 1)]);
    let mut talk = Vec::new();
    let apps: Vec<String> = (1..=6).map(|n| format!("app{n}")).collect();
    for app in &apps {
        talk.extend(
            [("web1", 0.05), ("web2", 0.05), ("mongo", 0.1), ("postgres", 0.1), ("rabbit", 0.02)]
                .map(|(other, share)| (app.as_str(), other, share)),
        );
    }
    let demand = demand(&services, &talk);
    let all = candidates(&services, aside(0), &topology, &demand).unwrap();
    let by_hand = |service: &Service| {
        let first = ["app1", "app2", "app3", "app4", "mongo", "postgres"].contains(&service.name.as_str());
        Wanted {
            service: service.name.clone(),
            cpus: service.resources.cpus,
            policy: Policy::Thread,
            near: Some(u32::from(!first)),
        }
    };
    let wanted: Vec<Wanted> = services.iter().map(by_hand).collect();
    let theirs = place(&topology, &wanted, aside(0), false).unwrap();
    for service in &services {
        let first = ["app1", "app2", "app3", "app4", "mongo", "postgres"].contains(&service.name.as_str());
        assert_eq!(node(&topology, &theirs, &service.name), [u32::from(!first)], "{}", service.name);
    }
    let theirs = cost(&topology, &theirs, &demand);
    let threads = all.iter().find(|candidate| candidate.manner == Manner::Thread).unwrap();
    assert!(threads.cost.total() <= theirs.total() + 1e-9, "{:?} is worse than {theirs:?}", threads.cost);
    // As in the study, what the kernel does by itself is worse than either kind of affinity.
    let of = |manner: Manner| all.iter().find(|candidate| candidate.manner == manner).unwrap().cost.total();
    assert!(of(Manner::Thread) < of(Manner::Free) && of(Manner::Node) < of(Manner::Free), "{:?}", of(Manner::Free));
    assert!(theirs.total() < of(Manner::Free));
    for candidate in &all {
        holds(candidate, &services, &topology);
    }
}

/// What every candidate's manner promises, on any machine.
fn holds(candidate: &Candidate, services: &[Service], topology: &Topology) {
    let (mut seen, placed) = (BTreeSet::new(), &candidate.placement.services);
    for service in services {
        let Placed { cpus, memory, .. } = &placed[&service.name];
        assert!(cpus.len() >= service.resources.cpus as usize, "{}: {}", candidate.name, service.name);
        assert!(cpus.cpus().iter().all(|cpu| candidate.placement.system_under_test.cpus().contains(cpu)));
        match candidate.manner {
            Manner::Free => assert!(memory.is_empty()),
            _ => assert_eq!(*memory, topology.nodes_of(cpus), "{}: memory lies elsewhere", candidate.name),
        }
        if matches!(candidate.manner, Manner::Thread | Manner::Core) {
            assert!(cpus.cpus().iter().all(|cpu| seen.insert(*cpu)), "{}: {cpus} serve two", candidate.name);
        }
        if candidate.manner == Manner::Core {
            let whole = |cpu: &u32| topology.cpu(*cpu).unwrap().siblings.cpus().iter().all(|s| cpus.cpus().contains(s));
            assert!(cpus.cpus().iter().all(whole), "{}: {cpus} split a core", candidate.name);
        }
    }
}

#[test]
fn one_cpu_is_one_way_and_too_many_are_refused_with_each_reason() {
    let topology = machine(1, 1, 2, 1);
    let services = [sized("a", 1)];
    let all = ranked(&services, &topology, &[]);
    assert_eq!(all.iter().map(|candidate| candidate.name.as_str()).collect::<Vec<_>>(), ["free"]);
    let services = [sized("a", 3), sized("b", 1), sized("c", 9)];
    let said = candidates(&services, aside(0), &topology, &Demand::assumed(&services)).unwrap_err();
    assert!(said.len() == 2 && said[0].wish.contains("'a'") && said[1].wish.contains("'c'"), "{said:?}");
}

#[test]
fn a_service_larger_than_a_node_goes_on_into_what_is_beside_it() {
    let topology = machine(4, 2, 2, 1);
    let services = [sized("large", 6), sized("small", 2)];
    let all = candidates(&services, aside(0), &topology, &Demand::assumed(&services)).unwrap();
    let best = all.iter().find(|candidate| candidate.manner == Manner::Thread).unwrap();
    assert_eq!(node(&topology, &best.placement, "large").len(), 2, "{best:?}");
    assert_eq!(node(&topology, &best.placement, "small").len(), 1, "{best:?}");
}

#[test]
fn many_services_on_many_caches_are_searched_in_steps_and_not_in_vain() {
    // 12 services on 16 caches: more ways than can be counted.
    let topology = machine(2, 8, 4, 1);
    let services: Vec<Service> = (0..12).map(|n| sized(&format!("s{n:02}"), 2)).collect();
    let talk: Vec<(String, String)> = (0..6).map(|n| (format!("s{n:02}"), format!("s{:02}", n + 6))).collect();
    let talk: Vec<(&str, &str, f64)> = talk.iter().map(|(a, b)| (a.as_str(), b.as_str(), 0.4)).collect();
    let best = &ranked(&services, &topology, &talk)[0];
    for (a, b, _) in talk {
        assert_eq!(cache(&topology, &best.placement, a), cache(&topology, &best.placement, b), "{a} and {b}: {best:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn candidates_are_feasible_distinct_and_in_order(
        (packages, caches, cores, threads) in (1u32..4, 1u32..3, 1u32..4, 1u32..3),
        asked in proptest::collection::vec(1u32..5, 1..5),
        generator in 0u32..3,
        share in 0.0f64..1.0,
    ) {
        let topology = machine(packages, caches, cores, threads);
        let services: Vec<Service> = asked.iter().enumerate().map(|(n, cpus)| sized(&format!("s{n}"), *cpus)).collect();
        let demand = demand(&services, &[("s0", "s1", share)]);
        let Ok(all) = candidates(&services, aside(generator), &topology, &demand) else {
            let there = (packages * caches * cores * threads).saturating_sub(generator);
            prop_assert!(asked.iter().any(|cpus| *cpus > there) || there == 0, "{asked:?} of {there}");
            return Ok(());
        };
        prop_assert!(all.windows(2).all(|pair| pair[0].cost.total() <= pair[1].cost.total() + 2e-6));
        prop_assert_eq!(all.iter().filter(|candidate| candidate.manner == Manner::Free).count(), 1);
        let names: BTreeSet<&str> = all.iter().map(|candidate| candidate.name.as_str()).collect();
        prop_assert_eq!(names.len(), all.len(), "{:?}", names);
        let mut sets = BTreeSet::new();
        for candidate in &all {
            holds(candidate, &services, &topology);
            let of: Vec<Vec<u32>> =
                candidate.placement.services.values().map(|placed| placed.cpus.cpus().to_vec()).collect();
            prop_assert!(sets.insert(of), "{} is there twice", candidate.name);
            // What a study says to get it results in the same placement.
            let again = candidate.rules.place(&services, aside(generator), &topology).unwrap();
            prop_assert_eq!(&again, &candidate.placement);
        }
    }
}
