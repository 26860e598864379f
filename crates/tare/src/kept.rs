//! Lists and removes what is kept between runs to save time.

use crate::layers::LAYERS;
use crate::paths;
use crate::terminal::note;
use tare_bundle::DataSets;
use tare_core::fault::Fault;
use tare_core::host::{CachedItem, ErasedLayer};
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
    fn kept(self) -> Result<Vec<CachedItem>, Fault> {
        match self {
            Keeper::Layer(layer) => layer.kept(),
            Keeper::DataSets => data_sets(),
        }
    }

    fn forget(self, kept: &CachedItem) -> Result<(), Fault> {
        match self {
            Keeper::Layer(layer) => layer.forget(kept),
            Keeper::DataSets => forget_data_set(kept),
        }
    }
}

/// What is kept between runs to save time: what layers made of bundles, and data sets, each with who keeps it; and
/// whether some could not be listed.
pub(crate) fn all_kept() -> (Vec<(Keeper, CachedItem)>, bool) {
    let (mut all, mut failed) = (Vec::new(), false);
    let layers =
        LAYERS.iter().map(|layer| (Keeper::Layer(*layer), format!("layer '{}' keeps between runs", layer.name())));
    for (keeper, what) in layers.chain([(Keeper::DataSets, "data sets are kept between runs".to_owned())]) {
        match keeper.kept() {
            Ok(kept) => all.extend(kept.into_iter().map(|kept| (keeper, kept))),
            Err(fault) => {
                note(&format!("could not list what {what}: {fault}"));
                failed = true;
            }
        }
    }
    (all, failed)
}

fn data_sets() -> Result<Vec<CachedItem>, Fault> {
    // Nothing is kept in somebody else's folder.
    if home::look().is_err() {
        return Ok(Vec::new());
    }
    let keys = DataSets::open(&paths::bundles())?.list()?;
    Ok(keys.into_iter().map(|name| CachedItem { kind: "prepared data set".to_owned(), name, bundle: None }).collect())
}

fn forget_data_set(kept: &CachedItem) -> Result<(), Fault> {
    home::look()?;
    DataSets::open(&paths::bundles())?.remove(&kept.name)
}

/// Removes all of these, reporting each; returns whether some could not be removed.
pub(crate) fn forget_all(all: &[(Keeper, CachedItem)], say: &dyn Fn(String)) -> bool {
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

/// Removes what layers keep of the bundle with this digest.
pub(crate) fn forget_bundle(digest: &str) {
    let (mut all, _) = all_kept();
    all.retain(|(_, kept)| kept.bundle.as_deref() == Some(digest));
    forget_all(&all, &|_| {});
}
