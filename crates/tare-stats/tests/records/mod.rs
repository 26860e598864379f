//! Records that no machine has measured.

use std::collections::BTreeMap;
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::form::Form;
use tare_core::load::{LoadOrigin, LoadProfile};
use tare_core::plan::{PlannedTrial, plan};
use tare_core::record::{End, Header, Record, SCHEMA, TrialData, TrialRecord};
use tare_core::study::Study;
use tare_core::trial::Outcome;
use tare_core::workload::{ProtocolUse, Workload};

/// A study of these forms, the first being the baseline.
pub(crate) fn study(forms: &[&str], repeat: u32) -> Study {
    Study {
        name: "s".into(),
        question: String::new(),
        workload: "w".into(),
        baseline: forms[0].into(),
        repeat,
        design: Default::default(),
        at_most: None,
        from: LoadOrigin::Outside,
        load: LoadProfile::Closed { connections: 1, pipeline: 1 },
        settle: Duration::ZERO,
        measure: Duration::from_secs(10),
        timeout: Duration::from_secs(1),
        qos: None,
        peak: None,
        emulated_blocks: 1,
        placement: None,
        kept: tare_core::placement::ReservedCpus::default(),
        instances: tare_core::instances::Instances::default(),
        forms: forms.iter().map(|name| Form { name: (*name).into(), ..Form::default() }).collect(),
        options: BTreeMap::new(),
        parameters: Default::default(),
        seed: Some(1),
        part: None,
        ruler: None,
        ladder: None,
        advice: None,
        profile: None,
    }
}

/// A record of these trials.
pub(crate) fn record(study: Study, plan: Vec<PlannedTrial>, trials: Vec<TrialData>) -> Record {
    let protocol = ProtocolUse {
        protocol: "p".into(),
        service: "s".into(),
        port: Some("main".into()),
        spread: false,
        options: serde_json::Value::Null,
        unit: None,
        metrics: Vec::new(),
        behaviours: Default::default(),
    };
    let environment = [("cpu.model", "a slow one"), ("kernel", "6")];
    Record {
        trials,
        profiles: Vec::new(),
        header: Header {
            schema: SCHEMA,
            tare: "0".into(),
            run: "r".into(),
            started: String::new(),
            command: String::new(),
            study,
            workload: Workload {
                name: "w".into(),
                about: String::new(),
                services: Vec::new(),
                protocol,
                qos: None,
                qos_sets: Default::default(),
                file: None,
                parameters: Default::default(),
                prepared: None,
            },
            seed: 1,
            plan,
            forms: BTreeMap::new(),
            environment: environment.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            topology: None,
            bundles: BTreeMap::new(),
            placement: BTreeMap::new(),
        },
        end: Some(End { ended: String::new(), how: "complete".into(), asked_by: None }),
    }
}

/// A record of a study in which each arm's throughput is `of(arm)` of the baseline's, give or take a per cent, over a
/// machine that drifts; an arm of which there is none cannot be had. None is void.
#[allow(dead_code, reason = "not every test that has records wants this one")]
pub(crate) fn of_shares(study: Study, of: impl Fn(&str) -> Option<f64>) -> Record {
    let plan = plan(&study, &[], 1);
    let trials = plan.iter().map(|planned| {
        let outcome = match of(&planned.arm()) {
            Some(_) => Outcome::Measured,
            None => Outcome::Skipped { why: Fault::new("cannot be had") },
        };
        let mut record = TrialRecord::new(planned.clone(), String::new(), outcome);
        // Deterministic noise, of another kind for each arm and block.
        let salt =
            planned.arm().bytes().fold(planned.block, |salt, byte| salt.wrapping_mul(31).wrapping_add(byte.into()));
        let noise = f64::from(salt.wrapping_mul(2_654_435_761) >> 16) / 65_536.0 - 0.5;
        let drift = 1.0 - 0.05 * f64::from(planned.block);
        let value = of(&planned.arm()).map(|share| 1e5 * share * drift * (0.02 * noise).exp());
        record.metrics = value.map(|value| ("throughput".to_owned(), value)).into_iter().collect();
        TrialData { record, seconds: Vec::new(), telemetry: Vec::new() }
    });
    let trials = trials.collect();
    record(study, plan, trials)
}
