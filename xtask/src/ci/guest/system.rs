//! What the guest boots: this machine's distribution with systemd, an engine and runtimes, made once and kept; and a
//! disk with the programs that are tested, made for each guest.

use crate::ci::programs::Test;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the system is made of besides the distribution's kernel. Not every kernel brings what makes the files that it
/// finds its disk with.
const PACKAGES: &str = "systemd-sysv,dbus,udev,kmod,procps,iproute2,iptables,apparmor,docker.io,runc,crun,mmdebstrap,\
                        e2fsprogs,xz-utils,zstd,ca-certificates,initramfs-tools,\
                        lxc,systemd-container,podman,netavark,aardvark-dns,uidmap,slirp4netns";
/// Units of it that have nothing to do here and take an emulated machine's time.
const MASKED: [&str; 12] = [
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "e2scrub_all.timer",
    "getty@tty1.service",
    "fstrim.timer",
    "lxc.service",
    "lxc-net.service",
    "podman.service",
    "podman.socket",
    "podman-auto-update.service",
    "podman-auto-update.timer",
    "podman-restart.service",
];
/// The user that Podman runs containers as without root.
const USER: u32 = 1000;
const ORDERS: &str = include_str!("orders.sh");
const SERVICE: &str = include_str!("orders.service");
/// Sizes of the disks. They are sparse: only what is written takes room.
const DISK: &str = "6g";
const PROGRAMS_DISK: &str = "3g";
/// Workloads whose bundles are built outside, for in the guest there is no network to fetch packages from.
const WORKLOADS: [&str; 1] = ["redis"];

/// A system, ready to be booted.
pub(super) struct System {
    folder: PathBuf,
}

impl System {
    /// The system in `folder`, made now unless it is there.
    ///
    /// # Errors
    /// When a package or a tool is missing.
    pub(super) fn get(folder: &Path) -> Result<System> {
        let system = System { folder: folder.to_owned() };
        let distribution = Distribution::of_host()?;
        let Distribution { codename, kernel, .. } = &distribution;
        let recipe = format!("{codename} {kernel} {PACKAGES} {MASKED:?} {USER} {DISK}\n{SERVICE}\n{ORDERS}");
        let noted = folder.join("recipe");
        if fs::read_to_string(&noted).is_ok_and(|kept| kept == recipe) {
            return Ok(system);
        }
        println!("guest    making its system from {codename}: about two minutes, once");
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        let _ = fs::remove_file(&noted);
        let tree = folder.join("tree");
        remove(&tree)?;
        run(&mut distribution.bootstrap(&tree, &distribution.sources(Path::new("/etc/apt"))))?;
        furnish(&tree)?;
        for (name, place) in [("vmlinuz-", system.kernel()), ("initrd.img-", system.first_files())] {
            let entries = fs::read_dir(tree.join("boot"))?.flatten().map(|entry| entry.path());
            let begins = |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(name));
            let found = entries.filter(begins).max().with_context(|| format!("{kernel} contains no {name}*"))?;
            fs::copy(found, place).context("keep the guest's kernel")?;
        }
        disk(&tree, &system.disk(), "system", DISK)?;
        remove(&tree)?;
        fs::write(&noted, recipe).context("note what the guest's system was made of")?;
        Ok(system)
    }

    pub(super) fn kernel(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    /// What the kernel finds its disk with.
    pub(super) fn first_files(&self) -> PathBuf {
        self.folder.join("initrd.img")
    }

    pub(super) fn disk(&self) -> PathBuf {
        self.folder.join("system.ext4")
    }

    /// Makes the disk `programs.ext4`, in a folder of its own: Tare's program and the tests', the workloads and studies
    /// of the workspace `root`, and the bundles that those need.
    ///
    /// # Errors
    /// When something cannot be built or copied.
    pub(super) fn programs(&self, root: &Path, binary: &Path, tests: &[Test]) -> Result<tempfile::TempDir> {
        let made = tempfile::tempdir_in(&self.folder).context("make a folder for the guest")?;
        let home = self.folder.join("home");
        for workload in WORKLOADS {
            let mut command = Command::new(binary);
            command.args(["bundle", "build", "--workload", workload]).env("TARE_HOME", &home).current_dir(root);
            run(&mut command)?;
        }
        let tree = made.path().join("tree");
        for folder in ["bin", "root"] {
            fs::create_dir_all(tree.join(folder))?;
        }
        let programs: BTreeSet<&Path> = tests.iter().map(|test| test.program.as_path()).chain([binary]).collect();
        for program in programs {
            fs::copy(program, tree.join("bin").join(name(program)?))
                .with_context(|| format!("copy {}", program.display()))?;
        }
        for test in tests {
            fs::create_dir_all(tree.join("root").join(test.folder.strip_prefix(root).unwrap_or(&test.folder)))?;
        }
        let data = ["workloads", "studies"].map(|folder| root.join(folder));
        run(Command::new("cp").args(["-a", "--no-preserve=ownership"]).args(data).arg(tree.join("root")))?;
        run(Command::new("cp").arg("-a").arg(&home).arg(tree.join("home")))?;
        // The workspace is where it is here: the tests were built for that place.
        let above = root.parent().context("the workspace is no root directory")?;
        let stand = format!("mkdir -p '{}' && ln -sfn /tare/root '{}'\n", above.display(), root.display());
        fs::write(tree.join("stand"), stand)?;
        disk(&tree, &made.path().join("programs.ext4"), "programs", PROGRAMS_DISK)?;
        remove(&tree)?;
        Ok(made)
    }
}

