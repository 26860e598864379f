//! Podman's service, which gives it the API that other engines have. Where none listens it is started here, as a child
//! of this process, and stopped with it.
//!
//! Podman keeps its containers itself, so they outlive the service and are the same whichever service is asked. The
//! service carries no mark in its environment, as other processes of runs do: what it starts for all networks of the
//! machine, such as the resolver of names, would carry that mark too. A note beside its socket says which process it
//! is; the service itself writes it before it becomes Podman, so that there is no moment at which a service runs
//! without one.

use super::podman_files;
use super::programs;
use super::rootless::{self, Seat, User};
use crate::cgroup::Group;
use crate::marks::run_directory;
use crate::{home, owner, processes};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::host::Leftover;

/// The kind of a service that a run has left.
pub(super) const KIND: &str = "podman service";
/// What the name of a service's folder begins with.
const FOLDER: &str = "podman-";
/// What the name of such a folder begins with that is in no run's directory; the process that made it follows.
const ASIDE: &str = "tare-podman-";
/// Where those are.
const ASIDE_IN: &str = "/run";
/// Its socket, its output and the note that says which process it is, in that folder.
const SOCKET: &str = "engine.sock";
const LOG: &str = "log";
const NOTE: &str = "service";
/// More than the kernel ever says of a process in one line, bytes.
const STAT_MAX: usize = 2048;
/// The file in Tare's home that says that Podman was started here once, and so may hold something of Tare's.
const USED: &str = "podman";
/// How long a service of no run goes on without a call, in seconds: it ends by itself if this process is killed.
const IDLE_S: &str = "60";
/// How long it may take to end.
const STOP_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The program `podman`, if it is installed.
pub(super) fn program() -> Option<PathBuf> {
    programs::find("podman")
}

/// Whether a service was ever started here for a run, so that Podman may hold something of Tare's.
pub(super) fn was_used() -> bool {
    !noted().is_empty() || home::look().is_ok_and(|home| home.join(USED).exists())
}

/// Whether Podman may have containers or networks of Tare's.
pub(super) fn may_have_ours() -> bool {
    was_used() && (!noted().is_empty() || podman_files::may_name_ours())
}

/// A service that was started here. It ends when it is dropped.
pub(super) struct Service {
    child: Child,
    folder: PathBuf,
    /// What it has where a plain user runs it.
    seat: Option<Seat>,
    /// Where all that such a one starts is: what a user starts cannot be ended otherwise.
    group: Option<Group>,
}

impl Service {
    /// Starts a service with the `runtime` that it is to use for all containers, its own if there is none. With a `run`
    /// it goes on until it is dropped, and is found if this process dies. It does not answer yet.
    ///
    /// # Errors
    /// When its folder cannot be made or the program cannot be run.
    pub(super) fn start(program: &Path, run: Option<&str>, runtime: Option<&str>) -> Result<Service, Fault> {
        if run.is_some() {
            let note = home::claim()?.join(USED);
            fs::write(&note, "").doing(format!("write {}", note.display()))?;
        }
        let folder = make_folder(run)?;
        let spawned = spawn(program, &folder, run.is_some(), runtime, None).inspect_err(|_| {
            let _ = fs::remove_dir_all(&folder);
        });
        Ok(Service { child: spawned?, folder, seat: None, group: None })
    }

