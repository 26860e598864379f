//! A container engine and this store make the same tree of the same layers, in all that layers can do to each other.

use crate::images::{digest, pack, recipe, write};
use serde_json::json;
use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use tar::{Builder, EntryType, Header};
use tare_bundle::Store;
use tare_core::bundle::BundleStore;

/// One entry: its type, its path, and what it links to or holds.
type Entry<'a> = (EntryType, &'a str, &'a str);

fn layer(entries: &[Entry]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (kind, path, what) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(if *path == "set-id" { 0o4711 } else { 0o755 });
        header.set_uid(7);
        header.set_gid(8);
        header.set_mtime(1000);
        header.set_size(0);
        match kind {
            EntryType::Regular => {
                header.set_size(what.len() as u64);
                builder.append_data(&mut header, path, what.as_bytes()).unwrap();
            }
            EntryType::Symlink | EntryType::Link => builder.append_link(&mut header, path, what).unwrap(),
            EntryType::Char => {
                header.set_device_major(1).unwrap();
                header.set_device_minor(3).unwrap();
                builder.append_data(&mut header, path, &[][..]).unwrap();
            }
            _ => builder.append_data(&mut header, path, &[][..]).unwrap(),
        }
    }
    builder.into_inner().unwrap()
}

/// Two layers, in which everything that the second may do to the first happens. What lies below a link is not among it:
/// engines that unpack each layer by itself hide the link, others follow it, as the store does.
fn layers() -> [Vec<u8>; 2] {
    use EntryType::{Char, Directory as Dir, Fifo, Link as Hard, Regular as File, Symlink as Sym};
    let (deep, long) = (format!("a/{}/", "n".repeat(120)), format!("a/{}/{}", "n".repeat(120), "m".repeat(150)));
    let first: &[Entry] = &[
        (Dir, "a", ""),
        (Dir, "usr", ""),
        (Dir, "usr/lib", ""),
        (File, "usr/lib/old", "1"),
        (Sym, "lib", "usr/lib"),
        (Sym, "to-file", "usr/lib/old"),
        (Dir, "to-link", ""),
        (File, "to-link/gone", "2"),
        (Dir, "to-file-again", ""),
        (File, "to-file-again/gone", "3"),
        (File, "to-folder", "4"),
        (File, "one", "5"),
        (Hard, "two", "one"),
        (File, "whited", "6"),
        (Dir, "whited-folder", ""),
        (File, "whited-folder/x", "7"),
        (Dir, "opaque", ""),
        (File, "opaque/gone", "8"),
        (Dir, "opaque/gone-folder", ""),
        (Dir, "kept", ""),
        (File, "kept/stays", "9"),
    ];
    let second: &[Entry] = &[
        (Dir, "lib", ""),
        (File, "lib/new", "a"),
        (File, "to-file", "b"),
        (Sym, "to-link", "elsewhere"),
        (File, "to-file-again", "c"),
        (Dir, "to-folder", ""),
        (File, "one", "d"),
        (File, ".wh.whited", ""),
        (File, ".wh.whited-folder", ""),
        (File, ".wh.never-was", ""),
        (Dir, "opaque", ""),
        (File, "opaque/.wh..wh..opq", ""),
        (File, "opaque/new", "e"),
        (Dir, "kept", ""),
        (File, "kept/new", "f"),
        (Hard, "kept/new-too", "kept/new"),
        (Char, "null", ""),
        (Fifo, "pipe", ""),
        (File, "set-id", "g"),
        // A layer that leaves out a directory above its entries may give it another owner, where it is unpacked alone.
        (Dir, "a", ""),
        (Dir, &deep, ""),
        (File, &long, "h"),
    ];
    [layer(first), layer(second)]
}

/// A path of a tree with its type, mode, owner, and what it holds or links to.
type Tree = BTreeMap<String, String>;

/// What an engine adds to every container.
fn is_engines_own(path: &str) -> bool {
    [".dockerenv", "dev", "etc", "proc", "sys"].contains(&path.split('/').next().unwrap_or_default())
}

