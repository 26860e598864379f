//! What netavark leaves on the machine, the program that makes networks for Podman, when Podman is killed while it
//! works: Podman then knows of no network of the container, and neither does whoever removes the container.
//!
//! Nothing of it carries a mark. But netavark names its chains in the firewall after the network, by a hash, and the
//! network's name holds the run's id and stands in the run's directory from before the network is made. Whatever else
//! there is hangs on that: the rules that lead to these chains, the addresses that those are for, the run's own bridge
//! and its ports, the namespaces at their other ends.

use crate::marks::run_directory;
use crate::netlink::{Netlink, Range};
use crate::network;
use crate::owner;
use crate::register::is_namespace;
use sha2::{Digest, Sha512};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};
use tare_core::host::Leftover;

/// The kind of what is left of a network that Podman no longer knows.
pub(super) const KIND: &str = "container-network rules";
/// The folder in a run's directory that holds a file for each network: its name, and in it the bridge's.
const FOLDER: &str = "netavark";
/// How many digits of a hash of the network's name are in the names of its chains.
const DIGITS: usize = 13;
/// The tables of the firewall that it writes to.
const TABLES: [&str; 2] = ["filter", "nat"];
/// What the names of the chains begin with that all networks share.
const SHARED: &str = "NETAVARK";
/// Where its resolver of names finds what it is to resolve, in a file of the network's name, and its process.
const RESOLVER: &str = "/run/containers/networks/aardvark-dns";
const RESOLVER_PROGRAM: &str = "aardvark-dns";
const RESOLVER_NOTE: &str = "aardvark.pid";
/// Where Podman's network namespaces are, and what their names begin with.
const NAMESPACES: &str = "/run/netns";
const NAMESPACE: &str = "netns-";

/// Writes down that a run has Podman make a network on this bridge.
///
/// # Errors
/// When it cannot be written.
pub(super) fn note(run: &str, network: &str, bridge: &str) -> Result<(), Fault> {
    let folder = run_directory(run).join(FOLDER);
    if !run_directory(run).is_dir() {
        return Ok(());
    }
    let write = || {
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(network), bridge)
    };
    write().doing(format!("write down the container network {network} as the run's"))
}

/// What is left of networks of runs that are not among the `standing` ones, which their engine removes.
pub(super) fn leftovers(standing: &[Leftover]) -> Vec<Leftover> {
    let mut found: Vec<Leftover> = Vec::new();
    for (run, directory, _) in owner::runs() {
        for entry in fs::read_dir(directory.join(FOLDER)).into_iter().flatten().filter_map(Result::ok) {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let stands = standing.iter().any(|left| left.name == name);
            let left = Leftover { run: run.clone(), kind: KIND.to_owned(), name };
            if !stands && !found.contains(&left) && Network::of(&left).is_some_and(|network| network.has_left()) {
                found.push(left);
            }
        }
    }
    found
}

/// Removes what is left of a network that its engine no longer has; nothing is no error.
///
/// # Errors
/// When something of it is still there.
pub(super) fn remove(leftover: &Leftover) -> Result<(), Fault> {
    Network::of(leftover).map_or(Ok(()), |network| network.remove())
}

/// Removes what is left of a run's network, see [`remove`].
pub(super) fn remove_after(run: &str, network: &str) -> Result<(), Fault> {
    remove(&Leftover { run: run.to_owned(), kind: KIND.to_owned(), name: network.to_owned() })
}

/// A network of a run, as the run's directory has it.
struct Network {
    name: String,
    bridge: String,
    rules: Rules,
}

