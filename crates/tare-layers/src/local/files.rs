//! Whether a running service sees its bundle's files unchanged: scripts, classes and configuration as well as the
//! programs and libraries that it has mapped.

use super::mapped::{Limits, Used, hash_of};
use rustix::fd::{AsFd, AsRawFd};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use tare_core::fault::{Doing, Fault};
use tare_core::host::{FilesSeen, MachineServices, SeenFile, ServiceStart, Wait};
use tare_core::workload::Service;

/// How much is read at most of what a service sees of its bundle.
const LIMITS: Limits = Limits {
    files: 4_000_000,
    bytes: 8 << 30,
    time: Duration::from_secs(120),
    beyond: |what| format!("its bundle has {what}, too much to tell whether it sees the same files"),
};

/// How often to check whether anybody still waits for what a bundle holds.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What engines put into every container, whatever its image has there; and the files that name users and services,
/// which replace the bundle's in the other forms.
const ENGINES_OWN: [&str; 7] =
    ["/.dockerenv", "/etc/group", "/etc/hostname", "/etc/hosts", "/etc/mtab", "/etc/passwd", "/etc/resolv.conf"];
/// Pseudo file systems, whose files are not real files: reading one may do something, or wait for ever.
const MADE_UP: [i64; 9] = [
    libc::PROC_SUPER_MAGIC,
    libc::SYSFS_MAGIC,
    libc::CGROUP_SUPER_MAGIC,
    libc::CGROUP2_SUPER_MAGIC,
    libc::DEBUGFS_MAGIC,
    libc::TRACEFS_MAGIC,
    libc::SECURITYFS_MAGIC,
    libc::BPF_FS_MAGIC,
    libc::DEVPTS_SUPER_MAGIC,
];

/// Which of the bundle's files a service must see in every form: from what was said about the bundle, otherwise from
/// this machine's store.
///
/// # Errors
/// When the bundle cannot be had or read, or nobody waits for it any longer.
pub(crate) fn of_bundle(
    carrier: &MachineServices,
    start: &ServiceStart,
    said: Option<&[SeenFile]>,
    wait: Wait,
) -> Result<Vec<SeenFile>, Fault> {
    let Service { recipe, user, volumes, .. } = &start.service;
    let mut files = match said {
        Some(files) => files.to_vec(),
        None => {
            let (bundle, user) = (carrier.bundles.bundle(recipe)?, *user);
            while_awaited(wait, move || bundle.files(user))?
        }
    };
    // A volume belongs to the service, wherever the form keeps it.
    let own = |path: &str| volumes.keys().any(|volume| Path::new(path).starts_with(volume));
    files.retain(|file| !ENGINES_OWN.contains(&file.path.as_str()) && !own(&file.path));
    Ok(files)
}

/// Runs something that cannot be interrupted on a thread of its own, and waits for it. If nobody waits any longer it
/// continues, at the longest until this process ends.
///
/// # Errors
/// Its own, and when nobody waits for it any longer.
fn while_awaited<T: Send + 'static>(
    wait: Wait,
    what: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        // Nobody may be waiting for it any longer.
        let _ = sender.send(what());
    });
    loop {
        match receiver.recv_timeout(LOOK_EVERY) {
            Ok(done) => return done,
            Err(RecvTimeoutError::Timeout) => wait.check()?,
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => unreachable!("it sends what came of it before it ends"),
            },
        }
    }
}

/// Compares what the process sees below its root with the files of its bundle. Where something is mounted, nothing of
/// the bundle can be seen, and nothing is compared.
///
/// # Errors
/// When the process is gone, its root is not made of files, its files cannot be read or are too many, or nobody waits
/// for the result any longer: what was seen of some files says nothing about all.
pub(crate) fn files_seen(pid: u32, bundle: &[SeenFile], wait: Wait) -> Result<FilesSeen, Fault> {
    let doing = || format!("see what process {pid} sees of its bundle");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(format!("/proc/{pid}/root"), flags, Mode::empty()).doing(doing())?;
    if MADE_UP.contains(&rustix::fs::fstatfs(&root).doing(doing())?.f_type) {
        return Err(Fault::new(format!("process {pid} has made a file system of the kernel's its root")));
    }
    let (mut seen, mut used) = (FilesSeen::default(), Used::of(LIMITS, wait));
    for (at, file) in bundle.iter().enumerate() {
        wait.check()?;
        let found = found_at(&root, &file.path, &mut used, at + 1)
            .map_err(|fault| fault.context(format!("{}, which process {pid} sees", file.path)))?;
        match found {
            Found::Covered => seen.covered += 1,
            Found::Nothing => seen.note(&file.path, false),
            Found::This(digest) => seen.note(&file.path, digest == file.digest),
        }
    }
    Ok(seen)
}

