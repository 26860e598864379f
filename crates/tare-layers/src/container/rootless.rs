//! Podman as a plain user of this machine, started by root on that user's behalf.
//!
//! The user may make no control group, so a service's limits are those of a plain process: a group of the run, which
//! its first process enters before it becomes the service's program. The service is to this machine that user, so its
//! volumes are mounted for Podman with their owners shifted. And nobody but root may look into a run's folders, so
//! Podman sees them in a mount namespace of its own, in which the folder of the trial stands alone.

use super::options::{ContainerOptions, Network};
use super::{programs, spec};
use crate::cgroup::Group;
use crate::local::volumes::VolumeFolder;
use crate::local::{self, shift};
use rustix::mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use std::ffi::{CStr, CString};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tare_core::fault::{Doing, Fault};
use tare_core::host::ServiceStart;
use tare_core::workload::Resources;

/// Where the users of this machine and their subordinate ids are listed.
const USERS: &str = "/etc/passwd";
const SUBORDINATE: [&str; 2] = ["/etc/subuid", "/etc/subgid"];
/// How many of them Podman needs: the users of an image.
const ENOUGH: u64 = 1 << 16;
/// The memory that Podman itself may use: no limit.
const UNBOUNDED: u64 = 1 << 60;
/// Podman's first version with pasta.
const PASTA_SINCE: (u32, u32) = (4, 4);

/// A user of this machine who may have Podman.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// The user as whom a form has Podman run: the one that it names, or the only one there is.
///
/// # Errors
/// When there is none, or more than one, or the only one would have to be named, or this machine lacks something that
/// Podman needs for it.
pub(super) fn user(options: &ContainerOptions) -> Result<User, Fault> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let [uids, gids] = SUBORDINATE.map(read);
    let found = chosen(&read(USERS), &uids, &gids, options.user.named())?;
    if let Some(refused) = unnamed_on_host(options, &found.name) {
        return Err(refused);
    }
    for (program, package) in [("newuidmap", "uidmap"), ("newgidmap", "uidmap")].into_iter().chain(network(options)) {
        if programs::find(program).is_none() {
            let message = format!("rootless Podman needs {program}, and it is not installed on this machine");
            return Err(Fault::new(message).remedy(format!("apt-get install {package}")));
        }
    }
    let most = read("/proc/sys/user/max_user_namespaces");
    if most.trim() == "0" {
        return Err(Fault::new("rootless Podman needs user namespaces, and this machine allows none")
            .remedy("sysctl user.max_user_namespaces=15000"));
    }
    Ok(found)
}

/// Why Podman does not run as the only user there is: mostly that is a person. A socket without a file belongs to a
/// network, and what listens at one in a person's session, such as a display, serves whoever has that person's user.
fn unnamed_on_host(options: &ContainerOptions, name: &str) -> Option<Fault> {
    let unnamed = options.network == Network::Host && options.user.named().is_none();
    let message = format!(
        "rootless Podman has 'network: host' only as a user that the form names: a service of it could speak to \
         {name}'s own session, by sockets without a file"
    );
    let remedy = format!("say 'user: {name}' if nobody works as that user, or use 'network: slirp4netns'");
    unnamed.then(|| Fault::new(message).remedy(remedy))
}

/// The program that makes the network of such containers, and its package.
fn network(options: &ContainerOptions) -> Option<(&'static str, &'static str)> {
    match options.network {
        Network::Slirp4netns => Some(("slirp4netns", "slirp4netns")),
        Network::Pasta => Some(("pasta", "passt")),
        _ => None,
    }
}

/// Why this version of Podman cannot make such containers.
pub(super) fn refused_by(version: &str, options: &ContainerOptions) -> Option<Fault> {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let own = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let is_late = options.network == Network::Pasta && own < PASTA_SINCE;
    is_late.then(|| {
        let (major, minor) = PASTA_SINCE;
        Fault::new(format!("Podman {version} knows no network pasta: {major}.{minor} is the first that does"))
            .remedy("use 'network: slirp4netns', or a newer Podman")
    })
}

/// Why rootless Podman cannot run a service, where everybody may listen from the port `lowest` on.
pub(super) fn refused(options: &ContainerOptions, start: &ServiceStart, lowest: u16) -> Option<Fault> {
    let service = &start.service;
    let low = service.ports.values().find(|port| **port < lowest).filter(|_| options.is_in_user_space());
    let why = if service.as_image {
        "has 'as_image', and the users of its image would be subordinate ones, who own no volume"
    } else if service.volumes.values().any(|volume| volume.shared.is_some()) {
        "shares a volume, which each service would see with owners of its own"
    } else if !start.memory.is_empty() {
        "is to have memory of chosen NUMA nodes, which takes a control group"
    } else if low.is_some() {
        "has a port that only root may publish"
    } else {
        return None;
    };
    let message = format!("rootless Podman cannot run the service '{}': it {why}", start.instance);
    let remedy = match low {
        Some(port) => format!("sysctl net.ipv4.ip_unprivileged_port_start={port}, or use 'engine: podman'"),
        None => "use 'engine: podman', which root runs".to_owned(),
    };
    options.is_rootless().then(|| Fault::new(message).remedy(remedy))
}