impl Network {
    fn of(leftover: &Leftover) -> Option<Network> {
        let Leftover { run, name, .. } = leftover;
        let bridge = fs::read_to_string(run_directory(run).join(FOLDER).join(name)).ok()?;
        // Both are the run's by their names, whatever the file says.
        let is_own = name.starts_with(&format!("tare-{run}-")) && bridge.starts_with(&format!("t{run}"));
        let read = |table: &&str| {
            let said = network::iptables(&["-t", table, "-S"].map(str::to_owned));
            said.ok().and_then(Result::ok).unwrap_or_default()
        };
        let texts: Vec<(&'static str, String)> = TABLES.iter().map(|table| (*table, read(table))).collect();
        is_own.then(|| Network { name: name.clone(), rules: Rules::of(name, &bridge, &texts), bridge })
    }

    /// The file by which the resolver knows the network.
    fn names(&self) -> PathBuf {
        Path::new(RESOLVER).join(&self.name)
    }

    fn has_left(&self) -> bool {
        !self.rules.is_empty() || self.names().exists() || !self.ports().is_empty()
    }

    /// The ports of the bridge: each with the number of the link at its other end.
    fn ports(&self) -> Vec<(String, u32)> {
        let class = Path::new("/sys/class/net");
        let ports = fs::read_dir(class.join(&self.bridge).join("brif")).into_iter().flatten().filter_map(Result::ok);
        let end = |name: &str| -> Option<u32> {
            fs::read_to_string(class.join(name).join("iflink")).ok()?.trim().parse().ok()
        };
        let names = ports.filter_map(|port| port.file_name().into_string().ok());
        names.filter_map(|name| end(&name).map(|end| (name, end))).collect()
    }

    /// The namespaces at the other ends of the bridge's ports, which have addresses of the network.
    fn namespaces(&self, ports: &[(String, u32)]) -> Vec<PathBuf> {
        let is_end = |path: &PathBuf| {
            let netlink = File::open(path).ok().and_then(|file| Netlink::open_in(file.as_fd()).ok())?;
            let (links, ranges) = (netlink.links().ok()?, netlink.ranges().ok()?);
            let is_joined = links.iter().any(|link| ports.iter().any(|(_, end)| *end == link.index));
            let is_within = ranges.iter().any(|range| self.rules.ranges.iter().any(|own| own.overlaps(*range)));
            (is_joined && is_within).then_some(())
        };
        let entries = fs::read_dir(NAMESPACES).into_iter().flatten().filter_map(Result::ok);
        let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(NAMESPACE));
        named.map(|entry| entry.path()).filter(|path| is_namespace(path) && is_end(path).is_some()).collect()
    }

    fn remove(&self) -> Result<(), Fault> {
        let ports = self.ports();
        for namespace in self.namespaces(&ports) {
            network::remove_namespace(&namespace)?;
        }
        for (port, _) in &ports {
            let netlink = Netlink::open().doing("open the kernel's network configuration")?;
            netlink.delete(port).doing(format!("remove the link {port}, a port of {}", self.bridge))?;
        }
        if self.names().exists() {
            fs::remove_file(self.names()).doing(format!("remove {}", self.names().display()))?;
            tell_resolver();
        }
        network::link_delete(&self.bridge)?;
        self.rules.remove().map_err(|fault| fault.context(format!("could not remove the rules of {}", self.name)))
    }
}

/// Has the resolver read its files again; without any it ends.
fn tell_resolver() {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    let noted = fs::read_to_string(Path::new(RESOLVER).join(RESOLVER_NOTE)).unwrap_or_default();
    let Some(pid) = noted.trim().parse().ok().and_then(Pid::from_raw) else { return };
    // Held from before its name is read: the process that is told is the one that was examined.
    let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).unwrap_or_default();
    if name.trim() == RESOLVER_PROGRAM {
        let _ = pidfd_send_signal(&held, Signal::HUP);
    }
}

/// The rules of a network, in the order in which they can be removed: as long as one is left, its ranges are known.
#[derive(Debug, PartialEq, Eq)]
struct Rules {
    /// Table and rule, from the chain on.
    rules: Vec<(String, Vec<String>)>,
    /// The network's own chains.
    chains: Vec<(String, String)>,
    /// The addresses of the network.
    ranges: Vec<Range>,
}

