//! What studies and workloads may refer to.

use crate::config::{Node, Problems};
use crate::fault::Fault;
use crate::image::ImageConfig;
use crate::layer::{LayerRung, LayerUse, LayerVariant, Listens};
use crate::load::LoadOrigin;
use crate::protocol::ProtocolInfo;

/// What a study or workload may refer to by name. The binary, which knows every crate, supplies it.
pub trait Catalog {
    /// The names of the layers.
    fn layers(&self) -> Vec<&'static str>;
    /// Checks a layer's options and writes them down with every default filled in.
    fn layer_options(&self, layer: &str, node: &Node, problems: &mut Problems) -> Option<serde_json::Value>;
    /// The protocols.
    fn protocols(&self) -> Vec<&'static dyn ProtocolInfo>;
    /// The protocol of this name, if there is one.
    fn protocol(&self, name: &str) -> Option<&'static dyn ProtocolInfo> {
        self.protocols().into_iter().find(|protocol| protocol.name() == name)
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
    /// What an image says of how its program is started, as far as that can be seen without fetching or unpacking it;
    /// none where it cannot.
    ///
    /// # Errors
    /// When what stands there is no image.
    fn image(&self, _image: &str) -> Result<Option<ImageConfig>, Fault> {
        Ok(None)
    }
}
