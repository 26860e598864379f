//! What runs have made on this machine, told by name alone, so that a run that was killed can be cleaned up after by
//! another process. Nothing that does not carry Tare's names is ever listed or touched.

use crate::local::{cgroup, processes};
use crate::{LAYERS, environment, network};
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::host::Leftover;

/// Where runs keep what need not survive a restart of the machine.
pub const RUN_ROOT: &str = "/run/tare";
/// The variable by which a process started for a run tells so; services do not have it, they are in the run's cgroup.
pub const RUN_VARIABLE: &str = "TARE_RUN";

/// How long a process that was killed may take to vanish.
const VANISH_WITHIN: Duration = Duration::from_secs(10);

/// The file in a run's directory that says where its directory on a disk is.
const SCRATCH_NOTE: &str = "scratch";
/// The file that says whose the run is: a process and when it was started.
const OWNER_NOTE: &str = "owner";

const PROCESS: &str = "process";
const MOUNT: &str = "mount";
const LINK: &str = "link";
const NAMESPACE: &str = "network namespace";
const RULES: &str = "forwarding rules";
const CGROUP: &str = "cgroup";
const DIRECTORY: &str = "directory";
/// The kinds that are removed here; all others belong to layers.
const KINDS: [&str; 7] = [PROCESS, MOUNT, LINK, NAMESPACE, RULES, CGROUP, DIRECTORY];

/// Where runs keep what must be on a disk: volumes of services and the like.
fn scratch_root() -> PathBuf {
    environment::home().join("scratch")
}

/// The same for every run that stands on this machine: it may have been started with another `TARE_HOME`, and then says
/// so in its directory.
fn scratch_roots() -> Vec<PathBuf> {
    let noted = runs_below(Path::new(RUN_ROOT)).into_iter().filter_map(|run| {
        let noted = fs::read_to_string(run_directory(&run).join(SCRATCH_NOTE)).ok()?;
        // Only what is called as a run calls it is ever removed.
        let scratch = Path::new(noted.trim_end_matches('\n'));
        (scratch.ends_with(Path::new("scratch").join(&run))).then(|| scratch.parent().map(Path::to_owned))?
    });
    let mut roots: Vec<PathBuf> = noted.chain([scratch_root()]).collect();
    roots.sort();
    roots.dedup();
    roots
}

/// The directory of a run for what need not survive a restart.
pub fn run_directory(run: &str) -> PathBuf {
    Path::new(RUN_ROOT).join(run)
}

/// The directory of a run on a disk.
pub fn scratch_directory(run: &str) -> PathBuf {
    scratch_root().join(run)
}

/// The name of what a run makes one of on this machine: `tare-<run>`.
pub fn mark_name(run: &str) -> String {
    format!("tare-{run}")
}

/// The run in a name of the form `tare-<run>`; `None` for any other name.
pub fn run_of_mark(name: &str) -> Option<&str> {
    name.strip_prefix("tare-").filter(|run| is_run(run))
}