impl Rules {
    /// Those in what `iptables -S` says of tables.
    fn of(network: &str, bridge: &str, tables: &[(&'static str, String)]) -> Rules {
        let own = chains_of(network);
        let in_table = |(table, text): &'_ (&'static str, String)| -> Vec<(&'static str, Vec<String>)> {
            let lines = text.lines().map(|line| (*table, words_of(line)));
            lines.filter(|(_, words)| words.len() > 1).collect()
        };
        let lines: Vec<(&str, Vec<String>)> = tables.iter().flat_map(in_table).collect();
        let leads_to = |words: &[String], to: &dyn Fn(&str) -> bool| after(words, "-j").is_some_and(to);
        let is_own = |chain: &str| own.iter().any(|own| own == chain);
        let sources = |to: &dyn Fn(&str) -> bool| -> BTreeSet<String> {
            let of = lines.iter().filter(|(_, words)| words[1] == "POSTROUTING" && leads_to(words, to));
            of.filter_map(|(_, words)| after(words, "-s").map(str::to_owned)).collect()
        };
        let ranges = sources(&is_own);
        // Networks that have the same range have the rules for it in common.
        let of_others = sources(&|chain| chain.starts_with(SHARED) && !is_own(chain));
        let for_range = |words: &[String]| {
            let named =
                |key| after(words, key).is_some_and(|range| ranges.contains(range) && !of_others.contains(range));
            named("-s") || named("-d")
        };
        let for_bridge = |words: &[String]| ["-i", "-o"].iter().any(|key| after(words, key) == Some(bridge));
        let is_ours = |words: &[String]| {
            let shared = words[1].starts_with(SHARED) && (for_range(words) || for_bridge(words));
            words[0] == "-A" && !is_own(&words[1]) && (shared || leads_to(words, &is_own))
        };
        let of_a_rule = lines.iter().filter(|(_, words)| is_ours(words));
        let mut rules: Vec<(String, Vec<String>)> =
            of_a_rule.map(|(table, words)| ((*table).to_owned(), words[1..].to_vec())).collect();
        // Those that tell the ranges go last.
        rules.sort_by_key(|(_, rule)| rule[0] == "POSTROUTING");
        let is_chain = |(_, words): &&(&str, Vec<String>)| words.len() == 2 && words[0] == "-N" && is_own(&words[1]);
        let chains = lines.iter().filter(is_chain).map(|(table, words)| ((*table).to_owned(), words[1].clone()));
        Rules { rules, chains: chains.collect(), ranges: ranges.iter().filter_map(|text| range(text)).collect() }
    }

    fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.chains.is_empty()
    }

    fn remove(&self) -> Result<(), Fault> {
        let rules = self.rules.iter().map(|(table, rule)| (table, "-D", rule.clone()));
        let emptied = self.chains.iter().map(|(table, chain)| (table, "-F", vec![chain.clone()]));
        let removed = self.chains.iter().map(|(table, chain)| (table, "-X", vec![chain.clone()]));
        for (table, how, rest) in rules.chain(emptied).chain(removed) {
            let words = [&["-t".to_owned(), table.clone(), how.to_owned()], rest.as_slice()].concat();
            network::iptables(&words)?.map_err(|said| Fault::new(format!("iptables {}: {said}", words.join(" "))))?;
        }
        Ok(())
    }
}

/// The words of a line; what is quoted is one.
fn words_of(line: &str) -> Vec<String> {
    let parts = line.split('"').enumerate();
    parts
        .flat_map(|(number, part)| match number % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        })
        .collect()
}

/// The word behind a key of a rule.
fn after<'w>(words: &'w [String], key: &str) -> Option<&'w str> {
    let at = words.iter().position(|word| word == key)?;
    words.get(at + 1).map(String::as_str)
}

/// `10.9.16.0/24`.
fn range(text: &str) -> Option<Range> {
    let (address, prefix) = text.split_once('/')?;
    Some(Range { address: address.parse().ok()?, prefix: prefix.parse().ok()? })
}

