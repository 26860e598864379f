//! The names by which a service finds others. Programs look for them in /etc/hosts, so where no engine writes that file
//! a copy of the bundle's, with a line for each name, is mounted over it.

use super::accounts::{Accounts, found, write};
use super::inside::open_tree;
use super::volumes::VOLUMES;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tare_core::fault::{Doing, Fault};
use tare_core::host::ServiceStart;

/// What the file holds where the bundle has none.
const USUAL: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";

/// The service as it stands in a machine's own network, at this address: its own names lead there, and so does that of
/// the machine, which is the name of its host to it. Servers look up either to find out where they are.
pub(crate) fn on_machine(start: &ServiceStart, address: IpAddr) -> ServiceStart {
    let mut start = start.standing_at(address);
    let machine = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
    let is_name = !machine.is_empty() && machine.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if is_name && machine != "localhost" && !start.names.is_empty() {
        start.names.entry(machine).or_insert(address);
    }
    start
}

impl Accounts {
    /// Adds the names that a service knows, in a file beside the one that names its user; nothing if it knows none.
    ///
    /// # Errors
    /// When it cannot be written. Whatever a bundle has in its place causes a warning, not an error.
    pub(crate) fn with_names(
        mut self,
        scratch: &Path,
        name: &str,
        bundle: &Path,
        start: &ServiceStart,
    ) -> Result<Accounts, Fault> {
        if start.names.is_empty() {
            return Ok(self);
        }
        let (folder, tree) = (scratch.join(VOLUMES).join(name), open_tree(bundle)?);
        match found(&tree, "hosts")
            .and_then(|(place, text)| self.free(&tree, &start.service, place).map(|place| (place, text)))
        {
            Ok((place, text)) => {
                let path = folder.join("hosts");
                let made = || {
                    fs::create_dir_all(&folder)?;
                    if start.service.as_image {
                        // Its root user may write to it, and set-user-id bits are among what it may set.
                        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
                    }
                    write(&path, with_names(&String::from_utf8_lossy(&text), &start.names).as_bytes())
                };
                made().doing(format!("write {}", path.display()))?;
                self.files.push((place, path));
            }
            Err(why) => self.warnings.push(format!(
                "service '{}': names of services do not resolve, as nothing can be put over /etc/hosts: {why}",
                start.instance
            )),
        }
        Ok(self)
    }
}

/// A text of /etc/hosts with these names added. Where it already has one of them, that is taken out.
fn with_names(text: &str, names: &BTreeMap<String, IpAddr>) -> String {
    let (mut all, text) = (String::new(), if text.is_empty() { USUAL } else { text });
    for line in text.lines() {
        let entry = line.split('#').next().unwrap_or_default();
        let (address, hosts) = entry.trim().split_once(char::is_whitespace).unwrap_or_default();
        let is_added = |host: &&str| names.contains_key(&host.to_ascii_lowercase());
        let (added, others): (Vec<&str>, Vec<&str>) = hosts.split_whitespace().partition(is_added);
        if added.is_empty() {
            all += &format!("{line}\n");
        } else if !others.is_empty() {
            all += &format!("{address}\t{}\n", others.join(" "));
        }
    }
    for (name, address) in names {
        all += &format!("{address}\t{name}\n");
    }
    all
}

