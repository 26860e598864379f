//! The reasons for which tests may be skipped on a machine on which `./test` has installed and started all that it can.
//! Any other reason is a failure: otherwise a bug in the program (an engine that it no longer finds, say) would look
//! like a machine without that thing, and the gate would pass.

/// A part of a reason, and why `./test` cannot help it: on any machine.
const PERMITTED: &[(&str, &str)] = &[
    ("the processor's counters cannot be opened", "virtual machines often have none"),
    ("perf_event_open", "virtual machines often have none, and some kernels keep them from all"),
    ("wakes sleepers too late", "who shares the machine"),
    ("one CPU", "the machine's"),
    ("two CPUs", "the machine's"),
    ("no loop device", "the kernel's, which may be without its module"),
    ("knows no NUMA nodes", "the kernel's"),
    ("is handed down already", "who has set up the machine"),
    ("this file system takes nothing beforehand", "the disk's"),
    ("does not count delayed acknowledgments", "the kernel's"),
    ("that another had", "chance"),
    ("memory cannot be bounded here", "the kernel's, which may be without that controller"),
    ("Podman's is another than Docker's", "the engine's"),
    ("has no option --vhost-user", "the distribution's, whose passt may be older"),
    ("rootless Podman needs", "a user with subordinate ids, and programs, are there where somebody has set it up"),
    ("rootless Podman could run as any of", "its users are the machine's"),
    ("rootless Podman has 'network: host' only as a user", "its users are the machine's"),
    ("knows no network pasta", "how old its Podman is"),
    ("the container engine has no runtime crun", "its settings are the machine's"),
    ("the container engine has no runtime runsc", "its settings are the machine's"),
    ("a run is in progress on this machine", "somebody's run"),
    ("TARE_THOROUGH is not set", "who names a test that takes minutes says --thorough too"),
    ("this is no checkout of git", "a tarball is a source tree too"),
    ("there is no python3 on this machine", "who sets up the machine: commands of it are weighed as it has them"),
];

/// The same, but not in the guest, which is booted to have these.
const OUTSIDE: &[(&str, &str)] = &[
    ("crun starts no container", "how control groups are mounted is decided when the machine boots"),
    ("no cgroups of version 2", "the kernel's"),
];
/// The same, but not on the machine that decides (`CI=true`), which has a network.
const UNDECIDED: &[(&str, &str)] = &[
    ("no package archive can be reached", "the network's"),
    ("passt is not installed", "it is weighed where somebody has it"),
    ("Podman is not installed", "it is weighed where somebody has it"),
    ("there is no systemd-nspawn on this machine", "it is weighed where somebody has it"),
    ("there is no lxc-start on this machine", "it is weighed where somebody has it"),
    ("there is no chromedriver on this machine", "its package is large, and only for what people see"),
];

/// Whether this is the machine that decides on changes.
pub(super) fn decides() -> bool {
    std::env::var_os("CI").is_some_and(|ci| ci == "true")
}

/// Where a test runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// In the guest with control groups of version 2 alone.
    pub(super) in_guest: bool,
    /// On the machine that decides on changes.
    pub(super) decides: bool,
}

impl Place {
    /// This machine, or the guest on it.
    pub(super) fn now(in_guest: bool) -> Place {
        Place { in_guest, decides: decides() }
    }

    /// Whether a test may be skipped here for this reason.
    pub(super) fn permits(self, why: &str) -> bool {
        let here = [(PERMITTED, true), (OUTSIDE, !self.in_guest), (UNDECIDED, !self.decides)];
        here.iter().filter(|(_, holds)| *holds).any(|(reasons, _)| reasons.iter().any(|(part, _)| why.contains(part)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Place = Place { in_guest: false, decides: false };

    #[test]
    fn what_this_machine_cannot_have_is_permitted_and_what_should_be_there_is_not() {
        for why in [
            "crun starts no container on a machine with control groups of both versions: a names controllers",
            "there is one CPU",
            "Podman is not installed on this machine (to do: apt-get install podman)",
            "the processor's counters cannot be opened: No such file or directory (os error 2)",
        ] {
            assert!(HERE.permits(why), "{why}");
        }
        for why in ["no Docker Engine answers", "not root", "permission denied (os error 13)", "nginx is not installed"]
        {
            assert!(!HERE.permits(why), "{why}");
        }
    }

    #[test]
    fn what_the_guest_is_booted_for_and_what_the_deciding_machine_has_is_no_reason_there() {
        let guest = Place { in_guest: true, ..HERE };
        assert!(guest.permits("there is one CPU") && !guest.permits("crun starts no container"));
        let decides = Place { decides: true, ..HERE };
        let why = "no package archive can be reached";
        assert!(HERE.permits(why) && guest.permits(why) && !decides.permits(why));
    }
}
