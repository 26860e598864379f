//! The packages where they are meant to go: anywhere, on a Debian, in an engine.

use crate::{VERSION, dist, expect, file, is_checkout, said};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// The program that the gate has built, or the one beside this; and none where nothing can be packaged.
fn program() -> Option<PathBuf> {
    if !is_checkout() {
        return None;
    }
    let beside = || Some(Path::new(env!("CARGO_BIN_EXE_xtask-dist")).parent()?.join("tare"));
    let path = std::env::var_os("TARE_BIN").map(PathBuf::from).or_else(beside).filter(|path| path.is_file());
    if path.is_none() {
        println!("skipped: tare is not built");
    }
    path
}

/// Whether there is an engine, and each of `needs` (programs on PATH); says what is missing.
fn has_engine(needs: &[&str]) -> bool {
    let found =
        |need: &&&str| ["/usr/bin", "/usr/local/bin", "/usr/sbin"].iter().any(|dir| Path::new(dir).join(need).exists());
    let missing = needs.iter().chain(&["docker"]).find(|need| !found(need));
    let why = match missing {
        Some(missing) => format!("there is no {missing} on this machine"),
        None if docker(&["version"]).status.success() => return true,
        None => "no container engine answers".to_owned(),
    };
    println!("skipped: {why}");
    false
}

fn docker(arguments: &[&str]) -> Output {
    Command::new("docker").args(arguments).output().expect("it runs")
}

/// What the program says of itself and finds, wherever it is installed.
fn asks(run: impl Fn(&[&str]) -> String) {
    assert!(run(&["--version"]).starts_with(&format!("tare {VERSION}")));
    run(&["check", "canonical", "auction"]);
    let plan = run(&["run", "canonical", "--dry-run"]);
    assert!(plan.contains("workload redis") && plan.contains("Nothing was started"), "{plan}");
}

/// Where a record lies in the folder that [`write_record`] wrote it to.
const RECORD: &str = "records/k3v9qa";

/// Writes a record of a few short trials below a folder.
fn write_record(folder: &Path) {
    let all = format!("\n{}", include_str!("../../../crates/tare-runner/samples/record.txt"));
    for part in all.split("\n== ").skip(1) {
        let (name, content) = part.split_once('\n').expect("a path and what is in the file");
        let path = folder.join(RECORD).join(name);
        std::fs::create_dir_all(path.parent().expect("it is in the record")).expect("it can be made");
        std::fs::write(path, content).expect("it can be written");
    }
}

/// A server on this machine's loopback that takes a millisecond for each answer: no generator is slower than that.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("it listens");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while stream.read(&mut bytes).is_ok_and(|received| received > 0) {
                    std::thread::sleep(Duration::from_millis(1));
                    if stream.write_all(b"OK").is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// What it does without root and without starting anything of others: it reports of the record in the folder in which
/// it is run, and makes load.
fn works(run: impl Fn(&[&str]) -> String) {
    let report = run(&["report", RECORD]);
    assert!(report.contains("What does each form cost one Redis server?"), "{report}");
    let (target, options) = (server().to_string(), ["request=hi", "reply={bytes: 2}"]);
    let load = ["load", "--protocol", "tcp", "--target", &target, "--option", options[0], "--option", options[1]];
    let said = run(&[&load[..], &["--connections", "2", "--for", "1s", "--json"]].concat());
    // Whatever else it has to say comes behind it.
    let mut printed = serde_json::Deserializer::from_str(&said).into_iter::<Value>();
    let Some(Ok(result)) = printed.next() else { panic!("{said}") };
    assert!(result["operations"].as_u64().is_some_and(|count| count > 10) && result["errors"] == 0, "{said}");
}

#[test]
fn the_tarball_works_wherever_it_is_unpacked() {
    let Some(binary) = program() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (out, prefix) = (folder.path().join("out"), folder.path().join("a prefix"));
    expect(&mut dist(&binary, &out, &["--only", "tarball"]));
    std::fs::create_dir(&prefix).expect("it can be made");
    let mut tar = Command::new("tar");
    tar.args(["--strip-components=1", "-xzf"]).arg(file(&out, "-linux.tar.gz")).arg("-C").arg(&prefix);
    expect(&mut tar);
    asks(|arguments| expect(Command::new(prefix.join("bin/tare")).args(arguments).current_dir("/")));
    write_record(folder.path());
    works(|arguments| expect(Command::new(prefix.join("bin/tare")).args(arguments).current_dir(folder.path())));
    for shipped in ["man/man1/tare-run.1.gz", "doc/tare/README.md", "doc/tare/LICENSE-MIT", "doc/tare/THIRD-PARTY.txt"]
    {
        assert!(prefix.join("share").join(shipped).is_file(), "{shipped}");
    }
}