fn exported(archive: &[u8]) -> Tree {
    let mut tree = Tree::new();
    let mut archive = tar::Archive::new(archive);
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string().trim_end_matches('/').to_owned();
        if is_engines_own(&path) {
            continue;
        }
        let header = entry.header().clone();
        let link = entry.link_name().unwrap().map(|link| link.display().to_string()).unwrap_or_default();
        let (kind, what) = match header.entry_type() {
            EntryType::Directory => ('d', String::new()),
            EntryType::Symlink => ('l', link),
            EntryType::Char => ('c', String::new()),
            EntryType::Fifo => ('p', String::new()),
            // A second name of what came before.
            EntryType::Link => ('-', tree[&link].rsplit(' ').next().unwrap().to_owned()),
            _ => ('-', std::io::read_to_string(&mut entry).unwrap()),
        };
        let (mode, uid, gid) = (header.mode().unwrap() & 0o7777, header.uid().unwrap(), header.gid().unwrap());
        tree.insert(path, format!("{kind} {mode:o} {uid}:{gid} {what}"));
    }
    tree
}

fn laid_out(root: &Path, below: &str, tree: &mut Tree) {
    for entry in std::fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = Path::new(below).join(entry.file_name()).display().to_string();
        let (facts, full) = (std::fs::symlink_metadata(entry.path()).unwrap(), entry.path());
        let kind = facts.file_type();
        let (kind, what) = match kind {
            _ if kind.is_dir() => ('d', String::new()),
            _ if kind.is_symlink() => ('l', std::fs::read_link(full).unwrap().display().to_string()),
            _ if kind.is_char_device() => ('c', String::new()),
            _ if kind.is_fifo() => ('p', String::new()),
            _ => ('-', std::fs::read_to_string(full).unwrap()),
        };
        tree.insert(path.clone(), format!("{kind} {:o} {}:{} {what}", facts.mode() & 0o7777, facts.uid(), facts.gid()));
        if facts.is_dir() {
            laid_out(root, &path, tree);
        }
    }
}

fn docker(arguments: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new("docker").args(arguments).output().ok()?;
    if !output.status.success() {
        println!("docker {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success().then_some(output.stdout)
}

#[test]
fn of_the_same_layers_an_engine_makes_the_same_tree() {
    if docker(&["version", "--format", "{{.Server.Version}}"]).is_none() {
        println!("skipped: no container engine answers");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let layers = layers();
    let digests = layers.iter().map(|layer| format!("sha256:{}", digest(layer)));
    let config = json!({"architecture": "amd64", "os": "linux", "config": {"Cmd": ["/x"]},
        "rootfs": {"type": "layers", "diff_ids": digests.collect::<Vec<_>>()}});
    let config = config.to_string().into_bytes();
    let (name, tag) = (format!("{}.json", digest(&config)), format!("tare-test-layers:{}", std::process::id()));
    let manifest = json!([{"Config": name, "RepoTags": [tag], "Layers": ["one/layer.tar", "two/layer.tar"]}]);
    let [one, two] = layers;
    let parts = vec![
        (name, config),
        ("one/layer.tar".to_owned(), one),
        ("two/layer.tar".to_owned(), two),
        ("manifest.json".to_owned(), manifest.to_string().into_bytes()),
    ];
    let image = write(folder.path(), "image.tar", &pack(&parts));
    docker(&["load", "-q", "-i", image.to_str().unwrap()]).expect("the engine takes the image");
    let container = docker(&["create", &tag]).expect("the engine makes a container");
    let container = String::from_utf8(container).unwrap();
    let archive = docker(&["export", container.trim()]);
    docker(&["rm", container.trim()]);
    docker(&["rmi", &tag]);
    let mut theirs = exported(&archive.expect("the engine hands out the tree"));
    assert!(theirs.remove("null").is_some_and(|device| device.starts_with("c ")), "devices are left out of ours only");

    let store = Store::open(&folder.path().join("store")).unwrap();
    let bundle = store.bundle(&recipe(&image)).unwrap();
    let mut ours = Tree::new();
    laid_out(&bundle.directory().unwrap(), "", &mut ours);
    ours.retain(|path, _| !is_engines_own(path));
    assert!(theirs.len() > 20, "{theirs:#?}");
    assert_eq!(ours, theirs);
}
