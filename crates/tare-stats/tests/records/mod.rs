//! Records that no machine has measured.

use std::collections::BTreeMap;
use std::time::Duration;
use tare_core::form::Form;
use tare_core::load::LoadProfile;
use tare_core::plan::PlannedTrial;
use tare_core::record::{End, Header, Record, SCHEMA, TrialData};
use tare_core::study::{LoadOrigin, Study};
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
        kept: tare_core::placement::Kept::default(),
        instances: tare_core::instances::Instances::default(),
        forms: forms.iter().map(|name| Form { name: (*name).into(), ..Form::default() }).collect(),
        options: BTreeMap::new(),
        parameters: Default::default(),
        seed: Some(1),
        part: None,
        ladder: None,
        advice: None,
    }
}

/// A record of these trials.
pub(crate) fn record(study: Study, plan: Vec<PlannedTrial>, trials: Vec<TrialData>) -> Record {
    let protocol = ProtocolUse {
        protocol: "p".into(),
        service: "s".into(),
        port: Some("main".into()),
        options: serde_json::Value::Null,
        unit: None,
        metrics: Vec::new(),
    };
    let environment = [("cpu.model", "a slow one"), ("kernel", "6")];
    Record {
        trials,
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
                parameters: Default::default(),
            },
            seed: 1,
            plan,
            forms: BTreeMap::new(),
            environment: environment.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            topology: None,
            bundles: BTreeMap::new(),
            placement: BTreeMap::new(),
        },
        end: Some(End { ended: String::new(), how: "complete".into() }),
    }
}