fn is_run(text: &str) -> bool {
    text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Refuses a run id that names made from it could not be recognised by.
pub(crate) fn check_run(run: &str) -> Result<(), Fault> {
    if is_run(run) {
        return Ok(());
    }
    Err(Fault::new(format!("'{run}' is not a run id: six of a-z and 0-9")))
}

/// The run in the name of a link, `t<run><suffix>`. Other people's links can look like that ("tailscale0"), so this
/// alone proves nothing.
pub(crate) fn run_of_link(name: &str) -> Option<&str> {
    name.strip_prefix('t').and_then(|rest| rest.get(..6)).filter(|run| is_run(run))
}

/// Marks a process about to be started as one of a run, so that it is found if this process dies.
pub fn mark_process(run: &str, command: &mut Command) {
    command.env(RUN_VARIABLE, run);
}

/// A run's claim on this machine: while it stands, the run counts as alive as long as this process lives.
#[derive(Debug)]
pub struct RunMark {
    run: String,
}

impl RunMark {
    /// Makes the run's directories and notes down this process as its owner.
    ///
    /// # Errors
    /// When the run exists already or the directories cannot be made.
    pub fn create(run: &str) -> Result<RunMark, Fault> {
        check_run(run)?;
        let scratch = scratch_directory(run);
        let pid = std::process::id();
        let started = processes::start_time(pid).ok_or_else(|| Fault::new("this process is not visible in /proc"))?;
        let aside = aside(run);
        fs::create_dir_all(&aside).doing(format!("make {}", aside.display()))?;
        for (name, text) in [(SCRATCH_NOTE, scratch.display().to_string()), (OWNER_NOTE, format!("{pid} {started}"))] {
            let note = aside.join(name);
            fs::write(&note, text + "\n").doing(format!("write {}", note.display()))?;
        }
        // Whole from its first moment on: a directory without an owner is that of a dead run.
        fs::rename(&aside, run_directory(run)).doing(format!("make the directory of run {run}")).inspect_err(|_| {
            let _ = remove_tree(&aside);
        })?;
        let mark = RunMark { run: run.to_owned() };
        fs::create_dir_all(&scratch).doing(format!("make {}", scratch.display())).inspect_err(|_| {
            let _ = mark.remove_directories();
        })?;
        Ok(mark)
    }

    /// The run's id.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// The run's directory on a disk, in which trials have theirs.
    pub fn scratch(&self) -> PathBuf {
        scratch_directory(&self.run)
    }

    /// Removes the run's directories and switches off what was switched on for it.
    ///
    /// # Errors
    /// When something of it is left.
    pub fn close(self) -> Result<(), Fault> {
        self.remove_directories()
    }

    fn remove_directories(&self) -> Result<(), Fault> {
        network::restore(&self.run)?;
        remove_tree(&scratch_directory(&self.run))?;
        // The owner's name goes with the directory, not before it.
        let aside = aside(&self.run);
        match fs::rename(run_directory(&self.run), &aside) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            renamed => renamed.doing(format!("remove {}", run_directory(&self.run).display())),
        }?;
        remove_tree(&aside)
    }
}

/// Where the directory of a run stands while it is not whole; no run is called so.
fn aside(run: &str) -> PathBuf {
    Path::new(RUN_ROOT).join(format!(".{run}"))
}

fn remove_tree(path: &Path) -> Result<(), Fault> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).doing(format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The runs whose owner still lives.
pub fn live_runs() -> Vec<String> {
    let owned = |run: &String| {
        let text = fs::read_to_string(run_directory(run).join(OWNER_NOTE)).unwrap_or_default();
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(pid)), Some(Ok(started))) = (numbers.next(), numbers.next()) else { return false };
        u32::try_from(pid).ok().and_then(processes::start_time) == Some(started)
    };
    runs_below(Path::new(RUN_ROOT)).into_iter().filter(owned).collect()
}

/// The runs that have a directory below `root`.
fn runs_below(root: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| is_run(name)).collect()
}

/// What dead runs left on this machine: [`leftovers`] without those of runs that are alive.
///
/// # Errors
/// When the kernel or a layer's engine does not answer.
pub fn of_dead_runs() -> Result<Vec<Leftover>, Fault> {
    let before = live_runs();
    let mut found = leftovers()?;
    // One that began while we looked is alive too.
    let after = live_runs();
    found.retain(|left| !before.contains(&left.run) && !after.contains(&left.run));
    Ok(found)
}

/// Everything that runs have made on this machine, alive or dead, in the order in which it can be removed: what runs,
/// what layers keep, mounts, links, namespaces, rules, cgroups, directories.
///
/// # Errors
/// When the kernel or a layer's engine does not answer.
pub fn leftovers() -> Result<Vec<Leftover>, Fault> {
    let mut own = own_leftovers()?;
    let after_processes = own.iter().position(|found| found.kind != PROCESS).unwrap_or(own.len());
    let rest = own.split_off(after_processes);
    for row in LAYERS {
        own.extend((row.leftovers)().map_err(|fault| fault.context(format!("see what layer '{}' left", row.name)))?);
    }
    own.extend(rest);
    Ok(own)
}

