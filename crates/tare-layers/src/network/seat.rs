//! Where load comes from: the run's own network namespace, connected to this machine by a pair of links, so that every
//! form is reached over the same first hop.

use super::private::{Private, reached_by_others};
use super::{accept_any_path, link_delete, set_up};
use crate::marks;
use crate::netlink::{Netlink, Range};
use crate::register::{self, Kind};
use rustix::mount::UnmountFlags;
use rustix::thread::UnshareFlags;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tare_core::fault::{Doing, Fault};

/// Where the namespaces of runs are kept. Not in /run/netns: the first `ip netns add` on a machine mounts that folder
/// over itself, and what was in it before cannot be removed afterwards.
const NAMESPACES: &str = "/run/tare/netns";

/// The generator's network namespace and its link to this machine.
pub struct GeneratorSeat {
    run: String,
    subnets: (u8, u8),
    namespace: Arc<File>,
    /// What keeps others out of the run's networks, or why it cannot be had.
    private: io::Result<Private>,
}

/// This machine's end of a run's link to its load.
pub(crate) fn seat_link(run: &str) -> String {
    format!("t{run}h")
}

impl GeneratorSeat {
    /// Makes the namespace `/run/tare/netns/tare-<run>` (for `nsenter --net=`), the link `t<run>h` here with
    /// a.b.0.1/30, its other end `t<run>g` inside with a.b.0.2/30, and the default route through it.
    ///
    /// # Errors
    /// When a name is taken or this process may not (it needs root). Then nothing is left behind.
    pub fn open(run: &str, subnets: (u8, u8)) -> Result<GeneratorSeat, Fault> {
        marks::check_run(run)?;
        let namespace = create_namespace(run)?;
        let private = Err(io::ErrorKind::NotConnected.into());
        let mut seat = GeneratorSeat { run: run.to_owned(), subnets, namespace: Arc::new(namespace), private };
        match seat.connect() {
            Ok(()) => {
                seat.private = Private::open(run, subnets);
                Ok(seat)
            }
            Err(fault) => {
                // Report the first failure, not one in the cleanup.
                let _ = seat.close();
                Err(fault)
            }
        }
    }

    fn connect(&self) -> Result<(), Fault> {
        let (here, inside) = (self.host_interface(), self.inside_interface());
        super::veth_create(&here, &inside, self.namespace.as_fd())?;
        set_up(&super::open()?, &here, self.host(), 30)?;
        accept_any_path(&here)?;
        let doing = "open the network configuration of the generator's namespace";
        let netlink = Netlink::open_in(self.namespace.as_fd()).doing(doing)?;
        netlink.up("lo").doing("switch the generator's loopback on")?;
        set_up(&netlink, &inside, self.generator(), 30)?;
        let everything = Range { address: Ipv4Addr::UNSPECIFIED, prefix: 0 };
        netlink.add_route(everything, self.host()).doing("add the generator's default route")
    }

    fn host(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.subnets.0, self.subnets.1, 0, 1)
    }

    fn generator(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.subnets.0, self.subnets.1, 0, 2)
    }

    /// This machine's address as the generator sees it.
    pub fn host_address(&self) -> IpAddr {
        self.host().into()
    }

    /// The generator's own address.
    pub fn generator_address(&self) -> IpAddr {
        self.generator().into()
    }

    /// Why other machines can also reach what is in the run's networks, if they can or could for a while.
    pub fn reached_by_others(&self) -> Option<String> {
        reached_by_others(&self.private)
    }

    /// This machine's end of the link.
    pub fn host_interface(&self) -> String {
        seat_link(&self.run)
    }

    /// The generator's end of the link.
    pub(super) fn inside_interface(&self) -> String {
        format!("t{}g", self.run)
    }

    /// The address space of the run, see [`super::free_subnets`].
    pub(super) fn subnets(&self) -> (u8, u8) {
        self.subnets
    }

    /// The generator's network namespace.
    pub(super) fn namespace(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }

    /// Makes a command start inside the namespace.
    pub fn enter(&self, command: &mut Command) {
        let namespace = Arc::clone(&self.namespace);
        let move_in = move || {
            // SAFETY: this closure keeps the descriptor open; setns changes nothing but this child's namespace.
            if unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        };
        // SAFETY: between fork and exec only setns(2) is called, which is a plain system call, and errno is read.
        unsafe { command.pre_exec(move_in) };
    }

    /// Opens a TCP connection from inside the namespace.
    ///
    /// # Errors
    /// When nothing accepts it within `limit`.
    pub fn reach(&self, endpoint: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
        let connect = || {
            rustix::thread::move_into_link_name_space(
                self.namespace.as_fd(),
                Some(rustix::thread::LinkNameSpaceType::Network),
            )?;
            TcpStream::connect_timeout(&endpoint, limit)
        };
        // A thread of its own: namespaces belong to threads, and this thread must not leave its own.
        std::thread::scope(|scope| scope.spawn(connect).join().expect("connecting does not panic"))
    }

    /// Removes the links and the namespace. What still runs in the namespace loses its network.
    ///
    /// # Errors
    /// When something of it is left.
    pub fn close(self) -> Result<(), Fault> {
        let link = link_delete(&self.host_interface());
        remove_namespace(&namespace_path(&self.run))?;
        link
    }
}

