//! Who controls what is at a path: on a machine that people share, root must not use what another user could have put
//! there.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use tare_core::fault::{Doing, Fault};

/// How many symbolic links a path may lead through; the kernel's own limit.
const LINKS_MAX: usize = 40;
/// The mode bits that let the group and others write.
const OTHERS_WRITE: u32 = 0o022;
/// The mode bit that lets only its owner remove or rename an entry of a folder.
const STICKY: u32 = 0o1000;

/// Something on the way to a path that another user can change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// What it is.
    pub path: PathBuf,
    /// Why another user can: "belongs to user 1000".
    pub why: String,
}

/// Who, in addition to root, may change something: users, and groups of them.
#[derive(Debug, Default)]
struct Hands {
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
}

impl Hands {
    /// Those who could replace what is at `path`, except that the world-writable bit is not considered.
    fn over(path: &Path) -> io::Result<Hands> {
        let mut hands = Hands::default();
        for place in path.canonicalize()?.ancestors() {
            let facts = place.metadata()?;
            hands.users.insert(facts.uid());
            // In a sticky folder nobody can replace somebody else's entry.
            if facts.mode() & (0o020 | STICKY) == 0o020 {
                hands.groups.insert(facts.gid());
            }
        }
        Ok(hands)
    }
}

/// The first thing on the way from the root to `path` that somebody other than root and `own` could replace; `None`
/// when there is none. What does not exist yet is controlled by whoever may create it.
///
/// # Errors
/// When the way cannot be examined.
pub(crate) fn foreign(path: &Path, own: u32) -> io::Result<Option<Foreign>> {
    foreign_to(path, &Hands { users: BTreeSet::from([own]), ..Hands::default() })
}

/// The same, for anybody other than root and `own`.
fn foreign_to(path: &Path, own: &Hands) -> io::Result<Option<Foreign>> {
    let mut ahead: VecDeque<OsString> = parts(path);
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    loop {
        let facts = match fs::symlink_metadata(&at) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let found = |why: String| Ok(Some(Foreign { path: at.clone(), why }));
        if facts.uid() != 0 && !own.users.contains(&facts.uid()) {
            return found(format!("belongs to user {}", facts.uid()));
        }
        if facts.is_symlink() {
            links += 1;
            if links > LINKS_MAX {
                return Err(io::Error::other(format!("{} leads through more than {LINKS_MAX} links", path.display())));
            }
            let target = fs::read_link(&at)?;
            at = if target.is_absolute() { PathBuf::from("/") } else { at.parent().unwrap_or(&at).to_owned() };
            for part in parts(&target).into_iter().rev() {
                ahead.push_front(part);
            }
        } else if facts.mode() & others_write(&facts, own) != 0 && (ahead.is_empty() || facts.mode() & STICKY == 0) {
            let who = if facts.mode() & 0o002 != 0 { "everybody".to_owned() } else { format!("group {}", facts.gid()) };
            return found(format!("may be written to by {who}"));
        }
        match ahead.pop_front() {
            None => return Ok(None),
            Some(part) if part == ".." => drop(at.pop()),
            Some(part) => at.push(part),
        }
    }
}

/// The bits that let anybody outside `own` write.
fn others_write(facts: &fs::Metadata, own: &Hands) -> u32 {
    if own.groups.contains(&facts.gid()) { OTHERS_WRITE & !0o020 } else { OTHERS_WRITE }
}

/// The part of a path that exists; an empty path means the current folder.
fn there(path: &Path) -> PathBuf {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    whole.ancestors().find(|place| place.symlink_metadata().is_ok()).unwrap_or(&whole).to_owned()
}

/// Whether only root, and `behind`, the user who became root, could have put what is at `path` there, or could put
/// something there. A user who is not root may use whatever exists.
pub fn is_own(path: &Path, behind: Option<u32>) -> bool {
    in_other_hands(path, behind).is_none()
}

/// What on the way to `path` keeps it from being root's own, as [`is_own`] has it: the first thing that another user
/// can change, or that cannot be examined. `None` where nothing does.
pub fn in_other_hands(path: &Path, behind: Option<u32>) -> Option<Foreign> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let place = there(path);
    let unknown = |error: io::Error| Some(Foreign { path: place.clone(), why: format!("cannot be examined: {error}") });
    foreign(&place, behind.unwrap_or(0)).unwrap_or_else(unknown)
}

/// Whether everybody who could have put what is at `path` there, or could put something there, could also replace
/// `trusted`. A world-writable folder is not trusted, nor is one that cannot be examined.
pub fn is_no_more_open(path: &Path, trusted: &Path) -> bool {
    let trusted = if trusted.as_os_str().is_empty() { Path::new(".") } else { trusted };
    let found = Hands::over(trusted).and_then(|own| foreign_to(&there(path), &own));
    found.is_ok_and(|found| found.is_none())
}

/// Creates a folder, unless it exists, that only root, and `behind`, the user who became root, can put something into
/// or replace. A user who is not root creates whatever is permitted.
///
/// # Errors
/// When it cannot be created, or somebody else could change it.
pub fn make_own(path: &Path, behind: Option<u32>) -> Result<(), Fault> {
    let doing = || format!("make the folder {}", path.display());
    let whole = std::path::absolute(path).doing(doing())?;
    let look = || {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let Some(found) = foreign(&whole, behind.unwrap_or(0)).doing(doing())? else { return Ok(()) };
        let (path, place) = (path.display(), found.path.display());
        let why = format!("{place} {}, who could have what root writes there go elsewhere", found.why);
        Err(Fault::new(format!("{path} is in the hands of others: {why}")))
    };
    // Checked before, so that nothing is created in somebody else's place; and after, as somebody may have been first.
    look()?;
    match DirBuilder::new().mode(0o755).create(&whole) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error).doing(doing()),
        _ => look(),
    }
}

