//! The bundles that entered a guest as disks.

use std::sync::Arc;
use tare_core::bundle::{Bundle, BundleStore, Kernel, Recipe};
use tare_core::fault::Fault;
use tare_core::host::PlacedBundle;

/// A store of bundles that are already in known places; it builds none.
pub struct PlacedStore {
    bundles: Vec<Arc<PlacedBundle>>,
}

impl PlacedStore {
    /// The store of these bundles.
    pub fn new(bundles: Vec<PlacedBundle>) -> Self {
        PlacedStore { bundles: bundles.into_iter().map(Arc::new).collect() }
    }
}

impl BundleStore for PlacedStore {
    fn bundle(&self, recipe: &Recipe) -> Result<Arc<dyn Bundle>, Fault> {
        let found = self.bundles.iter().find(|bundle| bundle.recipe == *recipe);
        let bundle = found.ok_or_else(|| Fault::new("a bundle is wanted in the guest that was not attached to it"))?;
        Ok(Arc::clone(bundle) as Arc<dyn Bundle>)
    }

    fn kernel(&self) -> Result<Kernel, Fault> {
        Err(Fault::new("there is no kernel for a guest inside a guest"))
    }
}
