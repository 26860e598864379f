//! Assigns the CPUs of this machine to what runs, in each form of a study.

mod room;

pub(crate) use room::{memory_bytes, stand_apart_if_memory_is_short};

use crate::mistake::Mistake;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use tare_core::design::Arrangement;
use tare_core::load::LoadOrigin;
use tare_core::placement::{Aside, Placement, ReservedCpus, Rules, Unmet};
use tare_core::study::Study;
use tare_core::topology::Topology;
use tare_core::units::CpuSet;
use tare_core::workload::Workload;

/// Who runs on which CPUs.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Places {
    pub(crate) generator: CpuSet,
    /// Every CPU that services may use.
    pub(crate) service: CpuSet,
    /// Those for hypervisors' own threads; empty if they share the services' CPUs.
    pub(crate) hypervisor: CpuSet,
    /// Those kept free for interrupts.
    pub(crate) interrupts: CpuSet,
    /// By form: where each service runs. A duet halves the CPUs by itself.
    pub(crate) forms: BTreeMap<String, Placement>,
}

/// Plans for this machine, as far as this process may use it.
///
/// # Errors
/// Every request of the study that this machine cannot meet.
pub(crate) fn places(study: &Study, workload: &Workload) -> Result<Places> {
    let (topology, _) = machine(study)?;
    let (places, unmet) = plan(study, workload, &topology);
    let mut mistakes = refusals(&unmet);
    mistakes.extend(room::check_room(study, workload, &places, memory_bytes()));
    if mistakes.is_empty() { Ok(places) } else { Err(Mistake::new(mistakes.join("\nerror: ")).into()) }
}

/// The requests that cannot be met, with one message for all that have the same remedy.
fn refusals(unmet: &BTreeSet<Unmet>) -> Vec<String> {
    let remedies: BTreeSet<&str> = unmet.iter().map(|unmet| unmet.remedy).collect();
    let message = |remedy: &str| {
        let alike = unmet.iter().filter(|unmet| unmet.remedy == remedy);
        let list: String = alike.map(|unmet| format!("\n  - {unmet}")).collect();
        format!("this machine cannot provide what the study asks for:{list}\n  to do: {remedy}")
    };
    remedies.into_iter().map(message).collect()
}

/// This machine, as far as this process may use it, and what a study keeps aside of it.
///
/// # Errors
/// When the kernel does not say which CPUs this process may use.
pub(crate) fn machine(study: &Study) -> Result<(Topology, Aside)> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).map(|cpu| cpu as u32);
    let topology = tare_telemetry::topology().within(&CpuSet::new(cpus));
    let aside = asides(study, &topology)[0];
    Ok((topology, aside))
}

/// How many CPUs are kept aside: for this study, and if the load came from outside the form.
fn asides(study: &Study, topology: &Topology) -> [Aside; 2] {
    let ReservedCpus { generator, hypervisor, interrupts } = study.kept;
    let count = topology.cpus.len() as u32;
    let usual = if count < 2 { 0 } else { generator.unwrap_or((count / 4).max(1)) };
    let outside = Aside { generator: usual, hypervisor, interrupts };
    let aside = if study.from == LoadOrigin::Inside { Aside { generator: 0, ..outside } } else { outside };
    [aside, outside]
}

/// A quarter of the CPUs, at least one, generates load, unless the study says how many; the rest is for services. On a
/// machine with one CPU both share it. If the load is a tool inside the form, nothing outside needs CPUs, and all are
/// for services. Also returns every request that cannot be met; if too much is kept aside, no CPU is left for services.
fn plan(study: &Study, workload: &Workload, topology: &Topology) -> (Places, BTreeSet<Unmet>) {
    let mut unmet = BTreeSet::new();
    let [aside, outside] = asides(study, topology);
    let mut apart = |aside| {
        let placed = Rules::default().place(&[], aside, topology);
        placed.map_err(|wishes| unmet.extend(wishes)).unwrap_or_default()
    };
    let all = apart(aside);
    // The check whether a service inside is ready runs on the same CPUs.
    let generator = apart(outside).generator;
    let generator = if generator.is_empty() { all.system_under_test.clone() } else { generator };
    let mut places = Places {
        generator,
        service: all.system_under_test,
        hypervisor: all.hypervisor,
        interrupts: all.interrupts,
        forms: BTreeMap::new(),
    };
    if study.design.arrangement == Arrangement::Duet {
        return (places, unmet);
    }
    let usual = Rules::default();
    for form in &study.forms {
        let stated = form.placement.as_ref().or(study.placement.as_ref());
        let rules = stated.unwrap_or(&usual);
        match rules.place(&study.deployed(workload, form).services, aside, topology) {
            Ok(placement) => {
                places.forms.insert(form.name.clone(), placement);
            }
            // Nobody asked for this placement; `check_room` reports too few CPUs in better words.
            Err(_) if stated.is_none() => {}
            Err(more) => unmet.extend(more),
        }
    }
    (places, unmet)
}

