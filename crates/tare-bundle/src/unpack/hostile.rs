//! Archives made to do harm: nothing outside the root may change, and nothing may panic.

use super::layer::{Assembly, Seen};
use super::rooted::{Below, Rooted};
use crate::tree::{Kind, Meta};
use proptest::prelude::*;
use std::path::Path;
use tar::{EntryType, Header};
use tare_core::fault::Fault;

type Made = (EntryType, Vec<u8>, Vec<u8>);

fn archive(entries: &[Made]) -> Vec<u8> {
    let filled = |(kind, path, link): &Made| {
        let content: &[u8] = if *kind == EntryType::Regular { b"evil" } else { b"" };
        (*kind, path.clone(), link.clone(), content.to_vec())
    };
    crate::fuzz::archive(&entries.iter().map(filled).collect::<Vec<_>>())
}

/// Unpacks into `<folder>/tree`, beside which stands `outside` with a file in it.
fn unpack(folder: &Path, archives: &[Vec<u8>]) -> Result<(), Fault> {
    let root = folder.join("tree");
    std::fs::create_dir(&root).unwrap();
    tare_testkit::files::write(&folder.join("outside/kept"), "kept");
    let mut assembly = Assembly::new(Rooted::open(&root)?);
    for archive in archives {
        assembly.apply(&archive[..], &|_| false)?;
    }
    assembly.finish()
}

fn is_untouched(folder: &Path) -> bool {
    let names = |path: &Path| std::fs::read_dir(path).unwrap().count();
    names(folder) == 2
        && names(&folder.join("outside")) == 1
        && std::fs::read(folder.join("outside/kept")).unwrap() == b"kept"
}

fn one(kind: EntryType, path: &str, link: &str) -> Made {
    (kind, path.as_bytes().to_vec(), link.as_bytes().to_vec())
}

#[test]
fn every_known_way_out_is_refused_with_the_entry_named() {
    use EntryType::{Directory as Dir, Link as Hard, Regular as File, Symlink as Sym};
    let cases: Vec<(Vec<Made>, &str)> = vec![
        (vec![one(File, "../outside/evil", "")], "../outside/evil"),
        (vec![one(File, "a/../../outside/evil", "")], "a/../../outside/evil"),
        (vec![one(Sym, "x", "../outside"), one(File, "x/evil", "")], "x/evil"),
        (vec![one(Sym, "x", "/.."), one(Dir, "x/y", "")], "x/y"),
        (vec![one(Dir, "d", ""), one(Sym, "d/x", "../../outside"), one(File, "d/x/evil", "")], "d/x/evil"),
        (
            vec![one(Dir, "d/e", ""), one(Sym, "x", "d/e"), one(File, "x/../../outside/evil", "")],
            "x/../../outside/evil",
        ),
        (vec![one(Dir, "d/e", ""), one(Sym, "d/up", ".."), one(Sym, "x", "d/up/.."), one(File, "x/y", "")], "x/y"),
        (vec![one(File, "f", ""), one(Sym, "x", "f"), one(File, "x/below", "")], "x/below"),
        (vec![one(Sym, "x", "x"), one(File, "x/y", "")], "x/y"),
        (vec![one(Sym, "x", "../outside"), one(File, "x/.wh.kept", "")], "x/.wh.kept"),
        (vec![one(Sym, "x", "../outside"), one(File, "x/.wh..wh..opq", "")], "x/.wh..wh..opq"),
        (vec![one(Hard, "x", "../outside/kept")], "x"),
        (vec![one(Hard, "x", "/outside/kept")], "x"),
        (vec![one(Sym, "s", "../outside"), one(Hard, "x", "s/kept")], "x"),
        (vec![one(Hard, "x", "x")], "x"),
        (vec![one(Hard, "x", "missing")], "x"),
        (vec![one(Dir, "d", ""), one(Hard, "x", "d")], "x"),
        (vec![one(File, "f", ""), one(File, "f/below", "")], "f/below"),
        (vec![one(File, ".wh...", "")], ".wh..."),
        (vec![one(Sym, "a", "b"), one(Sym, "b", "a"), one(File, "a/x", "")], "a/x"),
        (vec![one(Sym, "x", "")], "x"),
        (vec![one(EntryType::new(b'Z'), "x", "")], "x"),
    ];
    for (entries, name) in cases {
        let folder = tempfile::tempdir().unwrap();
        let fault = unpack(folder.path(), &[archive(&entries)]).expect_err(name);
        assert!(fault.message.contains(&format!("'{name}'")), "{name}: {}", fault.message);
        assert!(is_untouched(folder.path()), "{name}");
    }
}

