//! What Podman's files say. To ask its service takes a second of CPU time, so whoever only wants to know whether it is
//! worth asking looks here first. Where Podman may keep its files at other places than the usual ones, it always is.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where Podman keeps containers, each driver in a folder of its own, and networks, unless one of the files that come
/// next says something else.
const STORAGE: &str = "/var/lib/containers/storage";
const NETWORKS: &str = "/etc/containers/networks";
const KEPT_ELSEWHERE: [&str; 2] = ["/etc/containers/storage.conf", "/etc/containers/containers.conf"];
/// What names of Tare's begin with.
const OURS: &[u8] = b"tare-";

/// Whether Podman may have an image that is looked for by this name.
pub(super) fn may_have_image(name: &str) -> bool {
    let parts = parts_in_files(name);
    let files = documents(&in_storage("-images"));
    kept_elsewhere() || files.iter().any(|file| parts.iter().any(|part| has(file, part.as_bytes())))
}

/// Whether Podman may have any image.
pub(super) fn may_have_images() -> bool {
    kept_elsewhere() || documents(&in_storage("-images")).iter().any(|file| has(file, b"\"id\""))
}

/// Of the name of an image: the parts of which one is in Podman's files if it has the image. The registry is often left
/// out, an ID may be cut short, and an image that is named with its digest may have lost its name.
fn parts_in_files(name: &str) -> Vec<&str> {
    let (name, digest) = name.split_once('@').map_or((name, None), |(name, digest)| (name, Some(digest)));
    let plain = name.strip_prefix("sha256:").unwrap_or(name);
    let last = plain.rsplit('/').next().unwrap_or(plain);
    let last = last.split(':').next().unwrap_or(last);
    let digest = digest.map(|digest| digest.strip_prefix("sha256:").unwrap_or(digest));
    // No image has a name without letters, and all files have nothing in them.
    std::iter::once(last).chain(digest).filter(|part| !part.is_empty()).collect()
}

/// Whether a container or a network of Podman's may have a name of Tare's.
pub(super) fn may_name_ours() -> bool {
    let folders: Vec<PathBuf> = in_storage("-containers").into_iter().chain([PathBuf::from(NETWORKS)]).collect();
    kept_elsewhere() || documents(&folders).iter().any(|file| has(file, OURS))
}

/// Whether Podman may be told to keep its files at other places than the usual ones.
fn kept_elsewhere() -> bool {
    KEPT_ELSEWHERE.iter().any(|file| Path::new(file).exists())
}

/// The folders of Podman's storage whose names end so, one for each driver.
fn in_storage(ending: &str) -> Vec<PathBuf> {
    let folders = entries(Path::new(STORAGE)).into_iter();
    folders.filter(|path| path.to_str().is_some_and(|path| path.ends_with(ending))).collect()
}

/// The documents in these folders.
fn documents(folders: &[PathBuf]) -> Vec<PathBuf> {
    let files = folders.iter().flat_map(|folder| entries(folder));
    files.filter(|path| path.extension().is_some_and(|end| end == "json")).collect()
}

/// What is in a folder; nothing if it is not there.
fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// Whether a file contains this.
fn has(file: &Path, part: &[u8]) -> bool {
    match fs::read(file) {
        Ok(text) => text.windows(part.len()).any(|window| window == part),
        // It has just gone, or cannot be read: Podman itself knows.
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_looked_for_by_what_its_name_has_in_every_spelling() {
        for (name, parts) in [
            ("redis", vec!["redis"]),
            ("redis:7", vec!["redis"]),
            ("localhost:5000/my/app:1", vec!["app"]),
            ("docker.io/library/redis:7@sha256:0123", vec!["redis", "0123"]),
            ("sha256:0123ab", vec!["0123ab"]),
            ("0123ab", vec!["0123ab"]),
            (":7@", vec![]),
        ] {
            assert_eq!(parts_in_files(name), parts, "{name}");
        }
    }

    #[test]
    fn a_file_that_is_gone_has_nothing_and_one_that_cannot_be_read_may_have_all() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("images.json");
        assert!(!has(&file, b"redis"));
        fs::write(&file, r#"[{"id":"0123ab","names":["docker.io/library/redis:7"]}]"#).unwrap();
        assert!(has(&file, b"redis") && has(&file, b"0123ab") && !has(&file, b"nginx"));
        assert!(has(folder.path(), b"redis"), "a folder in its place");
        assert_eq!(documents(&[folder.path().to_owned()]), [file]);
    }
}