/// Describes where the services of a form run.
pub(crate) fn describe(placement: &Placement) -> String {
    let of = |(service, placed): (&String, &tare_core::placement::Placed)| {
        let how = if placed.free { "any of CPUs" } else { "CPUs" };
        let memory = match placed.memory.as_slice() {
            [] => String::new(),
            nodes => format!(", memory of node {}", CpuSet::new(nodes.iter().copied())),
        };
        format!("{service} on {how} {}{memory}", placed.cpus)
    };
    placement.services.iter().map(of).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;
    use std::path::Path;
    use tare_core::topology::Cpu;

    /// One package, one node, four cores of two CPUs; the second ones are numbered after the first.
    fn topology() -> Topology {
        let cpu = |cpu: u32| Cpu { siblings: CpuSet::new([cpu % 4, cpu % 4 + 4]), node: Some(0), ..Cpu::bare(cpu) };
        Topology { cpus: (0..8).map(cpu).collect(), nodes: [(0, CpuSet::new(0..8))].into(), ..Topology::default() }
    }

    fn planned(study: &str, topology: &Topology) -> Result<Places, Vec<String>> {
        let text = format!("study: s\nworkload: redis\nload: {{closed: {{}}}}\n{study}\n");
        let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
        let suite = files::read_suite_text(&text, "s", Some(&workloads)).unwrap();
        let (study, workload) = files::only_part(suite, "run").unwrap();
        let (places, unmet) = plan(&study, &workload, topology);
        if unmet.is_empty() { Ok(places) } else { Err(unmet.into_iter().map(|unmet| unmet.wish).collect()) }
    }

    fn redis(places: &Places, form: &str) -> String {
        describe(&places.forms[form])
    }

    #[test]
    fn the_generator_gets_whole_cores_and_each_form_its_own_rule() {
        let study = "placement: core\nresources: {cpus: 3}\nforms: {a: [], b: {layers: [], placement: free}, c: {placement: \
                     {cpus: \"1,2,4\", memory: any}}}";
        let places = planned(study, &topology()).unwrap();
        assert_eq!((places.generator.to_string(), places.service.to_string()), ("3,7".into(), "0-2,4-6".into()));
        assert_eq!(redis(&places, "a"), "redis on CPUs 0-1,4-5, memory of node 0");
        assert_eq!(redis(&places, "b"), "redis on any of CPUs 0-2,4-6");
        assert_eq!(redis(&places, "c"), "redis on CPUs 1-2,4");
    }

    #[test]
    fn what_is_kept_aside_is_stated_or_depends_on_the_machine() {
        let kept = "placement: {aside: {generator: 1, hypervisor: 2, interrupts: 1}}\nforms: {a: []}";
        let places = planned(kept, &topology()).unwrap();
        let sets = [&places.generator, &places.hypervisor, &places.interrupts, &places.service].map(CpuSet::to_string);
        assert_eq!(sets, ["3", "2,6", "7", "0-1,4-5"]);
        let said = planned("placement: {aside: {generator: 8}}\nforms: {a: []}", &topology()).unwrap_err();
        assert!(said[0].contains("8 CPUs are to be kept aside for the generator"), "{said:?}");
        // A machine of one CPU: the load comes from where the service is.
        let single = planned("forms: {a: []}", &topology().within(&CpuSet::new([2]))).unwrap();
        assert_eq!((single.generator.clone(), redis(&single, "a")), (CpuSet::new([2]), "redis on CPUs 2".to_owned()));
    }

    #[test]
    fn unmet_requests_are_refused_and_defaults_are_checked_elsewhere() {
        let forms = "forms: {a: [], b: []}\nresources: {cpus: 7}";
        assert_eq!(planned(forms, &topology()).unwrap().forms.len(), 0, "whether there is room is asked elsewhere");
        let said = planned(&format!("placement: thread\n{forms}"), &topology()).unwrap_err();
        assert_eq!(said, ["service 'redis': it asks for 7 CPUs to itself, and 6 are left"], "once for both forms");
        // A device that is not there hides nothing that is asked elsewhere.
        let more = format!("placement: {{near: eth9, aside: {{generator: 8}}}}\n{forms}");
        let said = planned(&more, &topology()).unwrap_err();
        assert!(said.iter().any(|wish| wish.contains("8 CPUs are to be kept aside")), "{said:?}");
        assert!(said.iter().any(|wish| wish.contains("'eth9'")), "{said:?}");
        // Each with what to do about it, and not with what would help another.
        let wish = |wish: &str, remedy| Unmet { wish: wish.to_owned(), remedy };
        let unmet =
            [wish("no such device", "name one"), wish("too few", "ask for less"), wish("far too few", "ask for less")];
        let said = refusals(&unmet.into());
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].ends_with(":\n  - far too few\n  - too few\n  to do: ask for less"), "{said:?}");
        assert!(said[1].ends_with(":\n  - no such device\n  to do: name one"), "{said:?}");
        let duet = planned("design: duet\nforms: {a: [], b: []}", &topology()).unwrap();
        assert_eq!(duet.forms.len(), 0, "the runner halves the CPUs");
    }
}
