//! Builds programs from a workload's own source, in a root made for the build alone.
//!
//! The root holds the essential packages, those of the build and those of the bundle, so that a program is linked
//! against the very libraries it will run with. The command runs as user nobody, cannot gain privileges, has no network
//! and has its own process namespace, all of whose processes die with it. Its environment is the same on every machine,
//! so that the same sources and packages give the same files.

use crate::bounded::{self, Went};
use crate::command;
use crate::packages;
use crate::tree::{Kind, Meta};
use crate::unpack::layer::Assembly;
use crate::unpack::room;
use crate::unpack::rooted::{Below, Rooted};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tare_core::bundle::Build;
use tare_core::fault::{Doing, Fault};
use tare_core::units::{show_bytes, show_duration};
use tare_core::workload::NOBODY;

/// The directory of the sources in the root. Always the same, because compilers write it into their output.
const SOURCES: &str = "build";
/// Character devices that compilers and shells open: name, major and minor number.
const DEVICES: [(&str, u32, u32); 4] = [("null", 1, 3), ("zero", 1, 5), ("random", 1, 8), ("urandom", 1, 9)];
/// The command's whole environment. Programs that record their build time use `SOURCE_DATE_EPOCH` for it (seconds since
/// 1970, here the start of 2020).
const ENVIRONMENT: [&str; 5] = [
    "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "HOME=/build",
    "LC_ALL=C.UTF-8",
    "TZ=UTC",
    "SOURCE_DATE_EPOCH=1577836800",
];

/// How long the command may take: many times what compilers need for a server, on an emulated machine too.
const WITHIN: Duration = Duration::from_secs(3600);
/// The command's limits: no core dump, as many processes as a load may have, and the size of a file.
const LIMITS: [&str; 3] = ["--core=0", "--nproc=4096", "--fsize=8589934592"];
/// Its own namespaces. All its children are in its process namespace and die with that namespace's first process.
const NAMESPACES: [&str; 7] = ["--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child"];
/// The privileges it gives up. A change of user resets the signal that it gets when its parent dies, so that is set
/// again.
const GIVEN_UP: [&str; 6] =
    ["--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--pdeathsig", "KILL"];

/// Bounds the resources that builds may use on this machine.
pub trait BoundBuilds: Send + Sync {
    /// Prepares the bounds of one build.
    ///
    /// # Errors
    /// When this machine cannot bound it.
    fn make_room(&self) -> Result<Box<dyn BuildRoom>, Fault>;
}

/// The bounds of one build. Dropping it ends every process in them.
pub trait BuildRoom {
    /// Makes a command start inside these bounds.
    ///
    /// # Errors
    /// When that is not possible.
    fn take_in(&self, command: &mut Command) -> Result<(), Fault>;

    /// The memory limit, bytes, if a process was killed for exceeding it.
    fn ran_out_of(&self) -> Option<u64>;
}

/// Carries out `build` in the directory `work` and puts what it installs into `assembly`, a bundle of the packages
/// `own`. The build's root is removed. `bounds` bounds its memory and its turn at the CPUs.
pub(crate) fn run(
    build: &Build,
    own: &[String],
    work: &Path,
    assembly: &mut Assembly,
    bounds: Option<&dyn BoundBuilds>,
) -> Result<(), Fault> {
    let root = work.join("build-root");
    let what = || format!("build in {}", root.display());
    std::fs::DirBuilder::new().mode(0o755).create(&root).doing(what())?;
    let mut inside = Assembly::new(Rooted::open(&root)?);
    let packages: Vec<String> = own.iter().chain(&build.packages).cloned().collect();
    packages::build(&packages, work, &mut inside)?;
    furnish(build, &mut inside)?;
    enter_and_build(build, &root, bounds)?;
    install(build, &inside, assembly)?;
    tare_removal::remove_tree(&root).doing(format_args!("remove {}", root.display()))
}

/// Puts devices and sources into the root; the sources belong to the user that runs the command.
fn furnish(build: &Build, inside: &mut Assembly) -> Result<(), Fault> {
    for (name, major, minor) in DEVICES {
        let meta = Meta { mode: 0o666, ..Meta::default() };
        let path = Below::parse(format!("dev/{name}").as_bytes())?;
        inside.put(&path, &Kind::Char(major, minor), &meta, &mut std::io::empty())?;
    }
    let owned = |mode| Meta { mode, uid: NOBODY, gid: NOBODY, ..Meta::default() };
    inside.put(&Below::parse(SOURCES.as_bytes())?, &Kind::Folder, &owned(0o755), &mut std::io::empty())?;
    for (name, content) in &build.sources {
        for (end, _) in name.match_indices('/') {
            inside.put(&below(&name[..end])?, &Kind::Folder, &owned(0o755), &mut std::io::empty())?;
        }
        inside.put(&below(name)?, &Kind::File(content.len() as u64), &owned(0o644), &mut content.as_bytes())?;
    }
    Ok(())
}

