//! Data sets: what services left in their volumes once they had loaded it, kept so that it is copied instead of loaded
//! again.

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

/// Part of every key: raise it when what is kept is another thing.
const FORMAT: u32 = 1;

/// How many are kept: those that were used last.
const KEPT_MOST: usize = 4;

/// Data sets, kept in the directory of a store of bundles and shared by all runs.
pub struct DataSets {
    places: Places,
}

impl DataSets {
    /// Opens those of the store in the directory `root`; what makers that were interrupted left there is removed.
    ///
    /// # Errors
    /// When the directory cannot be made or written to.
    pub fn open(root: &Path) -> Result<DataSets, Fault> {
        Ok(DataSets { places: Places::open(root)? })
    }

    /// What the data are remembered by that `makers` leave in the volumes of those called `holders`: everything that
    /// decides what is in them. What services are allowed, and when they count as ready, does not.
    ///
    /// # Errors
    /// When a bundle cannot be had.
    pub fn key(bundles: &dyn BundleStore, makers: &[Service], holders: &[String]) -> Result<String, Fault> {
        let mut hash = Sha256::new();
        hash.update(format!("{FORMAT} "));
        for maker in makers {
            let Service { name, recipe, command, environment, user, directory, volumes, .. } = maker;
            let bundle = bundles.bundle(recipe)?;
            let decides = (name, bundle.digest(), command, environment, user, volumes);
            hash.update(serde_json::to_vec(&decides).doing("write down a service")?);
            // Data that were kept before there were directories are still the same.
            hash.update(directory.as_deref().unwrap_or_default());
        }
        hash.update(serde_json::to_vec(holders).doing("write down names")?);
        Ok(digest::hex(&hash.finalize())[..32].to_owned())
    }

    /// Copies the data set into its places, in the stead of what stands there, and says whether there is one.
    ///
    /// The copy is on disk then and in nobody's memory: what services read of it counts as theirs, as far as their
    /// limits go, and nothing is written behind the back of a measurement.
    ///
    /// # Errors
    /// Why it could not be copied; nothing stands in the places then.
    pub fn restore(&self, key: &str, places: &[PathBuf]) -> Result<bool, Fault> {
        let _lock = self.places.lock(key)?;
        let kept = self.places.data_set(key);
        if !kept.is_dir() {
            return Ok(false);
        }
        let copied = copy_all(&kept, places);
        if copied.is_err() {
            // Report the first failure, not those of the repair.
            let _ = clear(places);
        }
        copied?;
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        utimensat(CWD, &kept, &Timestamps { last_access: now, last_modification: now }, AtFlags::empty())
            .doing(format_args!("note the use of {}", kept.display()))?;
        Ok(true)
    }

    /// Keeps what stands in the places as the data set of this key, and takes it away from there in any case. Of others
    /// the oldest go when there are too many.
    ///
    /// # Errors
    /// Why it could not be kept; nothing of it is kept then.
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
            // On the same file system nothing is copied; what is wrong with it, copying says as well.
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

    /// The keys of those that are there, the last used first.
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

    /// Removes the data set of this key; one that is not there, or that somebody is copying, is left alone.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self, key: &str) -> Result<(), Fault> {
        let Ok(_lock) = lock_file(&self.places.lock_place(key), FlockOperation::NonBlockingLockExclusive) else {
            return Ok(());
        };
        // Moved first, so that nobody ever finds a half of it.
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

/// Removes what stands in the places.
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
