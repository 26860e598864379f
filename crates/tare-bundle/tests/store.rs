//! What a store promises whatever the bundles hold.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use tare_bundle::Store;
use tare_core::bundle::{BundleStore, ExtraFile, Recipe, Source};
use tare_testkit::files;

fn recipe(folder: &Path) -> Recipe {
    Recipe::plain(Source::Folder(folder.to_path_buf()))
}

#[test]
fn a_folder_is_kept_as_it_is_and_seen_again_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    files::write(&from.join("a/program"), "one");
    std::fs::set_permissions(from.join("a/program"), std::fs::Permissions::from_mode(0o4755)).unwrap();
    std::fs::hard_link(from.join("a/program"), from.join("second")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", from.join("link")).unwrap();
    let xattr = rustix::fs::setxattr(from.join("second"), "user.kept", b"\0\n=", rustix::fs::XattrFlags::empty());
    let store = Store::open(&folder.path().join("store")).unwrap();
    assert!(!store.keeps(&recipe(&from)), "nothing is built yet");
    let first = store.bundle(&recipe(&from)).unwrap();
    let tree = first.directory().unwrap();
    let facts = std::fs::metadata(tree.join("a/program")).unwrap();
    assert_eq!((facts.mode() & 0o7777, facts.nlink()), (0o4755, 2));
    assert_eq!(std::fs::read_link(tree.join("link")).unwrap(), Path::new("/etc/passwd"));
    if xattr.is_ok() {
        let mut value = [0_u8; 8];
        let length = rustix::fs::getxattr(tree.join("a/program"), "user.kept", &mut value[..]).unwrap();
        assert_eq!(&value[..length], b"\0\n=");
    }
    assert_eq!(store.bundle(&recipe(&from)).unwrap().digest(), first.digest());
    assert!(store.keeps(&recipe(&from)));
    std::fs::write(from.join("a/program"), "two").unwrap();
    assert!(!store.keeps(&recipe(&from)), "what changed is another bundle");
    assert_ne!(store.bundle(&recipe(&from)).unwrap().digest(), first.digest());
}

#[test]
fn devices_of_a_folder_are_left_out_with_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    files::write(&from.join("kept"), "");
    let (kind, number) = (rustix::fs::FileType::CharacterDevice, rustix::fs::makedev(1, 5));
    if rustix::fs::mknodat(rustix::fs::CWD, from.join("node"), kind, rustix::fs::Mode::from(0o666), number).is_err() {
        return println!("skipped: making a device needs root");
    }
    let store = Store::open(&folder.path().join("store")).unwrap();
    let bundle = store.bundle(&recipe(&from)).unwrap();
    assert!(!bundle.directory().unwrap().join("node").exists());
    let shown = store.show(bundle.digest()).unwrap();
    assert_eq!(shown.left_out, ["/node"]);
    assert_eq!(shown.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["/", "/kept"]);
}

#[test]
fn what_every_form_has_in_memory_has_the_same_rights_below() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    std::fs::create_dir_all(from.join("run/inner")).unwrap();
    std::fs::create_dir(from.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", from.join("tmp")).unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let tree = store.bundle(&recipe(&from)).unwrap().directory().unwrap();
    let mode = |path: &str| std::fs::symlink_metadata(tree.join(path)).unwrap().mode() & 0o7777;
    assert_eq!((mode("run"), mode("run/inner"), mode("elsewhere")), (0o1777, 0o755, 0o755));
    assert!(tree.join("tmp").is_symlink());
}

#[test]
fn recipes_with_files_are_their_owner_s_alone() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    std::fs::create_dir(&from).unwrap();
    let root = folder.path().join("store");
    let store = Store::open(&root).unwrap();
    let modes = |digest: &str| {
        let mode = |path: std::path::PathBuf| std::fs::metadata(path).unwrap().mode() & 0o777;
        let recipes = std::fs::read_dir(root.join("recipes")).unwrap().map(|entry| entry.unwrap().path());
        let of = |path: &std::path::PathBuf| std::fs::read_to_string(path).unwrap().contains(digest);
        let recipe = recipes.into_iter().find(of).unwrap();
        [mode(recipe), mode(root.join("bundles").join(digest.trim_start_matches("sha256:")).join("bundle.json"))]
    };
    let plain = store.bundle(&recipe(&from)).unwrap();
    assert_eq!(modes(plain.digest()), [0o644; 2]);
    let file = ExtraFile { path: "/etc/x.conf".to_owned(), content: "password".to_owned().into(), mode: 0o644 };
    let secret = store.bundle(&Recipe { files: vec![file], ..recipe(&from) }).unwrap();
    assert_eq!(modes(secret.digest()), [0o600; 2]);
}