/// What is at a path.
#[derive(Debug, PartialEq)]
enum Found {
    /// Something that is mounted there, or above it.
    Covered,
    /// Neither a file nor a link.
    Nothing,
    /// The content of the file, or the target of the link.
    This(String),
}

/// Follows no link on the way, since the bundle's paths lead through folders, and crosses no mount.
fn found_at(root: &impl AsFd, path: &str, used: &mut Used, files: usize) -> Result<Found, Fault> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let found = match rustix::fs::openat2(root, path.trim_start_matches('/'), flags, Mode::empty(), resolve) {
        Ok(found) => found,
        // What a form hides even from this process cannot be compared.
        Err(Errno::XDEV | Errno::ACCESS | Errno::PERM) => return Ok(Found::Covered),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => return Ok(Found::Nothing),
        Err(error) => return Err(error).doing("open it"),
    };
    match FileType::from_raw_mode(rustix::fs::fstat(&found).doing("read it")?.st_mode) {
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(&found, "", Vec::new()).doing("read the link")?;
            Ok(Found::This(format!("-> {}", target.to_string_lossy())))
        }
        FileType::RegularFile => {
            // It is the very file that was examined, and reading it never waits.
            let open = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).clone();
            let mut file = open.open(format!("/proc/self/fd/{}", found.as_raw_fd())).doing("open it")?;
            let length = file.metadata().doing("read it")?.len();
            hash_of(&mut file, length, used, files).map(Found::This)
        }
        _ => Ok(Found::Nothing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use sha2::{Digest, Sha256};
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::time::Instant;
    use tare_core::bundle::{Bundle, BundleStore, Kernel, Recipe};
    use tare_core::workload::Volume;

    fn digest(text: &str) -> String {
        let hash = Sha256::digest(text);
        format!("sha256:{}", hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }

    #[test]
    fn what_engines_put_there_and_what_is_the_services_own_is_not_compared() {
        let volumes = BTreeMap::from([("/data".to_owned(), Volume::of(1))]);
        let start = ServiceStart::on(Service { volumes, ..sample::service("s") }, None);
        let file = |path: &&str| SeenFile { path: (*path).to_owned(), digest: String::new() };
        let paths = ["/etc/mtab", "/etc/hosts", "/data/x", "/data", "/database", "/etc/conf", "/usr/etc/mtab"];
        let files: Vec<SeenFile> = paths.iter().map(file).collect();
        struct Nowhere;
        impl BundleStore for Nowhere {
            fn bundle(&self, _: &Recipe) -> Result<Arc<dyn Bundle>, Fault> {
                unreachable!("it was said what it holds")
            }
            fn kernel(&self) -> Result<Kernel, Fault> {
                unreachable!("no guest is booted")
            }
        }
        let prober = || Err(Fault::new("there is none"));
        let carrier = MachineServices { bundles: Arc::new(Nowhere), prober, program: PathBuf::new(), layers: &[] };
        let kept = of_bundle(&carrier, &start, Some(&files), Wait::always()).unwrap();
        assert_eq!(kept.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), paths[4..]);
    }

    /// A mount in a namespace of its own, so that nobody else sees it.
    #[test]
    fn where_something_is_mounted_nothing_is_compared() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        ["in/deep", "other"].iter().for_each(|path| std::fs::create_dir_all(at(path)).unwrap());
        ["in/deep/x", "file", "other/x"].iter().for_each(|path| std::fs::write(at(path), "same").unwrap());
        let look = || {
            super::super::root::enter_namespace().unwrap();
            rustix::mount::mount_bind(at("other"), at("in")).unwrap();
            rustix::mount::mount_bind(at("other/x"), at("file")).unwrap();
            let root = File::open(folder.path()).unwrap();
            ["/in/deep/x", "/in/x", "/file", "/other/x"]
                .map(|path| found_at(&root, path, &mut Used::of(LIMITS, Wait::always()), 1).unwrap())
        };
        let found = std::thread::scope(|scope| scope.spawn(look).join().unwrap());
        let same = || Found::This(digest("same"));
        assert_eq!(found, [Found::Covered, Found::Covered, Found::Covered, same()]);
    }

    #[test]
    fn the_kernel_s_own_file_systems_are_not_read() {
        let procfs = rustix::fs::statfs("/proc").unwrap().f_type;
        assert!(MADE_UP.contains(&procfs) && MADE_UP.contains(&rustix::fs::statfs("/sys").unwrap().f_type));
        assert!(!MADE_UP.contains(&rustix::fs::statfs(".").unwrap().f_type));
    }

    #[test]
    fn what_is_not_as_in_the_bundle_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(at("/etc")).unwrap();
        std::fs::write(at("/etc/conf"), "same").unwrap();
        std::fs::write(at("/etc/script"), "another").unwrap();
        symlink("conf", at("/etc/link")).unwrap();
        symlink("etc", at("/by-link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("/etc/pipe"), 0o600.into()).unwrap();
        let root = File::open(folder.path()).unwrap();
        let mut used = Used::of(LIMITS, Wait::always());
        let mut found = |path: &str| found_at(&root, path, &mut used, 1).unwrap();
        assert_eq!(found("/etc/conf"), Found::This(digest("same")));
        assert_eq!(found("/etc/script"), Found::This(digest("another")));
        assert_eq!(found("/etc/link"), Found::This("-> conf".to_owned()));
        let long = format!("/{}", "x".repeat(300));
        for nothing in ["/etc/none", "/etc/conf/x", "/by-link/conf", "/etc/pipe", "/etc", &long] {
            assert_eq!(found(nothing), Found::Nothing, "{nothing}");
        }
        let mut seen = FilesSeen::default();
        (0..30).for_each(|number| seen.note(&format!("/{number}"), number % 10 == 0));
        assert_eq!((seen.compared, seen.differing.len(), seen.more), (30, FilesSeen::NAMED, 7));
        let mut both = FilesSeen { covered: 2, ..FilesSeen::default() };
        [seen.clone(), seen].into_iter().for_each(|seen| both.add(seen));
        assert_eq!((both.compared, both.covered, both.differing.len(), both.more), (60, 2, FilesSeen::NAMED, 34));
    }

    #[test]
    fn a_process_sees_files_below_its_own_root() {
        let program = std::env::current_exe().unwrap();
        let path = program.to_str().unwrap();
        let file = |digest: String| SeenFile { path: path.to_owned(), digest };
        let own = std::fs::read(&program).unwrap();
        let right: String = Sha256::digest(&own).iter().map(|byte| format!("{byte:02x}")).collect();
        let files = [file(format!("sha256:{right}")), file(digest("other"))];
        let seen = files_seen(std::process::id(), &files, Wait::always()).unwrap();
        // Where the build's folder is a mount of its own, nothing is compared.
        assert!(seen.compared == 0 || (seen.compared == 2 && seen.differing == [path]), "{seen:?}");
    }

    #[test]
    fn no_more_files_are_read_than_somebody_waits_for() {
        let file = |number: u32| SeenFile { path: format!("/none/{number}"), digest: String::new() };
        let files: Vec<SeenFile> = (0..1000).map(file).collect();
        let asked = Cell::new(0);
        let ended = || {
            asked.set(asked.get() + 1);
            asked.get() > 3
        };
        let told = files_seen(std::process::id(), &files, Wait::until(&ended)).unwrap_err().message;
        assert_eq!((told.as_str(), asked.get()), ("interrupted", 4), "after three files");
    }

    #[test]
    fn what_takes_long_is_done_elsewhere_and_waited_for_while_somebody_does() {
        fn after(time: Duration) -> Result<u32, Fault> {
            std::thread::sleep(time);
            Ok(7)
        }
        assert_eq!(while_awaited(Wait::always(), || after(LOOK_EVERY * 2)), Ok(7));
        assert_eq!(while_awaited(Wait::until(&|| false), || after(LOOK_EVERY * 2)), Ok(7));
        let failing = || Err::<u32, Fault>(Fault::new("no room"));
        assert_eq!(while_awaited(Wait::until(&|| true), failing).unwrap_err().message, "no room");
        let began = Instant::now();
        let told = while_awaited(Wait::until(&|| true), || after(Duration::from_secs(60))).unwrap_err().message;
        assert_eq!(told, "interrupted");
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
}
