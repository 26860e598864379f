//! What `./test` and `./quickstart` share, `install.sh`, as they call it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs these lines after those of `install.sh`, in `folder`; with the rights of nobody, if root's are `dropped`.
fn run(lines: &str, folder: &Path, dropped: bool) -> Command {
    let script = format!("set -euo pipefail\n{}\n{lines}", include_str!("../install.sh"));
    let drops = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    // SAFETY: geteuid takes nothing and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let words = drops.into_iter().filter(|_| is_root && dropped).chain(["bash", "-c", &script]);
    let mut command = Command::new("env");
    command.args(words).current_dir(folder).env_remove("CARGO_TARGET_DIR");
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn where_is_built_is_a_whole_path_whoever_says_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    for (variable, wanted) in [("CARGO_TARGET_DIR", "a/b"), ("CARGO_BUILD_TARGET_DIR", "c")] {
        let mut command = run("find_target_dir; printenv CARGO_TARGET_DIR", root, false);
        let output = command.env_remove("CARGO_BUILD_TARGET_DIR").env(variable, wanted).output().expect("a shell");
        assert_eq!(said(&output).trim(), root.join(wanted).display().to_string(), "{variable}");
    }
    for script in ["test", "quickstart"] {
        let text = std::fs::read_to_string(root.join(script)).expect("it is there");
        let (asks, uses) = (text.find("\nfind_target_dir\n"), text.find("$CARGO_TARGET_DIR"));
        assert!(asks.is_some() || uses.is_none(), "{script}");
    }
}

/// A folder that everybody may write to, and its path.
fn open_folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    set_mode(folder.path(), 0o777);
    let path = folder.path().to_owned();
    (folder, path)
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is ours");
}

#[test]
fn a_folder_that_root_has_built_in_is_refused_with_what_to_do() {
    let (_folder, path) = open_folder();
    let inner = path.join("target/triple/release");
    std::fs::create_dir_all(&inner).expect("it is ours");
    for path in [inner.parent().expect("it has one"), &path.join("target"), &inner] {
        set_mode(path, 0o777);
    }
    let refused = |target: &str| {
        let mut command = run("refuse_others_target; echo well", &path, true);
        said(&command.env("CARGO_TARGET_DIR", path.join(target)).output().expect("a shell"))
    };
    assert_eq!((refused("target"), refused("none yet")), ("well\n".to_owned(), "well\n".to_owned()));
    set_mode(&inner, 0o555);
    let told = refused("target");
    assert!(told.contains(&format!("Tare is built in {}", inner.display())), "{told}");
    assert!(told.contains("to do: sudo chown -R ") && !told.contains("well"), "{told}");
    set_mode(&inner, 0o755);
}

#[test]
fn a_checkout_of_somebody_else_is_refused_before_anything_is_installed() {
    let (_folder, path) = open_folder();
    set_mode(&path, 0o555);
    let told = |check: &str, target: &Path| {
        let mut command = run(&format!("{check}; echo well"), &path, true);
        said(&command.env("CARGO_TARGET_DIR", target).output().expect("a shell"))
    };
    let missing = path.join("target/deep");
    let refused = told("refuse_others_target", &missing);
    assert!(refused.contains(&format!("Tare is built in {}, which is not there", missing.display())), "{refused}");
    assert!(refused.contains(&format!("may not write to {}\n", path.display())), "{refused}");
    assert!(refused.contains("to do: set CARGO_TARGET_DIR") && !refused.contains("well"), "{refused}");
    // What is built elsewhere is linked here all the same.
    let (_other, elsewhere) = open_folder();
    assert_eq!(told("refuse_others_target", &elsewhere.join("target")), "well\n");
    let refused = told("refuse_others_checkout", &elsewhere);
    assert!(
        refused.contains(&format!("may not write to {}", path.display())) && !refused.contains("well"),
        "{refused}"
    );
    set_mode(&path, 0o777);
    assert_eq!(told("refuse_others_checkout", &elsewhere), "well\n");
    let quickstart = script("quickstart");
    let place = |line: &str| quickstart.find(line).unwrap_or_else(|| panic!("there is no {line:?}"));
    let installs = place("\ninstall_packages ");
    assert!(place("\nrefuse_others_checkout\n") < installs && place("\nrefuse_others_target\n") < installs);
    assert!(place("\nsay_what_sudo_does\n") < installs);
}

fn script(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    std::fs::read_to_string(root.join(name)).expect("it is there")
}

