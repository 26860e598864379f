//! Starting a process in a service's root, as the service's user, within its limits.

use super::OPEN_FILES;
use super::cgroup::Group;
use super::root::{PROGRAM_INSIDE, Root, open_inside};
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
    /// A new one, of a service.
    New(&'a Root),
    /// That of a running service.
    Beside {
        /// The service's process.
        service: u32,
        /// What its root is made of.
        bundle: &'a Path,
    },
}

impl Rooted<'_> {
    fn enter(&self) -> Result<(), Fault> {
        match self {
            Rooted::New(root) => root.enter(),
            Rooted::Beside { service, .. } => Root::join(*service),
        }
    }

    fn bundle(&self) -> &Path {
        match self {
            Rooted::New(root) => &root.bundle,
            Rooted::Beside { bundle, .. } => bundle,
        }
    }

    /// What is started in it, in words.
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
    /// Program (a path inside the root, or a name that is looked for in PATH) and arguments.
    pub(crate) command: &'a [String],
    /// The directory it starts in, if not the root.
    pub(crate) directory: Option<&'a str>,
    /// Its environment; nothing else but PATH is in it.
    pub(crate) environment: &'a BTreeMap<String, String>,
    /// User and group.
    pub(crate) user: (u32, u32),
    /// The CPUs it may run on; all that this process may when none.
    pub(crate) cpus: Option<&'a CpuSet>,
    /// The NUMA nodes that its memory comes from; empty leaves that to the kernel.
    pub(crate) memory: &'a [u32],
    /// The network it runs in, if not this machine's.
    pub(crate) room: Option<&'a Room>,
}

/// What the child does between fork and exec, in order; it tells the number of each as it begins it.
const STEPS: [&str; 8] = [
    "join its cgroup",
    "leave this process's session",
    "be bound to its CPUs",
    "have its memory bound to NUMA nodes",
    "be allowed its open files",
    "become its user",
    "enter its directory",
    "run its program",
];

impl Launch<'_> {
    /// Starts it with nothing on its standard input.
    ///
    /// # Errors
    /// What could not be done; for a program that cannot be run, why.
    pub(crate) fn start(&self, stdout: Stdio, stderr: Stdio) -> Result<Child, Fault> {
        let (program, arguments) = self.command.split_first().ok_or_else(|| Fault::new("the command is empty"))?;
        let (mut progress, writer) = pipe().doing("make a pipe")?;
        let mut entrances = Vec::new();
        for path in self.group.entrances() {
            let opened = OpenOptions::new().write(true).open(&path);
            entrances.push(opened.doing(format!("open the cgroup's {}", path.display()))?);
        }
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("PATH", self.path()).envs(self.environment);
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let directory = self.directory.map(CString::new).transpose().doing("name the directory")?;
        let (cpus, user) = (self.cpus.map(cpu_mask), self.user);
        let nodes = (!self.memory.is_empty()).then(|| node_mask(self.memory));
        let confinement = Confinement { entrances, progress: writer, cpus, nodes, user, directory };
        // SAFETY: between fork and exec `apply` makes system calls on what was prepared here, and allocates nothing.
        unsafe { command.pre_exec(move || confinement.apply()) };
        let in_new_root = || -> Result<io::Result<Child>, Fault> {
            if let Some(room) = self.room {
                room.enter()?;
            }
            self.root.enter()?;
            Ok(command.spawn())
        };
        // A thread of its own: it gives up its root for good.
        let spawned = std::thread::scope(|scope| {
            scope.spawn(in_new_root).join().expect("entering a root and starting a process does not panic")
        })?;
        drop(command);
        spawned.map_err(|error| {
            let mut steps = Vec::new();
            // It is what the child wrote before it failed: the pipe does not block.
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

/// Why a program cannot be run, from what its file is.
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
    // Looked at here, for the C library hands what the kernel does not know to a shell.
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

/// What the child does to itself.
struct Confinement {
    entrances: Vec<File>,
    progress: OwnedFd,
    cpus: Option<libc::cpu_set_t>,
    nodes: Option<NodeMask>,
    user: (u32, u32),
    directory: Option<CString>,
}

impl Confinement {
    /// Runs in the child, between fork and exec: plain system calls only.
    fn apply(&self) -> io::Result<()> {
        let mut step = 0;
        let mut begin = || {
            // If nobody is told, the message is less exact, no more.
            let _ = rustix::io::write(&self.progress, &[step]);
            step += 1;
        };
        begin();
        for entrance in &self.entrances {
            rustix::io::write(entrance, b"0")?;
        }
        begin();
        // Else an interrupt on the terminal would end the service before the load.
        rustix::process::setsid()?;
        begin();
        if let Some(cpus) = &self.cpus {
            // SAFETY: the mask is a valid cpu_set_t of the size given; 0 is this thread.
            check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), cpus) }.into())?;
        }
        begin();
        if let Some(nodes) = &self.nodes {
            // The kernel reads one bit less than it is told.
            let bits = 8 * size_of::<NodeMask>() + 1;
            // SAFETY: the mask has as many bits as the call reads.
            check(unsafe { libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_BIND, nodes.as_ptr(), bits) })?;
        }
        begin();
        let limit = libc::rlimit { rlim_cur: OPEN_FILES, rlim_max: OPEN_FILES };
        // SAFETY: the limit is a valid rlimit that outlives the call.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }.into())?;
        begin();
        self.become_user()?;
        begin();
        if let Some(directory) = &self.directory {
            rustix::process::chdir(directory.as_c_str())?;
        }
        begin();
        Ok(())
    }

    /// Gives up root and with it every capability; the next exec clears what is left.
    fn become_user(&self) -> io::Result<()> {
        rustix::process::umask(rustix::fs::Mode::from(0o022));
        // The raw calls: the C library's would try to change the threads of the parent, which are not here.
        // SAFETY: an empty list of groups needs no memory; the other calls take plain numbers.
        unsafe {
            check(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()))?;
            check(libc::syscall(libc::SYS_setresgid, self.user.1, self.user.1, self.user.1))?;
            check(libc::syscall(libc::SYS_setresuid, self.user.0, self.user.0, self.user.0))?;
            check(libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0).into())
        }
    }
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn cpu_mask(cpus: &CpuSet) -> libc::cpu_set_t {
    // SAFETY: all zeroes is the empty set; it is plain data.
    let mut mask: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in cpus.cpus().iter().map(|cpu| *cpu as usize).filter(|cpu| *cpu < libc::CPU_SETSIZE as usize) {
        // SAFETY: the number was checked to lie within the set.
        unsafe { libc::CPU_SET(cpu, &mut mask) };
    }
    mask
}

/// A bit for each NUMA node that a kernel may have.
type NodeMask = [u64; 16];

fn node_mask(nodes: &[u32]) -> NodeMask {
    let mut mask = NodeMask::default();
    for node in nodes.iter().map(|node| *node as usize).filter(|node| *node < 8 * size_of::<NodeMask>()) {
        mask[node / 64] |= 1 << (node % 64);
    }
    mask
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
}