    /// The same as a plain user, for the containers of a run's trial, whose images it keeps in the trial's folder;
    /// without one, only to be asked what it is.
    ///
    /// # Errors
    /// The same, and when there is no group for what it starts.
    pub(super) fn start_as(
        user: User,
        program: &Path,
        trial: Option<(&str, &Path)>,
        runtime: Option<&str>,
    ) -> Result<Service, Fault> {
        let run = trial.map(|(run, _)| run);
        let folder = make_folder(run)?;
        let clean = |_: &Fault| drop(fs::remove_dir_all(&folder));
        let seat = Seat::make(user, &folder, trial.map(|(_, scratch)| scratch)).inspect_err(clean)?;
        // No service can have this name.
        let name = format!(".{}", folder.file_name().unwrap_or_default().to_string_lossy());
        let group = run.map(|run| rootless::group(run, &name)).transpose().inspect_err(clean)?;
        match spawn(program, &folder, run.is_some(), runtime, Some((&seat, group.as_ref()))) {
            Ok(child) => Ok(Service { child, folder, seat: Some(seat), group }),
            Err(fault) => {
                // Report the first failure, not one in the cleanup.
                let _ = group.map(|mut group| group.remove());
                seat.remove();
                clean(&fault);
                Err(fault)
            }
        }
    }

    /// Where it listens once it is ready.
    pub(super) fn socket(&self) -> PathBuf {
        self.seat.as_ref().map_or(self.folder.as_path(), |seat| seat.runtime.as_path()).join(SOCKET)
    }

    /// The user who runs it, and the group of all that it has started; none where root does.
    pub(super) fn rootless(&self) -> Option<(&User, &Group)> {
        Some((&self.seat.as_ref()?.user, self.group.as_ref()?))
    }

    /// A process in whose namespaces the user's containers are mounted.
    pub(super) fn keeper(&self) -> Option<u32> {
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/user")).ok();
        let is_inside = |pid: &u32| {
            processes::name(*pid).starts_with("podman")
                && namespace(&pid.to_string()).is_some_and(|of| Some(of) != namespace("self"))
        };
        self.group.as_ref()?.members().into_iter().find(is_inside)
    }

    /// Ends what keeps the user's namespaces where no group holds it.
    fn end_keeper(&self) {
        let Some(seat) = self.seat.as_ref().filter(|_| self.group.is_none()) else { return };
        let mark = format!("XDG_RUNTIME_DIR={}", seat.runtime.display());
        let is_own = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
        };
        for pid in processes::all().into_iter().filter(is_own) {
            let _ = processes::start_time(pid).map(|started| end(pid, started));
        }
    }

    /// What it said when it ended by itself; `None` while it runs.
    pub(super) fn last_words(&mut self) -> Option<String> {
        let ended = !matches!(self.child.try_wait(), Ok(None));
        ended.then(|| fs::read_to_string(self.folder.join(LOG)).unwrap_or_default().trim().to_owned())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
        let deadline = Instant::now() + STOP_WITHIN;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
        // Neither harms one that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.end_keeper();
        if let Some(group) = &mut self.group {
            // What is left of it is in the run's register.
            let _ = group.remove();
        }
        if let Some(seat) = &self.seat {
            seat.remove();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Makes a folder that only root can enter: in the run's directory, or aside where there is none.
fn make_folder(run: Option<&str>) -> Result<PathBuf, Fault> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let directory = run.map(run_directory).filter(|directory| directory.is_dir());
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = match &directory {
            Some(directory) => directory.join(format!("{FOLDER}{number}")),
            None => Path::new(ASIDE_IN).join(format!("{ASIDE}{}-{number}", std::process::id())),
        };
        match DirBuilder::new().mode(0o700).create(&folder) {
            // Of a killed process that had this id.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.doing(format!("make {}", folder.display())).map(|()| folder),
        }
    }
}

