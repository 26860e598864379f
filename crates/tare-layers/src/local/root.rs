//! A service's root: its bundle, read-only, with the kernel's own file systems, memory for /tmp and /run, and its
//! volumes on top, in a mount namespace of its own. Nothing of it is visible outside, and it goes with the last process
//! in it.
//!
//! A service that runs as its image does has a layer of its own over the bundle, which it may write to, and the
//! bundle's own /tmp and /run.

use super::accounts::Accounts;
use super::attributes::restrict;
use super::inside::{IN_MEMORY, KERNEL, open_inside, open_tree, place_of};
use super::shift::Shift;
use super::stubs::{Stub, add_stub, copy_owner};
use super::volumes::VolumeFolder;
use rustix::fs::{AtFlags, CWD, Mode};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use tare_core::fault::{Doing, Fault};

/// Where a program of ours is inside the root, if one is to run there.
pub(crate) const PROGRAM_INSIDE: &str = "/dev/.tare-program";
/// How everything that strangers fill, bundles and volumes, is mounted: set-user-id bits and device nodes in it have no
/// effect. The devices that a service may open are those in its /dev.
const STRANGE: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);
/// Character devices every service may expect: name, major and minor number.
const DEVICES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

/// What a root is made of.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    /// The bundle's tree.
    pub(crate) bundle: PathBuf,
    /// An empty directory where the root is assembled, in the private namespace only.
    pub(crate) assembly: PathBuf,
    /// The volumes.
    pub(crate) volumes: Vec<VolumeFolder>,
    /// The files that name the service's own user, and other services.
    pub(crate) accounts: Accounts,
    /// A program of this machine that will be at [`PROGRAM_INSIDE`].
    pub(crate) program: Option<PathBuf>,
    /// What a service has that runs as its image does.
    pub(crate) own: Option<OwnRoot>,
}

/// What makes a root the service's own, to write to.
#[derive(Debug, Clone)]
pub(crate) struct OwnRoot {
    /// An empty directory on a disk, for what is written.
    pub(crate) layer: PathBuf,
    /// Who its users are on this machine.
    pub(crate) shift: Arc<Shift>,
}

impl Root {
    /// Moves this thread, and what it starts, into a new mount namespace with this root. The thread must end once it
    /// has started what it has to.
    pub(crate) fn enter(&self) -> Result<(), Fault> {
        let root = match &self.own {
            None => self.place_bundle()?,
            Some(own) => self.place_own(own)?,
        };
        let inside = open_tree(&root)?;
        mount_kernel(&inside, self.owner())?;
        if self.own.is_none() {
            mount_memory(&inside)?;
        }
        if let Some(program) = &self.program {
            // Before the volumes: one at /dev would hold what the image likes, such as a link that leads out of here.
            let place = format!("{}/{}", place_of(&inside, "/dev")?, &PROGRAM_INSIDE["/dev/".len()..]);
            let made = fs::File::create_new(&place);
            made.doing(format!("make {PROGRAM_INSIDE} in the service's root"))?;
            bind(program, &place)?;
            restrict(&place, STRANGE).doing(format!("restrict {PROGRAM_INSIDE} in the service's root"))?;
        }
        self.mount_volumes(&inside)?;
        switch_to(&root)
    }

    /// Moves this thread, and what it starts, into a new mount namespace in which the bundle is mounted read-only, with
    /// every directory that something will be mounted on; returns where. Otherwise only the accounts are there.
    pub(crate) fn place_bundle(&self) -> Result<PathBuf, Fault> {
        enter_namespace()?;
        mount("tmpfs", self.assembly.as_path(), "tmpfs", MountFlags::empty(), "mode=755,size=4m")?;
        let root = self.assembly.join("root");
        fs::create_dir(&root).doing(format!("make {}", root.display()))?;
        self.mount_bundle(&root)?;
        self.mount_accounts(&root)?;
        Ok(root)
    }

