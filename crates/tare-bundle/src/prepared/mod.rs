//! Data sets: the volumes of services that have loaded their data, kept so that later trials copy them instead of
//! loading them again.

mod copy;

use crate::digest;
use crate::places::{Places, Workplace, lock_file};
use rustix::fs::{AtFlags, CWD, FlockOperation, Timespec, Timestamps, UTIME_NOW, utimensat};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tare_core::bundle::BundleStore;
use tare_core::fault::{Doing, Fault};
use tare_core::workload::Service;

/// Part of every key: raise it when the format of what is kept changes.
const FORMAT: u32 = 1;

/// How many are kept: those used last.
const KEPT_MOST: usize = 4;

/// Data sets, kept in the directory of a store of bundles and shared by all runs.
pub struct DataSets {
    places: Places,
}

impl DataSets {
    /// Opens those of the store in the directory `root`. Removes what interrupted processes left there.
    ///
    /// # Errors
    /// When the directory cannot be made or written to.
    pub fn open(root: &Path) -> Result<DataSets, Fault> {
        Ok(DataSets { places: Places::open(root)? })
    }

    /// The key of the data that `makers` leave in the volumes of the services named `holders`: everything that decides
    /// the data. The services' limits do not, nor how those that do not end
    /// become ready.
    ///
    /// # Errors
    /// When a bundle cannot be built.
    pub fn key(bundles: &dyn BundleStore, makers: &[Service], holders: &[String]) -> Result<String, Fault> {
        let mut hash = Sha256::new();
        hash.update(format!("{FORMAT} "));
        for maker in makers {
            let Service { name, recipe, command, environment, user, directory, volumes, as_image, .. } = maker;
            let bundle = bundles.bundle(recipe)?;
            let decides = (name, bundle.digest(), command, environment, user, volumes);
            hash.update(serde_json::to_vec(&decides).doing("write down a service")?);
            // Data kept before services had directories are still valid.
            hash.update(directory.as_deref().unwrap_or_default());
            hash.update(if *as_image { "as its image" } else { "" });
            // One that is waited for to its end leaves more than one that is stopped.
            hash.update(if maker.ready.ends() { "to its end" } else { "" });
        }
        hash.update(serde_json::to_vec(holders).doing("write down names")?);
        Ok(digest::hex(&hash.finalize())[..32].to_owned())
    }

    /// Replaces the content of the places by a copy of the data set, and says whether there is one.
    ///
    /// The copy is flushed to disk and dropped from the page cache: what services read of it is charged to them, and no
    /// writeback disturbs a measurement.
    ///
    /// # Errors
    /// Why it could not be copied; the places are then empty.
    pub fn restore(&self, key: &str, places: &[PathBuf]) -> Result<bool, Fault> {
        let _lock = self.places.lock(key)?;
        let kept = self.places.data_set(key);
        if !kept.is_dir() {
            return Ok(false);
        }
        let copied = copy_all(&kept, places);
        if copied.is_err() {
            // Report the first failure, not one of the clean-up.
            let _ = clear(places);
        }
        copied?;
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        utimensat(CWD, &kept, &Timestamps { last_access: now, last_modification: now }, AtFlags::empty())
            .doing(format_args!("note the use of {}", kept.display()))?;
        Ok(true)
    }

    /// Moves the content of the places to the data set of this key. The places are empty afterwards, even on an error.
    /// The oldest data sets are removed when there are too many.
    ///
    /// # Errors
    /// Why it could not be kept; nothing of it is then kept.
    pub fn keep(&self, key: &str, places: &[PathBuf]) -> Result<(), Fault> {
        let kept = self.take(key, places);
        let cleared = clear(places);
        kept.and(cleared)?;
        for old in self.list()?.into_iter().skip(KEPT_MOST) {
            self.remove(&old)?;
        }
        Ok(())
    }

    fn take(&self, key: &str, places: &[PathBuf]) -> Result<(), Fault> {
        let _lock = self.places.lock(key)?;
        let (work, made) = self.workplace()?;
        for (number, place) in places.iter().enumerate() {
            let to = made.join(number.to_string());
            // On one file system nothing needs to be copied. Any other error comes up again when copying.
            if fs::rename(place, &to).is_err() {
                copy::tree(place, &to)?;
            }
        }
        copy::sync(&made)?;
        let kept = self.places.data_set(key);
        match fs::rename(&made, &kept) {
            Err(_) if kept.is_dir() => Ok(()),
            other => other.doing(format_args!("keep {} as {}", work.path.display(), kept.display())),
        }
    }

    fn workplace(&self) -> Result<(Workplace, PathBuf), Fault> {
        let work = self.places.workplace()?;
        let made = work.path.join("data");
        fs::create_dir(&made).doing(format_args!("make {}", made.display()))?;
        Ok((work, made))
    }

    /// The keys of all data sets, the last used first.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn list(&self) -> Result<Vec<String>, Fault> {
        let folder = self.places.data_sets();
        let what = || format!("list {}", folder.display());
        let mut found = Vec::new();
        for item in fs::read_dir(&folder).doing(what())? {
            let item = item.doing(what())?;
            let used = item.metadata().and_then(|facts| facts.modified()).doing(what())?;
            found.push((used, item.file_name().to_string_lossy().into_owned()));
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        Ok(found.into_iter().map(|(_, key)| key).collect())
    }

    /// Removes the data set of this key, unless another process is copying it. A missing one is no error.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self, key: &str) -> Result<(), Fault> {
        let Ok(_lock) = lock_file(&self.places.lock_place(key), FlockOperation::NonBlockingLockExclusive) else {
            return Ok(());
        };
        // Moved first, so that nobody ever finds half of it.
        let (_work, gone) = self.workplace()?;
        let kept = self.places.data_set(key);
        match fs::rename(&kept, &gone) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).doing(format_args!("remove {}", kept.display()))
            }
            _ => Ok(()),
        }
    }
}

fn copy_all(kept: &Path, places: &[PathBuf]) -> Result<(), Fault> {
    clear(places)?;
    for (number, place) in places.iter().enumerate() {
        let above = place.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(above).doing(format_args!("make {}", above.display()))?;
        copy::tree(&kept.join(number.to_string()), place)?;
    }
    places.first().map_or(Ok(()), |place| copy::sync(place))?;
    places.iter().try_for_each(|place| copy::release(place))
}

/// Removes the places with all that is in them.
fn clear(places: &[PathBuf]) -> Result<(), Fault> {
    for place in places {
        match tare_removal::remove_tree(place) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).doing(format_args!("remove {}", place.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