fn chosen(users: &str, uids: &str, gids: &str, wanted: Option<&str>) -> Result<User, Fault> {
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, ..] = fields[..] else { return None };
        Some(User { name: name.to_owned(), uid: uid.parse().ok()?, gid: gid.parse().ok()? })
    };
    let may = |user: &User| user.uid != 0 && [uids, gids].iter().all(|text| subordinates(text, user) >= ENOUGH);
    let all: Vec<User> = users.lines().filter_map(parse).collect();
    let able: Vec<&User> = all.iter().filter(|user| may(user)).collect();
    let names = able.iter().map(|user| user.name.as_str()).collect::<Vec<_>>().join(", ");
    let give = |name: &str| format!("usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {name}");
    match (wanted, able.as_slice()) {
        (Some(wanted), _) => {
            able.iter().find(|user| user.name == wanted).map(|user| (*user).clone()).ok_or_else(|| {
                if !all.iter().any(|user| user.name == wanted) {
                    let others = if names.is_empty() { String::new() } else { format!("; it could be one of {names}") };
                    return Fault::new(format!("this machine has no user {wanted} for rootless Podman{others}"))
                        .remedy(format!("useradd {wanted}"));
                }
                Fault::new(format!(
                    "rootless Podman needs {ENOUGH} subordinate ids, which the user {wanted} does not have"
                ))
                .remedy(give(wanted))
            })
        }
        (None, [one]) => Ok((*one).clone()),
        (None, []) => Err(Fault::new(format!(
            "rootless Podman needs a user with {ENOUGH} subordinate ids, and this machine has none"
        ))
        .remedy(format!("{}, for a user of this machine", give("NAME")))),
        (None, _) => Err(Fault::new(format!("rootless Podman could run as any of {names}"))
            .remedy(format!("say as whom: 'user: {}'", able[0].name))),
    }
}

/// How many subordinate ids a text of subuid(5) gives a user.
fn subordinates(text: &str, user: &User) -> u64 {
    let of_user = |line: &str| {
        let mut fields = line.trim().split(':');
        let is_own = fields.next().is_some_and(|name| name == user.name || name == user.uid.to_string());
        fields.nth(1).filter(|_| is_own)?.parse::<u64>().ok()
    };
    text.lines().filter_map(of_user).fold(0, u64::saturating_add)
}

/// What a service of Podman needs to run as a user.
pub(super) struct Seat {
    pub(super) user: User,
    /// Its folders: for its sockets and its containers' state, and for its images.
    pub(super) runtime: PathBuf,
    storage: PathBuf,
    home: PathBuf,
    /// What the user is to see although it stands in a folder that only root may enter.
    shown: Option<PathBuf>,
}

impl Seat {
    /// Makes its folders: in `folder`, and where it has images for the containers of a trial, in the trial's.
    ///
    /// # Errors
    /// When one cannot be made.
    pub(super) fn make(user: User, folder: &Path, scratch: Option<&Path>) -> Result<Seat, Fault> {
        let runtime = folder.join("run");
        let large = scratch.map_or_else(|| runtime.join("tare"), storage_in);
        let (storage, home) = (large.join("storage"), large.join("home"));
        let make = || {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o711))?;
            for place in [&runtime, &large, &storage, &home] {
                DirBuilder::new().mode(0o700).create(place)?;
            }
            // From the inside out: nothing can be put into the place of what stands in root's own folders.
            let own = [&home, &storage, &large, &runtime];
            own.iter().try_for_each(|place| std::os::unix::fs::lchown(place, Some(user.uid), Some(user.gid)))
        };
        make().doing(format!("make the folders of Podman for {}", user.name))?;
        Ok(Seat { user, runtime, storage, home, shown: scratch.map(Path::to_owned) })
    }

    /// Tells a command of Podman its folders, before anything else.
    pub(super) fn settings(&self, command: &mut Command) {
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("HOME", &self.home).env("XDG_RUNTIME_DIR", &self.runtime).current_dir("/");
        command.arg("--root").arg(&self.storage).arg("--runroot").arg(self.runtime.join("c"));
        command.args(["--cgroup-manager", "cgroupfs", "--storage-driver", "overlay"]);
    }

    /// Has a command see the folders, and become the user before it begins.
    ///
    /// # Errors
    /// When a folder cannot be opened, or has a name that no mount can have.
    pub(super) fn prepare(&self, command: &mut Command) -> Result<(), Fault> {
        let shown = self.shown.as_deref().map(Shown::of).transpose().doing("prepare what Podman is to see")?.flatten();
        let (uid, gid) = (self.user.uid, self.user.gid);
        // Asked by a plain user, Podman 4 takes none of these from a request: containers get what it has itself.
        let limits = [
            (Resource::Nofile, spec::open_files()),
            (Resource::Nproc, local::PROCESSES),
            (Resource::Core, local::CORE_BYTES),
        ];
        let begin = move || {
            for (resource, most) in limits {
                setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
            }
            if let Some(shown) = &shown {
                shown.put_up()?;
            }
            become_user(uid, gid)
        };
        // SAFETY: between fork and exec it makes system calls alone, on what was prepared before.
        unsafe { command.pre_exec(begin) };
        Ok(())
    }

    /// Removes what stands outside of the service's own folder.
    pub(super) fn remove(&self) {
        if let Some(scratch) = &self.shown {
            // The trial's folder is removed as a whole, and whoever does that says what was left.
            let _ = tare_removal::remove_tree(&storage_in(scratch));
        }
    }
}