    /// Moves this thread, and what it starts, into a new mount namespace in which the bundle, with the accounts, is
    /// mounted below a writable layer kept in `layer`, an empty directory on a disk; returns where.
    pub(crate) fn place_layered(&self, layer: &Path) -> Result<PathBuf, Fault> {
        enter_namespace()?;
        let (upper, work) = (layer.join("upper"), layer.join("work"));
        for path in [&upper, &work] {
            fs::create_dir_all(path).doing(format!("make {}", path.display()))?;
        }
        let bundle = open_tree(&self.bundle)?;
        self.add_accounts(&bundle, &upper)?;
        copy_owner(&bundle, Path::new(""), &upper).doing("copy the owner of the bundle's root")?;
        self.mount_layers(&bundle, &upper, &work)?;
        self.mount_accounts(&self.assembly)?;
        Ok(self.assembly.clone())
    }

    /// Completes a root of [`Root::place_layered`] for somebody who mounts the kernel's file systems: with the folders
    /// for them and `more` ones, memory for /tmp and /run, and the volumes.
    pub(crate) fn furnish(&self, root: &Path, more: &[&str]) -> Result<(), Fault> {
        let inside = open_tree(root)?;
        for path in KERNEL.iter().chain(more) {
            self.make_folders(&inside, path)?;
        }
        place_memory(root)?;
        self.mount_volumes(&inside)
    }

    /// Mounts the volumes, those that others have too at the end.
    fn mount_volumes(&self, inside: &OwnedFd) -> Result<(), Fault> {
        let (shared, own): (Vec<&VolumeFolder>, Vec<&VolumeFolder>) =
            self.volumes.iter().partition(|volume| volume.shared);
        for volume in own {
            self.mount_volume(volume, &self.make_place(inside, volume)?)?;
        }
        self.mount_shared(inside, &shared)
    }

    /// Mounts a tree below a writable layer.
    fn mount_layers(&self, lower: &OwnedFd, upper: &Path, work: &Path) -> Result<(), Fault> {
        // By descriptors: a colon in a path would be read as the start of the next layer.
        let (upper, work) = (open_tree(upper)?, open_tree(work)?);
        let fd = |of: &OwnedFd| format!("/proc/self/fd/{}", of.as_raw_fd());
        let layers = format!("lowerdir={},upperdir={},workdir={}", fd(lower), fd(&upper), fd(&work));
        mount("overlay", self.assembly.as_path(), "overlay", STRANGE, &layers)
    }

    /// Moves this thread, and what it starts, into a new mount namespace in which the bundle, with its owners shifted,
    /// is mounted below a writable layer, with every directory that the kernel's file systems are mounted on; returns
    /// where.
    fn place_own(&self, own: &OwnRoot) -> Result<PathBuf, Fault> {
        enter_namespace()?;
        let [lower, upper, work] = ["lower", "upper", "work"].map(|name| own.layer.join(name));
        for path in [&lower, &upper, &work] {
            fs::create_dir_all(path).doing(format!("make {}", path.display()))?;
        }
        own.shift.mount(&self.bundle, &lower)?;
        let lower = open_tree(&lower)?;
        copy_owner(&lower, Path::new(""), &upper).doing("copy the owner of the bundle's root")?;
        self.mount_layers(&lower, &upper, &work)?;
        let inside = open_tree(&self.assembly)?;
        for path in KERNEL {
            self.make_folders(&inside, path)?;
        }
        self.make_files(&inside)?;
        self.mount_accounts(&self.assembly)?;
        Ok(self.assembly.clone())
    }

    /// Makes the files that a root of the service's own lacks for others to be mounted on; those belong to its root
    /// user, who may write to them as in a container.
    fn make_files(&self, inside: &OwnedFd) -> Result<(), Fault> {
        let owner = Some(self.owner());
        for (path, file) in &self.accounts.files {
            std::os::unix::fs::chown(file, owner, owner).doing(format!("give {} to its service", file.display()))?;
            if let Err(Errno::NOENT) = open_inside(inside, path) {
                let (folder, name) = path.rsplit_once('/').expect("a place in a root is an absolute path");
                self.make_folders(inside, folder)?;
                let place = format!("{}/{name}", place_of(inside, folder)?);
                fs::File::create_new(place).doing(format!("make {path} in the service's root"))?;
            }
        }
        Ok(())
    }

