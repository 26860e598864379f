//! The layers of this build.

use tare_core::host::{ErasedLayer, Layers, layer_named};

/// Those that studies may name, that are asked by `tare doctor` and `tare clean`, and opened, here and in guests. `tare
/// peak` searches the first where no form is named. A layer of another crate is added here, as CONTRIBUTING says.
pub(crate) const LAYERS: Layers = tare_layers::LAYERS;

/// The layer that a form of a study names.
pub(crate) fn layer_of_form(name: &str) -> &'static dyn ErasedLayer {
    layer_named(LAYERS, name).expect("a study names only layers of this build")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_asks_layers_whether_they_may_be_emulated() {
        let unsure = LAYERS.iter().filter(|layer| layer.may_be_emulated()).map(|layer| layer.name());
        assert_eq!(unsure.collect::<Vec<_>>(), ["vm"]);
    }
}