/// The line that runs a test in the guest.
///
/// # Errors
/// When its program has no name.
pub(super) fn order(test: &Test, binary: &Path, thorough: bool) -> Result<String> {
    let (program, tare) = (name(&test.program)?.display(), name(binary)?.display());
    let folder = test.folder.display();
    let thorough = if thorough { " TARE_THOROUGH=1" } else { "" };
    Ok(format!(
        "cd '{folder}' && TARE_HOME=/tare/home TARE_BIN=/tare/bin/{tare} CARGO_MANIFEST_DIR='{folder}'{thorough} \
         /tare/bin/{program} {} --exact --nocapture --test-threads=1",
        test.within
    ))
}

fn name(program: &Path) -> Result<&Path> {
    program.file_name().map(Path::new).with_context(|| format!("{} is not a file", program.display()))
}

/// This machine's distribution, which is to be the guest's, for a bundle of packages is for one.
struct Distribution {
    id: String,
    codename: String,
    /// Its kernel for guests.
    kernel: &'static str,
}

impl Distribution {
    fn of_host() -> Result<Distribution> {
        Distribution::parse(&fs::read_to_string("/etc/os-release").context("read /etc/os-release")?)
    }

    fn parse(text: &str) -> Result<Distribution> {
        let field = |key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            let value = value.map(|value| value.trim_matches('"').to_owned());
            value.with_context(|| format!("/etc/os-release has no {key}"))
        };
        let (id, codename) = (field("ID")?, field("VERSION_CODENAME")?);
        let kernel = if id == "ubuntu" { "linux-image-virtual" } else { "linux-image-cloud-amd64" };
        Ok(Distribution { id, codename, kernel })
    }

    /// The files of `apt`, a folder like /etc/apt, with the distribution's own archives, as this machine reaches them.
    /// What somebody added stands in files of other names.
    fn sources(&self, apt: &Path) -> Vec<PathBuf> {
        let names = ["sources.list".to_owned(), format!("sources.list.d/{}.sources", self.id)];
        let says = |line: &str| !matches!(line.trim().chars().next(), None | Some('#'));
        // Where the other one is in use, it says nothing.
        let in_use = |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.lines().any(says));
        names.iter().map(|name| apt.join(name)).filter(in_use).collect()
    }

    /// What makes a system in `tree` from these files; without any, from where the distribution has its archives.
    fn bootstrap(&self, tree: &Path, sources: &[PathBuf]) -> Command {
        let mut command = Command::new("mmdebstrap");
        command.args(["--quiet", "--variant=minbase", "--aptopt=APT::Install-Recommends \"false\""]);
        // The engine is in a part that is not read unless that is said.
        command.args((self.id == "ubuntu").then_some("--components=main,universe"));
        command.arg(format!("--include={PACKAGES},{}", self.kernel)).arg(&self.codename).arg(tree).args(sources);
        command
    }
}

