//! What a folder was made of: files by their digests and images by their IDs. They are kept in the folder, so that what
//! has changed since is told. Times tell nothing: an editor or a checkout writes a file that is still the same.

use super::args::About;
use super::load;
use crate::cmd::import::Digests;
use crate::{files, paths, within};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tare_core::bundle::{ENGINE_IMAGE, Source};

/// The file in the folder that lists them.
pub(super) const LIST: &str = "sources.txt";
/// What it begins with.
const HEAD: &str =
    "# What this folder was made from. The command that made it compares these, and says what has changed.\n";
/// Words that a line begins with.
const FILE: &str = "file";
const IMAGE: &str = "image";

/// The files and images that a folder is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Origins {
    /// The digests of files, by their absolute paths.
    files: Digests,
    /// The IDs of images that an engine has, by their names.
    images: BTreeMap<String, String>,
}

impl Origins {
    /// These files and the script that is the load, as they are now, beside those that were read.
    pub(super) fn now(about: &About, named: &[PathBuf], read: Digests) -> Origins {
        let mut all = Origins { files: read, images: BTreeMap::new() };
        for path in named.iter().chain(&about.with).map(PathBuf::as_path).chain(load::script_path(about)) {
            // What is wrong with a file is told by whoever needs it.
            if let Ok(digest) = within::digest_file(path) {
                all.files.insert(paths::plain(path), digest);
            }
        }
        // A path that is no plain text cannot stand in a line.
        all.files.retain(|path, _| path.to_str().is_some_and(|text| !text.contains(char::is_control)));
        all
    }

    /// Adds a bundle's source, if an engine has it.
    pub(super) fn add(&mut self, source: &Source) {
        if let Source::Image(image) = source {
            self.add_image(image);
        }
    }

    /// Adds an image by the name that a workload gives it, if an engine has it.
    pub(super) fn add_image(&mut self, image: &str) {
        if let Some(id) = id_of(image) {
            self.images.insert(image.to_owned(), id);
        }
    }

    /// The text of [`LIST`].
    pub(super) fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        let files = self.files.iter().map(|(path, digest)| (FILE, digest, path.display().to_string()));
        let images = self.images.iter().map(|(name, id)| (IMAGE, id, name.clone()));
        for (kind, digest, name) in files.chain(images) {
            text += &format!("{kind} {digest} {name}\n");
        }
        text
    }

    /// What a folder was made of; none if it does not say.
    pub(super) fn of(folder: &Path) -> Option<Origins> {
        let text = files::read_text(&folder.join(LIST)).ok()?;
        let mut all = Origins::default();
        for line in text.lines() {
            match line.splitn(3, ' ').collect::<Vec<_>>()[..] {
                [FILE, digest, name] => drop(all.files.insert(name.into(), digest.to_owned())),
                [IMAGE, id, name] => drop(all.images.insert(name.to_owned(), id.to_owned())),
                _ => {}
            }
        }
        Some(all)
    }

    /// How the files of `now` differ, a sentence each.
    pub(super) fn changed_files(&self, now: &Origins) -> Vec<String> {
        let mut told = Vec::new();
        for (path, then) in &self.files {
            let shown = paths::shown(path);
            match now.files.get(path) {
                Some(digest) if digest == then => {}
                Some(_) => told.push(format!("{shown} has changed since")),
                None if path.exists() => told.push(format!("{shown} is no longer read")),
                None => told.push(format!("{shown} is gone")),
            }
        }
        let new = now.files.keys().filter(|path| !self.files.contains_key(*path));
        told.extend(new.map(|path| format!("{} is now read as well", paths::shown(path))));
        told
    }

    /// Which images are others by now, a sentence each.
    pub(super) fn changed_images(&self) -> Vec<String> {
        let changed = self.images.iter().filter(|(name, then)| id_of(name).is_some_and(|id| id != **then));
        let told = |(name, _): (&String, &String)| {
            let name = name.strip_prefix(ENGINE_IMAGE).unwrap_or(name);
            format!("image {name} has changed since, and is weighed as it is now")
        };
        changed.map(told).collect()
    }
}

/// The ID of an image of an engine. Whether there is one is told by whoever needs it.
fn id_of(image: &str) -> Option<String> {
    Some(tare_layers::engine_image(image.strip_prefix(ENGINE_IMAGE)?).ok()?.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::weigh::args::typed::about;
    use tare_testkit::files::write;

    #[test]
    fn what_has_changed_is_told_by_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let text = "export default function () { http.get(__ENV.TARGET) }";
        let script = write(&root.join("load.js"), text);
        let about = about(&["x", "--k6", script.to_str().unwrap()]);
        let read = |files: &[(&str, &str)]| -> Origins {
            let files = files.iter().map(|(name, digest)| (root.join(name), (*digest).to_owned()));
            Origins::now(&about, &[], files.collect())
        };
        let then = read(&[("compose.yaml", "1"), ("web.env", "2"), ("gone.env", "3")]);
        write(&root.join("web.env"), "");
        write(&root.join(LIST), &then.text());
        let kept = Origins::of(&root).unwrap();
        assert_eq!(kept, then);
        assert_eq!(kept.changed_files(&then), Vec::<String>::new());
        // Written anew, and still the same.
        write(&script, text);
        assert_eq!(kept.changed_files(&read(&[("compose.yaml", "1"), ("web.env", "2"), ("gone.env", "3")])).len(), 0);
        write(&script, &format!("{text}\n"));
        let told = kept.changed_files(&read(&[("compose.yaml", "4"), (".env", "5")]));
        let wanted = [
            ("compose.yaml", "has changed since"),
            ("gone.env", "is gone"),
            ("load.js", "has changed since"),
            ("web.env", "is no longer read"),
            (".env", "is now read as well"),
        ];
        let wanted: Vec<String> =
            wanted.iter().map(|(name, how)| format!("{} {how}", paths::shown(&root.join(name)))).collect();
        assert_eq!(told, wanted);
        assert_eq!(Origins::of(&root.join("none")), None);
    }
}
