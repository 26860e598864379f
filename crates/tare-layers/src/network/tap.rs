//! Tap devices: the host's end of a guest's network card.

use super::{link_delete, mark, open, registered};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use tare_core::fault::{Doing, Fault};

/// Creates a persistent tap device as a port of `bridge` and brings it up; [`tap_open`] opens its other end.
///
/// # Errors
/// When there is no /dev/net/tun, the name is taken, or this process may not.
pub fn tap_create(name: &str, bridge: &str) -> Result<(), Fault> {
    registered(name, || make_tap(name, bridge))
}

fn make_tap(name: &str, bridge: &str) -> Result<(), Fault> {
    make_persistent(name).map_err(|error| {
        let fault = Fault::from_error(format!("make the tap device {name}"), &error);
        match error.raw_os_error() {
            Some(libc::ENOENT) => fault.remedy("load the kernel's tun module: modprobe tun"),
            _ => fault,
        }
    })?;
    let attach = || {
        let netlink = open()?;
        mark(&netlink, name)?;
        netlink.enslave(name, bridge).doing(format!("put the tap device {name} on the bridge {bridge}"))?;
        netlink.up(name).doing(format!("switch the link {name} on"))
    };
    attach().inspect_err(|_| {
        let _ = link_delete(name);
    })
}

/// Opens the hypervisor's end of an existing tap device, with the headers by which guests leave checksums and
/// segmentation to the host.
///
/// # Errors
/// When it does not exist or somebody has already opened it.
pub fn tap_open(name: &str) -> Result<OwnedFd, Fault> {
    let opened = attach(name, libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR);
    opened.map(OwnedFd::from).doing(format!("open the tap device {name}"))
}

fn make_persistent(name: &str) -> std::io::Result<()> {
    if name.is_empty() || name.len() > super::LINK_NAME_MAX {
        let message = format!("'{name}' cannot name a link: 1 to {} bytes are allowed", super::LINK_NAME_MAX);
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, message));
    }
    // IFF_TUN_EXCL: attaching to a device that somebody else made does not count as creating one.
    let device = attach(name, libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_TUN_EXCL)?;
    // SAFETY: the descriptor is open, and TUNSETPERSIST takes a plain number.
    if unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETPERSIST, 1) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// Opens a device by its name, and creates it if there is none. The name is known to fit.
fn attach(name: &str, flags: libc::c_int) -> std::io::Result<File> {
    let device = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    // SAFETY: all zeroes is a valid ifreq; it is plain data.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the descriptor is open, and TUNSETIFF reads and writes one ifreq, which outlives the call.
    if unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &mut request) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(device)
}
