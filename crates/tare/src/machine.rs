//! What this machine offers a study: CPUs, forms, bundles.

use crate::catalog::layer_row;
use crate::cmd::{Mistake, note};
use crate::places::Places;
use crate::{images, paths, sources};
use anyhow::Result;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tare_bundle::{BoundBuilds, BuildRoom, PullImage, Store};
use tare_core::bundle::{Bundle, BundleStore};
use tare_core::config::{Node, NodeKind, Place, Problems};
use tare_core::design::{Arrangement, Chosen};
use tare_core::fault::Fault;
use tare_core::form::{Form, LayerUse};
use tare_core::host::{Availability, Carrier};
use tare_core::record::FormState;
use tare_core::study::Study;
use tare_core::workload::{Service, Workload};
use tare_layers::LAYERS;
use tare_layers::local::BuildGroup;

/// Whether there are CPUs and memory for what stands at once: a message for each mistake. `memory` is the machine's,
/// bytes, 0 when it is not known.
pub(crate) fn check_room(study: &Study, workload: &Workload, places: &Places, memory: u64) -> Vec<String> {
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

/// Has the forms of a study measured one after the other where nobody asked that they stand side by side, and this
/// machine has not memory enough for that. `memory` is the machine's, bytes, 0 when it is not known.
pub(crate) fn stand_apart_if_memory_is_short(study: &mut Study, workload: &Workload, memory: u64) {
    let by_itself = study.design.chosen == Chosen::Usual && study.design.arrangement != Arrangement::Blocks;
    let (wanted, _) = memory_at_once(study, workload);
    if by_itself && memory > 0 && wanted > memory {
        let show = tare_core::units::show_bytes;
        let why = format!("all forms together would ask for {} of memory, of {}", show(wanted), show(memory));
        (study.design.arrangement, study.design.chosen) = (Arrangement::Blocks, Chosen::Instead(why));
    }
}

/// The first service that asks for more CPUs than there are for services. What wishes for a placement was told so
/// already; and where nobody can serve, too much is kept aside, which was told too.
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
                "half of the {} that this machine has for services, as each form of a duet gets, is {each}",
                service.len()
            )
        } else {
            format!("this machine has {each} for services")
        };
        let instead = if duet { ", or use `design: blocks`" } else { "" };
        return Some(format!(
            "service '{}' asks for {cpus} CPUs{own}, but {there} (CPUs {service}); CPUs {generator} make the load\n  to do: \
             lower `resources: cpus:` in the study or the workload{instead}",
            wanted.role()
        ));
    }
    None
}

/// Why a form's layers cannot deal out what it deploys; none when they can.
fn check_fits(study: &Study, workload: &Workload, form: &Form) -> Option<String> {
    let deployed = study.deployed(workload, form).services;
    let unfit = |layer: &LayerUse| {
        let row = layer_row(&layer.layer).expect("a study names only layers of the table");
        (row.fits)(&layer.options, &deployed).err()
    };
    let why = form.layers.iter().find_map(unfit)?;
    Some(format!("form '{}': {}\n  to do: {}", form.name, why.message, why.remedy))
}

/// The most memory that stands allotted at once, bytes, and who asks for it: of one form in blocks, of all forms and
/// the control side by side, of the baseline and another in a duet.
fn memory_at_once(study: &Study, workload: &Workload) -> (u64, &'static str) {
    let of = |form: &Form| {
        let deployed = study.deployed(workload, form).services;
        let services: u64 = deployed.iter().map(|service| service.resources.memory_bytes).sum();
        let Some((outermost, inner)) = form.layers.split_first() else { return services };
        let row = |layer: &LayerUse| layer_row(&layer.layer).expect("a study names only layers of the table");
        let inner = inner.iter().map(|layer| (row(layer).in_guest)(&layer.options).memory_bytes).sum();
        (row(outermost).memory_bytes)(&outermost.options, services, inner)
    };
    let baseline = study.forms.iter().find(|form| form.name == study.baseline).map_or(0, of);
    let forms = study.forms.iter().map(of);
    match study.design.arrangement {
        Arrangement::Blocks => (forms.max().unwrap_or(0), "the services and what they stand in ask"),
        Arrangement::Alternate(_) | Arrangement::Chop(_) => {
            (forms.sum::<u64>() + baseline, "all forms and the control, side by side, ask")
        }
        Arrangement::Duet => (baseline + forms.max().unwrap_or(0), "the two forms of a duet ask"),
    }
}