/// Makes the tree of a system one that does orders.
fn furnish(tree: &Path) -> Result<()> {
    let units = tree.join("etc/systemd/system");
    let program = tree.join("usr/local/sbin/orders");
    fs::write(&program, ORDERS)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    fs::write(units.join("orders.service"), SERVICE)?;
    let wanted = units.join("multi-user.target.wants");
    fs::create_dir_all(&wanted)?;
    symlink("../orders.service", wanted.join("orders.service"))?;
    for unit in MASKED {
        let link = units.join(unit);
        let _ = fs::remove_file(&link);
        symlink("/dev/null", link)?;
    }
    let home = tree.join("var/podman");
    fs::create_dir_all(&home)?;
    chown(&home, Some(USER), Some(USER))?;
    for (file, line) in [
        ("passwd", format!("podman:x:{USER}:{USER}::/var/podman:/bin/sh")),
        ("group", format!("podman:x:{USER}:")),
        ("subuid", "podman:100000:65536".to_owned()),
        ("subgid", "podman:100000:65536".to_owned()),
    ] {
        let path = tree.join("etc").join(file);
        let kept = fs::read_to_string(&path).unwrap_or_default();
        fs::write(&path, format!("{kept}{line}\n")).with_context(|| format!("write {}", path.display()))?;
    }
    fs::create_dir_all(tree.join("tare")).context("make a place for the programs")
}

/// Makes an ext4 disk of a tree.
fn disk(tree: &Path, place: &Path, label: &str, size: &str) -> Result<()> {
    let _ = fs::remove_file(place);
    run(Command::new("mke2fs").args(["-q", "-t", "ext4", "-L", label, "-d"]).arg(tree).arg(place).arg(size))
}

fn remove(tree: &Path) -> Result<()> {
    match fs::remove_dir_all(tree) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context("remove an older tree"),
        _ => Ok(()),
    }
}

/// Runs a command that must succeed. Administrators' tools are not on everybody's PATH.
fn run(command: &mut Command) -> Result<()> {
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null());
    let program = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("could not run {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} failed ({}): {}", output.status, said.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_run_as_it_is_outside() {
        let test = Test {
            name: "cgroup2::a::b::c".to_owned(),
            within: "b::c".to_owned(),
            program: "/t/deps/a-12".into(),
            folder: "/w/crates/a".into(),
            in_guest: true,
        };
        let order = order(&test, Path::new("/t/tare"), true).expect("its program has a name");
        let expected = "cd '/w/crates/a' && TARE_HOME=/tare/home TARE_BIN=/tare/bin/tare \
                        CARGO_MANIFEST_DIR='/w/crates/a' TARE_THOROUGH=1 /tare/bin/a-12 b::c --exact --nocapture \
                        --test-threads=1";
        assert_eq!(order, expected);
    }

    #[test]
    fn a_system_is_made_from_the_archives_that_this_machine_reaches() {
        let apt = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(apt.path().join(name), text).expect("it is ours");
        fs::create_dir(apt.path().join("sources.list.d")).expect("it is ours");
        let noble = Distribution::parse("ID=ubuntu\nVERSION_CODENAME=noble\n").expect("it has both");
        let told = |sources: &[PathBuf]| {
            let command = noble.bootstrap(Path::new("/t"), sources);
            command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(noble.sources(apt.path()), [] as [PathBuf; 0]);
        let without = told(&[]);
        assert!(without.contains(&"--components=main,universe".to_owned()), "{without:?}");
        assert!(without.ends_with(&["noble".to_owned(), "/t".to_owned()]), "{without:?}");
        let packages = without.iter().find_map(|one| one.strip_prefix("--include=")).expect("it has packages");
        assert!(packages.split(',').any(|name| name == "initramfs-tools"), "{packages}");
        write("sources.list", "# they have moved\n\n");
        write("sources.list.d/ubuntu.sources", "Types: deb\nURIs: http://mirror.example/ubuntu\n");
        write("sources.list.d/docker.list", "deb https://download.example/linux/ubuntu noble stable\n");
        let own = [apt.path().join("sources.list.d/ubuntu.sources")];
        assert_eq!(noble.sources(apt.path()), own);
        assert_eq!(told(&own).last(), Some(&own[0].display().to_string()));
        write("sources.list", "deb http://mirror.example/ubuntu noble main universe\n");
        assert_eq!(noble.sources(apt.path())[0], apt.path().join("sources.list"));
    }

    #[test]
    fn a_system_that_is_booted_does_orders() {
        let tree = tempfile::tempdir().expect("a folder");
        for folder in ["etc/systemd/system", "usr/local/sbin"] {
            fs::create_dir_all(tree.path().join(folder)).expect("it is ours");
        }
        furnish(tree.path()).expect("there is room");
        let wanted = tree.path().join("etc/systemd/system/multi-user.target.wants/orders.service");
        assert_eq!(fs::read_to_string(wanted).expect("the link leads there"), SERVICE);
        assert!(SERVICE.contains("ExecStart=/usr/local/sbin/orders\n"));
        let mode = fs::metadata(tree.path().join("usr/local/sbin/orders")).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o111, 0o111);
    }
}