/// The chains of a network: for what leaves it, and for ports that are published.
fn chains_of(network: &str) -> [String; 2] {
    let hash = Sha512::digest(network.as_bytes());
    let digits: String = hash.iter().map(|byte| format!("{byte:02X}")).collect();
    ["", "DN-"].map(|kind| format!("{SHARED}-{kind}{}", &digits[..DIGITS]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILTER: &str = "-P FORWARD DROP\n-N NETAVARK_FORWARD\n-N NETAVARK_ISOLATION_1\n\
        -A FORWARD -m comment --comment \"netavark firewall plugin rules\" -j NETAVARK_FORWARD\n\
        -A NETAVARK_FORWARD -d 198.19.77.0/24 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
        -A NETAVARK_FORWARD -s 198.19.77.0/24 -j ACCEPT\n-A NETAVARK_FORWARD -s 10.88.0.0/16 -j ACCEPT\n\
        -A NETAVARK_ISOLATION_1 -i tabc123cxy ! -o tabc123cxy -j NETAVARK_ISOLATION_2\n";
    const NAT: &str = "-N NETAVARK-1D8721804F16F\n-N NETAVARK-DE8EBD64D4BC3\n-N NETAVARK-DN-DE8EBD64D4BC3\n\
        -N NETAVARK-HOSTPORT-DNAT\n-A POSTROUTING -j NETAVARK-HOSTPORT-MASQ\n\
        -A POSTROUTING -s 198.19.77.0/24 -j NETAVARK-DE8EBD64D4BC3\n\
        -A POSTROUTING -s 10.88.0.0/16 -j NETAVARK-1D8721804F16F\n\
        -A NETAVARK-DE8EBD64D4BC3 -d 198.19.77.0/24 -j ACCEPT\n\
        -A NETAVARK-HOSTPORT-DNAT -p tcp -m tcp --dport 80 -m comment --comment \"dnat name: rl-net id: 4d\" \
        -j NETAVARK-DN-DE8EBD64D4BC3\n";

    fn rules(nat: &str) -> Rules {
        Rules::of("rl-net", "tabc123cxy", &[("filter", FILTER.to_owned()), ("nat", nat.to_owned())])
    }

    /// What netavark 1.4 made for a network of this name.
    #[test]
    fn rules_are_a_network_s_by_the_hash_of_its_name() {
        assert_eq!(chains_of("rl-net"), ["NETAVARK-DE8EBD64D4BC3", "NETAVARK-DN-DE8EBD64D4BC3"]);
        let found = rules(NAT);
        let chains: Vec<&str> = found.chains.iter().map(|(_, chain)| chain.as_str()).collect();
        assert_eq!(chains, ["NETAVARK-DE8EBD64D4BC3", "NETAVARK-DN-DE8EBD64D4BC3"]);
        let lines: Vec<String> =
            found.rules.iter().map(|(table, rule)| format!("{table} {}", rule.join(" "))).collect();
        assert_eq!(lines.len(), 5, "{lines:#?}");
        assert!(lines[0].starts_with("filter NETAVARK_FORWARD -d 198.19.77.0/24"), "{lines:#?}");
        assert_eq!(lines[2], "filter NETAVARK_ISOLATION_1 -i tabc123cxy ! -o tabc123cxy -j NETAVARK_ISOLATION_2");
        assert!(lines[3].contains("dnat name: rl-net id: 4d -j NETAVARK-DN-"), "{lines:#?}");
        assert_eq!(lines[4], "nat POSTROUTING -s 198.19.77.0/24 -j NETAVARK-DE8EBD64D4BC3");
        assert_eq!(found.ranges, [range("198.19.77.0/24").unwrap()]);
    }

    #[test]
    fn what_another_network_needs_too_stays() {
        let shared = format!("{NAT}-A POSTROUTING -s 198.19.77.0/24 -j NETAVARK-1D8721804F16F\n");
        let tables: Vec<String> = rules(&shared).rules.iter().map(|(_, rule)| rule[0].clone()).collect();
        assert_eq!(tables, ["NETAVARK_ISOLATION_1", "NETAVARK-HOSTPORT-DNAT", "POSTROUTING"]);
        let others = Rules::of("another", "tabc124cxy", &[("filter", FILTER.to_owned()), ("nat", NAT.to_owned())]);
        assert!(others.is_empty(), "{others:?}");
    }
}