/// Runs the command in the root, within bounds.
fn enter_and_build(build: &Build, root: &Path, bounds: Option<&dyn BoundBuilds>) -> Result<(), Fault> {
    let disk = std::fs::File::open(root).doing(format_args!("open {}", root.display()))?;
    let mut command = command::alone("setpriv");
    command.args(arguments(build, root));
    let room = bounds.map(BoundBuilds::make_room).transpose()?;
    room.iter().try_for_each(|room| room.take_in(&mut command))?;
    let went = bounded::run(&mut command, "util-linux", WITHIN, &|| leaves_room(build, &disk))?;
    judge(build, &went, room.and_then(|room| room.ran_out_of()))
}

/// Fails once the command's output has filled the disk.
fn leaves_room(build: &Build, disk: &std::fs::File) -> Result<(), Fault> {
    room::check(disk, 0)
        .map_err(|fault| fault.context(format_args!("stopped {}, as the disk is full", command_of(build))))
}

/// Judges how the command ended; `memory` is its memory limit, bytes, if it exceeded that.
fn judge(build: &Build, went: &Went, memory: Option<u64>) -> Result<(), Fault> {
    let (command, log) = (command_of(build), command::last_lines(&went.log));
    match (went.status, memory) {
        // It coped even if a child was killed; a file it failed to make is noticed when it is installed.
        (Some(status), _) if status.success() => Ok(()),
        (_, Some(memory)) => {
            let most = show_bytes(memory);
            Err(Fault::new(format!("{command} ran out of {most} of memory"))
                .remedy("run fewer jobs at once (such as `make -j2`), or build on a machine with more memory")
                .with_log(log)
                .as_mistake())
        }
        (Some(status), None) => Err(told(build, Fault::new(format!("unshare ended with {status}")).with_log(log))),
        (None, None) => {
            let most = show_duration(WITHIN);
            Err(Fault::new(format!("{command} did not end within {most}"))
                .remedy("build less, or use prebuilt packages, an image or a folder")
                .with_log(log)
                .as_mistake())
        }
    }
}