fn storage_in(scratch: &Path) -> PathBuf {
    scratch.join("podman")
}

/// Becomes a user with no group but its own. Plain system calls only: the usual functions would change all threads.
fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    let done = |result: libc::c_long| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: an empty list of groups, and plain numbers.
    unsafe {
        done(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()))?;
        done(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
        done(libc::syscall(libc::SYS_setresuid, uid, uid, uid))
    }
}

/// A folder that is to be reached although one above it is root's alone.
struct Shown {
    /// The uppermost folder that others may not enter, and those from there down to the folder itself.
    closed: CString,
    below: Vec<CString>,
}

impl Shown {
    fn of(path: &Path) -> io::Result<Option<Shown>> {
        let is_closed = |above: &&Path| {
            fs::metadata(above).is_ok_and(|facts| facts.is_dir() && facts.permissions().mode() & 0o001 == 0)
        };
        let Some(closed) = path.ancestors().skip(1).filter(is_closed).last() else { return Ok(None) };
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other);
        let mut below: Vec<&Path> = path.ancestors().take_while(|above| *above != closed).collect();
        below.reverse();
        let below = below.into_iter().map(text).collect::<io::Result<_>>()?;
        Ok(Some(Shown { closed: text(closed)?, below }))
    }

    /// Lets this process see the folder, and nothing else below the closed one, in a mount namespace of its own.
    fn put_up(&self) -> io::Result<()> {
        // SAFETY: this process has one thread, and shares no file descriptors that matter to another namespace.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change(c"/", private)?;
        let place = self.below.last().expect("the folder itself is among them");
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        let folder = rustix::mount::open_tree(rustix::fs::CWD, place.as_c_str(), flags)?;
        let hidden: &CStr = c"mode=0711,size=64k";
        rustix::mount::mount(c"tmpfs", self.closed.as_c_str(), c"tmpfs", MountFlags::empty(), hidden)?;
        for folder in &self.below {
            rustix::fs::mkdir(folder.as_c_str(), rustix::fs::Mode::from(0o755))?;
        }
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        Ok(rustix::mount::move_mount(&folder, c"", rustix::fs::CWD, place.as_c_str(), flags)?)
    }
}

/// The group that holds Podman itself, and all that it starts but services.
///
/// # Errors
/// When it cannot be made.
pub(super) fn group(run: &str, name: &str) -> Result<Group, Fault> {
    Group::create(run, name, &Resources { memory_bytes: UNBOUNDED, ..Resources::default() })
}

