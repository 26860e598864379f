//! A name for the user that a service has of its own. Some programs exit when /etc/passwd has no line for their user,
//! so each instance finds one there, and one for its group in /etc/group: in every form, a copy of the bundle's file
//! with one more line is mounted over it. The same goes for the user's home, which some programs also need.

use super::inside::{IN_MEMORY, KERNEL, open_inside};
use super::volumes::VOLUMES;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};
use tare_core::host::ServiceStart;
use tare_core::workload::{Service, USUAL_PATH};

/// How much of a bundle's file is read, bytes; a longer file is left as it is.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What is mounted over files of a bundle.
#[derive(Debug, Clone, Default)]
pub(crate) struct Accounts {
    /// Places in the bundle, free of links, and the files of this machine that are mounted there read-only.
    pub(crate) files: Vec<(String, PathBuf)>,
    /// What could not be provided, for the record.
    pub(crate) warnings: Vec<String>,
    /// See [`home`].
    pub(crate) home: String,
}

impl Accounts {
    /// Looks up the home, and writes the files beside the volumes of what is started under `name`, with which they are
    /// removed; none if the workload states the user, since the bundle itself decides about such a user.
    ///
    /// # Errors
    /// When they cannot be written. Whatever a bundle has in their places causes a warning, not an error.
    pub(crate) fn write(scratch: &Path, name: &str, bundle: &Path, start: &ServiceStart) -> Result<Accounts, Fault> {
        let service = &start.service;
        let mut accounts = Accounts { home: home(bundle, service.user.0), ..Accounts::default() };
        if !service.own_user {
            return Ok(accounts);
        }
        let folder = scratch.join(VOLUMES).join(name);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let tree = rustix::fs::open(bundle, flags, Mode::empty()).doing(format!("open {}", bundle.display()))?;
        let (uid, gid) = service.user;
        for (name, rest) in
            [("passwd", format!("x:{uid}:{gid}::/nonexistent:/usr/sbin/nologin")), ("group", format!("x:{gid}:"))]
        {
            match found(&tree, name).and_then(|(place, text)| accounts.free(&tree, service, place).map(|at| (at, text)))
            {
                Ok((place, text)) => {
                    let path = folder.join(name);
                    let made = DirBuilder::new().recursive(true).mode(0o755).create(&folder);
                    let written = made.and_then(|()| write(&path, &with_line(text, uid, &rest)));
                    written.doing(format!("write {}", path.display()))?;
                    accounts.files.push((place, path));
                }
                Err(why) => accounts.warnings.push(format!(
                    "service '{}': /etc/{name} does not name the user {uid} that it has of its own: {why}",
                    start.instance
                )),
            }
        }
        Ok(accounts)
    }

    /// The place as text, unless something else is mounted there or above it.
    pub(super) fn free(&self, tree: &OwnedFd, service: &Service, place: PathBuf) -> Result<String, String> {
        let mounted = KERNEL.iter().chain(&IN_MEMORY).copied().chain(service.volumes.keys().map(String::as_str));
        // Where they really are, since `place` is free of links too.
        let mut mounted = mounted.map(|path| located(tree, path).map_or_else(|_| path.into(), |(real, _)| real));
        if mounted.any(|above: PathBuf| place.starts_with(above)) {
            return Err(format!("what stands at {} is the service's own", place.display()));
        }
        let text = place.to_str().ok_or_else(|| format!("{} is no text", place.display()))?;
        match self.files.iter().any(|(other, _)| other == text) {
            true => Err(format!("{text} is the place of another of these files")),
            false => Ok(text.to_owned()),
        }
    }
}

/// The home that a bundle's own /etc/passwd gives a user, by the first line with that number; the root for all others,
/// as in container engines.
pub(crate) fn home(bundle: &Path, uid: u32) -> String {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let tree = rustix::fs::open(bundle, flags, Mode::empty()).ok();
    let text = tree.and_then(|tree| found(&tree, "passwd").ok()).map(|(_, text)| text).unwrap_or_default();
    home_in(&text, uid)
}

/// The home that these lines give a user. One that does not fit into a variable, or that a reader would see as several
/// lines, does not count.
fn home_in(text: &[u8], uid: u32) -> String {
    let text = String::from_utf8_lossy(text);
    let mut users = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let user = users.find(|fields| fields.get(2).is_some_and(|number| number.parse() == Ok(uid)));
    let home = user.and_then(|fields| fields.get(5).copied());
    home.filter(|home| home.starts_with('/') && !home.contains(char::is_control)).unwrap_or("/").to_owned()
}