fn own_leftovers() -> Result<Vec<Leftover>, Fault> {
    let mut found = Vec::new();
    let mut add = |run: &str, kind: &str, name: String| {
        found.push(Leftover { run: run.to_owned(), kind: kind.to_owned(), name });
    };
    for (run, pid, started) in marked_processes() {
        add(&run, PROCESS, format!("{pid} {started} {}", processes::name(pid)));
    }
    for (run, path) in mounts()? {
        add(&run, MOUNT, path);
    }
    let runs = runs_below(Path::new(RUN_ROOT));
    for (run, name) in network::marked_links(&runs)? {
        add(&run, LINK, name);
    }
    for name in network::namespaces() {
        add(run_of_mark(&name).expect("namespaces() lists ours only"), NAMESPACE, name.clone());
    }
    for run in network::runs_with_rules() {
        add(&run, RULES, mark_name(&run));
    }
    for (run, path) in cgroup::marked()? {
        add(&run, CGROUP, path.display().to_string());
    }
    for root in scratch_roots().into_iter().chain([PathBuf::from(RUN_ROOT)]) {
        for run in runs_below(&root) {
            add(&run, DIRECTORY, root.join(&run).display().to_string());
        }
    }
    Ok(found)
}

/// Run, id and start time of every process of a run: by its cgroup, else by its environment.
fn marked_processes() -> Vec<(String, u32, u64)> {
    let mut found = Vec::new();
    for pid in processes::all() {
        // An owner in its own run's environment, such as a test in a test, must not be told to kill itself.
        if pid == std::process::id() {
            continue;
        }
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let by_group = groups.lines().find_map(|line| line.split('/').find_map(run_of_mark));
        let run = by_group.map(str::to_owned).or_else(|| run_in_environment(pid));
        if let (Some(run), Some(started)) = (run, processes::start_time(pid)) {
            found.push((run, pid, started));
        }
    }
    found
}

fn run_in_environment(pid: u32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let wanted = format!("{RUN_VARIABLE}=");
    let value = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(wanted.as_bytes()))?;
    String::from_utf8(value.to_vec()).ok().filter(|run| is_run(run))
}

/// Run and path of every mount below a run's directories, the last mounted first.
fn mounts() -> Result<Vec<(String, String)>, Fault> {
    let text = fs::read_to_string("/proc/self/mountinfo").doing("list the mounts of this machine")?;
    let mut roots = scratch_roots();
    roots.push(PathBuf::from(RUN_ROOT));
    let mut found: Vec<(String, String)> = text.lines().filter_map(|line| marked_mount(line, &roots)).collect();
    found.reverse();
    Ok(found)
}

fn marked_mount(line: &str, roots: &[PathBuf]) -> Option<(String, String)> {
    let path = line.split(' ').nth(4)?.replace("\\040", " ");
    let below = roots.iter().find_map(|root| Path::new(&path).strip_prefix(root).ok())?;
    let run = below.components().next()?.as_os_str().to_str().filter(|run| is_run(run))?.to_owned();
    Some((run, path))
}

/// Removes one of [`leftovers`]; what is gone already is no error.
///
/// # Errors
/// When it is still there.
pub fn remove(leftover: &Leftover) -> Result<(), Fault> {
    check_run(&leftover.run)?;
    // A layer may use the same word for something of its own, so a kind alone does not say whose it is.
    if KINDS.contains(&leftover.kind.as_str()) && own_leftovers()?.contains(leftover) {
        return remove_own(leftover);
    }
    for row in LAYERS {
        if (row.leftovers)()?.contains(leftover) {
            return (row.remove)(leftover);
        }
    }
    Ok(())
}

