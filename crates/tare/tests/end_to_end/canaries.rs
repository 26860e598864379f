//! One of everything that a run makes, made by somebody else, under names that a run could have had.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Six letters, as a run's id has.
const NAME: &str = "thesis";

/// Whether somebody's thing is there, asked by a program or by its path.
enum Sign {
    Says(Vec<String>),
    Stands(PathBuf),
}

/// What is somebody else's. What cannot be had on this machine is left out, and the test that asked is skipped in part.
pub(crate) struct Canaries {
    signs: Vec<(String, Sign)>,
    /// How each is removed, in the order in which it was made.
    removals: Vec<Vec<String>>,
    folders: Vec<PathBuf>,
    groups: Vec<PathBuf>,
    sleeper: Child,
    disk: tempfile::NamedTempFile,
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn run(words: &[String]) -> Option<Output> {
    let output = Command::new(&words[0]).args(&words[1..]).stdin(Stdio::null()).output().ok()?;
    output.status.success().then_some(output)
}

/// Where cgroups stand.
fn hierarchies() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mounts").unwrap();
    let fields = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    fields.filter(|fields| fields[2].starts_with("cgroup")).map(|fields| PathBuf::from(fields[1])).collect()
}

impl Canaries {
    pub(crate) fn set_out(home: &Path) -> Canaries {
        let sleeper = Command::new("sleep").arg("100000").stdout(Stdio::null()).spawn().unwrap();
        let disk = tempfile::NamedTempFile::new().unwrap();
        disk.as_file().set_len(1 << 20).unwrap();
        let (signs, removals, folders, groups) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut all = Canaries { signs, removals, folders, groups, sleeper, disk };
        all.files(home);
        all.groups();
        let table = format!("nft delete table inet tare-{NAME}");
        let things = [
            (
                "bridge",
                format!("ip link add t{NAME}b type bridge"),
                format!("ip link show t{NAME}b"),
                format!("ip link del t{NAME}b"),
            ),
            (
                "namespace",
                format!("ip netns add tare-{NAME}"),
                format!("ip netns exec tare-{NAME} true"),
                format!("ip netns del tare-{NAME}"),
            ),
            (
                "nftables table",
                format!("nft add table inet tare-{NAME}"),
                format!("nft list table inet tare-{NAME}"),
                table,
            ),
            (
                "rule",
                format!("iptables -w -A FORWARD -s 192.0.2.1 -m comment --comment tare-{NAME} -j ACCEPT"),
                format!("iptables -w -C FORWARD -s 192.0.2.1 -m comment --comment tare-{NAME} -j ACCEPT"),
                format!("iptables -w -D FORWARD -s 192.0.2.1 -m comment --comment tare-{NAME} -j ACCEPT"),
            ),
            (
                "network",
                format!("docker network create tare-{NAME}"),
                format!("docker network inspect tare-{NAME}"),
                format!("docker network rm tare-{NAME}"),
            ),
            (
                "image",
                format!("docker import {}/scratch/{NAME}.tar tare-{NAME}:latest", home.display()),
                format!("docker image inspect tare-{NAME}:latest"),
                format!("docker image rm -f tare-{NAME}:latest"),
            ),
            (
                "container",
                format!("docker create --name tare-{NAME}-t1-redis tare-{NAME}:latest /none"),
                format!("docker inspect tare-{NAME}-t1-redis"),
                format!("docker rm -f tare-{NAME}-t1-redis"),
            ),
        ];
        for (what, make, look, remove) in things {
            // What an earlier test that failed has left.
            let _ = run(&words(&remove));
            all.made(what, &words(&make), words(&look), words(&remove));
        }
        all.device();
        all
    }

    fn made(&mut self, what: &str, make: &[String], look: Vec<String>, remove: Vec<String>) {
        if run(make).is_none() {
            return println!("skipped: no {what}: '{}' makes none here", make.join(" "));
        }
        self.signs.push((what.to_owned(), Sign::Says(look)));
        self.removals.push(remove);
    }

    /// Folders called as a run's are, and an archive to make an image of.
    fn files(&mut self, home: &Path) {
        for folder in [home.join("scratch").join(NAME), Path::new("/run/tare").join(NAME)] {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("chapter-1"), "years of work").unwrap();
            self.signs.push(("folder".to_owned(), Sign::Stands(folder.join("chapter-1"))));
            self.folders.push(folder);
        }
        let archive = home.join("scratch").join(format!("{NAME}.tar"));
        let folder = self.folders[0].display().to_string();
        let pack = ["tar", "-C", &folder, "-cf", archive.to_str().unwrap(), "chapter-1"].map(str::to_owned);
        assert!(run(&pack).is_some(), "{pack:?}");
        self.removals.push(["rm", "-f", archive.to_str().unwrap()].map(str::to_owned).to_vec());
    }

    /// A cgroup in each hierarchy, with a process in those that take one.
    fn groups(&mut self) {
        for root in hierarchies() {
            let group = root.join(format!("tare-{NAME}"));
            if fs::create_dir(&group).is_ok() || group.is_dir() {
                let _ = fs::write(group.join("cgroup.procs"), self.sleeper.id().to_string());
                self.signs.push(("cgroup".to_owned(), Sign::Stands(group.clone())));
                self.groups.push(group);
            }
        }
    }

    fn device(&mut self) {
        let image = self.disk.path().display().to_string();
        let shown = run(&["losetup", "--find", "--show", &image].map(str::to_owned));
        let Some(shown) = shown else { return println!("skipped: no loop device: losetup makes none here") };
        let device = String::from_utf8(shown.stdout).unwrap().trim().to_owned();
        self.signs.push(("loop device".to_owned(), Sign::Says(words(&format!("losetup {device}")))));
        self.removals.push(words(&format!("losetup -d {device}")));
    }

    /// All are there.
    pub(crate) fn expect_untouched(&mut self) {
        assert_eq!(self.sleeper.try_wait().unwrap(), None, "somebody else's process was ended");
        let missing = self.signs.iter().filter(|(_, sign)| match sign {
            Sign::Says(look) => run(look).is_none(),
            Sign::Stands(path) => !path.exists(),
        });
        let missing: Vec<&str> = missing.map(|(what, _)| what.as_str()).collect();
        assert!(missing.is_empty(), "somebody else's: {missing:?}");
    }
}

impl Drop for Canaries {
    fn drop(&mut self) {
        // Whatever of it fails: the test has said what it had to say.
        let _ = self.sleeper.kill().and_then(|()| self.sleeper.wait());
        self.removals.iter().rev().for_each(|remove| drop(run(remove)));
        self.folders.iter().for_each(|folder| drop(fs::remove_dir_all(folder)));
        for group in &self.groups {
            // A process that was killed leaves its group a moment later.
            for _ in 0..100 {
                if fs::remove_dir(group).is_ok() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    }
}