/// Reads any bytes as an image's /etc/passwd: homes are absolute paths of one line each, and an added line is the one
/// that its user gets.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(bytes: &[u8]) {
    const ADDED: u32 = 65_540;
    for uid in [0, 7, 999, ADDED, u32::MAX] {
        let home = home_in(bytes, uid);
        assert!(home.starts_with('/') && !home.contains(['\0', '\n', '\r']), "{uid}: {home:?}");
    }
    let more = with_line(bytes.to_vec(), ADDED, "x:65540:65541::/of-its-own:/x");
    assert!(more.starts_with(bytes) && more.ends_with(b":x:65540:65541::/of-its-own:/x\n"));
    let text = String::from_utf8_lossy(&more);
    let of_user = |line: &&str| line.split(':').nth(2).is_some_and(|number| number.parse() == Ok(ADDED));
    if text.lines().filter(of_user).count() == 1 {
        assert_eq!(home_in(&more, ADDED), "/of-its-own");
    }
}

/// What a service finds in its environment, in every form: what is stated, and PATH and HOME in any case. Engines would
/// add HOME, so the other forms must have it. They also add HOSTNAME, which cannot be prevented: it is the container's
/// own name, different in each, so no form could have the same.
pub(crate) fn environment(stated: &BTreeMap<String, String>, home: &str) -> BTreeMap<String, String> {
    let mut all = stated.clone();
    for (name, usual) in [("PATH", USUAL_PATH), ("HOME", home)] {
        all.entry(name.to_owned()).or_insert_with(|| usual.to_owned());
    }
    all
}

/// Where /etc/`name` is in a tree, free of links, and its content: nothing if there is no such file.
pub(super) fn found(tree: &OwnedFd, name: &str) -> Result<(PathBuf, Vec<u8>), String> {
    let path = format!("/etc/{name}");
    let missing = match located(tree, &path) {
        Ok((place, file)) => return read(&file).map(|text| (place, text)),
        Err(error) => error,
    };
    if missing.kind() != io::ErrorKind::NotFound {
        return Err(missing.to_string());
    }
    let (folder, within) = match located(tree, "/etc") {
        Ok((place, folder)) => (place, Some(folder)),
        Err(_) => ("/etc".into(), None),
    };
    // A dangling link leads to a place where something else may be created.
    let (at, last) = within.as_ref().map_or((tree, "etc"), |folder| (folder, name));
    match rustix::fs::statat(at, last, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok((folder.join(name), Vec::new())),
        Err(error) => Err(error.to_string()),
        Ok(_) => Err("a link leads nowhere".to_owned()),
    }
}

/// Opens `path` in a tree for inspection only, and says where it really is.
fn located(tree: &OwnedFd, path: &str) -> io::Result<(PathBuf, OwnedFd)> {
    let place = |of: &OwnedFd| fs::read_link(format!("/proc/self/fd/{}", of.as_raw_fd()));
    let file = open_inside(tree, path)?;
    let (root, real) = (place(tree)?, place(&file)?);
    let inside = real.strip_prefix(&root).map_err(|_| io::Error::other("it was moved away"))?;
    Ok((Path::new("/").join(inside), file))
}

/// The content of a file that was opened for inspection.
fn read(file: &OwnedFd) -> Result<Vec<u8>, String> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let facts = fs::metadata(&path).map_err(|error| error.to_string())?;
    if !facts.is_file() {
        return Err("it is no file".to_owned());
    }
    let mut text = Vec::new();
    let opened = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text));
    opened.map_err(|error| error.to_string())?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(format!("it is longer than {FILE_BYTES_MAX} bytes")),
        false => Ok(text),
    }
}

/// The text with a line appended for an id, under a name that no other line has.
fn with_line(mut text: Vec<u8>, id: u32, rest: &str) -> Vec<u8> {
    let taken =
        |name: &str| text.split(|byte| *byte == b'\n').any(|line| line.starts_with(format!("{name}:").as_bytes()));
    let mut name = format!("tare-{id}");
    while taken(&name) {
        name.push('-');
    }
    if text.last().is_some_and(|byte| *byte != b'\n') {
        text.push(b'\n');
    }
    text.extend_from_slice(format!("{name}:{rest}\n").as_bytes());
    text
}