    /// Moves this thread, and what it starts, into the root and the namespaces of a running process, whose folder of
    /// `/proc` this is: its id may pass to another process. The thread must end once it has started what it has to.
    pub(crate) fn join(process: &OwnedFd) -> Result<(), Fault> {
        let doing = "enter the service's root";
        let at = format!("/proc/self/fd/{}", process.as_raw_fd());
        join_namespaces(&at).doing("enter the service's namespaces")?;
        let namespace = fs::File::open(format!("{at}/ns/mnt")).doing(doing)?;
        let root = open_tree(Path::new(&format!("{at}/root")))?;
        // SAFETY: FS gives this thread its own root and working directory; descriptors stay shared.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }.doing(doing)?;
        rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount)).doing(doing)?;
        rustix::process::fchdir(&root).doing(doing)?;
        rustix::process::chroot(".").doing(doing)
    }

    /// Mounts the bundle read-only; if it lacks a directory that something is mounted on, a layer of empty directories
    /// is put over it.
    fn mount_bundle(&self, root: &Path) -> Result<(), Fault> {
        let bundle = open_tree(&self.bundle)?;
        let stubs = self.assembly.join("stubs");
        fs::create_dir(&stubs).doing(format!("make {}", stubs.display()))?;
        let mut needed = KERNEL.map(str::to_owned).to_vec();
        needed.extend(IN_MEMORY.map(str::to_owned));
        needed.extend(self.volumes.iter().map(|volume| volume.inside.clone()));
        let mut lacking = self.add_accounts(&bundle, &stubs)?;
        for path in &needed {
            let added = add_stub(&bundle, &stubs, path, Stub::Directory);
            lacking |= added.doing(format!("make {path} in the service's root"))?;
        }
        if lacking {
            copy_owner(&bundle, Path::new(""), &stubs).doing("copy the owner of the bundle's root")?;
            // By descriptors: a colon in a path would be read as the start of the next layer.
            let upper = open_tree(&stubs)?;
            let layers = format!("lowerdir=/proc/self/fd/{}:/proc/self/fd/{}", upper.as_raw_fd(), bundle.as_raw_fd());
            mount("overlay", root, "overlay", STRANGE | MountFlags::RDONLY, &layers)
        } else {
            bind(&self.bundle, root)?;
            restrict(root, STRANGE | MountFlags::RDONLY).doing("make the bundle read-only in the service's root")
        }
    }

    /// Creates, among the stubs, the files that the bundle lacks for the accounts to be mounted on, and says whether
    /// there are any.
    fn add_accounts(&self, bundle: &OwnedFd, stubs: &Path) -> Result<bool, Fault> {
        let mut lacking = false;
        for (path, _) in &self.accounts.files {
            let added = add_stub(bundle, stubs, path, Stub::File);
            lacking |= added.doing(format!("make {path} in the service's root"))?;
        }
        Ok(lacking)
    }

    fn mount_accounts(&self, root: &Path) -> Result<(), Fault> {
        let inside = open_tree(root)?;
        let kept = if self.own.is_some() { MountFlags::empty() } else { MountFlags::RDONLY };
        for (path, file) in &self.accounts.files {
            bind(file, place_of(&inside, path)?)?;
            // A path leads to what was mounted there last.
            let flags = STRANGE | MountFlags::NOEXEC | kept;
            restrict(place_of(&inside, path)?, flags).doing(format!("restrict {path} in the service's root"))?;
        }
        Ok(())
    }

    /// Who its users are on this machine, if not those of the same numbers.
    pub(crate) fn shift(&self) -> Option<&Shift> {
        self.own.as_ref().map(|own| own.shift.as_ref())
    }

    /// Who owns on this machine what the service's root user owns.
    fn owner(&self) -> u32 {
        self.own.as_ref().map_or(0, |own| own.shift.here((0, 0)).0)
    }

    /// Where a volume is to be mounted, made if it is missing.
    fn make_place(&self, inside: &OwnedFd, volume: &VolumeFolder) -> Result<String, Fault> {
        // Whatever lies below /tmp and /run is created now, since those are new and empty, and so is everything in a
        // root of the service's own; everything else exists as a stub.
        self.make_folders(inside, &volume.inside)?;
        place_of(inside, &volume.inside)
    }

    fn mount_volume(&self, volume: &VolumeFolder, place: &str) -> Result<(), Fault> {
        match &self.own {
            None => bind(&volume.folder, place)?,
            Some(own) => own.shift.mount(&volume.folder, Path::new(place))?,
        }
        let flags = if volume.read_only { STRANGE | MountFlags::RDONLY } else { STRANGE };
        // A path leads to what was mounted there last.
        restrict(place, flags).doing(format!("restrict {} in the service's root", volume.inside))
    }

    /// Mounts what other services have too, last of all: from then on they may put links into this root at any moment,
    /// so nothing more is looked up, made or mounted in it, and no place lies within another.
    fn mount_shared(&self, inside: &OwnedFd, volumes: &[&VolumeFolder]) -> Result<(), Fault> {
        let places: Vec<String> =
            volumes.iter().map(|volume| self.make_place(inside, volume)).collect::<Result<_, _>>()?;
        for (number, place) in places.iter().enumerate() {
            let within = |other: &String| Path::new(place).starts_with(other) || Path::new(other).starts_with(place);
            if let Some(at) = places[..number].iter().position(within) {
                let (one, other) = (&volumes[at].inside, &volumes[number].inside);
                let message = format!("of the shared volumes {one} and {other}, one is inside of the other by a link");
                return Err(Fault::new(message).remedy("mount them at places that are apart").as_mistake());
            }
        }
        volumes.iter().zip(&places).try_for_each(|(volume, place)| self.mount_volume(volume, place))
    }

    /// Makes those of the directories on the way to `path` that a root lacks, and the one at its end.
    fn make_folders(&self, inside: &OwnedFd, path: &str) -> Result<(), Fault> {
        let mut made = PathBuf::new();
        for part in Path::new(path).components() {
            if let (Component::Normal(name), Err(Errno::NOENT)) = (part, open_inside(inside, made.join(part))) {
                let new = Path::new(&place_of(inside, &made)?).join(name);
                let owner = self.own.as_ref().map(|_| self.owner());
                let make = || fs::create_dir(&new).and_then(|()| std::os::unix::fs::chown(&new, owner, owner));
                make().doing(format!("make {path} in the service's root"))?;
            }
            made.push(part);
        }
        Ok(())
    }
}

