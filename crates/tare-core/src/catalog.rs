//! What studies and workloads may refer to.

use crate::fault::Fault;
use crate::image::ImageConfig;
use crate::layer::LayerOptions;
use crate::protocol::ProtocolInfo;

/// What a study or workload may refer to by name. The binary, which knows every crate, supplies it.
pub trait Catalog {
    /// The layers.
    fn layers(&self) -> Vec<&'static dyn LayerOptions>;
    /// The layer of this name, if there is one.
    fn layer(&self, name: &str) -> Option<&'static dyn LayerOptions> {
        self.layers().into_iter().find(|layer| layer.name() == name)
    }
    /// The protocols.
    fn protocols(&self) -> Vec<&'static dyn ProtocolInfo>;
    /// The protocol of this name, if there is one.
    fn protocol(&self, name: &str) -> Option<&'static dyn ProtocolInfo> {
        self.protocols().into_iter().find(|protocol| protocol.name() == name)
    }
    /// What an image says about how its program is started, as far as that can be seen without fetching or unpacking
    /// it; none if it cannot.
    ///
    /// # Errors
    /// When what is there is not an image.
    fn image(&self, _image: &str) -> Result<Option<ImageConfig>, Fault> {
        Ok(None)
    }
}