fn spawn(
    program: &Path,
    folder: &Path,
    for_run: bool,
    runtime: Option<&str>,
    as_user: Option<(&Seat, Option<&Group>)>,
) -> Result<Child, Fault> {
    let log = File::create(folder.join(LOG)).doing("make the log of Podman's service")?;
    let mut command = Command::new(program);
    if let Some((seat, _)) = as_user {
        seat.settings(&mut command);
    }
    if let Some(runtime) = runtime {
        command.args(["--runtime", runtime]);
    }
    let mut entrances = Vec::new();
    for path in as_user.and_then(|(_, group)| group).into_iter().flat_map(Group::entrances) {
        entrances.push(File::options().write(true).open(&path).doing(format!("open {}", path.display()))?);
    }
    command.args(["system", "service", "--time", if for_run { "0" } else { IDLE_S }]);
    let place = as_user.map_or(folder, |(seat, _)| seat.runtime.as_path());
    command.arg(format!("unix://{}", place.join(SOCKET).display()));
    // Otherwise it would speak to a service of somebody else.
    command.env_remove("CONTAINER_HOST").env_remove("CONTAINER_CONNECTION");
    // Ctrl-C reaches the processes of a terminal's foreground, and containers are still to be removed then.
    command.process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let note = File::create_new(folder.join(NOTE)).doing("make the note of Podman's service")?;
    let write = move || {
        write_own_stat(&note)?;
        entrances.iter().try_for_each(|entrance| rustix::io::write(entrance, b"0").map(drop))?;
        Ok(())
    };
    // SAFETY: between fork and exec it makes a few system calls and allocates nothing.
    unsafe { command.pre_exec(write) };
    // After it: a plain user may do neither.
    if let Some((seat, _)) = as_user {
        seat.prepare(&mut command)?;
    }
    command.spawn().doing(format!("run {}", program.display()))
}

/// Writes what the kernel says of this process, by which it can be found, see [`processes::in_stat`].
fn write_own_stat(note: &File) -> io::Result<()> {
    let mut text = [0_u8; STAT_MAX];
    let stat = rustix::fs::open(c"/proc/self/stat", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let length = rustix::io::read(&stat, &mut text[..])?;
    rustix::io::write(note, &text[..length])?;
    Ok(())
}

/// The process that the note in a service's folder names, and when it started.
fn read_note(folder: &Path) -> Option<(u32, u64)> {
    // The name of a process in it need not be text.
    let text = fs::read(folder.join(NOTE)).ok()?;
    processes::in_stat(&String::from_utf8_lossy(&text))
}

/// The services that runs have noted down: the run, the process and when it started. Those of no run go with the
/// process that started them.
fn noted() -> Vec<(String, u32, u64)> {
    sweep(Path::new(ASIDE_IN));
    let folders = |(run, directory): (String, PathBuf)| {
        let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
        let ours = entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(FOLDER)));
        ours.filter_map(move |entry| {
            let (pid, started) = read_note(&entry.path())?;
            Some((run.clone(), pid, started))
        })
        .collect::<Vec<_>>()
    };
    owner::runs().into_iter().map(|(run, directory, _)| (run, directory)).flat_map(folders).collect()
}