/// The command line that leads to the command: die with this process, set limits, enter new namespaces, enter the root,
/// become nobody and drop all privileges.
fn arguments(build: &Build, root: &Path) -> Vec<String> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut arguments = words(&["--pdeathsig", "KILL", "prlimit"]);
    arguments.extend(words(&LIMITS));
    arguments.push("unshare".to_owned());
    arguments.extend(words(&NAMESPACES));
    arguments.push(format!("--mount-proc={}", root.join("proc").display()));
    arguments.extend(["chroot".to_owned(), root.display().to_string(), "/usr/bin/setpriv".to_owned()]);
    arguments.extend([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")]);
    arguments.extend(words(&GIVEN_UP));
    arguments.extend(words(&["/usr/bin/env", "-i"]));
    arguments.push(format!("--chdir=/{SOURCES}"));
    arguments.extend(words(&ENVIRONMENT));
    arguments.extend(build.command.iter().cloned());
    arguments
}

/// Puts the built files into the bundle, executable by all and writable by root only. Links are not followed.
fn install(build: &Build, inside: &Assembly, assembly: &mut Assembly) -> Result<(), Fault> {
    for (path, name) in &build.installs {
        let mut made = inside.rooted.open_file(&below(name)?)?.ok_or_else(|| missing(build, name))?;
        let size = made.metadata().doing(format_args!("read what was built for {path}"))?.len();
        let meta = Meta { mode: 0o755, ..Meta::default() };
        Below::parse(path.trim_start_matches('/').as_bytes())
            .and_then(|place| assembly.put(&place, &Kind::File(size), &meta, &mut made))
            .map_err(|fault| fault.context(format_args!("could not put {path} into the bundle")))?;
    }
    Ok(())
}

fn below(name: &str) -> Result<Below, Fault> {
    Below::parse(format!("{SOURCES}/{name}").as_bytes())
}

/// A failure of the workload's own command, without the programs by which it was started.
fn told(build: &Build, fault: Fault) -> Fault {
    // A line of one of these programs means that the command was not reached: the machine lacks something.
    let before = fault
        .log
        .lines()
        .any(|line| ["prlimit: ", "unshare: ", "chroot: ", "setpriv: "].iter().any(|p| line.starts_with(p)));
    if before || fault.log.is_empty() {
        let fault = fault.context("could not enter the root in which the workload's source is built");
        return if fault.remedy.is_empty() {
            fault.remedy("run Tare as root, where new namespaces are allowed")
        } else {
            fault
        };
    }
    Fault::new(format!("{} failed", command_of(build)))
        .remedy("fix the source, or name the packages that it needs under `build: {packages: [...]}`")
        .with_log(fault.log)
        .as_mistake()
}

/// What failed, in words.
fn command_of(build: &Build) -> String {
    format!("the workload's build command `{}`", build.command.join(" "))
}

fn missing(build: &Build, name: &str) -> Fault {
    Fault::new(format!("{} left no file '{name}', which is to be installed", command_of(build)))
        .remedy("name a file that it makes under `installs:`, relative to the directory of the sources")
        .as_mistake()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn assembly(folder: &Path) -> Assembly {
        std::fs::create_dir(folder).unwrap();
        Assembly::new(Rooted::open(folder).unwrap())
    }

    fn build() -> Build {
        let pair = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        Build {
            packages: vec!["gcc".to_owned()],
            sources: pair("x.c", "int main;"),
            command: ["gcc", "-o", "x", "x.c"].map(str::to_owned).to_vec(),
            installs: pair("/usr/bin/x", "x"),
        }
    }

    #[test]
    fn only_a_file_of_the_build_is_installed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        let (inside, mut bundle) = (assembly(&root), assembly(&folder.path().join("bundle")));
        std::fs::create_dir(root.join(SOURCES)).unwrap();
        let made = root.join(SOURCES).join("x");
        std::os::unix::fs::symlink("/etc/passwd", &made).unwrap();
        let fault = install(&build(), &inside, &mut bundle).unwrap_err();
        assert!(fault.mistake && fault.message.contains("`gcc -o x x.c` left no file 'x'"), "{fault:?}");
        std::fs::remove_file(&made).unwrap();
        std::fs::write(&made, "made").unwrap();
        // Owners are given by root alone, but the content is there before that.
        let _ = install(&build(), &inside, &mut bundle);
        assert_eq!(std::fs::read_to_string(folder.path().join("bundle/usr/bin/x")).unwrap(), "made");
    }

    #[test]
    fn the_command_comes_last_and_nothing_of_this_environment_before_it() {
        let arguments = arguments(&build(), Path::new("/root of it")).join("\n");
        assert!(arguments.ends_with("SOURCE_DATE_EPOCH=1577836800\ngcc\n-o\nx\nx.c"), "{arguments}");
        assert!(arguments.contains("--mount-proc=/root of it/proc\nchroot\n/root of it\n"), "{arguments}");
        assert!(arguments.starts_with("--pdeathsig\nKILL\nprlimit\n--core=0\n"), "{arguments}");
        assert!(arguments.contains("--no-new-privs") && arguments.contains("/usr/bin/env\n-i\n"), "{arguments}");
    }

    /// On this machine's own root, whose programs stand for those of a build.
    #[test]
    fn what_a_build_has_started_ends_with_its_time() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let mark = format!("{}.25", 1000 + std::process::id());
        let script = format!("(setsid sleep {mark} &) ; exec sleep {mark}");
        let mut command = command::alone("setpriv");
        command.args(["--pdeathsig", "KILL", "unshare"]).args(NAMESPACES);
        command.args(["/usr/bin/setpriv", "--reuid=65534"]).args(GIVEN_UP).args(["sh", "-c", &script]);
        let sleeping = || {
            let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
            let lines = processes.filter_map(|process| std::fs::read_to_string(process.path().join("cmdline")).ok());
            lines.filter(|line| line.starts_with("sleep") && line.contains(&mark)).count()
        };
        let until_both_sleep = || if sleeping() < 2 { Ok(()) } else { Err(Fault::new("enough")) };
        let fault = bounded::run(&mut command, "util-linux", Duration::from_secs(60), &until_both_sleep).unwrap_err();
        assert_eq!(fault.message, "enough", "{fault}");
        let patience = std::time::Instant::now() + Duration::from_secs(10);
        while sleeping() > 0 {
            assert!(std::time::Instant::now() < patience, "it outlives the build");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_command_that_needs_more_memory_than_it_has_is_told_so() {
        let went = |code: i32| Went { status: Some(ExitStatus::from_raw(code << 8)), log: "Killed".to_owned() };
        judge(&build(), &went(0), None).unwrap();
        judge(&build(), &went(0), Some(1 << 30)).unwrap();
        let fault = judge(&build(), &went(1), Some(1 << 30)).unwrap_err();
        assert!(fault.mistake && fault.message.ends_with("`gcc -o x x.c` ran out of 1 GiB of memory"));
        let over = Went { status: None, log: String::new() };
        assert!(judge(&build(), &over, None).unwrap_err().message.ends_with("did not end within 1h 00m"));
        assert!(judge(&build(), &went(1), None).unwrap_err().message.ends_with("failed"));
    }

    #[test]
    fn a_command_that_fails_is_the_workload_s_mistake_and_shows_what_it_said() {
        let fault = told(&build(), Fault::new("unshare ended with 1").with_log("x.c:1: error"));
        assert!(fault.mistake && fault.message.contains("`gcc -o x x.c`"), "{fault:?}");
        assert_eq!(fault.log, "x.c:1: error");
        let machine = Fault::new("unshare ended with 1").with_log("unshare: unshare failed: Operation not permitted");
        assert!(!told(&build(), machine.clone()).mistake && told(&build(), machine).log.contains("not permitted"));
        let absent = Fault::new("unshare is not installed").remedy("apt-get install util-linux");
        assert_eq!(told(&build(), absent.clone()).remedy, absent.remedy);
    }
}
