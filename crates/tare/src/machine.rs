//! What this machine provides to a study: forms and bundles.

use crate::layers::{LAYERS, layer_of_form};
use crate::mistake::Mistake;
use crate::terminal::note;
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
use tare_core::fault::Fault;
use tare_core::form::Form;
use tare_core::host::{Availability, MachineServices, layer_named};
use tare_core::record::FormState;
use tare_core::study::Study;
use tare_core::workload::{Service, Workload};
use tare_layers::engine_name;
use tare_layers::local::BuildGroup;

/// A new, random run id: six letters and digits.
pub(crate) fn new_run_id() -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let random = uuid::Uuid::now_v7();
    // The last bytes of a version 7 UUID are random.
    random.as_bytes()[10..].iter().map(|byte| char::from(ALPHABET[usize::from(byte & 31)])).collect()
}

/// What layers need from this machine.
pub(crate) fn carrier() -> Result<Arc<MachineServices>> {
    tare_layers::home::claim()?;
    let store = Store::open(&paths::bundles())?.with_puller(Box::new(ByEngine)).with_bounds(Box::new(ByGroup));
    // On standard error, to keep results on standard output clean.
    let store = store.with_teller(Box::new(note));
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
    let prober = tare_telemetry::process_prober;
    Ok(Arc::new(MachineServices { bundles: Arc::new(store), prober, program, layers: LAYERS }))
}

/// Takes images from a layer's engine, which has some, and fetches others from registries with the user's credentials
/// and mirrors.
struct ByEngine;

impl PullImage for ByEngine {
    fn pull(&self, reference: &str, into: &mut dyn Write) -> Result<(), Fault> {
        let Some(pull) = LAYERS.iter().find_map(|layer| layer.pull()) else {
            let fault = Fault::new(format!("nothing on this machine can fetch {reference} from a registry"));
            return Err(fault.remedy("save the image to a file, and name the file").as_mistake());
        };
        let pulled = pull(reference, into);
        if engine_name(reference).is_some() {
            return pulled;
        }
        // What cannot be fetched is reported at the place that names it, with all other mistakes.
        pulled.map_err(|fault| if fault.disk_full { fault } else { fault.as_mistake() })
    }
}

/// Limits each build by a control group.
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

/// What each form is on this machine. May take seconds, because it boots a guest to find out whether guests run.
pub(crate) fn form_states(study: &Study, carrier: &MachineServices) -> BTreeMap<String, FormState> {
    study.forms.iter().map(|form| (form.name.clone(), form_state(form, carrier))).collect()
}

fn form_state(form: &Form, carrier: &MachineServices) -> FormState {
    let mut state = FormState {
        describe: describe(form),
        emulated: None,
        unavailable: None,
        facts: BTreeMap::new(),
        placement: None,
    };
    // Only the outermost layer can be probed on this machine; inner layers show their problems when they are opened.
    let Some(outermost) = form.layers.first() else { return state };
    match layer_of_form(&outermost.layer).probe(&outermost.options, carrier) {
        Availability::Ready(facts) => state.facts = facts,
        Availability::Emulated(facts, why) => (state.facts, state.emulated) = (facts, Some(why)),
        Availability::Unavailable(why) => state.unavailable = Some(why),
    }
    state
}

/// The layers, each with its first option and those that differ from the default:
/// `vm > container(network=published, seccomp=unconfined)`. The record has all options.
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

/// The default options of a layer.
pub(crate) fn usual_options(layer: &str) -> serde_json::Value {
    let nothing = Node { place: Place::default(), kind: NodeKind::Map(Vec::new()) };
    let options = layer_named(LAYERS, layer).and_then(|layer| layer.read(&nothing, &mut Problems::default()));
    options.unwrap_or(serde_json::Value::Null)
}

/// Builds the services' bundles, announcing those that do not exist yet, resolves what services take from images, and
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

/// Builds the bundle of a service, announcing it if it does not exist yet.
pub(crate) fn build_bundle(
    service: &Service,
    store: &dyn BundleStore,
    say: &mut dyn FnMut(&str),
) -> Result<Arc<dyn Bundle>, Fault> {
    if !store.keeps(&service.recipe) {
        say(&format!("building the bundle of service {}: {}", service.name, describe_source(&service.recipe.source)));
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
