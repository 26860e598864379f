//! Gathers what a run needs to know of its study and of this machine before it starts.

use crate::catalog::Tables;
use crate::places::{self, Places};
use crate::session::{GENERATOR, HYPERVISOR, INTERRUPTS, SERVICES};
use crate::version::VERSION;
use crate::{machine, null_cost};
use anyhow::Result;
use std::collections::BTreeMap;
use tare_core::fault::Fault;
use tare_core::host::{Facts, MachineServices};
use tare_core::plan::plan;
use tare_core::record::{FormState, Header, NULL_COST, SCHEMA};
use tare_core::study::Study;
use tare_core::workload::Workload;
use tare_runner::{Clock, SystemClock};

/// A random seed, for a study that names none.
pub(crate) fn new_seed() -> u64 {
    u64::from_le_bytes(*uuid::Uuid::now_v7().as_bytes().last_chunk().expect("16 bytes")) >> 16
}

/// Finds out what each form is on this machine, and says which are unavailable or emulated.
pub(crate) fn look_at_forms(
    study: &Study,
    carrier: &MachineServices,
    say: &mut dyn FnMut(&str),
) -> BTreeMap<String, FormState> {
    say("checking which forms this machine can run");
    let forms = machine::form_states(study, carrier);
    for (name, state) in &forms {
        if let Some(why) = &state.unavailable {
            say(&format!("{name} is skipped: {why}"));
        } else if let Some(why) = &state.emulated {
            say(&format!("{name} is EMULATED: {why}"));
        }
    }
    forms
}

/// A study with everything that a run of it needs to know beforehand.
pub(crate) struct Ready {
    pub(crate) study: Study,
    pub(crate) workload: Workload,
    pub(crate) forms: BTreeMap<String, FormState>,
    /// Facts about the machine, and the apparatus cost on it.
    pub(crate) environment: Facts,
    bundles: BTreeMap<String, String>,
    places: Places,
}

/// Gathers what a run needs. The environment is read unless it is given.
pub(crate) fn ready(
    study: Study,
    workload: Workload,
    forms: BTreeMap<String, FormState>,
    bundles: BTreeMap<String, String>,
    environment: Option<Facts>,
) -> Result<Ready> {
    let mut study = study;
    study.set_apart(&workload, &Tables);
    let places = places::places(&study, &workload)?;
    let environment = environment.unwrap_or_else(|| {
        let mut environment = tare_telemetry::environment();
        let null_cost = null_cost::measure(&places.generator);
        environment.extend(null_cost.map(|us| (NULL_COST.to_owned(), format!("{us:.4}"))));
        environment
    });
    Ok(Ready { study, workload, forms, environment, bundles, places })
}

impl Ready {
    /// The header of a new run, without the command that repeats it.
    pub(crate) fn header(self, seed: u64) -> Header {
        let Ready { study, workload, mut forms, environment, bundles, places } = self;
        for (name, state) in &mut forms {
            state.placement = places.forms.get(name).cloned();
        }
        let kept = [(GENERATOR, places.generator), (SERVICES, places.service)].into_iter();
        let aside = [(HYPERVISOR, places.hypervisor), (INTERRUPTS, places.interrupts)];
        let aside = aside.into_iter().filter(|(_, cpus)| !cpus.is_empty());
        let placement = kept.chain(aside).map(|(name, cpus)| (name.to_owned(), cpus.to_string())).collect();
        Header {
            schema: SCHEMA,
            tare: VERSION.clone(),
            run: machine::new_run_id(),
            started: SystemClock::new().timestamp(),
            command: String::new(),
            seed,
            plan: plan(&study, &emulated(&forms), seed),
            forms,
            environment,
            topology: Some(tare_telemetry::topology()),
            bundles,
            placement,
            study,
            workload,
        }
    }
}

/// Checks that the bundles are what they were when the run began, building them if they are gone.
pub(crate) fn same_bundles(header: &Header, carrier: &MachineServices, say: &mut dyn FnMut(&str)) -> Result<()> {
    let bundles = machine::build_bundles(&mut header.workload.clone(), carrier.bundles.as_ref(), say)?;
    for (service, digest) in &header.bundles {
        let now = bundles.get(service);
        if now != Some(digest) {
            let now = now.map_or("none", String::as_str);
            let text = format!("the bundle of service {service} is now {now}, but the run began with {digest}");
            return Err(Fault::new(text).remedy("start a new run: it would measure other bits").into());
        }
    }
    Ok(())
}

fn emulated(forms: &BTreeMap<String, FormState>) -> Vec<String> {
    forms.iter().filter(|(_, state)| state.emulated.is_some()).map(|(name, _)| name.clone()).collect()
}