/// Mounts memory, in a root mounted at `root`, on the directories that every form lets a service write to.
pub(crate) fn place_memory(root: &Path) -> Result<(), Fault> {
    let inside = open_tree(root)?;
    for path in IN_MEMORY {
        if let Err(Errno::NOENT) = open_inside(&inside, path) {
            fs::create_dir(root.join(&path[1..])).doing(format!("make {path} in the service's root"))?;
        }
    }
    mount_memory(&inside)
}

/// Where a path leads in a root that is mounted at `root`.
pub(crate) fn place_in(root: &Path, path: &str) -> Result<PathBuf, Fault> {
    place_of(&open_tree(root)?, path).map(PathBuf::from)
}

/// Mounts memory on a folder, which is made if it is missing: of this thread's mount namespace alone, if it has entered
/// one of its own. `options` are the file system's.
pub(crate) fn mount_private_memory(place: &Path, options: &str) -> Result<(), Fault> {
    fs::create_dir_all(place).doing(format!("make {}", place.display()))?;
    mount("tmpfs", place, "tmpfs", STRANGE, options)
}

fn mount_memory(inside: &OwnedFd) -> Result<(), Fault> {
    for path in IN_MEMORY {
        mount("tmpfs", place_of(inside, path)?, "tmpfs", STRANGE, "mode=1777")?;
    }
    Ok(())
}