/// The file that a run's namespace is kept at.
fn namespace_path(run: &str) -> PathBuf {
    Path::new(NAMESPACES).join(marks::mark_name(run))
}

/// Creates a run's network namespace, which lives until it is removed by name.
fn create_namespace(run: &str) -> Result<File, Fault> {
    std::fs::create_dir_all(NAMESPACES).doing(format!("make {NAMESPACES}"))?;
    let path = namespace_path(run);
    register::make(run, Kind::Namespace, &path.display().to_string(), || mount_namespace(&path))
}

fn mount_namespace(path: &Path) -> Result<File, Fault> {
    let doing = || format!("make the network namespace {}", path.display());
    File::create_new(path).doing(doing())?;
    let make = || -> io::Result<()> {
        // SAFETY: only the network namespace of this short-lived thread changes; no descriptor table is unshared.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET)? };
        reuse_ports();
        let own = format!("/proc/self/task/{}/ns/net", rustix::thread::gettid().as_raw_nonzero());
        rustix::mount::mount_bind(own, path)?;
        Ok(())
    };
    // A thread of its own: namespaces belong to threads, and this thread must not leave its own.
    let made = std::thread::scope(|scope| scope.spawn(make).join().expect("making a namespace does not panic"));
    let opened = made.and_then(|()| File::open(path));
    opened
        .inspect_err(|_| {
            let _ = remove_namespace(path);
        })
        .doing(doing())
}

/// Lets this thread's network, which is ours alone, take a port again a second after its connection has ended.
///
/// A load that makes a connection for each operation uses up the usual ports within seconds; until they are free, after
/// a minute, the kernel searches all of them for each connection, which takes the generator milliseconds. Which form
/// pays for that depends on which was loaded before.
fn reuse_ports() {
    // A kernel without these settings keeps its own, and the load says that it was the limit.
    let _ = std::fs::write("/proc/sys/net/ipv4/tcp_tw_reuse", "1");
    let _ = std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "10000 65535");
}

/// The namespaces that are named as a run's would be, whoever made them.
pub(crate) fn namespaces_named_like_ours() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(NAMESPACES).into_iter().flatten().filter_map(Result::ok);
    let ours = |entry: &std::fs::DirEntry| entry.file_name().to_str().and_then(marks::run_of_mark).is_some();
    entries.filter(ours).map(|entry| entry.path()).collect()
}

/// Removes a named namespace; one that is already gone is no error.
pub(crate) fn remove_namespace(path: &Path) -> Result<(), Fault> {
    // "Invalid argument" means that nothing is mounted there; a crash can leave a bare file.
    match rustix::mount::unmount(path, UnmountFlags::DETACH) {
        Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(error).doing(format!("detach the network namespace {}", path.display())),
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).doing(format!("remove the network namespace {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mount::{MountFlags, MountPropagationFlags};

    #[test]
    fn the_generators_network_takes_ports_again() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let settings = || {
            let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap();
            ["tcp_tw_reuse", "ip_local_port_range"].map(read).concat()
        };
        let inside = move || {
            // SAFETY: no descriptor table is unshared.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET).unwrap() };
            reuse_ports();
            settings()
        };
        let before = settings();
        assert_eq!(std::thread::spawn(inside).join().unwrap(), "1\n10000\t65535\n");
        assert_eq!(settings(), before, "this machine's own stay as they are");
    }

    #[test]
    fn a_namespace_goes_although_somebody_mounts_over_those_of_others() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let check = || {
            // A tree of mounts of its own, which ends with this thread.
            // SAFETY: no descriptor table is unshared.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS).unwrap() };
            rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
            rustix::mount::mount("tmpfs", "/run", "tmpfs", MountFlags::empty(), None).unwrap();
            for folder in ["/run/netns", NAMESPACES] {
                std::fs::create_dir_all(folder).unwrap();
            }
            let path = namespace_path("ab12cd");
            mount_namespace(&path).unwrap();
            assert!(register::is_namespace(&path));
            // As `ip netns add` does on its first call.
            rustix::mount::mount_bind_recursive("/run/netns", "/run/netns").unwrap();
            remove_namespace(&path).unwrap();
            assert!(!path.exists());
        };
        std::thread::spawn(check).join().unwrap();
    }
}