#[test]
fn a_link_from_an_earlier_layer_is_not_followed_either() {
    let folder = tempfile::tempdir().unwrap();
    let first = archive(&[one(EntryType::Symlink, "x", "../outside")]);
    let second = archive(&[one(EntryType::Regular, "x/evil", "")]);
    assert!(unpack(folder.path(), &[first, second]).is_err());
    assert!(is_untouched(folder.path()));
}

#[test]
fn a_file_in_place_of_a_link_replaces_the_link_not_what_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = archive(&[one(EntryType::Symlink, "x", "../outside/kept"), one(EntryType::Regular, "x", "")]);
    unpack(folder.path(), &[bytes]).unwrap();
    assert!(is_untouched(folder.path()));
    assert_eq!(std::fs::read(folder.path().join("tree/x")).unwrap(), b"evil");
}

/// What stands in the tree of `folder`: paths, of a link with its target.
fn listed(folder: &Path) -> Vec<String> {
    let entries = crate::tree::read(&folder.join("tree")).unwrap().into_iter().skip(1);
    let texts = entries.map(|entry| match &entry.kind {
        crate::tree::Kind::Link(to) => format!("{} -> {}", crate::tree::shown(&entry.path), crate::tree::shown(to)),
        _ => crate::tree::shown(&entry.path),
    });
    texts.collect()
}

#[test]
fn what_lies_below_a_link_goes_where_the_link_leads() {
    use EntryType::{Directory as Dir, Link as Hard, Regular as File, Symlink as Sym};
    type Layers = [Vec<Made>; 2];
    let merged = || vec![one(Dir, "usr/lib", ""), one(File, "usr/lib/old", ""), one(Sym, "lib", "usr/lib")];
    let all: [(&str, Layers, &[&str]); 10] = [
        (
            "a file, and one below a new directory",
            [merged(), vec![one(File, "lib/new", ""), one(File, "lib/d/e", "")]],
            &["lib -> usr/lib", "usr", "usr/lib", "usr/lib/d", "usr/lib/d/e", "usr/lib/new", "usr/lib/old"],
        ),
        (
            "an absolute link has the tree's root as its own",
            [vec![one(Dir, "run", ""), one(Sym, "var/run", "/run")], vec![one(File, "var/run/x", "")]],
            &["run", "run/x", "var", "var/run -> /run"],
        ),
        (
            "a link that leads nowhere yet",
            [vec![one(Sym, "var/run", "../run/./deep")], vec![one(File, "var/run/x", "")]],
            &["run", "run/deep", "run/deep/x", "var", "var/run -> ../run/./deep"],
        ),
        (
            "a link to a link, and back up from where it really leads",
            [
                vec![one(Dir, "a/b/c", ""), one(Sym, "x", "y"), one(Sym, "y", "/a/b/c"), one(Sym, "z", "y/..")],
                vec![one(File, "x/in-c", ""), one(File, "z/in-b", "")],
            ],
            &["a", "a/b", "a/b/c", "a/b/c/in-c", "a/b/in-b", "x -> y", "y -> /a/b/c", "z -> y/.."],
        ),
        (
            "a link to the root",
            [vec![one(Sym, "x", "/"), one(Sym, "d/up", "..")], vec![one(File, "x/a", ""), one(File, "d/up/b", "")]],
            &["a", "b", "d", "d/up -> ..", "x -> /"],
        ),
        (
            "hard links, by either name",
            [merged(), vec![one(Hard, "lib/second", "lib/old"), one(Hard, "third", "lib/second")]],
            &["lib -> usr/lib", "third", "usr", "usr/lib", "usr/lib/old", "usr/lib/second"],
        ),
        (
            "a whiteout, which spares what its own layer brings by another path",
            [merged(), vec![one(File, "usr/lib/new", ""), one(File, "lib/.wh.old", ""), one(File, "lib/.wh.new", "")]],
            &["lib -> usr/lib", "usr", "usr/lib", "usr/lib/new"],
        ),
        (
            "an opaque whiteout",
            [merged(), vec![one(File, "lib/new", ""), one(File, "lib/.wh..wh..opq", "")]],
            &["lib -> usr/lib", "usr", "usr/lib", "usr/lib/new"],
        ),
        (
            "a directory in the link's own place, as engines have it: the link is gone",
            [merged(), vec![one(Dir, "lib", ""), one(File, "lib/new", "")]],
            &["lib", "lib/new", "usr", "usr/lib", "usr/lib/old"],
        ),
        (
            "a whiteout of the link itself",
            [merged(), vec![one(File, ".wh.lib", "")]],
            &["usr", "usr/lib", "usr/lib/old"],
        ),
    ];
    for (what, layers, wanted) in all {
        let folder = tempfile::tempdir().unwrap();
        let archives: Vec<Vec<u8>> = layers.iter().map(|entries| archive(entries)).collect();
        unpack(folder.path(), &archives).unwrap_or_else(|fault| panic!("{what}: {fault}"));
        assert_eq!(listed(folder.path()), wanted, "{what}");
        assert!(is_untouched(folder.path()), "{what}");
    }
}