/// Moves this thread, and what it starts, into those namespaces of a process, whose folder of `/proc` is at `process`,
/// that are not already this thread's own; except its mount and network namespaces, which a thread enters in other
/// ways. After this, what the thread starts, but not the thread itself, is in another PID namespace.
fn join_namespaces(process: &str) -> std::io::Result<()> {
    let kinds = [
        ("cgroup", LinkNameSpaceType::ControlGroup),
        ("ipc", LinkNameSpaceType::InterProcessCommunication),
        ("uts", LinkNameSpaceType::HostNameAndNISDomainName),
        ("pid", LinkNameSpaceType::ProcessID),
    ];
    for (name, kind) in kinds {
        let (theirs, own) = (format!("{process}/ns/{name}"), format!("/proc/thread-self/ns/{name}"));
        // A kernel may lack one of them.
        let Ok(there) = fs::read_link(&theirs) else { continue };
        if fs::read_link(own).is_ok_and(|here| here != there) {
            rustix::thread::move_into_link_name_space(fs::File::open(&theirs)?.as_fd(), Some(kind))?;
        }
    }
    Ok(())
}

/// Moves this thread into a mount namespace of its own, which nothing outside can see into; and into an IPC namespace,
/// since what a service leaves in the machine's shared memory, semaphores and queues would outlive it.
pub(super) fn enter_namespace() -> Result<(), Fault> {
    // SAFETY: FS and NEWNS give this thread its own root, working directory and mounts; descriptors stay shared.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS | UnshareFlags::NEWNS) }
        .doing("make a mount namespace")?;
    // SAFETY: IPC changes nothing that this thread has.
    match unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWIPC) } {
        Ok(()) => {}
        // A kernel without System V IPC.
        Err(Errno::INVAL) if !Path::new("/proc/sysvipc").exists() => {}
        Err(error) => return Err(error).doing("make an IPC namespace"),
    }
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .doing("make the mount namespace private")
}

/// Moves this thread, and what it starts, into a new mount namespace whose root is what is mounted at `root`. The
/// thread must end once it has started what it has to.
pub(crate) fn enter_mounted(root: &Path) -> Result<(), Fault> {
    enter_namespace()?;
    switch_to(root)
}

/// Mounts `tree`, from this mount namespace, at `place` in the root and mount namespace of a running process.
pub(crate) fn mount_beside(pid: u32, tree: &Path, place: &Path) -> Result<(), Fault> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let copy = rustix::mount::open_tree(CWD, tree, flags).doing(format!("copy the mount of {}", tree.display()))?;
    let process = open_tree(Path::new(&format!("/proc/{pid}")))?;
    let join_and_mount = || {
        Root::join(&process)?;
        rustix::mount::move_mount(&copy, "", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).doing(format!(
            "mount {} at {}",
            tree.display(),
            place.display()
        ))
    };
    // A thread of its own, which gives up its root for good.
    std::thread::scope(|scope| scope.spawn(join_and_mount).join().expect("mounting does not panic"))
}