#[test]
fn whoever_is_not_root_is_told_what_sudo_is_for() {
    let lines = |who: u32| format!("id() {{ echo {who}; }}\nsay_what_sudo_does");
    let told = |who: u32| said(&run(&lines(who), Path::new("/"), false).output().expect("a shell"));
    assert!(told(1000).starts_with("sudo is used to install packages"), "{}", told(1000));
    assert_eq!(told(0), "");
}

#[test]
fn a_disk_that_is_too_full_is_refused_before_building() {
    let (_folder, path) = open_folder();
    let told = |kib: u64| {
        let df = format!("df() {{ printf 'head\\n/dev/x 9 9 {kib} 9%% /\\n'; }}");
        let mut command = run(&format!("{df}\nrefuse_full_disk 5 release; echo well"), &path, false);
        said(&command.env("CARGO_TARGET_DIR", path.join("target")).output().expect("a shell"))
    };
    let refused = told(4_000_000);
    let wanted =
        format!("{} is on a disk with 4 GB free, and this writes some 5 GB there", path.join("target").display());
    assert!(refused.contains(&wanted) && !refused.contains("well"), "{refused}");
    assert!(refused.contains("to do: make room, or set CARGO_TARGET_DIR"), "{refused}");
    assert_eq!(told(5_000_000), "well\n");
    // What was built otherwise takes its room beside this.
    std::fs::create_dir_all(path.join("target/triple/debug/deps")).expect("it is ours");
    assert_eq!(told(4_000_000), refused);
    std::fs::create_dir_all(path.join("target/triple/release/deps")).expect("it is ours");
    assert_eq!(told(4_000_000), "well\n");
    let of_test = "\n[ -z \"$builds\" ] || refuse_full_disk 4 debug\n";
    for (name, line) in [("test", of_test), ("quickstart", "\nrefuse_full_disk 2 release\n")] {
        let (asks, builds) = (script(name).find(line), script(name).find("\ncargo "));
        assert!(asks.is_some() && builds.is_some() && asks < builds, "{name}");
    }
    assert!(script("test").contains("4 GB") && script("quickstart").contains("2 GB"), "--help names it");
}

#[test]
fn only_what_builds_needs_room_for_builds() {
    let script = script("test");
    let from = script.find("\nexpects=''").expect("it reads its arguments");
    let to = from + script[from..].find("\n[ \"$(id -u)\" = 0 ]").expect("it asks for root");
    let builds = |arguments: &str| {
        let lines = format!("set -- {arguments}\n{}\nprintf '%s' \"$builds\"", &script[from..to]);
        said(&run(&lines, Path::new("/"), false).output().expect("a shell"))
    };
    for parts in ["--only format", "--only=format --only tidy", "--only=dependencies", "--thorough --only tidy"] {
        assert_eq!(builds(parts), "", "{parts}");
    }
    for parts in ["", "--thorough", "--only lints", "--only=tests", "--only format --only lints", "--list"] {
        assert_eq!(builds(parts), "yes", "{parts}");
    }
    for named in ["--only format --list", "--only format a_test", "a_test", "--repeat 3 --busy a_test"] {
        assert_eq!(builds(named), "yes", "{named}");
    }
}

/// A checkout with a package that cargo knows, and a home of cargo's that is not above it.
struct Checkout {
    _folder: tempfile::TempDir,
    root: PathBuf,
    checkout: PathBuf,
}

impl Checkout {
    fn new() -> Checkout {
        let (folder, root) = open_folder();
        let checkout = root.join("mine/checkout");
        for inner in ["mine/checkout/src", "mine/checkout/.cargo", "mine/.cargo", "other/home"] {
            std::fs::create_dir_all(root.join(inner)).expect("it is ours");
        }
        let made = Checkout { _folder: folder, root, checkout };
        made.write("mine/checkout/Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.0.0\"\nedition = \"2021\"\n");
        made.write("mine/checkout/src/lib.rs", "");
        made
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.root.join(file), text).expect("it is ours");
    }

    /// What these lines say in the checkout; with the rights of nobody, if root's are `dropped`.
    fn says(&self, lines: &str, variables: &[(&str, &str)], dropped: bool) -> String {
        let mut command = run(lines, &self.checkout, dropped);
        command.env_remove("CARGO_BUILD_TARGET_DIR").env("CARGO_HOME", self.root.join("other/home"));
        let output = command.envs(variables.iter().copied()).output().expect("a shell");
        said(&output)
    }

    /// Where is built, as is known without a cargo, below the root; cargo must say the same.
    fn builds_in(&self, variables: &[(&str, &str)]) -> String {
        let known = self.says("configured_target", variables, false);
        assert_eq!(known, self.says("find_target_dir; printenv CARGO_TARGET_DIR", variables, false), "as cargo says");
        let known = known.trim();
        known.strip_prefix(&format!("{}/", self.root.display())).unwrap_or(known).to_owned()
    }
}

