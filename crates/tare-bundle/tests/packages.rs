//! A bundle of real packages, in every emission, and back again through a container engine's archive.

use std::path::Path;
use std::process::Command;
use tare_bundle::Store;
use tare_core::bundle::{BundleStore, Recipe, Source};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn has(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).output().is_ok_and(|output| output.status.success())
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    text
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn redis_from_packages_is_the_same_in_every_emission() {
    if !is_root() || !has("mmdebstrap", "--version") {
        println!("skipped: needs root and mmdebstrap");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let recipe = Recipe { source: Source::Packages(vec!["redis-server".to_owned()]), files: Vec::new() };
    let bundle = match store.bundle(&recipe) {
        Ok(bundle) => bundle,
        Err(fault) if fault.log.contains("Temporary failure") || fault.log.contains("Could not connect") => {
            println!("skipped: no package archive can be reached: {fault}");
            return;
        }
        Err(fault) => panic!("{fault}\n{}", fault.log),
    };
    let directory = bundle.directory().unwrap();
    assert!(output("chroot", &[text(&directory), "/usr/bin/redis-server", "--version"]).contains("Redis server"));
    assert!(output("chroot", &[text(&directory), "/bin/sh", "-c", "awk 'BEGIN {print 6*7}'"]).contains("42"));

    let again = store.refresh(&recipe).unwrap();
    assert_eq!(again.digest(), bundle.digest(), "the same packages make the same tree");

    let shown = store.show(&bundle.digest()[..20]).unwrap();
    assert!(shown.packages.iter().any(|package| package.starts_with("redis-server ")), "{:?}", shown.packages);
    assert!(shown.files.iter().any(|file| file.path == "/bin -> usr/bin"));

    disk_holds_the_tree(&bundle.disk().unwrap(), &directory);
    let archive = bundle.archive().unwrap();
    if has("docker", "info") {
        image_round_trip(&store, folder.path(), &archive, bundle.digest());
    } else {
        println!("skipped: no container engine for the round trip");
    }
    assert!(store.remove(bundle.digest()).unwrap_err().message.contains("in use"));
}

fn disk_holds_the_tree(disk: &Path, directory: &Path) {
    if !has("e2fsck", "-V") {
        println!("skipped: no e2fsck to check the disk with");
        return;
    }
    output("e2fsck", &["-fn", text(disk)]);
    let dump = tempfile::tempdir().unwrap();
    for file in ["usr/bin/redis-check-rdb", "etc/passwd", "usr/bin/bash"] {
        let to = dump.path().join("file");
        output("debugfs", &["-R", &format!("dump /{file} {}", text(&to)), text(disk)]);
        assert_eq!(std::fs::read(&to).unwrap(), std::fs::read(directory.join(file)).unwrap(), "{file}");
    }
}

fn image_round_trip(store: &Store, folder: &Path, archive: &Path, digest: &str) {
    let name = format!("tare-bundle-test:{}", std::process::id());
    output("docker", &["import", text(archive), &name]);
    let saved = folder.join("saved.tar");
    let version = Command::new("docker")
        .args(["run", "--rm", "--network=none", &name])
        .args(["/usr/bin/redis-server", "--version"])
        .output();
    let save = Command::new("docker").args(["save", "-o", text(&saved), &name]).output();
    let _ = Command::new("docker").args(["rmi", "-f", &name]).output();
    let version = version.unwrap();
    assert!(String::from_utf8_lossy(&version.stdout).contains("Redis server"), "{version:?}");
    assert!(save.unwrap().status.success());
    let recipe = Recipe { source: Source::Image(saved.display().to_string()), files: Vec::new() };
    let image = store.bundle(&recipe).unwrap();
    assert_eq!(image.digest(), digest, "an image made of the archive unpacks to the same tree");
    output("gzip", &["-1", text(&saved)]);
    let recipe = Recipe { source: Source::Image(format!("{}.gz", saved.display())), files: Vec::new() };
    assert_eq!(store.bundle(&recipe).unwrap().digest(), digest, "compressed or not");
}