/// A new run id: six letters and digits, not the id of anything that stands here.
pub(crate) fn new_run_id() -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let random = uuid::Uuid::now_v7();
    // The last bytes of a version 7 UUID are random.
    random.as_bytes()[10..].iter().map(|byte| char::from(ALPHABET[usize::from(byte & 31)])).collect()
}

pub(crate) fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram * u64::from(info.mem_unit)
}

/// What the layers are supplied with on this machine.
pub(crate) fn carrier() -> Result<Arc<Carrier>> {
    tare_layers::home::claim()?;
    let store = Store::open(&paths::bundles())?.with_puller(Box::new(ByEngine)).with_bounds(Box::new(ByGroup));
    // Beside what was asked for, so that who reads a result alone is not disturbed.
    let store = store.with_teller(Box::new(note));
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
    Ok(Arc::new(Carrier { bundles: Arc::new(store), prober: tare_telemetry::process_prober, program }))
}

/// Fetches images from registries by a layer's engine, which has the user's credentials and mirrors.
struct ByEngine;

impl PullImage for ByEngine {
    fn pull(&self, reference: &str, into: &mut dyn Write) -> Result<(), Fault> {
        let Some(pull) = LAYERS.iter().find_map(|row| row.pull) else {
            let fault = Fault::new(format!("there is nothing here that fetches {reference} from a registry"));
            return Err(fault.remedy("save the image to a file, and name that"));
        };
        pull(reference, into)
    }
}

/// Bounds builds by a control group each.
struct ByGroup;

impl BoundBuilds for ByGroup {
    fn make_room(&self) -> Result<Box<dyn BuildRoom>, Fault> {
        Ok(Box::new(Grouped(BuildGroup::make(&new_run_id())?)))
    }
}

struct Grouped(BuildGroup);

impl BuildRoom for Grouped {
    fn take_in(&self, command: &mut Command) -> Result<(), Fault> {
        self.0.take_in(command)
    }

    fn ran_out_of(&self) -> Option<u64> {
        self.0.ran_out_of()
    }
}

/// What each form is on this machine. May take seconds: a guest is booted to see whether it can be.
pub(crate) fn form_states(study: &Study, carrier: &Carrier) -> BTreeMap<String, FormState> {
    study.forms.iter().map(|form| (form.name.clone(), form_state(form, carrier))).collect()
}

fn form_state(form: &Form, carrier: &Carrier) -> FormState {
    let mut state = FormState {
        describe: describe(form),
        emulated: None,
        unavailable: None,
        facts: BTreeMap::new(),
        placement: None,
    };
    // Only the outermost layer stands on this machine; what it cannot carry shows when it is opened.
    let Some(outermost) = form.layers.first() else { return state };
    let row = layer_row(&outermost.layer).expect("a study names only layers of the table");
    match (row.probe)(&outermost.options, carrier) {
        Availability::Ready(facts) => state.facts = facts,
        Availability::Emulated(facts, why) => (state.facts, state.emulated) = (facts, Some(why)),
        Availability::Unavailable(why) => state.unavailable = Some(why),
    }
    state
}

/// The layers with what characterises them, their first option and whatever is not as usual:
/// `vm > container(network=published, seccomp=unconfined)`. The record holds all options.
pub(crate) fn describe(form: &Form) -> String {
    if form.layers.is_empty() {
        return form.describe();
    }
    let layers = form.layers.iter().map(|layer| {
        let options = layer.options.as_object().into_iter().flatten();
        let usual = usual_options(&layer.layer);
        let telling = options.enumerate().filter(|(at, (name, value))| *at == 0 || usual.get(*name) != Some(*value));
        let texts: Vec<String> = telling
            .filter_map(|(_, (name, value))| match value {
                serde_json::Value::String(text) => Some(format!("{name}={text}")),
                serde_json::Value::Number(number) => Some(format!("{name}={number}")),
                serde_json::Value::Bool(flag) => Some(format!("{name}={flag}")),
                _ => None,
            })
            .collect();
        if texts.is_empty() { layer.layer.clone() } else { format!("{}({})", layer.layer, texts.join(", ")) }
    });
    form.with_own(layers.collect::<Vec<_>>().join(" > "))
}