/// Ends the services whose folders are in no run's directory and were made by a process that is gone, and removes
/// these folders.
fn sweep(place: &Path) {
    let is_gone = |name: &str| {
        let maker = name.strip_prefix(ASIDE).and_then(|rest| rest.split_once('-')?.0.parse::<u32>().ok());
        maker.is_some_and(|pid| processes::start_time(pid).is_none())
    };
    for entry in fs::read_dir(place).into_iter().flatten().filter_map(Result::ok) {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder || !entry.file_name().to_str().is_some_and(is_gone) {
            continue;
        }
        // What cannot be ended or removed is looked at again the next time.
        if read_note(&entry.path()).is_none_or(|(pid, started)| end(pid, started)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The services of runs that are still there.
pub(super) fn leftovers() -> Vec<Leftover> {
    let alive = noted().into_iter().filter(|(_, pid, started)| processes::start_time(*pid) == Some(*started));
    alive.map(|(run, pid, started)| Leftover { run, kind: KIND.to_owned(), name: format!("{pid} {started}") }).collect()
}

/// Ends a service that a run has left, and waits until it is gone.
///
/// # Errors
/// When it is still there.
pub(super) fn remove(leftover: &Leftover) -> Result<(), Fault> {
    let named =
        |(run, pid, started): &(String, u32, u64)| *run == leftover.run && format!("{pid} {started}") == leftover.name;
    let Some((_, pid, started)) = noted().into_iter().find(named) else { return Ok(()) };
    if end(pid, started) {
        return Ok(());
    }
    Err(Fault::new(format!("Podman's service, process {pid}, does not end even though it was killed")))
}

/// Kills a service and waits until it is gone; returns whether it is.
fn end(pid: u32, started: u64) -> bool {
    let Some(id) = Pid::from_raw(pid.cast_signed()) else { return true };
    // Held from before its start time is read: the process that is killed is the one that was examined.
    let Ok(held) = pidfd_open(id, PidfdFlags::empty()) else { return processes::start_time(pid) != Some(started) };
    let deadline = Instant::now() + STOP_WITHIN;
    while processes::start_time(pid) == Some(started) {
        // It may have ended in between. Whoever may not end it does not wait for it either.
        if pidfd_send_signal(&held, Signal::KILL) == Err(Errno::PERM) || Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Stands for the program: it notes what it was given, and goes on until it is asked to end.
    fn stand_in(folder: &Path, script: &str) -> PathBuf {
        let program = folder.join("podman");
        fs::write(&program, format!("#!/bin/sh\necho \"$@\" >&2\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    #[test]
    fn a_service_is_told_its_runtime_and_goes_with_who_started_it() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let folder = tempfile::tempdir().unwrap();
        let program = stand_in(folder.path(), "exec sleep 60");
        let mut service = Service::start(&program, None, Some("runc")).unwrap();
        let (pid, own) = (service.child.id(), service.folder.clone());
        assert_eq!(service.last_words(), None, "it runs");
        assert_eq!(read_note(&own), processes::start_time(pid).map(|started| (pid, started)), "it has noted itself");
        assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o700);
        let wanted = format!("--runtime runc system service --time 60 unix://{}", service.socket().display());
        let deadline = Instant::now() + Duration::from_secs(10);
        while fs::read_to_string(own.join(LOG)).unwrap().trim() != wanted {
            assert!(Instant::now() < deadline, "{}", fs::read_to_string(own.join(LOG)).unwrap());
            std::thread::sleep(LOOK_EVERY);
        }
        drop(service);
        assert!(processes::start_time(pid).is_none() && !own.exists());
    }

    #[test]
    fn a_service_goes_with_a_process_that_was_killed_before_it_ended_it() {
        let place = tempfile::tempdir().unwrap();
        let mut maker = Command::new("true").spawn().unwrap();
        maker.wait().unwrap();
        let mut service = Command::new("sleep").arg("60").spawn().unwrap();
        let stat = fs::read(format!("/proc/{}/stat", service.id())).unwrap();
        let folder = |name: String| {
            let folder = place.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join(NOTE), &stat).unwrap();
            folder
        };
        let kept = [
            folder(format!("{ASIDE}{}-0", std::process::id())),
            folder(format!("podman-{}-0", maker.id())),
            folder(format!("{ASIDE}x-0")),
        ];
        sweep(place.path());
        assert!(service.try_wait().unwrap().is_none(), "who started it is there");
        let swept = [folder(format!("{ASIDE}{}-0", maker.id())), place.path().join(format!("{ASIDE}{}-1", maker.id()))];
        // It was killed before there was a service.
        fs::create_dir(&swept[1]).unwrap();
        sweep(place.path());
        assert!(service.wait().unwrap().code().is_none(), "it was killed");
        assert!(kept.iter().all(|folder| folder.exists()) && !swept.iter().any(|folder| folder.exists()));
    }

    #[test]
    fn a_service_that_ends_by_itself_says_why() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let folder = tempfile::tempdir().unwrap();
        let program = stand_in(folder.path(), "echo 'Error: no such runtime' >&2; exit 125");
        let mut service = Service::start(&program, None, None).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        let words = loop {
            match service.last_words() {
                Some(words) => break words,
                None => assert!(Instant::now() < deadline, "it still runs"),
            }
            std::thread::sleep(LOOK_EVERY);
        };
        assert!(words.ends_with("Error: no such runtime"), "{words}");
    }
}
