//! What studies and workloads may refer to, from the tables of the crates that implement it.

use crate::images::plain_image;
use crate::paths;
use tare_core::catalog::Catalog;
use tare_core::config::{Node, Problems};
use tare_core::fault::Fault;
use tare_core::host::LayerRow;
use tare_core::image::ImageConfig;
use tare_core::layer::{LayerRung, LayerUse, LayerVariant, Listens};
use tare_core::load::LoadOrigin;
use tare_core::protocol::ProtocolInfo;
use tare_layers::LAYERS;
use tare_load::ErasedProtocol;

/// The tables of layers and protocols.
pub(crate) struct Tables;

impl Catalog for Tables {
    fn layers(&self) -> Vec<&'static str> {
        LAYERS.iter().map(|row| row.name).collect()
    }

    fn layer_options(&self, layer: &str, node: &Node, problems: &mut Problems) -> Option<serde_json::Value> {
        (layer_row(layer)?.options)(node, problems)
    }

    fn protocols(&self) -> Vec<&'static dyn ProtocolInfo> {
        protocols().into_iter().map(|protocol| protocol as &'static dyn ProtocolInfo).collect()
    }

    fn layer_rungs(&self, layer: &LayerUse, below: &[LayerUse], from: LoadOrigin) -> Vec<LayerRung> {
        layer_row(&layer.layer).map_or_else(Vec::new, |row| (row.rungs)(&layer.options, below, from))
    }

    fn layer_variants(&self, layer: &LayerUse, from: LoadOrigin) -> Vec<LayerVariant> {
        layer_row(&layer.layer).map_or_else(Vec::new, |row| (row.variants)(&layer.options, from))
    }

    fn layer_listens(&self, layer: &LayerUse) -> Listens {
        layer_row(&layer.layer).map_or(Listens::Apart, |row| (row.listens)(&layer.options))
    }

    fn layer_has_quota(&self, layer: &LayerUse) -> bool {
        layer_row(&layer.layer).is_some_and(|row| (row.has_quota)(&layer.options))
    }

    fn image(&self, image: &str) -> Result<Option<ImageConfig>, Fault> {
        // By the one name that its bundle has, whichever way the workload names it.
        let image = plain_image(image);
        tare_bundle::image_says(&paths::bundles(), &image)
    }
}

/// Every protocol of this program, for reading workloads and for the load process. A protocol of another crate is
/// added here: `[tare_load::PROTOCOLS, &[tare_load::erased::<other::Protocol>()]].concat()`.
pub(crate) fn protocols() -> Vec<&'static dyn ErasedProtocol> {
    tare_load::PROTOCOLS.to_vec()
}

/// The protocol of this name.
pub(crate) fn protocol(name: &str) -> Option<&'static dyn ErasedProtocol> {
    protocols().into_iter().find(|protocol| protocol.name() == name)
}

/// Checks that this machine has what a protocol needs with these options; to be asked before anything is deployed.
///
/// # Errors
/// What is missing, and how to get it.
pub(crate) fn check_needs(name: &str, options: &serde_json::Value) -> Result<(), Fault> {
    protocol(name).map_or(Ok(()), |protocol| protocol.check_needs(options))
}

/// The row of a layer.
pub(crate) fn layer_row(layer: &str) -> Option<&'static LayerRow> {
    LAYERS.iter().find(|row| row.name == layer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;
    use std::collections::BTreeSet;

    #[test]
    fn rules_name_variants_that_there_are() {
        // A form of each layer with everything that a variant may do otherwise, and both limits of resources.
        let text = "study: s\nworkload: redis\nfrom: host\nload: {closed: {}}\nforms:\n  plain: []\n  boxed: {layers: [container: \
                    {network: published, storage: overlay, limits: quota}], resources: {cpu_quota: 0.5, memory: 300MiB}}\n  \
                    guest: [vm: {vhost: \"off\", pin: false, cache: writethrough, disk: qcow2}]\n  \
                    direct: [vm: {cache: directsync}]\n";
        let workloads = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
        let read = files::read_suite_text(text, "s", Some(&workloads)).unwrap();
        let (study, workload) = files::only_part(read, "advise").unwrap();
        let mut known = BTreeSet::new();
        for form in ["boxed", "guest", "direct"] {
            let mut study = study.clone();
            study.advise(form, &[], &workload, &Tables).unwrap();
            known.extend(study.advice.unwrap().variants.into_iter().map(|variant| variant.name));
        }
        let unknown: Vec<_> =
            tare_stats::variants_of_rules().into_iter().filter(|name| !known.contains(*name)).collect();
        assert!(unknown.is_empty(), "no layer has {unknown:?}; there are {known:?}");
    }
}
