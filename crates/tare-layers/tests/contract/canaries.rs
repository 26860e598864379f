//! Things of somebody else's that are called as ours are, beside a run that is killed and cleaned up after.

use crate::stage::left_of;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tare_layers::{leftovers, marks};

/// A name that a run could have had.
const NAME: &str = "thesis";

/// One of everything. What is not to be had on this machine is left out, and said.
pub(crate) struct Canaries {
    folders: Vec<PathBuf>,
    cgroups: Vec<PathBuf>,
    links: Vec<String>,
    namespaces: Vec<String>,
    rules: Vec<Vec<String>>,
    processes: Vec<Child>,
    mount: PathBuf,
    device: Option<String>,
    _image: tempfile::NamedTempFile,
}

fn done(program: &str, words: &[&str]) -> bool {
    let output = Command::new(program).args(words).output();
    output.is_ok_and(|output| output.status.success())
}

fn sleeper() -> Command {
    let mut sleeper = Command::new("sleep");
    sleeper.arg("1000").stdout(Stdio::null()).stderr(Stdio::null());
    sleeper
}

/// Where cgroups stand.
fn hierarchies() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mounts").unwrap();
    let group = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        fields[2].starts_with("cgroup").then(|| PathBuf::from(fields[1]))
    };
    text.lines().filter_map(group).collect()
}

impl Canaries {
    /// Makes them, by a name of their own; and by that of `run`, which is dead, where it has made nothing of the kind.
    pub(crate) fn beside(run: &str, scratch: &Path) -> Canaries {
        let scratch = scratch.ancestors().find(|path| path.ends_with("scratch")).unwrap();
        let folders = [scratch.join(NAME), Path::new(marks::RUN_ROOT).join(NAME)];
        for folder in &folders {
            fs::create_dir_all(folder.join("chapter")).unwrap();
            fs::write(folder.join("chapter/1"), "years of work").unwrap();
        }
        let mount = folders[0].join("mounted");
        fs::create_dir(&mount).unwrap();
        rustix::mount::mount("tmpfs", &mount, "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
        let mut processes = Vec::new();
        let mut cgroups = Vec::new();
        for root in hierarchies() {
            let free = [root.join(format!("tare-{NAME}")), root.join(format!("tare-{run}"))];
            cgroups.extend(free.into_iter().filter(|group| fs::create_dir(group).is_ok()));
        }
        // A process in those that take one: a set of CPUs takes none before it is told which.
        for group in &cgroups {
            let mut child = sleeper().spawn().unwrap();
            match fs::write(group.join("cgroup.procs"), child.id().to_string()) {
                Ok(()) => processes.push(child),
                Err(_) => child.kill().and_then(|()| child.wait()).map(drop).unwrap(),
            }
        }
        // One that was started with a dead run's name, and one that is called as a guest is.
        processes.push(sleeper().env(marks::RUN_VARIABLE, run).spawn().unwrap());
        let mut guest = Command::new("/bin/sh");
        // It waits for a line that nobody writes, and starts nothing that could outlive it.
        let script = ["-c", "read line", "-name", &format!("tare-{run}-t1")];
        guest.arg0("/usr/bin/qemu-system-x86_64").args(script).stdin(Stdio::piped());
        processes.push(guest.spawn().unwrap());
        let links = [format!("t{NAME}b"), format!("t{run}z")].into_iter();
        let links: Vec<_> = links.filter(|link| done("ip", &["link", "add", link, "type", "bridge"])).collect();
        let namespaces = [format!("tare-{NAME}")].into_iter();
        let namespaces: Vec<_> = namespaces.filter(|name| done("ip", &["netns", "add", name])).collect();
        let rule = |name: &str| {
            let words = ["FORWARD", "-s", "192.0.2.1", "-m", "comment", "--comment", name, "-j", "ACCEPT"];
            words.map(str::to_owned).to_vec()
        };
        let all = [rule(&format!("tare-{NAME}")), rule(&format!("tare-{run}"))];
        let rules = all.into_iter().filter(|rule| iptables("-A", rule)).collect::<Vec<_>>();
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(1 << 20).unwrap();
        let shown = Command::new("losetup").args(["--find", "--show"]).arg(image.path()).output();
        let shown = shown.ok().filter(|output| output.status.success());
        let device = shown.map(|output| String::from_utf8(output.stdout).unwrap().trim().to_owned());
        for (what, there) in [("ip", !links.is_empty()), ("iptables", !rules.is_empty()), ("losetup", device.is_some())]
        {
            if !there {
                println!("skipped: no {}", if what == "losetup" { "loop device" } else { what });
            }
        }
        let folders = folders.to_vec();
        Canaries { folders, cgroups, links, namespaces, rules, processes, mount, device, _image: image }
    }

    /// None is listed as anybody's leftover.
    pub(crate) fn expect_unlisted(&self) {
        let found = left_of(NAME);
        assert!(found.is_empty(), "somebody else's: {found:#?}");
        let said = leftovers::left_alone().join("\n");
        for thing in [&self.folders[0], &self.cgroups[0]] {
            assert!(said.contains(thing.to_str().unwrap()), "{thing:?} is not told of: {said}");
        }
    }

    /// All are as they were.
    pub(crate) fn expect_untouched(&mut self) {
        for folder in &self.folders {
            assert_eq!(fs::read_to_string(folder.join("chapter/1")).unwrap(), "years of work", "{folder:?}");
        }
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(mounts.contains(&format!(" {} tmpfs", self.mount.display())), "{mounts}");
        self.cgroups.iter().for_each(|group| assert!(group.is_dir(), "{group:?}"));
        let links = self.links.iter().map(|link| format!("/sys/class/net/{link}"));
        let namespaces = self.namespaces.iter().map(|name| format!("/run/netns/{name}"));
        links.chain(namespaces).for_each(|path| assert!(Path::new(&path).exists(), "{path}"));
        self.rules.iter().for_each(|rule| assert!(iptables("-C", rule), "{rule:?}"));
        for child in &mut self.processes {
            assert_eq!(child.try_wait().unwrap(), None, "a process was ended");
        }
        if let Some(device) = &self.device {
            assert!(done("losetup", &[device]), "{device}");
        }
    }
}

fn iptables(verb: &str, rule: &[String]) -> bool {
    let words: Vec<&str> = ["-w", verb].into_iter().chain(rule.iter().map(String::as_str)).collect();
    done("iptables", &words)
}

impl Drop for Canaries {
    fn drop(&mut self) {
        for child in &mut self.processes {
            let _ = child.kill();
            let _ = child.wait();
        }
        // Whatever of it fails: the test has said what it had to say.
        let rules = self.rules.iter().map(|rule| iptables("-D", rule));
        let links = self.links.iter().map(|link| done("ip", &["link", "del", link]));
        let namespaces = self.namespaces.iter().map(|name| done("ip", &["netns", "del", name]));
        let devices = self.device.iter().map(|device| done("losetup", &["-d", device]));
        let _ = rules.chain(links).chain(namespaces).chain(devices).count();
        let _ = rustix::mount::unmount(&self.mount, rustix::mount::UnmountFlags::DETACH);
        self.folders.iter().for_each(|folder| drop(fs::remove_dir_all(folder)));
        let until = Instant::now() + Duration::from_secs(5);
        for group in &self.cgroups {
            // A process that was killed leaves its group a moment later.
            while fs::remove_dir(group).is_err() && group.exists() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