/// Reads any bytes as a bundle's /etc/hosts: whatever they are, each name that is added leads to its address alone.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(bytes: &[u8]) {
    let address = IpAddr::from([10, 9, 8, 7]);
    let names = BTreeMap::from([("db".to_owned(), address), ("app.internal".to_owned(), address)]);
    let text = with_names(&String::from_utf8_lossy(bytes), &names);
    assert!(text.ends_with("10.9.8.7\tapp.internal\n10.9.8.7\tdb\n"));
    for name in names.keys() {
        let entries = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let is_it = |host: &str| host.eq_ignore_ascii_case(name);
        let count = entries.filter(|entry| entry.split_whitespace().skip(1).any(is_it)).count();
        assert_eq!(count, 1, "{name}: {text:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use tare_core::workload::{Service, Volume};

    fn names() -> BTreeMap<String, IpAddr> {
        [("db", [10, 0, 0, 2]), ("s", [127, 0, 0, 1])].map(|(name, at)| (name.to_owned(), IpAddr::from(at))).into()
    }

    /// The place and text of what is shown, and why it is not.
    fn written(
        stage: &Path,
        volumes: &[&str],
        names: BTreeMap<String, IpAddr>,
    ) -> (Vec<(String, String)>, Vec<String>) {
        let volumes = volumes.iter().map(|path| ((*path).to_owned(), Volume::of(1))).collect();
        let service = Service { volumes, ..sample::service("s") };
        let start = ServiceStart { names, ..ServiceStart::on(service, None) };
        let (scratch, tree) = (stage.join("scratch"), stage.join("tree"));
        let made = Accounts::default().with_names(&scratch, "s-1", &tree, &start).unwrap();
        let text = |(place, path): (String, PathBuf)| {
            assert_eq!(path, scratch.join(".volumes/s-1/hosts"));
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o644);
            (place, fs::read_to_string(path).unwrap())
        };
        (made.files.into_iter().map(text).collect(), made.warnings)
    }

    const ADDED: &str = "10.0.0.2\tdb\n127.0.0.1\ts\n";

    #[test]
    fn names_are_added_to_those_of_the_bundle() {
        let stage = tempfile::tempdir().unwrap();
        let tree = stage.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let shown = |text: &str| vec![("/etc/hosts".to_owned(), text.to_owned())];
        let (files, warnings) = written(stage.path(), &[], names());
        assert_eq!((files, warnings.len()), (shown(&format!("{USUAL}{ADDED}")), 0), "there is no such file");
        tare_testkit::files::write(&tree.join("etc/hosts"), "127.0.0.1 localhost # own\n10.1.1.1 other");
        let (files, _) = written(stage.path(), &[], names());
        assert_eq!(files, shown(&format!("127.0.0.1 localhost # own\n10.1.1.1 other\n{ADDED}")));
        assert!(written(stage.path(), &[], BTreeMap::new()).0.is_empty());
        // Where a link leads, but not out of the bundle.
        fs::rename(tree.join("etc/hosts"), tree.join("names")).unwrap();
        symlink("../../../names", tree.join("etc/hosts")).unwrap();
        assert_eq!(written(stage.path(), &[], names()).0[0].0, "/names");
        let (files, warnings) = written(stage.path(), &["/names"], names());
        assert!(files.is_empty() && warnings[0].contains("names of services do not resolve"), "{warnings:?}");
    }

    #[test]
    fn own_names_and_that_of_the_machine_lead_to_where_the_service_stands() {
        let (address, machine) = (IpAddr::from([10, 9, 0, 1]), rustix::system::uname());
        let service = Service { names: ["s".to_owned()].into(), ..sample::service("s") };
        let start = ServiceStart { names: names(), ..ServiceStart::on(service, None) };
        let told = on_machine(&start, address).names;
        assert_eq!((told["s"], told["db"]), (address, names()["db"]));
        let machine = machine.nodename().to_string_lossy().to_ascii_lowercase();
        assert!(machine == "localhost" || told.contains_key(&machine), "{told:?}");
        let nameless = ServiceStart { names: BTreeMap::new(), ..start };
        assert!(on_machine(&nameless, address).names.is_empty(), "it was told no names");
    }

    #[test]
    fn what_a_bundle_says_of_an_added_name_is_left_out() {
        let text = "127.0.0.1 localhost\n\n172.17.0.2 old DB\n172.17.0.3\tdb # gone\n# 1.1.1.1 db\n";
        let wanted = format!("127.0.0.1 localhost\n\n172.17.0.2\told\n# 1.1.1.1 db\n{ADDED}");
        assert_eq!(with_names(text, &names()), wanted);
    }
}