#[test]
fn where_is_built_is_known_before_there_is_a_cargo() {
    let made = Checkout::new();
    assert_eq!(made.builds_in(&[]), "mine/checkout/target");
    made.write("other/home/config.toml", "[build]\n  target-dir = \"of-all\" # beside the home\n");
    assert_eq!(made.builds_in(&[]), "other/of-all");
    made.write("mine/.cargo/config.toml", "build.target-dir = 'a b'\n");
    assert_eq!(made.builds_in(&[]), "mine/a b");
    let ours = "mine/checkout/.cargo/config.toml";
    // Not one of another table, nor one that is a comment.
    made.write(ours, "[alias]\ntarget-dir = \"no\"\n[build]\njobs = 1\n#target-dir = \"nor\"\n[term]\nquiet = true\n");
    assert_eq!(made.builds_in(&[]), "mine/a b");
    made.write(ours, "build = { jobs = 1, target-dir = \"inline\" }\n[net]\noffline = true\n");
    assert_eq!(made.builds_in(&[]), "mine/checkout/inline");
    made.write(ours, "[net]\noffline = true\n[ build ] # all\n\"target-dir\"='/var/its own'\n");
    assert_eq!(made.builds_in(&[]), "/var/its own");
    let of_build = ("CARGO_BUILD_TARGET_DIR", "b");
    assert_eq!(made.builds_in(&[of_build]), "mine/checkout/b");
    assert_eq!(made.builds_in(&[of_build, ("CARGO_TARGET_DIR", "/c")]), "/c");
}

#[test]
fn a_folder_that_a_configuration_names_is_refused_before_anything_is_installed() {
    let made = Checkout::new();
    made.write("mine/.cargo/config.toml", "[build]\ntarget-dir = \"builds\"\n");
    let builds = made.root.join("mine/builds");
    std::fs::create_dir(&builds).expect("it is ours");
    set_mode(&builds, 0o777);
    let told = || made.says("refuse_others_target; echo well", &[], true);
    assert_eq!(told(), "well\n");
    set_mode(&builds, 0o555);
    let refused = told();
    assert!(refused.contains(&format!("Tare is built in {}", builds.display())), "{refused}");
    assert!(!refused.contains("well"), "{refused}");
    set_mode(&builds, 0o755);
}

/// An apt that would remove `podman-docker`, unless it is told not to remove anything.
const APT: &str = r#"#!/bin/sh
case " $* " in
*" --simulate "*) printf 'Inst docker-ce-cli
Remv podman-docker [4.3.1] [x ]
Remv other [1]
' ;;
*" update "*) ;;
*" --no-remove "*) echo 'E: Packages need to be removed but remove is disabled.' >&2 && exit 100 ;;
*) echo removed ;;
esac
"#;

#[test]
fn nothing_is_removed_for_what_is_installed() {
    let (_folder, path) = open_folder();
    std::fs::write(path.join("apt-get"), APT).expect("it is ours");
    set_mode(&path.join("apt-get"), 0o755);
    // As root is done what goes to apt, and nothing to this machine.
    let root = "as_root() { case $1 in install) cat >/dev/null ;; rm) ;; *) \"$@\" ;; esac; }";
    let lines =
        format!("log_dir=$PWD\nPATH=$PWD:$PATH\n{root}\ninstall_packages docker.io=/nowhere/dockerd; echo well");
    let output = run(&lines, &path, false).output().expect("a shell");
    let told = said(&output);
    assert!(!output.status.success() && !told.contains("well"), "{told}");
    assert!(
        told.contains("apt would have to remove what is here: podman-docker other; nothing was installed"),
        "{told}"
    );
    assert!(told.contains("to do: where nothing needs that any more: apt-get remove podman-docker other"), "{told}");
}

#[test]
fn the_tests_speak_one_language_whatever_the_callers() {
    let script = script("test");
    let from = script.find("\nunset DOCKER_HOST ").expect("it forgets the caller's engine");
    let to = from + script[from..].find("\nexport TARE_HOME").expect("it has a home of its own");
    let lines = format!("{}\nprintenv LC_ALL LANGUAGE || true; umask", &script[from..to]);
    let mut command = run(&lines, Path::new("/"), false);
    let german = [("LC_ALL", "de_DE.UTF-8"), ("LANG", "de_DE.UTF-8"), ("LANGUAGE", "de")];
    // A shell may complain that it has no German, beside that.
    let output = command.envs(german).output().expect("a shell");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "C.UTF-8\n0022\n");
}
