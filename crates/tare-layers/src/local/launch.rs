//! Starting a process in a service's root, as the service's user, within its limits.

use super::accounts;
use super::confinement::{Confinement, STEPS, check, check_user, cpu_mask, node_mask};
use super::inside::open_inside;
use super::root::{PROGRAM_INSIDE, Root};
use super::shift::Shift;
use crate::cgroup::Group;
use crate::network::Room;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tare_core::fault::{Doing, Fault};
use tare_core::units::CpuSet;
use tare_core::workload::USUAL_PATH;

/// The root of a process about to be started.
pub(crate) enum Rooted<'a> {
    /// A new one, for a service.
    New(&'a Root),
    /// That of a running service.
    Beside {
        /// The folder of `/proc` of the service's process, open.
        service: OwnedFd,
        /// What its root is made from.
        bundle: &'a Path,
    },
}

impl Rooted<'_> {
    fn enter(&self) -> Result<(), Fault> {
        match self {
            Rooted::New(root) => root.enter(),
            Rooted::Beside { service, .. } => Root::join(service),
        }
    }

    fn bundle(&self) -> &Path {
        match self {
            Rooted::New(root) => &root.bundle,
            Rooted::Beside { bundle, .. } => bundle,
        }
    }

    /// In words, what is started in it.
    fn what(&self) -> &'static str {
        match self {
            Rooted::New(_) => "service",
            Rooted::Beside { .. } => "command",
        }
    }
}

/// A process about to be started.
pub(crate) struct Launch<'a> {
    /// Its root.
    pub(crate) root: Rooted<'a>,
    /// Its cgroup.
    pub(crate) group: &'a Group,
    /// Program (a path inside the root, or a name that is looked up in PATH) and arguments.
    pub(crate) command: &'a [String],
    /// The directory that it starts in, if not the root.
    pub(crate) directory: Option<&'a str>,
    /// Its environment; apart from this only PATH and HOME are in it.
    pub(crate) environment: &'a BTreeMap<String, String>,
    /// User and group.
    pub(crate) user: (u32, u32),
    /// Whether it runs as its image does.
    pub(crate) as_image: bool,
    /// Who its users are on this machine, if not those of the same numbers.
    pub(crate) shift: Option<&'a Shift>,
    /// The CPUs that it may run on; if `None`, all that this process may use.
    pub(crate) cpus: Option<&'a CpuSet>,
    /// The NUMA nodes that its memory comes from; empty leaves that to the kernel.
    pub(crate) memory: &'a [u32],
    /// The network it runs in, if not this machine's.
    pub(crate) room: Option<&'a Room>,
}

impl Launch<'_> {
    /// Starts it with nothing on its standard input.
    ///
    /// # Errors
    /// What could not be done; for a program that cannot be run, why.
    pub(crate) fn start(&self, stdout: Stdio, stderr: Stdio) -> Result<Child, Fault> {
        check_user(self.user, self.as_image)?;
        let (program, arguments) = self.command.split_first().ok_or_else(|| Fault::new("the command is empty"))?;
        let (mut progress, writer) = pipe().doing("make a pipe")?;
        let mut entrances = Vec::new();
        for path in self.group.entrances() {
            let opened = OpenOptions::new().write(true).open(&path);
            entrances.push(opened.doing(format!("open the cgroup's {}", path.display()))?);
        }
        let mut command = Command::new(program);
        let home = accounts::home(self.root.bundle(), self.user.0);
        command.args(arguments).env_clear().envs(accounts::environment(self.environment, &home));
        // Opened here: in the service's root, which the thread enters before it forks, that name may lead anywhere.
        let nothing = File::open("/dev/null").doing("open /dev/null")?;
        command.stdin(nothing).stdout(stdout).stderr(stderr);
        let directory = self.directory.map(CString::new).transpose().doing("name the directory")?;
        let (cpus, user, as_image) = (self.cpus.map(cpu_mask), self.user, self.as_image);
        let namespace = self.shift.map(Shift::namespace).transpose().doing("share the user namespace")?;
        let nodes = (!self.memory.is_empty()).then(|| node_mask(self.memory));
        let confinement =
            Confinement { entrances, progress: writer, cpus, nodes, user, as_image, namespace, directory };
        // SAFETY: between fork and exec `apply` makes system calls on what was prepared here, and allocates nothing.
        unsafe { command.pre_exec(move || confinement.apply()) };
        let in_new_root = || -> Result<io::Result<Child>, Fault> {
            if let Some(room) = self.room {
                room.enter()?;
            }
            self.root.enter()?;
            Ok(command.spawn())
        };
        // A thread of its own, which gives up its root for good.
        let spawned = std::thread::scope(|scope| {
            scope.spawn(in_new_root).join().expect("entering a root and starting a process does not panic")
        })?;
        drop(command);
        spawned.map_err(|error| {
            let mut steps = Vec::new();
            // The child wrote this before it failed: the pipe does not block.
            let _ = progress.read_to_end(&mut steps);
            self.explain(&error, steps.last().copied(), program)
        })
    }

    fn path(&self) -> &str {
        self.environment.get("PATH").map_or(USUAL_PATH, String::as_str)
    }

    fn explain(&self, error: &io::Error, step: Option<u8>, program: &str) -> Fault {
        let step = step.map_or(0, usize::from).min(STEPS.len() - 1);
        if step + 1 < STEPS.len() {
            return Fault::from_error(format!("let the {} {}", self.root.what(), STEPS[step]), error);
        }
        let why = match program {
            PROGRAM_INSIDE => error.to_string(),
            _ if program.contains('/') => why_not_run(self.root.bundle(), program, error),
            _ => format!("it is in no folder of the PATH {}", self.path()),
        };
        let what = if let Rooted::New(_) = self.root { "the service" } else { "the tool" };
        Fault::new(format!("could not run {program}: {why}"))
            .remedy(format!("check the command of {what} against the files of the service's bundle"))
    }
}