/// /proc, /sys and /dev, the last of which belongs to `owner`.
fn mount_kernel(inside: &OwnedFd, owner: u32) -> Result<(), Fault> {
    let quiet = STRANGE | MountFlags::NOEXEC;
    mount("proc", place_of(inside, "/proc")?, "proc", quiet, "")?;
    // With what is mounted in it, so that a program finds its cgroup's limits as it would on the host.
    let system = place_of(inside, "/sys")?;
    rustix::mount::mount_bind_recursive("/sys", system).doing("mount /sys in the service's root")?;
    let system = place_of(inside, "/sys")?;
    restrict(system, quiet | MountFlags::RDONLY).doing("make /sys read-only in the service's root")?;
    let options = format!("mode=755,size=64k,uid={owner},gid={owner}");
    mount("tmpfs", place_of(inside, "/dev")?, "tmpfs", MountFlags::NOSUID, &options)?;
    let device = open_inside(inside, "/dev").doing("open /dev in the service's root")?;
    fill_devices(&device).doing("make the devices in the service's root")?;
    mount("shm", place_of(inside, "/dev/shm")?, "tmpfs", quiet, "mode=1777,size=64m")?;
    // Pseudo terminals are for programs that start others on a terminal; a kernel may lack them.
    let terminals = place_of(inside, "/dev/pts")?;
    let options = "newinstance,ptmxmode=0666,mode=0620";
    let _ = mount("devpts", terminals, "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, options);
    Ok(())
}

fn fill_devices(device: &OwnedFd) -> rustix::io::Result<()> {
    for (name, major, minor) in DEVICES {
        let number = rustix::fs::makedev(major, minor);
        rustix::fs::mknodat(device, name, rustix::fs::FileType::CharacterDevice, Mode::from(0o666), number)?;
        // mknod applies the umask.
        let place = format!("/proc/self/fd/{}/{name}", device.as_raw_fd());
        rustix::fs::chmodat(CWD, place, Mode::from(0o666), AtFlags::empty())?;
    }
    for name in ["shm", "pts"] {
        rustix::fs::mkdirat(device, name, Mode::from(0o755))?;
    }
    let links = [
        ("/proc/self/fd", "fd"),
        ("/proc/self/fd/0", "stdin"),
        ("/proc/self/fd/1", "stdout"),
        ("/proc/self/fd/2", "stderr"),
        ("pts/ptmx", "ptmx"),
    ];
    for (to, name) in links {
        rustix::fs::symlinkat(to, device, name)?;
    }
    Ok(())
}

/// Makes `root` this thread's root and lets go of the old one.
fn switch_to(root: &Path) -> Result<(), Fault> {
    rustix::process::chdir(root).doing("enter the new root")?;
    match rustix::process::pivot_root(".", ".") {
        Ok(()) => {
            rustix::mount::unmount(".", UnmountFlags::DETACH).doing("let go of the machine's root")?;
        }
        // The very first file system (a guest's initramfs) cannot be pivoted away from, only covered.
        Err(Errno::INVAL) => {
            rustix::mount::mount_move(".", "/").doing("cover the machine's root")?;
            rustix::process::chroot(".").doing("enter the new root")?;
        }
        Err(error) => return Err(error).doing("make the new root the root"),
    }
    rustix::process::chdir("/").doing("enter the new root")
}

fn mount(source: &str, to: impl AsRef<Path>, kind: &str, flags: MountFlags, data: &str) -> Result<(), Fault> {
    let to = to.as_ref();
    let options = std::ffi::CString::new(data).expect("mount options hold no NUL");
    rustix::mount::mount(source, to, kind, flags, Some(options.as_c_str()))
        .doing(format!("mount {kind} on {}", to.display()))
}

fn bind(from: &Path, to: impl AsRef<Path>) -> Result<(), Fault> {
    let to = to.as_ref();
    rustix::mount::mount_bind(from, to).doing(format!("mount {} on {}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_in_shared_memory_goes_with_the_last_process() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let make = || {
            enter_namespace().unwrap();
            // SAFETY: plain numbers; nothing is attached.
            unsafe { libc::shmget(libc::IPC_PRIVATE, 4097, 0o600) }
        };
        let segments = || fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default().matches(" 4097 ").count();
        let before = segments();
        let made = std::thread::scope(|scope| scope.spawn(make).join().unwrap());
        assert!(made >= 0 && segments() == before, "{made}: it is the machine's");
    }
}
