//! The sample as other studies: advice, a ladder in several orders, and one with a ruler.

use super::{record, recorded, study};
use tare_core::advice::{Advice, Variant};
use tare_core::form::Form;
use tare_core::ladder::{Ladder, Place, Rung, Turned};
use tare_core::record::Record;

/// As advice: a variant that wins back, and one that cannot be had.
pub(crate) fn advised() -> Record {
    let mut record = record();
    let variant = |form: &str, name: &str, changes: &str, trades: &str| Variant {
        form: form.into(),
        name: name.into(),
        changes: changes.into(),
        trades: trades.into(),
    };
    let variants = vec![
        variant("container.missing", "missing", "a thing that this machine does not have", ""),
        variant(
            "container-hostnet",
            "host-network",
            "the host's network instead of a port published by address translation",
            "isolation of the network: its ports are the host's",
        ),
    ];
    record.header.study.advice = Some(Advice { of: "container".into(), variants });
    record
}

/// As a ladder of two rungs, of which the first was measured last too, and the last one first.
pub(crate) fn turned() -> Record {
    let mut study = study();
    let rung = |form: &str, adds: &str| Rung { form: form.into(), adds: adds.into() };
    let rungs = vec![
        rung("container-hostnet", "overlay root, mount namespace, cgroup"),
        rung("container", "network namespace, veth and bridge"),
    ];
    let turn = |form: &str, rung: &str, place| Turned { form: form.into(), rung: rung.into(), place, against: None };
    let turned = vec![
        turn("container.no-overlay", "container-hostnet", Place::Last),
        turn("container.bridge-first", "container", Place::First),
    ];
    for turned in &turned {
        let container = study.forms.iter().find(|form| form.name == "container").expect("the sample has it");
        let form = Form { name: turned.form.clone(), ..container.clone() };
        study.forms.push(form);
    }
    study.ladder = Some(Ladder { to: "container".into(), rungs, turned });
    recorded(study)
}

/// With a ruler of one per cent.
pub(crate) fn ruled() -> Record {
    let mut study = study();
    study.ruler = Some(0.01);
    study.lay_ruler();
    recorded(study)
}
