//! A layer that keeps nothing in.

use serde::{Deserialize, Serialize};
use tare_core::config::{Fields, Node, Problems};
use tare_core::host::{Availability, Facts, Host, Layer, LocalOuter, MachineServices, OpenError, TrialContext};
use tare_core::layer::Listens;

/// The layer `cage`: bars around a service.
pub struct Cage;

/// What a study may say about it, every default filled in.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CageOptions {
    bars: u64,
}

impl Layer for Cage {
    type Options = CageOptions;

    const NAME: &'static str = "cage";
    const ABOUT: &'static str = "bars around a service, which keep nothing in";

    fn read(node: &Node, problems: &mut Problems) -> Option<CageOptions> {
        let before = problems.len();
        let mut fields = Fields::of(node, "layer 'cage'", problems)?;
        let bars = fields.integer("bars", 1..=99, problems).unwrap_or(12);
        fields.finish(problems);
        (problems.len() == before).then_some(CageOptions { bars })
    }

    fn probe(_: &CageOptions, _: &MachineServices) -> Availability {
        Availability::Ready(Facts::from([("cage.kind".to_owned(), "bars".to_owned())]))
    }

    fn words(_: &Facts) -> String {
        "bars".to_owned()
    }

    fn open(_: CageOptions, outer: Box<dyn LocalOuter>, _: &TrialContext) -> Result<Box<dyn Host>, OpenError> {
        Ok(outer.into_host())
    }

    fn listens(_: &CageOptions) -> Listens {
        Listens::Everywhere
    }
}
