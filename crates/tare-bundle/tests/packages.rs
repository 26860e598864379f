//! A bundle of real packages, in every emission, and back again through a container engine's archive.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tare_bundle::Store;
use tare_core::bundle::{Build, BundleStore, Recipe, Source};
use tare_core::fault::Fault;
use tare_testkit::needs;

/// None, and a word about it, where packages cannot be installed.
fn installs() -> Option<()> {
    needs::root()?;
    let there = has("mmdebstrap", "--version");
    if !there {
        println!("skipped: there is no mmdebstrap");
    }
    there.then_some(())
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

/// The store in which the gate keeps what is fetched, or else one in `folder`.
pub(crate) fn kept_store(folder: &Path) -> Store {
    let home = std::env::var_os("TARE_HOME").map(PathBuf::from);
    Store::open(&home.as_deref().unwrap_or(folder).join("bundles")).unwrap()
}

/// What was made of packages; none, with a word about it, when no package archive can be reached.
pub(crate) fn unless_unreachable<T>(made: Result<T, Fault>) -> Option<T> {
    match made {
        Ok(made) => Some(made),
        Err(fault) if fault.log.contains("Temporary failure") || fault.log.contains("Could not connect") => {
            println!("skipped: no package archive can be reached: {fault}");
            None
        }
        Err(fault) => panic!("{fault}\n{}", fault.log),
    }
}

#[test]
fn redis_from_packages_is_the_same_in_every_emission() {
    let Some(()) = installs() else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let recipe = Recipe::plain(Source::Packages(vec!["redis-server".to_owned()]));
    let Some(bundle) = unless_unreachable(store.bundle(&recipe)) else { return };
    let directory = bundle.directory().unwrap();
    assert!(output("chroot", &[text(&directory), "/usr/bin/redis-server", "--version"]).contains("Redis server"));
    assert!(output("chroot", &[text(&directory), "/bin/sh", "-c", "awk 'BEGIN {print 6*7}'"]).contains("42"));

    let elsewhere = kept_store(&folder.path().join("home"));
    let mut again = elsewhere.bundle(&recipe).unwrap();
    if again.digest() != bundle.digest() {
        // It may be of the day before a package was renewed.
        again = elsewhere.refresh(&recipe).unwrap();
    }
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

/// Says who it is, where it was compiled and when it believes that was.
const SOURCE: &str = "#include <stdio.h>\n#include <unistd.h>\n\
    int main(void) { printf(\"%s of %s by %d\\n\", __FILE__, __DATE__, (int)getuid()); return 0; }\n";

fn built_by(command: &[&str], source: &str) -> Recipe {
    let build = Build {
        packages: vec!["gcc".to_owned(), "libc6-dev".to_owned()],
        sources: BTreeMap::from([("src/say.c".to_owned(), source.to_owned())]),
        command: command.iter().map(|part| (*part).to_owned()).collect(),
        installs: BTreeMap::from([("/usr/bin/say".to_owned(), "src/say".to_owned())]),
    };
    Recipe { build: Some(build), ..Recipe::plain(Source::Packages(vec!["libc6".to_owned()])) }
}

#[test]
fn a_program_is_built_into_the_bundle_and_always_the_same() {
    let Some(()) = installs() else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    // What the command finds: it is nobody and stays that, and there is no network but its own loopback.
    let script = "test $(id -u) = 65534; grep -q 'NoNewPrivs:.1' /proc/self/status; \
                  grep -q 'CapBnd:.0000000000000000' /proc/self/status; test $(grep -c : /proc/net/dev) = 1; \
                  gcc -g -O2 -o src/say src/say.c";
    let recipe = built_by(&["sh", "-ec", script], SOURCE);
    let Some(bundle) = unless_unreachable(store.bundle(&recipe)) else { return };
    let directory = bundle.directory().unwrap();
    assert_eq!(output("chroot", &[text(&directory), "/usr/bin/say"]), "src/say.c of Jan  1 2020 by 0\n");
    let facts = std::fs::metadata(directory.join("usr/bin/say")).unwrap();
    assert_eq!((facts.mode() & 0o7777, facts.uid(), facts.gid()), (0o755, 0, 0));
    assert!(!directory.join("usr/bin/gcc").exists() && !directory.join("build").exists(), "the compiler stays outside");
    let shown = store.show(bundle.digest()).unwrap();
    assert!(!shown.packages.iter().any(|package| package.starts_with("gcc ")), "{:?}", shown.packages);
    assert!(shown.info.recipe.ends_with("with /usr/bin/say built from src/say.c"), "{}", shown.info.recipe);

    let again = store.refresh(&recipe).unwrap();
    assert_eq!(again.digest(), bundle.digest(), "the same source makes the same tree");

    let fault = store.bundle(&built_by(&["gcc", "-o", "src/say", "src/say.c"], "int main(void) { x }")).err().unwrap();
    assert!(fault.mistake && fault.log.contains("src/say.c:1") && fault.message.contains("gcc -o"), "{fault:?}");
    let left = std::fs::read_dir(folder.path().join("store/building")).unwrap().count();
    assert_eq!(left, 0, "nothing of a build is left, failed or not");
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
    let recipe = Recipe::plain(Source::Image(saved.display().to_string()));
    let image = store.bundle(&recipe).unwrap();
    assert_eq!(image.digest(), digest, "an image made of the archive unpacks to the same tree");
    output("gzip", &["-1", text(&saved)]);
    let recipe = Recipe::plain(Source::Image(format!("{}.gz", saved.display())));
    assert_eq!(store.bundle(&recipe).unwrap().digest(), digest, "compressed or not");
}
