//! Checks that this machine has the CPUs and the memory for what a study deploys at once.

use super::Places;
use crate::layers::layer_of_form;
use tare_core::design::{Arrangement, Chosen};
use tare_core::form::Form;
use tare_core::layer::LayerUse;
use tare_core::study::Study;
use tare_core::workload::Workload;

/// Checks the CPUs and the memory for what is deployed at once: a message for each mistake. `memory` is the machine's,
/// bytes, 0 if unknown.
pub(super) fn check_room(study: &Study, workload: &Workload, places: &Places, memory: u64) -> Vec<String> {
    let mut mistakes: Vec<String> = check_cpus(study, workload, places).into_iter().collect();
    mistakes.extend(study.forms.iter().filter_map(|form| check_fits(study, workload, form)));
    let (wanted, who) = memory_at_once(study, workload);
    if memory > 0 && wanted > memory {
        let show = tare_core::units::show_bytes;
        let instead = if study.design.arrangement == Arrangement::Blocks { "" } else { ", or use `design: blocks`" };
        mistakes.push(format!(
            "{who} for {} of memory, but this machine has {}\n  to do: lower `resources: memory:` in the study or the \
             workload{instead}",
            show(wanted),
            show(memory)
        ));
    }
    mistakes
}

/// Switches a study to blocks, in which forms are deployed one after the other, if this machine has too little memory
/// for all side by side and nobody asked for that. `memory` is the machine's, bytes, 0 if unknown.
pub(crate) fn stand_apart_if_memory_is_short(study: &mut Study, workload: &Workload, memory: u64) {
    let by_itself = study.design.chosen == Chosen::Usual && study.design.arrangement != Arrangement::Blocks;
    let (wanted, _) = memory_at_once(study, workload);
    if by_itself && memory > 0 && wanted > memory {
        let show = tare_core::units::show_bytes;
        let why = format!("all forms together would ask for {} of memory, of {}", show(wanted), show(memory));
        (study.design.arrangement, study.design.chosen) = (Arrangement::Blocks, Chosen::Instead(why));
    }
}

/// A message for the first service that asks for more CPUs than there are for services. Unmet placements, and too many
/// CPUs kept aside, were already reported.
fn check_cpus(study: &Study, workload: &Workload, places: &Places) -> Option<String> {
    let (service, generator) = (&places.service, &places.generator);
    let duet = study.design.arrangement == Arrangement::Duet;
    let each = if duet { service.len() / 2 } else { service.len() };
    let told = |form: &&Form| {
        let wished = form.placement.is_some() || study.placement.is_some();
        service.is_empty() || !duet && wished && !places.forms.contains_key(&form.name)
    };
    let deployed = |form| study.deployed(workload, form).services.into_iter().map(move |service| (form, service));
    for (form, wanted) in study.forms.iter().filter(|form| !told(form)).flat_map(deployed) {
        let cpus = wanted.resources.cpus as usize;
        if cpus <= each {
            continue;
        }
        let own = form.resources.cpus.map_or_else(String::new, |_| format!(" in form '{}'", form.name));
        let there = if duet {
            format!(
                "each form of a duet gets half of the {} that this machine has for services, which is {each}",
                service.len()
            )
        } else {
            format!("this machine has {each} for services")
        };
        let instead = if duet { ", or use `design: blocks`" } else { "" };
        return Some(format!(
            "service '{}' asks for {cpus} CPUs{own}, but {there} (CPUs {service}); CPUs {generator} generate the load\n  to do: \
             lower `resources: cpus:` in the study or the workload{instead}",
            wanted.role()
        ));
    }
    None
}

/// Why a form's layers cannot hold what it deploys; none if they can.
fn check_fits(study: &Study, workload: &Workload, form: &Form) -> Option<String> {
    let deployed = study.deployed(workload, form).services;
    let unfit = |layer: &LayerUse| layer_of_form(&layer.layer).fits(&layer.options, &deployed).err();
    let why = form.layers.iter().find_map(unfit)?;
    Some(format!("form '{}': {}\n  to do: {}", form.name, why.message, why.remedy))
}

/// The most memory that is assigned at once, bytes, and to what: to one form in blocks, to all forms and the control
/// side by side, to the baseline and another form in a duet.
fn memory_at_once(study: &Study, workload: &Workload) -> (u64, &'static str) {
    let of = |form: &Form| {
        let deployed = study.deployed(workload, form).services;
        let services: u64 = deployed.iter().map(|service| service.resources.memory_bytes).sum();
        let Some((outermost, inner)) = form.layers.split_first() else { return services };
        let needs = |layer: &LayerUse| layer_of_form(&layer.layer).in_guest(&layer.options);
        let inner = inner.iter().filter_map(|layer| needs(layer).ok()).map(|needs| needs.memory_bytes).sum();
        layer_of_form(&outermost.layer).memory_bytes(&outermost.options, services, inner)
    };
    let baseline = study.forms.iter().find(|form| form.name == study.baseline).map_or(0, of);
    let forms = study.forms.iter().map(of);
    match study.design.arrangement {
        Arrangement::Blocks => (forms.max().unwrap_or(0), "the services and their layers ask"),
        Arrangement::Alternate(_) | Arrangement::Chop(_) => {
            (forms.sum::<u64>() + baseline, "all forms and the control, side by side, ask")
        }
        Arrangement::Duet => (baseline + forms.max().unwrap_or(0), "the two forms of a duet ask"),
    }
}

