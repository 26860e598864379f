//! A guest broken down by what its settings cost, from the best that QEMU can do to the guest as configured.

use super::options::{Network, VmOptions};
use tare_core::layer::LayerRung;

/// First the guest with everything that makes it fast, then one setting after another as configured. A setting that is
/// already the best is no rung.
pub(super) fn rungs(whole: &VmOptions) -> Vec<LayerRung<VmOptions>> {
    let direct = if whole.is_direct() { whole.cache.clone() } else { "none".to_owned() };
    let vhost = if whole.vhost == "off" { "auto".to_owned() } else { whole.vhost.clone() };
    let mut now = VmOptions {
        hugepages: true,
        pin: true,
        cache: direct,
        vhost,
        network: Network::Tap,
        vhost_user: false,
        ..whole.clone()
    };
    let mut rungs = Vec::new();
    let mut add = |name, adds, now: &VmOptions| rungs.push(LayerRung { name, adds, options: now.clone() });
    add("best", "a guest, its CPUs bound, its memory huge pages", &now);
    if !whole.hugepages {
        now.hugepages = false;
        add("pages", "ordinary pages for its memory", &now);
    }
    if !whole.pin {
        now.pin = false;
        add("unbound", "virtual CPUs that are not bound", &now);
    }
    if now.vhost != whole.vhost {
        now.vhost.clone_from(&whole.vhost);
        add("packets", "packets moved by QEMU instead of the kernel", &now);
    }
    if now.network != whole.network {
        now.network = whole.network;
        now.vhost_user = whole.vhost_user;
        add("passt", "packets by passt, a process, instead of a tap device", &now);
    }
    if now.cache != whole.cache {
        now.cache.clone_from(&whole.cache);
        add("cache", "disks through the host's page cache", &now);
    }
    rungs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_climbed_to_from_the_best_one() {
        let names = |options: VmOptions| -> Vec<&str> {
            let rungs = rungs(&options);
            assert_eq!(rungs.last().unwrap().options, options, "the last one is the guest itself");
            rungs.iter().map(|rung| rung.name).collect()
        };
        assert_eq!(names(VmOptions::default()), ["best", "pages"]);
        assert_eq!(names(VmOptions { hugepages: true, ..VmOptions::default() }), ["best"]);
        let slow = VmOptions { pin: false, vhost: "off".into(), cache: "unsafe".into(), ..VmOptions::default() };
        assert_eq!(names(slow), ["best", "pages", "unbound", "packets", "cache"]);
        let passt = VmOptions { network: Network::Passt, vhost_user: true, ..VmOptions::default() };
        assert_eq!(names(passt), ["best", "pages", "passt"]);
    }
}
