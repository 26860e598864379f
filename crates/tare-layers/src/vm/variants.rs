//! What could be changed about a guest and may win back some of its cost, one change each.

use super::options::{Carried, Network, VmOptions};
use tare_core::layer::LayerVariant;

/// The changes that the guest does not have already. Their names must stay stable: others refer to them.
pub(super) fn variants(now: &VmOptions) -> Vec<LayerVariant<VmOptions>> {
    let mut found = Vec::new();
    let mut add = |applies: bool, name, changes, trades, change: &dyn Fn(&mut VmOptions)| {
        if applies {
            let mut options = now.clone();
            change(&mut options);
            found.push(LayerVariant { name, changes, trades, options });
        }
    };
    let changes = "packets moved by the kernel instead of QEMU";
    let passt = now.network == Network::Passt;
    add(now.vhost == "off" && !passt, "vhost", changes, "", &|options| options.vhost = "on".to_owned());
    let changes = "a tap device on a private bridge instead of passt";
    let trades = "root, to make the device, and a link of this machine for each guest";
    add(passt && !now.vhost_user, "tap", changes, trades, &|options| options.network = Network::Tap);
    let changes = "packets that passt takes from the guest's memory instead of from QEMU";
    let trades = "the guest's memory, which passt can read and write";
    add(passt && !now.vhost_user, "vhost-user", changes, trades, &|options| options.vhost_user = true);
    let changes = "huge pages for its memory";
    let trades = "memory that is set aside for it and for nothing else";
    add(!now.hugepages, "huge-pages", changes, trades, &|options| options.hugepages = true);
    let changes = "each virtual CPU bound to one CPU";
    add(!now.pin, "pin", changes, "CPUs that others could have used", &|options| options.pin = true);
    let changes = "a thread of their own for its disks";
    add(!now.iothread, "iothread", changes, "CPU time of one more thread", &|options| options.iothread = true);
    let changes = "disks past the host's page cache";
    let trades = "what the host's page cache would have read ahead";
    let cached = now.cache == "writeback";
    add(cached, "cache-none", changes, trades, &|options| options.cache = "none".to_owned());
    let changes = "writes that count as done before they are on the disk";
    let trades = "durability of what the guest did not flush";
    add(now.cache == "directsync", "cache-none", changes, trades, &|options| options.cache = "none".to_owned());
    let through = now.cache == "writethrough";
    add(through, "cache-writeback", changes, trades, &|options| options.cache = "writeback".to_owned());
    let changes = "disks through the host's page cache";
    let trades = "the host's memory, and CPU time for a second cache";
    let direct = now.cache == "none" && now.aio != "native";
    add(direct, "cache-writeback", changes, trades, &|options| options.cache = "writeback".to_owned());
    let changes = "a raw file instead of a qcow2 image";
    let trades = "space on the host's disk, all of it at once";
    add(now.disk == Carried::Qcow2, "raw-disk", changes, trades, &|options| options.disk = Carried::Raw);
    let changes = "disk requests handed to the kernel by io_uring";
    add(now.aio != "io_uring", "io-uring", changes, "", &|options| options.aio = "io_uring".to_owned());
    found
}

#[cfg(test)]
mod tests {
    use super::super::Vm;
    use super::*;
    use std::collections::BTreeSet;
    use tare_core::layer::LayerOptions;
    use tare_core::load::LoadOrigin;

    fn names(options: &VmOptions) -> Vec<&'static str> {
        let layer: &dyn LayerOptions = &Vm;
        let value = serde_json::to_value(options).unwrap();
        let found = layer.variants(&value, LoadOrigin::Outside);
        for variant in &found {
            let changed = |key: &&String| variant.options[key.as_str()] != value[key.as_str()];
            let keys: BTreeSet<&String> =
                [&value, &variant.options].iter().flat_map(|options| options.as_object().unwrap().keys()).collect();
            assert_eq!(keys.iter().copied().filter(changed).count(), 1, "one thing: {variant:?}");
            assert!(serde_json::from_value::<VmOptions>(variant.options.clone()).is_ok(), "{variant:?}");
        }
        found.iter().map(|variant| variant.name).collect()
    }

    #[test]
    fn each_does_one_thing_otherwise_that_the_guest_has_not() {
        assert_eq!(names(&VmOptions::default()), ["huge-pages", "iothread", "cache-writeback", "io-uring"]);
        let slow = VmOptions {
            vhost: "off".into(),
            pin: false,
            cache: "writethrough".into(),
            disk: Carried::Qcow2,
            ..VmOptions::default()
        };
        let all = ["vhost", "huge-pages", "pin", "iothread", "cache-writeback", "raw-disk", "io-uring"];
        assert_eq!(names(&slow), all);
        let by_passt = VmOptions { network: Network::Passt, vhost: "off".into(), ..VmOptions::default() };
        let wanted = ["tap", "vhost-user", "huge-pages", "iothread", "cache-writeback", "io-uring"];
        assert_eq!(names(&by_passt), wanted);
        assert!(!names(&VmOptions { vhost_user: true, ..by_passt }).contains(&"tap"), "that would be two things");
        let native = VmOptions { aio: "native".into(), iothread: true, hugepages: true, ..VmOptions::default() };
        assert_eq!(names(&native), ["io-uring"], "past the cache only");
        let sync = VmOptions { cache: "directsync".into(), ..native };
        assert_eq!(names(&sync), ["cache-none", "io-uring"]);
    }
}