/// The memory of this machine, bytes.
pub(crate) fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram * u64::from(info.mem_unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;
    use crate::machine::describe;
    use std::path::Path;
    use tare_core::units::CpuSet;

    fn study(more: &str) -> (Study, Workload) {
        let text = format!(
            "study: s\nworkload: redis\nload: {{closed: {{}}}}\nresources: {{cpus: 2, memory: 1GiB}}\n\
             forms: {{plain: [], guest: [vm: {{memory: 3GiB}}]}}\n{more}\n"
        );
        let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
        files::only_part(files::read_suite_text(&text, "s", Some(&workloads)).unwrap(), "run").unwrap()
    }

    fn told(mistakes: Vec<String>) -> Result<(), String> {
        if mistakes.is_empty() { Ok(()) } else { Err(mistakes.join("\n")) }
    }

    fn room(more: &str, service_cpus: u32, memory_gib: u64) -> Result<(), String> {
        let (study, workload) = study(more);
        let places = Places { generator: CpuSet::new([9]), service: CpuSet::new(0..service_cpus), ..Places::default() };
        told(check_room(&study, &workload, &places, memory_gib << 30))
    }

    #[test]
    fn memory_is_summed_over_all_that_is_deployed_at_once() {
        // The plain form has 1 GiB, the guest 3 GiB; the control is the plain one again.
        for (design, least) in [("design: blocks", 3), ("design: alternate", 5), ("design: duet", 4)] {
            assert_eq!(room(design, 4, least), Ok(()), "{design}");
            let why = room(design, 4, least - 1).unwrap_err();
            assert!(why.contains(&format!("{least} GiB")) && why.contains("to do"), "{design}: {why}");
        }
    }

    #[test]
    fn if_memory_is_short_the_design_is_blocks_unless_another_was_asked_for() {
        let arranged = |more: &str, memory_gib: u64| {
            let (mut study, workload) = study(more);
            stand_apart_if_memory_is_short(&mut study, &workload, memory_gib << 30);
            (study.design.arrangement.name(), study.design.describe())
        };
        assert_eq!(arranged("", 5).0, "chop");
        assert_eq!(arranged("design: chop", 4).0, "chop");
        let (name, said) = arranged("", 4);
        assert!(name == "blocks" && said.contains("not chopped (all forms together would ask for 5 GiB"), "{said}");
    }

    #[test]
    fn a_forms_own_resources_must_be_available_too() {
        let (mut study, workload) = study("design: blocks");
        let places = Places { generator: CpuSet::new([9]), service: CpuSet::new(0..4), ..Places::default() };
        study.forms[0].resources.memory_bytes = Some(8 << 30);
        let why = told(check_room(&study, &workload, &places, 4 << 30)).unwrap_err();
        assert!(why.contains("8 GiB of memory"), "{why}");
        study.forms[0].resources.cpus = Some(5);
        let why = told(check_room(&study, &workload, &places, 0)).unwrap_err();
        assert!(why.contains("asks for 5 CPUs in form 'plain'"), "{why}");
        study.forms[1].options.insert("persistence".to_owned(), "always".to_owned());
        assert_eq!(describe(&study.forms[0]), "plain process, cpus=5, memory=8 GiB");
        assert!(describe(&study.forms[1]).ends_with("), persistence=always"), "{}", describe(&study.forms[1]));
    }

    #[test]
    fn an_empty_guest_is_refused() {
        let (mut study, workload) = study("");
        let places = Places { generator: CpuSet::new([9]), service: CpuSet::new(0..4), ..Places::default() };
        study.forms[1].layers[0].options["guests"] = 2.into();
        let why = told(check_room(&study, &workload, &places, 64 << 30)).unwrap_err();
        assert!(why.contains("form 'guest': 2 guests are asked for, to deal out 1 instance"), "{why}");
        study.forms[1].instances.tiles = Some(2);
        assert_eq!(told(check_room(&study, &workload, &places, 64 << 30)), Ok(()));
    }

    #[test]
    fn each_form_of_a_duet_has_half_of_the_cpus() {
        assert_eq!(room("design: blocks", 2, 64), Ok(()));
        assert_eq!(room("design: duet", 4, 64), Ok(()));
        let why = room("design: duet", 3, 64).unwrap_err();
        assert!(
            why.contains("asks for 2 CPUs, but each form of a duet gets half of the 3")
                && why.contains("design: blocks"),
            "{why}"
        );
    }
}
