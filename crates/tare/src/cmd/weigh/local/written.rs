//! Where a command wrote while it was watched: there it needs volumes, since the root of a service is read-only.

use super::tree::{Tree, follow};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tare_layers::opened::Names;

/// How far the clock that files are stamped by may be behind.
const BEHIND: Duration = Duration::from_millis(50);
/// Where Python keeps what it has compiled: it does without.
const COMPILED: &str = "__pycache__";

/// A time as files have it: seconds since 1970, and nanoseconds.
pub(super) type Stamp = (i64, i64);

/// What was written to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// Folders that can be volumes: nothing that it needs is in them.
    pub(super) volumes: BTreeSet<PathBuf>,
    /// Files beside others that it needs. A volume there would hide those.
    pub(super) beside: BTreeSet<PathBuf>,
}

/// The time from which on files count as written.
pub(super) fn now() -> Stamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(BEHIND);
    (since.as_secs().cast_signed(), since.subsec_nanos().into())
}

/// What of `names` was written since then. It may have tried to write elsewhere, too.
pub(super) fn written(names: &Names, tree: &Tree, since: Stamp) -> Written {
    let later = |facts: &Metadata| (facts.ctime(), facts.ctime_nsec()) >= since;
    let mut found = Written::default();
    for (path, _) in names.iter().filter(|(_, how)| how.changed) {
        let (Some(folder), Some(name)) = (path.parent().and_then(follow), path.file_name()) else { continue };
        let file = folder.real.join(name);
        if file.components().any(|part| part.as_os_str() == OsStr::new(COMPILED)) {
            continue;
        }
        let place = match file.symlink_metadata() {
            Ok(facts) if !later(&facts) => continue,
            Ok(facts) if facts.is_dir() => file.clone(),
            // It was removed or renamed since, or was never made.
            Err(_) if !later(&folder.facts) => continue,
            Ok(_) | Err(_) => folder.real,
        };
        let is_there = |path: &PathBuf| path.starts_with(&place);
        if place == Path::new("/") || tree.files.iter().any(is_there) || tree.links.keys().any(is_there) {
            found.beside.insert(file);
        } else {
            found.volumes.insert(place);
        }
    }
    let all = found.volumes.clone();
    found.volumes.retain(|place| !place.ancestors().skip(1).any(|above| all.contains(above)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tare_layers::opened::Use;

    #[test]
    fn folders_that_hold_nothing_else_become_volumes() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let app = folder.path().canonicalize().unwrap();
        let before = now();
        for name in ["data/deep/new", "server", "beside.db", "__pycache__/server.pyc"] {
            tare_testkit::files::write(&app.join(name), b"x");
        }
        let files = BTreeSet::from([app.join("server")]);
        let tree = Tree { files, ..Tree::default() };
        let changed = Use { changed: true, ..Use::default() };
        let all = ["data/deep", "data/deep/new", "data/deep/gone", "beside.db", "__pycache__/server.pyc"];
        let names: Names = all.iter().map(|name| (app.join(name), changed)).collect();
        let found = written(&names, &tree, before);
        assert_eq!(found.volumes, BTreeSet::from([app.join("data/deep")]));
        assert_eq!(found.beside, BTreeSet::from([app.join("beside.db")]));
        let later = (before.0 + 1000, 0);
        assert_eq!(written(&names, &tree, later), Written::default(), "it was there before");
        fs::remove_file(app.join("beside.db")).unwrap();
    }
}
