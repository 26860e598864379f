//! The layers and protocols that studies and workloads may name, from the tables of the crates that implement them.

use crate::images::{engine_says, plain_image};
use crate::layers::LAYERS;
use crate::paths;
use tare_core::catalog::Catalog;
use tare_core::fault::Fault;
use tare_core::image::ImageConfig;
use tare_core::layer::LayerOptions;
use tare_core::protocol::ProtocolInfo;
use tare_layers::engine_name;
use tare_load::ErasedProtocol;

/// The tables of layers and protocols.
pub(crate) struct Tables;

impl Catalog for Tables {
    fn layers(&self) -> Vec<&'static dyn LayerOptions> {
        LAYERS.iter().map(|layer| *layer as &dyn LayerOptions).collect()
    }

    fn protocols(&self) -> Vec<&'static dyn ProtocolInfo> {
        protocols().into_iter().map(|protocol| protocol as &'static dyn ProtocolInfo).collect()
    }

    fn image(&self, image: &str) -> Result<Option<ImageConfig>, Fault> {
        if let Some(name) = engine_name(image) {
            return engine_says(name);
        }
        // By the canonical name, which its bundle has however the workload names it.
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
    tare_load::protocol_named(&protocols(), name)
}

/// Checks that this machine has what a protocol needs with these options; to be asked before anything is deployed.
///
/// # Errors
/// What is missing, and how to get it.
pub(crate) fn check_needs(name: &str, options: &serde_json::Value) -> Result<(), Fault> {
    protocol(name).map_or(Ok(()), |protocol| protocol.check_needs(options))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;
    use std::collections::BTreeSet;

    #[test]
    fn rules_name_existing_variants() {
        // A form of each layer with everything that a variant may change, and both limits of resources.
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