/// The options that a layer has when a study names none.
pub(crate) fn usual_options(layer: &str) -> serde_json::Value {
    let nothing = Node { place: Place::default(), kind: NodeKind::Map(Vec::new()) };
    let options = layer_row(layer).and_then(|row| (row.options)(&nothing, &mut Problems::default()));
    options.unwrap_or(serde_json::Value::Null)
}

/// Builds the services' bundles, naming those that are not there yet, settles what services take from images, and
/// returns the digests by service.
pub(crate) fn build_bundles(
    workload: &mut Workload,
    store: &dyn BundleStore,
    say: &mut dyn FnMut(&str),
) -> Result<BTreeMap<String, String>> {
    let (mut digests, mut problems) = (BTreeMap::new(), Vec::new());
    for service in &mut workload.services {
        let built = build_bundle(service, store, say).map_err(|fault| ("bundle", fault));
        let settled = built.and_then(|bundle| images::settle(service, bundle.as_ref()).map(|()| bundle));
        match settled {
            Ok(bundle) => drop(digests.insert(service.name.clone(), bundle.digest().to_owned())),
            Err((field, fault)) => {
                problems.push(sources::placed(workload.file.as_deref(), &service.name, field, fault)?);
            }
        }
    }
    if problems.is_empty() { Ok(digests) } else { Err(Mistake::in_files(problems).into()) }
}

/// Builds the bundle of a service, naming it if it is not there yet.
pub(crate) fn build_bundle(
    service: &Service,
    store: &dyn BundleStore,
    say: &mut dyn FnMut(&str),
) -> Result<Arc<dyn Bundle>, Fault> {
    if !store.keeps(&service.recipe) {
        say(&format!("bundle of service {}: {}", service.name, describe_source(&service.recipe.source)));
    }
    store.bundle(&service.recipe)
}

fn describe_source(source: &tare_core::bundle::Source) -> String {
    use tare_core::bundle::Source;
    match source {
        Source::Packages(names) => format!("Debian packages {}", names.join(", ")),
        Source::Image(reference) => format!("image {}", paths::relative(Path::new(reference)).display()),
        Source::Folder(path) => format!("folder {}", paths::relative(path).display()),
        Source::Program(name) => format!("the program {name} itself"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;
    use tare_core::units::CpuSet;

    fn study(more: &str) -> (Study, Workload) {
        let text = format!(
            "study: s\nworkload: redis\nload: {{closed: {{}}}}\nresources: {{cpus: 2, memory: 1GiB}}\n\
             forms: {{plain: [], guest: [vm: {{memory: 3GiB}}]}}\n{more}\n"
        );
        let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
        crate::cmd::suite::only_part(files::read_suite_text(&text, "s", Some(&workloads)).unwrap(), "run").unwrap()
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
    fn memory_is_asked_of_all_that_stands_at_once() {
        // The plain form has 1 GiB, the guest 3 GiB; the control is the plain one again.
        for (design, least) in [("design: blocks", 3), ("design: alternate", 5), ("design: duet", 4)] {
            assert_eq!(room(design, 4, least), Ok(()), "{design}");
            let why = room(design, 4, least - 1).unwrap_err();
            assert!(why.contains(&format!("{least} GiB")) && why.contains("to do"), "{design}: {why}");
        }
    }

    #[test]
    fn where_memory_is_short_forms_stand_apart_unless_somebody_asked_otherwise() {
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
    fn what_a_form_asks_for_itself_must_be_there_too() {
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
    fn a_guest_without_anything_in_it_is_refused() {
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
        assert!(why.contains("asks for 2 CPUs, but half of the 3") && why.contains("design: blocks"), "{why}");
    }
}
