//! What is kept between runs to save time, and how it is removed.

use crate::layers::LAYERS;
use crate::paths;
use crate::terminal::note;
use tare_bundle::DataSets;
use tare_core::fault::Fault;
use tare_core::host::{ErasedLayer, Kept};
use tare_layers::home;

/// Who keeps something between runs, and removes it.
#[derive(Clone, Copy)]
pub(crate) enum Keeper {
    /// A layer.
    Layer(&'static dyn ErasedLayer),
    /// The store of data sets.
    DataSets,
}

impl Keeper {
    fn kept(self) -> Result<Vec<Kept>, Fault> {
        match self {
            Keeper::Layer(layer) => layer.kept(),
            Keeper::DataSets => data_sets(),
        }
    }

    fn forget(self, kept: &Kept) -> Result<(), Fault> {
        match self {
            Keeper::Layer(layer) => layer.forget(kept),
            Keeper::DataSets => forget_data_set(kept),
        }
    }
}

/// What is kept between runs to save time: what layers made of bundles, and data sets; with who keeps it, and whether
/// somebody could not say.
pub(crate) fn all_kept() -> (Vec<(Keeper, Kept)>, bool) {
    let (mut all, mut failed) = (Vec::new(), false);
    let layers = LAYERS.iter().map(|layer| (Keeper::Layer(*layer), format!("layer '{}' keeps", layer.name())));
    for (keeper, what) in layers.chain([(Keeper::DataSets, "data sets are kept".to_owned())]) {
        match keeper.kept() {
            Ok(kept) => all.extend(kept.into_iter().map(|kept| (keeper, kept))),
            Err(fault) => {
                note(&format!("could not see what {what}: {fault}"));
                failed = true;
            }
        }
    }
    (all, failed)
}

fn data_sets() -> Result<Vec<Kept>, Fault> {
    // In a folder of somebody else's nothing is kept.
    if home::look().is_err() {
        return Ok(Vec::new());
    }
    let keys = DataSets::open(&paths::bundles())?.list()?;
    Ok(keys.into_iter().map(|name| Kept { kind: "prepared data set".to_owned(), name, bundle: None }).collect())
}

fn forget_data_set(kept: &Kept) -> Result<(), Fault> {
    home::look()?;
    DataSets::open(&paths::bundles())?.remove(&kept.name)
}

/// Removes all of these, and says so of each; whether one could not be removed.
pub(crate) fn forget_all(all: &[(Keeper, Kept)], say: &dyn Fn(String)) -> bool {
    let mut failed = false;
    for (keeper, kept) in all {
        match keeper.forget(kept) {
            Ok(()) => say(format!("removed {} {}", kept.kind, kept.name)),
            Err(fault) => {
                note(&format!("could not remove {} {}: {fault}", kept.kind, kept.name));
                failed = true;
            }
        }
    }
    failed
}

/// Removes what layers keep of the bundle with this digest; one that is absent keeps nothing.
pub(crate) fn forget_bundle(digest: &str) {
    let (mut all, _) = all_kept();
    all.retain(|(_, kept)| kept.bundle.as_deref() == Some(digest));
    forget_all(&all, &|_| {});
}