/// Installs the package on a bare Debian, looks at everything, removes it again, and compares what is there with what
/// was, but for dpkg's own notes.
const VISIT: &str = r"set -eu
list() { find / -xdev \( -path /var/lib/dpkg -o -path /var/log -o -path /released -o -path /tmp \) -prune -o -print | sort; }
list > /tmp/before
dpkg --install /released/tare_*.deb
cd /
test $(command -v tare) = /usr/bin/tare
tare --version
tare check canonical auction
tare run canonical --dry-run
test -z $(dpkg --verify tare)
for page in tare tare-run tare-bundle-build; do gzip -dc /usr/share/man/man1/$page.1.gz | grep -q '^.TH'; done
bash -c '. /usr/share/bash-completion/completions/tare; complete -p tare'
grep -q '#compdef tare' /usr/share/zsh/vendor-completions/_tare
grep -q 'complete -c tare' /usr/share/fish/vendor_completions.d/tare.fish
grep -q 'Permission is hereby granted' /usr/share/doc/tare/copyright
gzip -dc /usr/share/doc/tare/changelog.gz | grep -q .
dpkg --purge tare
list > /tmp/after
diff /tmp/before /tmp/after
echo nothing is left
";

#[test]
fn the_package_is_installed_and_removed_without_a_trace() {
    let Some(binary) = program() else { return };
    if !has_engine(&["mmdebstrap", "dpkg-deb"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    expect(&mut dist(&binary, folder.path(), &["--only", "deb"]));
    let image = Image(format!("tare-dist:{}", std::process::id()));
    // What dpkg calls, a shell of each kind, and nothing that was configured: that is all that takes time.
    let packages = "dpkg,dash,bash,coreutils,diffutils,findutils,tar,gzip,grep,libc-bin";
    let script = format!(
        "release=$(. /etc/os-release; echo $VERSION_CODENAME)\n\
         mmdebstrap --quiet --variant=extract --include={packages} $release | docker import - {}",
        image.0
    );
    expect(Command::new("bash").args(["-ec", &format!("set -o pipefail\n{script}")]));
    let released = format!("{}:/released:ro", folder.path().display());
    let mut run = Command::new("docker");
    run.args(["run", "--rm", "--network=none", "--volume", &released, &image.0, "/bin/sh", "-c", VISIT]);
    let text = expect(&mut run);
    assert!(text.contains(&format!("tare {VERSION}")) && text.contains("workload redis"), "{text}");
    assert!(text.contains("\nnothing is left\n"), "{text}");
}

#[test]
fn the_image_runs_in_an_engine_and_is_read_by_tare() {
    let Some(binary) = program() else { return };
    if !has_engine(&[]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    expect(&mut dist(&binary, folder.path(), &["--only", "image"]));
    let archive = file(folder.path(), "-image.tar");
    let image = Image(format!("tare:{VERSION}"));
    let earlier = docker(&["image", "inspect", "--format={{.Id}}", &image.0]);
    expect(Command::new("docker").args(["load", "--input"]).arg(&archive));
    // Nothing else is in it, so it needs nothing else but what it is to read or to load.
    let work = folder.path().join("work");
    write_record(&work);
    let work = format!("{}:/work:ro", work.display());
    let run = |arguments: &[&str]| {
        let network = if arguments[0] == "load" { "--network=host" } else { "--network=none" };
        let mut docker = Command::new("docker");
        docker.args(["run", "--rm", network, "--read-only", "--volume", &work, &image.0]).args(arguments);
        expect(&mut docker)
    };
    asks(run);
    works(run);
    let help = expect(Command::new("docker").args(["run", "--rm", "--network=none", &image.0]));
    assert!(help.contains("Run a study"), "{help}");
    let mut build = Command::new(&binary);
    build.args(["bundle", "build", "--image"]).arg(&archive).env("TARE_HOME", folder.path().join("home"));
    expect(&mut build);
    drop(image);
    if earlier.status.success() {
        let id = String::from_utf8_lossy(&earlier.stdout).trim().to_owned();
        expect(Command::new("docker").args(["tag", &id, &format!("tare:{VERSION}")]));
    }
}

/// An image of the engine's, to be removed again.
struct Image(String);

impl Drop for Image {
    fn drop(&mut self) {
        let removed = docker(&["image", "rm", "--force", &self.0]);
        if !removed.status.success() {
            eprintln!("{}", said(&removed));
        }
    }
}