#[test]
fn a_leading_slash_is_the_trees_root() {
    use EntryType::{Link as Hard, Regular as File, Symlink as Sym};
    let folder = tempfile::tempdir().unwrap();
    let entries =
        [one(File, "/outside/evil", ""), one(Hard, "/second", "/outside/evil"), one(Sym, "/third", "/outside/kept")];
    unpack(folder.path(), &[archive(&entries)]).unwrap();
    assert_eq!(listed(folder.path()), ["outside", "outside/evil", "second", "third -> /outside/kept"]);
    assert!(is_untouched(folder.path()));
}

#[test]
fn a_directory_below_a_link_keeps_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = archive(&[one(EntryType::Directory, "usr/lib", ""), one(EntryType::Symlink, "lib", "usr/lib")]);
    let second = archive(&[one(EntryType::Directory, "lib/d", ""), one(EntryType::Regular, "lib/d/x", "")]);
    unpack(folder.path(), &[first, second]).unwrap();
    let time = std::fs::metadata(folder.path().join("tree/usr/lib/d")).unwrap().modified().unwrap();
    assert_eq!(time, std::time::UNIX_EPOCH + std::time::Duration::from_secs(7));
}

#[test]
fn whiteouts_hide_what_lies_below_and_keep_what_their_own_layer_brings() {
    use EntryType::{Directory as Dir, Regular as File};
    let first = archive(&[
        one(Dir, "a", ""),
        one(File, "a/old", ""),
        one(Dir, "b", ""),
        one(File, "b/old", ""),
        one(File, "c", ""),
        one(Dir, "d/e", ""),
    ]);
    let second = archive(&[
        one(File, "a/new", ""),
        one(File, "a/.wh..wh..opq", ""),
        one(File, "b/.wh.old", ""),
        one(File, ".wh.c", ""),
        one(File, ".wh.missing", ""),
        one(File, "d/new", ""),
        one(File, ".wh.d", ""),
    ]);
    let folder = tempfile::tempdir().unwrap();
    unpack(folder.path(), &[first, second]).unwrap();
    let entries = crate::tree::read(&folder.path().join("tree")).unwrap();
    let paths: Vec<String> = entries.iter().map(|entry| crate::tree::shown(&entry.path)).collect();
    assert_eq!(paths, ["", "a", "a/new", "b", "d", "d/new"]);
}

#[test]
fn a_folder_is_looked_through_once_for_all_that_a_layer_hides() {
    let folder = tempfile::tempdir().unwrap();
    let mut assembly = Assembly::new(Rooted::open(folder.path()).unwrap());
    let at = |path: &str| Below::parse(path.as_bytes()).unwrap();
    let put = |assembly: &mut Assembly, path, kind: Kind| {
        assembly.put(&at(path), &kind, &Meta::default(), &mut std::io::empty()).unwrap();
    };
    put(&mut assembly, "d", Kind::Folder);
    put(&mut assembly, "d/old", Kind::File(0));
    put(&mut assembly, "also", Kind::Link(b"d".to_vec()));
    let mut seen = Seen::default();
    assembly.hide(&mut seen, |rooted, keep, enters| rooted.clear(&at("d"), keep, enters)).unwrap();
    assert!(!folder.path().join("d/old").exists());
    // Put past the layer, so that a second look would find it.
    put(&mut assembly, "d/between", Kind::File(0));
    for path in ["d", "also"] {
        assembly.hide(&mut seen, |rooted, keep, enters| rooted.clear(&at(path), keep, enters)).unwrap();
    }
    assembly.hide(&mut seen, |rooted, keep, enters| rooted.remove(&at("d"), keep, enters)).unwrap();
    assert!(folder.path().join("d/between").exists());
}