/// The components of a path below the root, with links unresolved.
fn parts(path: &Path) -> VecDeque<OsString> {
    let part = |part: Component| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    const OTHER: u32 = 4242;

    #[test]
    fn nothing_on_the_way_may_be_in_another_s_hands() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let why = |path: &Path| foreign(path, 0).unwrap().map(|found| (found.path, found.why));
        let (way, home) = (root.join("way"), root.join("way/home"));
        fs::create_dir_all(&home).unwrap();
        assert_eq!(why(&home), None);
        assert_eq!(why(&home.join("not/there")), None);
        // By its owner, unless that is the very user who asks.
        lchown(&way, Some(OTHER), None).unwrap();
        assert_eq!(why(&home), Some((way.clone(), format!("belongs to user {OTHER}"))));
        assert_eq!(foreign(&home, OTHER).unwrap(), None);
        lchown(&way, Some(0), None).unwrap();
        // By who may write: a sticky folder is acceptable on the way, but not at its end.
        mode(&way, 0o777);
        assert_eq!(why(&home), Some((way.clone(), "may be written to by everybody".to_owned())));
        mode(&way, 0o770);
        assert_eq!(why(&home).unwrap().1, "may be written to by group 0");
        mode(&way, 0o1777);
        assert_eq!(why(&home), None);
        assert_eq!(why(&way).unwrap().0, way);
        assert!(!is_own(&way.join("missing"), None) && is_own(&home.join("missing"), None));
        assert_eq!(in_other_hands(&way.join("missing"), None).map(|found| found.path), Some(way.clone()));
        // By somebody else's link to a good place, and by one of our links to a bad place.
        let (theirs, ours) = (way.join("theirs"), way.join("ours"));
        symlink("home", &theirs).unwrap();
        assert_eq!(why(&theirs.join("x")), None);
        lchown(&theirs, Some(OTHER), None).unwrap();
        assert_eq!(why(&theirs.join("x")).unwrap().0, theirs);
        fs::create_dir(root.join("bad")).unwrap();
        lchown(root.join("bad"), Some(OTHER), None).unwrap();
        symlink("../bad", &ours).unwrap();
        assert_eq!(why(&ours.join("x")).unwrap().0, root.join("bad"));
        symlink("loop", way.join("loop")).unwrap();
        assert!(foreign(&way.join("loop"), 0).unwrap_err().to_string().contains("links"));
    }

    #[test]
    fn a_folder_is_made_where_nobody_else_has_a_hand() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let made = root.join("records");
        make_own(&made, None).unwrap();
        make_own(&made, None).unwrap();
        lchown(&made, Some(OTHER), None).unwrap();
        let fault = make_own(&made, None).unwrap_err();
        assert!(fault.message.contains(&format!("records belongs to user {OTHER}, who")), "{fault}");
        make_own(&made, Some(OTHER)).unwrap();
        // Somebody is there first, in a folder where everybody may create something.
        let all = root.join("all");
        fs::create_dir(&all).unwrap();
        fs::set_permissions(&all, fs::Permissions::from_mode(0o1777)).unwrap();
        make_own(&all.join("ours"), None).unwrap();
        symlink(&root, all.join("theirs")).unwrap();
        lchown(all.join("theirs"), Some(OTHER), None).unwrap();
        assert!(make_own(&all.join("theirs"), None).unwrap_err().message.contains("all/theirs belongs to user"));
        // Nothing is created where the group may change what is there.
        fs::set_permissions(&all, fs::Permissions::from_mode(0o775)).unwrap();
        let fault = make_own(&all.join("new"), None).unwrap_err();
        assert!(fault.message.contains("all may be written to by group") && !all.join("new").exists(), "{fault}");
    }

    #[test]
    fn a_folder_is_trusted_as_far_as_the_one_that_is_gone_by_already() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, mode: u32| {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let (own, group, all) = (make("own", 0o755), make("group", 0o775), make("all", 0o1777));
        assert!(is_no_more_open(&own, &own) && is_no_more_open(&group, &group) && is_no_more_open(&own, &group));
        assert!(!is_no_more_open(&group, &own), "a group may write there");
        for of_all in [&all, &all.join("missing"), &all.join("..").join("all")] {
            assert!(!is_no_more_open(of_all, &all), "{}", of_all.display());
        }
        assert!(is_no_more_open(&own.join("missing"), &own) && !is_no_more_open(&own, &own.join("missing")));
        // A link in a world-writable folder may be anybody's, wherever it leads.
        symlink(&own, all.join("link")).unwrap();
        if rustix::process::geteuid().is_root() {
            lchown(all.join("link"), Some(OTHER), None).unwrap();
            assert!(!is_no_more_open(&all.join("link"), &own));
            // Whoever owns the folder above could replace it, and so is trusted with everything below.
            lchown(&group, Some(OTHER), None).unwrap();
            let below = group.join("below");
            fs::create_dir(&below).unwrap();
            assert!(is_no_more_open(&group.join("beside"), &below) && !is_no_more_open(&group, &own));
        }
    }
}