/// Mounts volumes for Podman, whose process is `podman`, so that what is `owner`'s in them is its user's.
///
/// # Errors
/// When the kernel or the file system cannot do that.
pub(super) fn mount_volumes(
    podman: u32,
    user: &User,
    owner: (u32, u32),
    volumes: &[VolumeFolder],
) -> Result<(), Fault> {
    let doing = "mount the volumes for rootless Podman";
    let namespace = shift::one_user(owner, (user.uid, user.gid)).doing(doing)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let mut copies = Vec::new();
    for volume in volumes {
        let copy = rustix::mount::open_tree(rustix::fs::CWD, &volume.folder, flags).doing(doing)?;
        shift::shift_mount(&copy, &namespace).doing(doing).map_err(|fault| {
            fault
                .remedy("rootless Podman needs Linux 5.19 and TARE_HOME on ext4, XFS or Btrfs; or use 'engine: podman'")
        })?;
        copies.push((copy, &volume.folder));
    }
    let there = File::open(format!("/proc/{podman}/ns/mnt")).doing(doing)?;
    let put = || -> io::Result<()> {
        // SAFETY: this thread alone gets a root and a working directory of its own, and it ends here.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }?;
        rustix::thread::move_into_link_name_space(there.as_fd(), Some(LinkNameSpaceType::Mount))?;
        for (copy, place) in &copies {
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            rustix::mount::move_mount(copy, "", rustix::fs::CWD, place.as_path(), flags)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| scope.spawn(put).join().expect("mounting does not panic")).doing(doing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::options::{EngineKind, Limits};

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nada:x:1001:1002::/home/ada:/bin/sh\n\
                          bob:x:1003:1003::/home/bob:/bin/sh\neve:x:1004:1004::/:/bin/sh\n";

    #[test]
    fn the_user_is_the_one_that_is_named_or_the_only_one_that_can_be() {
        let (ada, both) = ("ada:100000:65536\n", "ada:100000:65536\n1003:200000:65536\nroot:1:65536\neve:1:10\n");
        let user = chosen(PASSWD, ada, ada, None).unwrap();
        assert_eq!(user, User { name: "ada".to_owned(), uid: 1001, gid: 1002 });
        assert_eq!(chosen(PASSWD, both, both, Some("bob")).unwrap().uid, 1003);
        let why = |uids: &str, wanted| chosen(PASSWD, uids, both, wanted).unwrap_err();
        let several = why(both, None);
        assert!(several.message.ends_with("any of ada, bob") && several.remedy.contains("'user: ada'"), "{several}");
        let few = why(both, Some("eve"));
        assert!(few.message.contains("user eve does not have") && few.remedy.starts_with("usermod "), "{few}");
        let nobody = why(both, Some("zoe"));
        assert!(nobody.message.contains("no user zoe") && nobody.message.ends_with("ada, bob"), "{nobody}");
        assert!(why("", None).message.ends_with("this machine has none"));
    }

    fn read_options(text: &str) -> Result<ContainerOptions, Vec<String>> {
        let read = tare_core::config::read("study.yaml", text, super::super::options::read);
        read.map_err(|told| told.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn rootless_podman_has_what_a_plain_user_can_have() {
        let options = read_options("{engine: podman-rootless, user: ada}").unwrap();
        assert_eq!((options.engine, options.user.named()), (EngineKind::PodmanRootless, Some("ada")));
        assert_eq!((options.network, options.limits), (Network::Slirp4netns, Limits::Affinity));
        let refused =
            "engine: podman-rootless\nnetwork: published\nlimits: cpuset\nnamespaces: host\nroot: directory\n";
        assert_eq!(read_options(refused).unwrap_err().len(), 4);
        let others = read_options("engine: podman\nuser: ada\nnetwork: pasta\n").unwrap_err();
        assert!(others.len() == 2 && others.iter().all(|one| one.contains("rootless")), "{others:#?}");
    }

    #[test]
    fn on_the_machine_s_network_the_user_is_named() {
        let refused = |text: &str| unnamed_on_host(&read_options(text).unwrap(), "ada");
        let fault = refused("{engine: podman-rootless, network: host}").unwrap();
        assert!(fault.message.contains("ada's own session") && fault.remedy.contains("'user: ada'"), "{fault}");
        assert_eq!(refused("{engine: podman-rootless, network: host, user: ada}"), None);
        assert_eq!(refused("{engine: podman-rootless}"), None, "its network is its own");
    }

    #[test]
    fn rootless_podman_refuses_a_port_that_only_root_may_publish() {
        let options = read_options("{engine: podman-rootless}").unwrap();
        let mut start = ServiceStart::on(crate::sample::service("web"), None);
        start.service.ports.insert("main".to_owned(), 80);
        let fault = refused(&options, &start, 1024).unwrap();
        assert!(fault.remedy.contains("ip_unprivileged_port_start=80"), "{fault}");
        assert!(refused(&options, &start, 80).is_none());
        assert!(refused(&ContainerOptions::default(), &start, 1024).is_none());
    }

    #[test]
    fn pasta_is_refused_with_a_podman_that_does_not_know_it() {
        let options = ContainerOptions { network: Network::Pasta, ..ContainerOptions::default() };
        assert!(refused_by("4.3.1", &options).unwrap().message.contains("4.4"));
        assert!(refused_by("4.4.0", &options).is_none() && refused_by("5.0.1", &options).is_none());
        let slirp = ContainerOptions { network: Network::Slirp4netns, ..options };
        assert!(refused_by("4.3.1", &slirp).is_none());
    }

    #[test]
    fn what_stands_in_roots_own_folder_is_shown_from_there_down() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let trial = folder.path().join("work/t1");
        fs::create_dir_all(&trial).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let shown = Shown::of(&trial).unwrap().expect("it is closed");
        assert_eq!(shown.closed.to_bytes(), folder.path().as_os_str().as_bytes());
        assert_eq!(shown.below.len(), 2);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Shown::of(&trial).unwrap().is_none());
    }
}