fn remove_own(leftover: &Leftover) -> Result<(), Fault> {
    let Leftover { run, kind, name } = leftover;
    match kind.as_str() {
        PROCESS => end_process(name),
        MOUNT => match rustix::mount::unmount(name.as_str(), UnmountFlags::DETACH) {
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(error).doing(format!("unmount {name}")),
        },
        LINK => network::link_delete(name),
        NAMESPACE => network::remove_namespace(name),
        RULES => network::remove_rules(run),
        CGROUP => cgroup::remove_tree(Path::new(name)),
        DIRECTORY => {
            if Path::new(name).starts_with(RUN_ROOT) {
                network::restore(run)?;
            }
            remove_tree(Path::new(name))
        }
        other => unreachable!("remove() hands over the kinds of this module only, not '{other}'"),
    }
}

/// Kills the process that a leftover's name tells, unless its id has passed to another, and waits until it is gone.
fn end_process(name: &str) -> Result<(), Fault> {
    let mut words = name.split(' ');
    let (Some(Ok(pid)), Some(Ok(started))) = (words.next().map(str::parse), words.next().map(str::parse::<u64>)) else {
        return Err(Fault::new(format!("'{name}' does not name a process: id and start time are missing")));
    };
    let deadline = Instant::now() + VANISH_WITHIN;
    while processes::start_time(pid) == Some(started) {
        let id = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let id = id.ok_or_else(|| Fault::new(format!("{pid} cannot be the id of a process")))?;
        match rustix::process::kill_process(id, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error).doing(format!("kill process {pid}")),
        }
        if Instant::now() > deadline {
            return Err(Fault::new(format!("process {pid} does not end even though it was killed"))
                .remedy("it waits for a device; see its state with: ps -o stat,wchan -p"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_are_recognised() {
        assert_eq!(run_of_mark("tare-a1b2c3"), Some("a1b2c3"));
        for name in ["tare-", "tare-a1b2c", "tare-a1b2c3d", "tare-A1b2c3", "tar-a1b2c3", "tare-a1b2c3-x", "docker0"] {
            assert_eq!(run_of_mark(name), None, "{name}");
        }
        assert_eq!(run_of_link("ta1b2c3h"), Some("a1b2c3"));
        assert_eq!(run_of_link("tun0"), None);
    }

    #[test]
    fn only_mounts_below_a_run_are_recognised() {
        let roots = [PathBuf::from(RUN_ROOT), PathBuf::from("/data/scratch")];
        let line = "30 1 0:5 / /run/tare/a1b2c3/my\\040root rw - tmpfs tmpfs rw";
        assert_eq!(marked_mount(line, &roots), Some(("a1b2c3".into(), "/run/tare/a1b2c3/my root".into())));
        let elsewhere = marked_mount("30 1 0:5 / /data/scratch/a1b2c3/v rw - ext4 ext4 rw", &roots);
        assert_eq!(elsewhere, Some(("a1b2c3".into(), "/data/scratch/a1b2c3/v".into())));
        for path in ["/run/tare", "/run/tare/notarun", "/run/tarea1b2c3", "/", "/run/a1b2c3"] {
            assert_eq!(marked_mount(&format!("30 1 0:5 / {path} rw - tmpfs tmpfs rw"), &roots), None, "{path}");
        }
    }

    #[test]
    fn a_process_is_not_killed_for_having_the_id_of_another() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        end_process(&format!("{} 1 sleep", child.id())).unwrap();
        assert!(child.try_wait().unwrap().is_none(), "it was killed");
        let started = processes::start_time(child.id()).unwrap();
        let name = format!("{} {started} sleep", child.id());
        end_process(&name).unwrap();
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_process_tells_its_run_by_its_environment() {
        let mut command = Command::new("sleep");
        mark_process("zz00zz", command.arg("60"));
        let mut child = command.spawn().unwrap();
        // Its environment shows a moment after it was started.
        while run_in_environment(child.id()).is_none() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(run_in_environment(child.id()).as_deref(), Some("zz00zz"));
        assert!(marked_processes().iter().any(|(run, pid, _)| run == "zz00zz" && *pid == child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
