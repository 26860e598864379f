//! What studies and workloads may refer to.

use crate::config::{Node, Problems};
use crate::fault::Fault;
use crate::image::ImageConfig;
use crate::layer::{LayerRung, LayerUse, LayerVariant, Listens};
use crate::load::{LoadOrigin, OwnMetric};

/// What a study or workload may refer to by name. The binary, which knows every crate, supplies it.
pub trait Catalog {
    /// The names of the layers.
    fn layers(&self) -> Vec<&'static str>;
    /// Checks a layer's options and writes them down with every default filled in.
    fn layer_options(&self, layer: &str, node: &Node, problems: &mut Problems) -> Option<serde_json::Value>;
    /// The names of the protocols.
    fn protocols(&self) -> Vec<&'static str>;
    /// Checks a protocol's options and writes them down with every default filled in.
    fn protocol_options(&self, protocol: &str, node: &Node, problems: &mut Problems) -> Option<serde_json::Value>;
    /// The names of the values that a protocol's operations capture, set or draw with these options.
    fn protocol_variables(&self, _protocol: &str, _options: &serde_json::Value) -> Vec<String> {
        Vec::new()
    }

    /// The names of a protocol's operations with these options; none when they are not known.
    fn protocol_operations(&self, _protocol: &str, _options: &serde_json::Value) -> Vec<String> {
        Vec::new()
    }
    /// The metrics that a protocol has with these options, beside those of every trial.
    fn protocol_metrics(&self, _protocol: &str, _options: &serde_json::Value) -> Vec<OwnMetric> {
        Vec::new()
    }
    /// A layer by its features, one more in each rung, up to the whole layer as it is given; on the layers below it,
    /// with the load from there.
    fn layer_rungs(&self, layer: &LayerUse, _below: &[LayerUse], _from: LoadOrigin) -> Vec<LayerRung> {
        vec![LayerRung { name: "whole", adds: "the layer as a whole", options: layer.options.clone() }]
    }
    /// What could be otherwise in a layer and may win back what it costs, one thing in each; with the load from there.
    fn layer_variants(&self, _layer: &LayerUse, _from: LoadOrigin) -> Vec<LayerVariant> {
        Vec::new()
    }
    /// Where services in this layer listen, when it stands on this machine beside other forms.
    fn layer_listens(&self, _layer: &LayerUse) -> Listens {
        Listens::Apart
    }
    /// Whether services in this layer get their CPU time by quota, whatever the workload says.
    fn layer_has_quota(&self, _layer: &LayerUse) -> bool {
        false
    }
    /// Whether the protocol tells of every second what it brought, and counts operations itself; one that runs a tool
    /// of others knows only the tool's result at the end.
    fn protocol_tells_seconds(&self, _protocol: &str) -> bool {
        true
    }
    /// The services, besides the one that is loaded, that the protocol speaks to with these options.
    fn protocol_speaks_to(&self, _protocol: &str, _options: &serde_json::Value) -> Vec<String> {
        Vec::new()
    }
    /// Whether the protocol, with these options, runs its tool inside the form, beside the service.
    fn protocol_runs_inside(&self, _protocol: &str, _options: &serde_json::Value) -> bool {
        false
    }
    /// What an image says of how its program is started, as far as that can be seen without fetching or unpacking it;
    /// none where it cannot.
    ///
    /// # Errors
    /// When what stands there is no image.
    fn image(&self, _image: &str) -> Result<Option<ImageConfig>, Fault> {
        Ok(None)
    }
}
