//! The keys of a service that a workload has no word for.

use crate::sources::Weight::{self, Differs, Stops};

/// What becomes of a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fate {
    /// It changes nothing about what is measured.
    Silent,
    /// It is named in a note, with what happens instead.
    Noted(Weight, &'static str),
}

const RIGHTS: &str = "services have the rights that engines give by default, less AUDIT_WRITE, MKNOD and NET_RAW";
pub(super) const NETWORK: &str = "the form decides about the network; names and servers of Compose's own are not there";
const NAMESPACES: &str = "the form decides what a service shares with the machine";
const MEMORY: &str = "memory is limited in one way in every form, by `resources: {memory: ...}`";
pub(super) const DEVICES: &str = "no form hands over devices of the machine; a service that needs one will not run";

/// Every key without a field in a workload, by name.
pub(super) const KEYS: &[(&str, Fate)] = &[
    ("annotations", Fate::Silent),
    ("attach", Fate::Silent),
    ("blkio_config", Fate::Noted(Differs, "the disk's bandwidth is not limited")),
    ("cap_add", Fate::Noted(Differs, RIGHTS)),
    ("cap_drop", Fate::Noted(Differs, RIGHTS)),
    ("cgroup", Fate::Noted(Differs, NAMESPACES)),
    ("cgroup_parent", Fate::Noted(Differs, "control groups are made by Tare, in every form")),
    ("cpu_count", Fate::Noted(Differs, "write `cpus:`, which every form has")),
    ("cpu_percent", Fate::Noted(Differs, "write `cpus:`, which every form has")),
    ("cpu_period", Fate::Noted(Differs, "write `cpus:`, which every form has")),
    ("cpu_quota", Fate::Noted(Differs, "write `cpus:`, which every form has")),
    ("cpu_rt_period", Fate::Noted(Differs, "there is no real-time scheduling")),
    ("cpu_rt_runtime", Fate::Noted(Differs, "there is no real-time scheduling")),
    ("cpu_shares", Fate::Noted(Differs, "each service has CPUs of its own, where there are enough")),
    ("credential_spec", Fate::Noted(Stops, "accounts of Windows are not there")),
    ("develop", Fate::Silent),
    ("device_cgroup_rules", Fate::Noted(Differs, DEVICES)),
    ("devices", Fate::Noted(Stops, DEVICES)),
    ("dns", Fate::Noted(Differs, NETWORK)),
    ("dns_opt", Fate::Noted(Differs, NETWORK)),
    ("dns_search", Fate::Noted(Differs, NETWORK)),
    ("domainname", Fate::Noted(Differs, NETWORK)),
    ("external_links", Fate::Noted(Stops, "containers outside of this file are not there")),
    ("extra_hosts", Fate::Noted(Differs, "these names do not resolve: only services of this file have names")),
    ("gpus", Fate::Noted(Stops, DEVICES)),
    ("group_add", Fate::Noted(Differs, "a service has one group, in every form")),
    ("hostname", Fate::Noted(Differs, "others find it by this name; what it finds itself called is up to the form")),
    (
        "init",
        Fate::Noted(Differs, "the program is started by itself; it must end on its stop signal and await its children"),
    ),
    ("ipc", Fate::Noted(Differs, NAMESPACES)),
    ("isolation", Fate::Noted(Differs, NAMESPACES)),
    ("label_file", Fate::Silent),
    ("labels", Fate::Silent),
    ("logging", Fate::Silent),
    ("mac_address", Fate::Noted(Differs, NETWORK)),
    ("mem_reservation", Fate::Noted(Differs, MEMORY)),
    ("mem_swappiness", Fate::Noted(Differs, MEMORY)),
    ("memswap_limit", Fate::Noted(Differs, MEMORY)),
    ("models", Fate::Noted(Stops, "there is nobody to run a model")),
    ("oom_kill_disable", Fate::Noted(Differs, MEMORY)),
    ("oom_score_adj", Fate::Noted(Differs, MEMORY)),
    ("pid", Fate::Noted(Differs, NAMESPACES)),
    ("pids_limit", Fate::Noted(Differs, "the number of processes is not limited")),
    ("platform", Fate::Noted(Differs, "an image must be of this machine's architecture")),
    ("post_start", Fate::Noted(Stops, "nothing is run inside once a service has started")),
    ("pre_stop", Fate::Noted(Differs, "nothing is run inside before a service ends")),
    ("privileged", Fate::Noted(Differs, RIGHTS)),
    ("provider", Fate::Noted(Stops, "there is nobody to provide it")),
    ("pull_policy", Fate::Silent),
    ("pull_refresh_after", Fate::Silent),
    ("read_only", Fate::Silent),
    ("runtime", Fate::Noted(Differs, "the study names the form")),
    ("security_opt", Fate::Noted(Differs, RIGHTS)),
    ("shm_size", Fate::Noted(Differs, "the form decides the size of /dev/shm")),
    ("stdin_open", Fate::Silent),
    ("storage_opt", Fate::Noted(Differs, "volumes have a size, the root file system has none")),
    ("sysctls", Fate::Noted(Differs, "the kernel's settings are those of the form")),
    ("tty", Fate::Silent),
    ("ulimits", Fate::Noted(Differs, "the limits are those of the form")),
    ("use_api_socket", Fate::Noted(Stops, "no form hands over the engine's socket")),
    ("userns_mode", Fate::Noted(Differs, NAMESPACES)),
    ("uts", Fate::Noted(Differs, NAMESPACES)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_are_in_order_and_each_is_named_once() {
        assert!(KEYS.is_sorted_by(|(one, _), (other, _)| one < other));
        let told = KEYS.iter().filter_map(|(_, fate)| match fate {
            Fate::Noted(_, instead) => Some(*instead),
            Fate::Silent => None,
        });
        for instead in told {
            assert!(!instead.is_empty() && !instead.ends_with('.'), "{instead}");
        }
    }
}