#[test]
fn devices_are_left_out_with_their_other_names() {
    use EntryType::{Block, Char, Link as Hard, Regular as File};
    let first =
        archive(&[one(File, "old", ""), one(Char, "a/tty", ""), one(Block, "disk", ""), one(Hard, "b", "disk")]);
    let second = archive(&[one(Char, "old", ""), one(File, "disk", ""), one(Hard, "e", "disk"), one(Hard, "c", "b")]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tree")).unwrap();
    let mut assembly = Assembly::new(Rooted::open(&folder.path().join("tree")).unwrap());
    for layer in [first, second] {
        assembly.apply(&layer[..], &|_| false).unwrap();
    }
    assert_eq!(assembly.left_out.shown(), ["/a/tty", "/b", "/c", "/old"]);
    assembly.finish().unwrap();
    let entries = crate::tree::read(&folder.path().join("tree")).unwrap();
    assert!(!entries.iter().any(|entry| entry.kind.is_device()));
    let paths: Vec<String> = entries.iter().map(|entry| crate::tree::shown(&entry.path)).collect();
    assert_eq!(paths, ["", "disk", "e"], "what a device stood in the place of is gone, as it would be");
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let part =
        prop::sample::select(vec!["a", "b", "..", ".", "", "outside", "kept", ".wh.a", ".wh..wh..opq", "\u{e9}"]);
    prop::collection::vec(part, 1..5).prop_map(|parts| parts.join("/").into_bytes())
}

fn entry() -> impl Strategy<Value = Made> {
    use EntryType::{Directory, Fifo, Link, Regular, Symlink};
    (prop::sample::select(vec![Directory, Regular, Symlink, Link, Fifo]), name(), name())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_ever_written_outside(
        first in prop::collection::vec(entry(), 0..12),
        second in prop::collection::vec(entry(), 0..12),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let _ = unpack(folder.path(), &[archive(&first), archive(&second)]);
        prop_assert!(is_untouched(folder.path()));
    }

    #[test]
    fn damaged_archives_are_faults_not_panics(
        entries in prop::collection::vec(entry(), 1..6),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        resum in any::<bool>(),
    ) {
        let mut bytes = archive(&entries);
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if resum {
            // Makes the damage believable: the header's checksum is put right.
            let mut header = Header::from_byte_slice(&bytes[..512]).clone();
            header.set_cksum();
            bytes[..512].copy_from_slice(header.as_bytes());
        }
        bytes.truncate(cut.index(bytes.len() * 2).min(bytes.len()));
        let folder = tempfile::tempdir().unwrap();
        let _ = unpack(folder.path(), &[bytes]);
        prop_assert!(is_untouched(folder.path()));
    }
}

#[test]
fn a_tree_has_entries_and_names_in_proportion_to_what_is_stored() {
    let many = |count: usize, length: usize| {
        let name = |at: usize| format!("{at:0length$}");
        archive(&(0..count).map(|at| one(EntryType::Regular, &name(at), "")).collect::<Vec<_>>())
    };
    let apply = |stored: u64, archive: &[u8]| {
        let folder = tempfile::tempdir().unwrap();
        let mut assembly = Assembly::new(Rooted::open(folder.path()).unwrap());
        assembly.expect(stored);
        // A tenth of a thousandth, so that the test is a moment's.
        assembly.entries_max -= (1 << 16) - 6;
        assembly.apply(archive, &|_| false)
    };
    apply(0, &many(6, 9)).unwrap();
    let told = apply(0, &many(7, 9)).unwrap_err();
    assert!(told.message.contains("'000000006'") && told.message.contains("an image of this size"), "{told}");
    apply(32, &many(7, 9)).unwrap();
    // Directories that nobody named count too.
    let told = apply(0, &archive(&[one(EntryType::Regular, "a/b/c/d/e/f/g", "")])).unwrap_err();
    assert!(told.message.contains("an image of this size"), "{told}");
}

#[test]
fn what_follows_an_archive_has_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let padded = |zeros: u64| {
        let bytes = archive(&[one(EntryType::Regular, "x", "")]);
        std::io::Read::chain(std::io::Cursor::new(bytes), std::io::Read::take(std::io::repeat(0), zeros))
    };
    let mut assembly = Assembly::new(Rooted::open(folder.path()).unwrap());
    assembly.apply(padded(15 << 20), &|_| false).unwrap();
    let told = assembly.apply(padded(17 << 20), &|_| false).unwrap_err();
    assert!(told.message.contains("follow the end"), "{told}");
}
