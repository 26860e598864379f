//! The sample as other studies: advice, a ladder, one in several orders, and one with a ruler.

use super::{record, recorded, study};
use tare_core::advice::{Advice, Variant};
use tare_core::form::Form;
use tare_core::ladder::{Ladder, Place, Rung, Turned};
use tare_core::record::Record;

/// As advice: a variant that wins back, and one that cannot be had.
pub(crate) fn advice() -> Record {
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

/// A rung, and what it adds.
fn rung([form, adds]: [&str; 2]) -> Rung {
    Rung { form: form.into(), adds: adds.into() }
}

/// The sample's rungs: one that costs nothing, and one that does.
const FREE: [&str; 2] = ["container-hostnet", "overlay root, mount namespace, cgroup"];
const DEAR: [&str; 2] = ["container", "network namespace, veth and bridge"];

/// As a ladder: both of them, and between them one that cannot be had.
pub(crate) fn ladder() -> Record {
    let mut record = record();
    let missing = ["container.missing", "a thing that this machine does not have"];
    let rungs = [FREE, missing, DEAR].map(rung).to_vec();
    record.header.study.ladder = Some(Ladder { to: "container".into(), rungs, turned: Vec::new() });
    record
}

/// As a ladder of two rungs, of which the first was measured last too, and the last one first.
pub(crate) fn orders() -> Record {
    let mut study = study();
    let rungs = [FREE, DEAR].map(rung).to_vec();
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
pub(crate) fn ruler() -> Record {
    let mut study = study();
    study.ruler = Some(0.01);
    study.lay_ruler();
    recorded(study)
}