/// Why a program cannot be run, judging by its file.
fn why_not_run(bundle: &Path, program: &str, error: &io::Error) -> String {
    let opened = File::open(bundle).ok().and_then(|root| open_inside(&root, program).ok());
    let Some((data, opened)) =
        opened.and_then(|file| Some((File::from(file.try_clone().ok()?).metadata().ok()?, file)))
    else {
        return "there is no such file in the bundle".to_owned();
    };
    let opened_again = File::open(format!("/proc/self/fd/{}", opened.as_raw_fd())).ok();
    if !data.is_file() {
        return "it is not a file in the bundle".to_owned();
    }
    if data.permissions().mode() & 0o111 == 0 {
        return "its file in the bundle is not executable".to_owned();
    }
    let mut start = [0; 4];
    let readable = opened_again.and_then(|mut file| file.read_exact(&mut start).ok());
    // Checked here, since the C library hands a file that the kernel does not recognise to a shell.
    let is_program = start == *b"\x7fELF" || start.starts_with(b"#!");
    match error.raw_os_error() {
        _ if readable.is_none() || !is_program => "its file in the bundle is no program for this machine".to_owned(),
        Some(libc::ENOENT) => "its file is in the bundle, but its interpreter is not: the loader of its libraries, or \
                               what its first line names"
            .to_owned(),
        Some(libc::ENOEXEC) => "its file in the bundle is no program for this machine".to_owned(),
        Some(libc::EACCES) => "its file in the bundle may not be executed by the service's user".to_owned(),
        _ => error.to_string(),
    }
}

/// A pipe whose reading end never blocks and whose ends do not survive an exec.
fn pipe() -> io::Result<(File, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: the array has room for the two descriptors that the call writes.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) }.into())?;
    // SAFETY: the call succeeded, so both are open and belong to nobody else.
    let (reader, writer) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    debug_assert!(reader.as_raw_fd() != writer.as_raw_fd());
    Ok((File::from(reader), writer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_program_does_not_run_is_told_by_its_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("bin/dir")).unwrap();
        std::fs::write(folder.path().join("bin/script"), "#!/bin/nothing\n").unwrap();
        let missing = io::Error::from_raw_os_error(libc::ENOENT);
        let why = |program: &str| why_not_run(folder.path(), program, &missing);
        assert!(why("/bin/absent").contains("no such file"));
        assert!(why("/bin/dir").contains("not a file"));
        assert!(why("/bin/script").contains("not executable"));
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path().join("bin/script"), executable).unwrap();
        assert!(why("/bin/script").contains("interpreter"));
    }

    #[test]
    fn a_command_enters_no_root_once_its_service_has_ended() {
        let mut service = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let open = super::super::inside::open_tree(Path::new(&format!("/proc/{}", service.id()))).unwrap();
        service.kill().unwrap();
        service.wait().unwrap();
        let rooted = Rooted::Beside { service: open, bundle: Path::new("/") };
        // A thread of its own, which would give up its root.
        let entered = std::thread::scope(|scope| scope.spawn(|| rooted.enter()).join().unwrap());
        assert!(entered.is_err(), "it would have entered this process's own");
    }
}