/// Writes a world-readable file in place of an existing one.
pub(super) fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(path)?;
    file.write_all(text)?;
    // Regardless of this process's umask.
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use std::os::unix::fs::symlink;
    use tare_core::workload::{NOBODY, Volume};

    /// A scratch directory and, beside it, the tree of a bundle with an empty /etc.
    fn stage() -> tempfile::TempDir {
        let stage = tempfile::tempdir().unwrap();
        fs::create_dir_all(stage.path().join("tree/etc")).unwrap();
        stage
    }

    fn start(own_user: bool, volumes: &[&str]) -> ServiceStart {
        let volumes = volumes.iter().map(|path| ((*path).to_owned(), Volume::of(1))).collect();
        let service = Service { user: (65_540, 65_541), own_user, volumes, ..sample::service("s") };
        ServiceStart::on(service, None)
    }

    /// What is shown, place and text, and why the rest is not.
    fn written(stage: &Path, volumes: &[&str]) -> (Vec<(String, String)>, Vec<String>) {
        let made = Accounts::write(&stage.join("scratch"), "s-1", &stage.join("tree"), &start(true, volumes)).unwrap();
        let text = |(place, path): (String, PathBuf)| {
            assert!(path.starts_with(stage.join("scratch/.volumes/s-1")), "{}", path.display());
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o644);
            (place, fs::read_to_string(path).unwrap())
        };
        (made.files.into_iter().map(text).collect(), made.warnings)
    }

    const LINE: &str = "tare-65540:x:65540:65541::/nonexistent:/usr/sbin/nologin\n";

    #[test]
    fn a_line_is_added_to_what_is_there_under_a_name_that_is_free() {
        let stage = stage();
        let etc = stage.path().join("tree/etc");
        fs::write(etc.join("passwd"), "root:x:0:0::/:/x\ntare-65540:x:1:1::/:/x\ntare-65540-:x:1:1::/:/x").unwrap();
        let (files, warnings) = written(stage.path(), &[]);
        assert_eq!(warnings, [] as [String; 0]);
        let passwd = format!("root:x:0:0::/:/x\ntare-65540:x:1:1::/:/x\ntare-65540-:x:1:1::/:/x\n{}", {
            LINE.replacen("tare-65540", "tare-65540--", 1)
        });
        let group = "tare-65540:x:65541:\n".to_owned();
        assert_eq!(files, [("/etc/passwd".to_owned(), passwd), ("/etc/group".to_owned(), group)]);
        // Once more over what exists, and without anything in the bundle.
        fs::remove_dir_all(etc).unwrap();
        assert_eq!(written(stage.path(), &[]).0[0], ("/etc/passwd".to_owned(), LINE.to_owned()));
    }

    #[test]
    fn a_user_that_is_stated_is_not_added() {
        let stage = stage();
        let mut stated = start(false, &[]);
        stated.service.user = (NOBODY, NOBODY);
        let made = Accounts::write(&stage.path().join("scratch"), "s", &stage.path().join("tree"), &stated).unwrap();
        assert!(made.files.is_empty() && made.warnings.is_empty() && !stage.path().join("scratch").exists());
    }

    #[test]
    fn a_home_is_what_the_bundle_says_and_else_the_root() {
        let stage = stage();
        let tree = stage.path().join("tree");
        assert_eq!(home(&tree, 999), "/", "there is no such file");
        let text =
            "root:x:0:0::/root:/x\ndb:x:999:9::/var/lib/db:/x\ntwo:x:999:9::/two:/x\nodd:x:7:7::data:/x\nbad:x:8\n";
        fs::write(tree.join("etc/passwd"), text).unwrap();
        let homes = [999, 7, 8, 9, 65_540].map(|uid| home(&tree, uid));
        assert_eq!(homes, ["/var/lib/db", "/", "/", "/", "/"]);
        for home in ["/a\r/b", "/a\u{85}", "/a\u{1b}[2J", "/a\0"] {
            assert_eq!(home_in(format!("x:x:7:7::{home}:/x\n").as_bytes(), 7), "/", "{home:?}");
        }
        assert_eq!(home_in(b"x:x:7:7::/a\r", 7), "/", "the line does not end");
        assert_eq!(home_in(b"x:x:7:7::/a\r\n", 7), "/a");
        let mut stated = start(false, &[]);
        stated.service.user = (999, 9);
        let made = Accounts::write(&stage.path().join("scratch"), "s", &tree, &stated).unwrap();
        assert_eq!(made.home, "/var/lib/db");
    }

    #[test]
    fn what_is_stated_of_an_environment_stays() {
        let of = |stated: &[(&str, &str)]| {
            let stated = stated.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            environment(&stated, "/h").into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(
            of(&[("A", "1"), ("HOME", "")]),
            ["A=1".to_owned(), "HOME=".to_owned(), format!("PATH={USUAL_PATH}")]
        );
        assert_eq!(of(&[("PATH", "/bin")]), ["HOME=/h", "PATH=/bin"]);
    }

    #[test]
    fn links_are_followed_inside_the_bundle_and_nowhere_else() {
        let stage = stage();
        let tree = stage.path().join("tree");
        tare_testkit::files::write(&tree.join("conf/users"), "a:x:1:1::/:/x\n");
        symlink("../../../../../conf/users", tree.join("etc/passwd")).unwrap();
        symlink("/etc/hostname", tree.join("etc/group")).unwrap();
        let (files, warnings) = written(stage.path(), &[]);
        assert_eq!(files, [("/conf/users".to_owned(), format!("a:x:1:1::/:/x\n{LINE}"))]);
        assert!(warnings.len() == 1 && warnings[0].contains("/etc/group") && warnings[0].contains("leads nowhere"));
        // Where a link would cause the missing file to be created.
        fs::remove_dir_all(tree.join("etc")).unwrap();
        symlink("/run/etc", tree.join("etc")).unwrap();
        let (files, warnings) = written(stage.path(), &[]);
        assert!(files.is_empty() && warnings.len() == 2, "{files:?}, {warnings:?}");
    }

    #[test]
    fn what_is_no_text_of_some_length_stays_as_it_is() {
        let stage = stage();
        let etc = stage.path().join("tree/etc");
        let whole = "x".repeat(FILE_BYTES_MAX as usize - 1) + "\n";
        fs::write(etc.join("group"), &whole).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, etc.join("passwd"), Mode::RWXU).unwrap();
        let (files, warnings) = written(stage.path(), &[]);
        assert_eq!((files.len(), files[0].1.len()), (1, whole.len() + "tare-65540:x:65541:\n".len()));
        assert!(warnings[0].contains("service 's': /etc/passwd does not name the user 65540"), "{warnings:?}");
        assert!(warnings[0].ends_with("it is no file"), "nobody waits for a writer: {warnings:?}");
        fs::remove_file(etc.join("passwd")).unwrap();
        fs::create_dir(etc.join("passwd")).unwrap();
        // Sparse, so that it takes up no room.
        File::create(etc.join("group")).unwrap().set_len(1 << 40).unwrap();
        let (files, warnings) = written(stage.path(), &[]);
        assert!(files.is_empty() && warnings[0].ends_with("it is no file"), "{warnings:?}");
        assert!(warnings[1].contains("longer than 1048576 bytes"), "{warnings:?}");
        fs::remove_dir_all(&etc).unwrap();
        fs::write(&etc, "").unwrap();
        assert_eq!(written(stage.path(), &[]).1.len(), 2, "/etc is a file");
        fs::remove_file(&etc).unwrap();
        symlink("etc", &etc).unwrap();
        assert_eq!(written(stage.path(), &[]).1.len(), 2, "/etc is a link to itself");
    }

    #[test]
    fn nothing_is_mounted_over_what_is_the_services_own() {
        let stage = stage();
        let tree = stage.path().join("tree");
        let refused = |volumes: &[&str]| {
            let (files, warnings) = written(stage.path(), volumes);
            (files.len(), warnings.len())
        };
        assert_eq!(refused(&["/data", "/et"]), (2, 0));
        assert_eq!(refused(&["/etc"]), (0, 2));
        assert_eq!(refused(&["/etc/passwd"]), (1, 1));
        fs::rename(tree.join("etc"), tree.join("real")).unwrap();
        symlink("real", tree.join("etc")).unwrap();
        assert_eq!(refused(&["/etc"]), (0, 2), "a volume stands where its path leads");
        fs::remove_file(tree.join("etc")).unwrap();
        fs::create_dir_all(tree.join("run/etc")).unwrap();
        symlink("run/etc", tree.join("etc")).unwrap();
        assert_eq!(refused(&[]), (0, 2), "memory hides it");
        fs::remove_file(tree.join("etc")).unwrap();
        fs::create_dir(tree.join("etc")).unwrap();
        fs::write(tree.join("etc/both"), "").unwrap();
        symlink("both", tree.join("etc/passwd")).unwrap();
        symlink("both", tree.join("etc/group")).unwrap();
        assert_eq!(refused(&[]), (1, 1), "two mounts at one place");
    }
}
