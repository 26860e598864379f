//! What `./test` and `./quickstart` share, `install.sh`, as they call it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
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

#[test]
fn a_folder_that_root_has_built_in_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("target/triple/release");
    std::fs::create_dir_all(&inner).expect("it is ours");
    let open = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is ours");
    };
    for path in [folder.path(), &folder.path().join("target"), inner.parent().expect("it has one"), &inner] {
        open(path, 0o777);
    }
    let refused = |target: &str| {
        let mut command = run("refuse_others_target; echo well", folder.path(), true);
        said(&command.env("CARGO_TARGET_DIR", folder.path().join(target)).output().expect("a shell"))
    };
    assert_eq!((refused("target"), refused("none yet")), ("well\n".to_owned(), "well\n".to_owned()));
    open(&inner, 0o555);
    let told = refused("target");
    assert!(told.contains(&format!("Tare is built in {}", inner.display())), "{told}");
    assert!(told.contains("to do: sudo chown -R ") && !told.contains("well"), "{told}");
    open(&inner, 0o755);
}