#[test]
fn the_running_program_is_a_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let recipe = Recipe { source: Source::Program("tare".to_owned()), files: Vec::new(), build: None };
    let tree = store.bundle(&recipe).unwrap().directory().unwrap();
    let program = tree.join("usr/bin/tare");
    let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    assert!(std::fs::read(&program).unwrap() == own, "the program in the bundle is another");
    assert_eq!(std::fs::metadata(&program).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(std::fs::metadata(tree.join("tmp")).unwrap().mode() & 0o7777, 0o1777);
    assert!(std::fs::read_to_string(tree.join("etc/passwd")).unwrap().contains(":65534:65534:"));
}

#[test]
fn emissions_are_made_once_and_are_the_same_from_another_store() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    std::fs::create_dir_all(from.join("long".repeat(30)).join("deeper".repeat(20))).unwrap();
    std::fs::write(from.join("long".repeat(30)).join("file"), vec![1; 70_000]).unwrap();
    let read = |name: &str| {
        let store = Store::open(&folder.path().join(name)).unwrap();
        let bundle = store.bundle(&recipe(&from)).unwrap();
        assert_eq!(bundle.archive().unwrap(), bundle.archive().unwrap());
        (std::fs::read(bundle.archive().unwrap()).unwrap(), std::fs::read(bundle.disk().unwrap()).unwrap())
    };
    assert!(read("one") == read("two"), "the same tree is emitted as the same bytes");
}

#[test]
fn a_bundle_in_use_stays_and_prefixes_must_be_clear() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let mut digests = Vec::new();
    for content in ["one", "two"] {
        let from = folder.path().join(content);
        std::fs::create_dir(&from).unwrap();
        std::fs::write(from.join("file"), content).unwrap();
        let store = Store::open(&root).unwrap();
        let bundle = store.bundle(&recipe(&from)).unwrap();
        let other = Store::open(&root).unwrap();
        assert!(other.remove(bundle.digest()).unwrap_err().message.contains("in use"));
        digests.push(bundle.digest().to_owned());
    }
    let store = Store::open(&root).unwrap();
    assert_eq!(store.list().unwrap().len(), 2);
    assert!(store.remove("").is_err() && store.remove("sha256:").is_err() && store.remove("xyz").is_err());
    store.remove(&digests[0]).unwrap();
    assert!(store.show(&digests[0]).unwrap_err().mistake);
    assert_eq!(store.list().unwrap().len(), 1);
    assert!(store.show(&digests[1][..16]).unwrap().files.iter().any(|file| file.path == "/file"));
}

#[test]
fn what_a_dead_build_left_is_removed_and_a_live_one_is_not_disturbed() {
    let folder = tempfile::tempdir().unwrap();
    Store::open(folder.path()).unwrap();
    let building = folder.path().join("building");
    for name in ["dead", "live"] {
        std::fs::create_dir_all(building.join(name).join("bundle")).unwrap();
        std::fs::write(building.join(name).join("lock"), "").unwrap();
    }
    let lock = std::fs::File::open(building.join("live/lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let store = Store::open(folder.path()).unwrap();
    assert!(building.join("live").is_dir() && !building.join("dead").exists());
    assert_eq!(store.list().unwrap(), []);
}

#[test]
fn many_makers_of_one_recipe_make_one_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    files::write(&from.join("file"), "content");
    let root = folder.path().join("store");
    std::thread::scope(|scope| {
        let make = || Store::open(&root).unwrap().bundle(&recipe(&from)).unwrap().digest().to_owned();
        let makers: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
        let digests: Vec<String> = makers.into_iter().map(|maker| maker.join().unwrap()).collect();
        assert!(digests.iter().all(|digest| *digest == digests[0]));
    });
    assert_eq!(Store::open(&root).unwrap().list().unwrap().len(), 1);
}

#[test]
fn a_folder_that_holds_the_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "first").unwrap();
    let store = Store::open(&folder.path().join("home/bundles")).unwrap();
    let fault = store.bundle(&recipe(folder.path())).err().unwrap();
    assert!(fault.message.contains("in which Tare builds its bundle") && fault.mistake, "{fault}");
    assert!(fault.remedy.contains("TARE_HOME"), "{fault}");
}
