//! `tare import`: makes a workload and a study from a Compose file.

use crate::catalog::Tables;
use crate::mistake::Mistake;
use crate::terminal::tell;
use crate::written::{hand_folder_to_caller, make_own_folder, write_own_file};
use crate::{EXIT_MISTAKE, EXIT_OK, paths, within};
use anyhow::Result;
use clap::Args;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use tare_compose::{Around, Disk, Imported, Note, Thing, Weight, beneath};
use tare_core::bundle::ENGINE_IMAGE;
use tare_core::catalog::Catalog;
use tare_core::fault::Doing;
use tare_core::image::ImageConfig;

/// The names that Compose looks for in a folder, in this order.
pub(crate) const NAMES: [&str; 4] = ["compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"];
/// The names of a file that Compose puts over the one that it found itself.
const OVER: [&str; 4] =
    ["compose.override.yml", "compose.override.yaml", "docker-compose.override.yml", "docker-compose.override.yaml"];
/// The file that says how an image is built, where a Compose file names none.
const DOCKERFILE: &str = "Dockerfile";
/// The largest file that a Compose file may name; a longer one is something else.
const FILE_BYTES_MAX: u64 = 4 << 20;

const IMPORT_HELP: &str = "\
Exit codes: 0 the workload runs as it is; 1 the folder could not be written; 2 a mistake on the command line or in a \
file, or something keeps the workload from running. Nothing was started.";

#[derive(Debug, Args)]
#[command(after_help = IMPORT_HELP)]
pub(crate) struct ImportArgs {
    /// Compose file, or a folder that has one
    #[arg(default_value = ".")]
    pub(crate) file: PathBuf,
    /// Write to this new folder [default: the project's name]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Treat each key that cannot mean the same in all forms as a mistake
    #[arg(long)]
    pub(crate) strict: bool,
    /// Also deploy the services of this profile; may be repeated
    #[arg(long = "profile", value_name = "NAME")]
    pub(crate) profiles: Vec<String>,
}

pub(crate) fn import(args: &ImportArgs) -> Result<u8> {
    let file = find(&args.file)?;
    let over = over(&args.file, &file);
    let wanted = Wanted { profiles: &args.profiles, ..Wanted::default() };
    let imported = read(&file, &over, &wanted)?;
    if args.strict && !imported.notes.is_empty() {
        return Err(Mistake::in_files(imported.notes.iter().map(Note::as_problem).collect()).into());
    }
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(&imported.name));
    write(&out, &imported)?;
    tell(&told(&file, &over, &out, &imported));
    Ok(if imported.is_stopped() { EXIT_MISTAKE } else { EXIT_OK })
}

/// Digests of files, by their paths.
pub(crate) type Digests = BTreeMap<PathBuf, String>;

/// What is wanted of a Compose file.
#[derive(Default)]
pub(crate) struct Wanted<'a> {
    /// The services of these profiles, too.
    pub(crate) profiles: &'a [String],
    /// The service that gets the load; none to choose one.
    pub(crate) service: Option<&'a str>,
    /// Whether the file is read again once all images are there.
    pub(crate) images_follow: bool,
}

/// Reads a Compose file with those of `over` over it.
///
/// # Errors
/// All mistakes in it and in the files that it names.
pub(crate) fn read(file: &Path, over: &[PathBuf], wanted: &Wanted) -> Result<Imported> {
    read_noting(file, over, wanted).map(|(imported, _)| imported)
}

/// The same with the digest of each file that was read or that an image is built by, by its path.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_noting(file: &Path, over: &[PathBuf], wanted: &Wanted) -> Result<(Imported, Digests)> {
    let (whole, file) = (paths::plain(file), tare_compose::plain(file));
    let folder = whole.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let root = file.parent().unwrap_or(Path::new("")).to_owned();
    let disk = Machine { file: file.clone(), root, digests: RefCell::default() };
    let environment = paths::environment();
    let Wanted { profiles, service, images_follow } = *wanted;
    let around = Around {
        disk: &disk,
        over,
        environment: &environment,
        profiles,
        folder: &folder,
        image: &find_image,
        service,
        images_follow,
    };
    let imported = tare_compose::import(&file, &around).map_err(Mistake::in_files)?;
    for build in &imported.built {
        let dockerfile = build.context.join(build.dockerfile.as_deref().unwrap_or(DOCKERFILE));
        // Whoever builds the image tells what is wrong with it.
        let _ = disk.read(&tare_compose::plain(&dockerfile));
    }
    Ok((imported, disk.digests.into_inner()))
}

/// The Compose file that was typed, or the one in the folder that was typed.
///
/// # Errors
/// When there is none.
pub(crate) fn find(typed: &Path) -> Result<PathBuf> {
    if typed.is_file() {
        return Ok(typed.to_owned());
    }
    let shown = paths::shown(typed);
    if !typed.is_dir() {
        return Err(Mistake::new(format!("there is no Compose file {shown}")).into());
    }
    let place = if typed == Path::new(".") { PathBuf::new() } else { typed.to_owned() };
    let found = NAMES.iter().map(|name| place.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| {
        let what = format!("the folder {} has no Compose file", if shown.is_empty() { "." } else { shown.as_str() });
        Mistake::new(format!("{what}\n  to do: name one; looked for {}", NAMES.join(", "))).into()
    })
}

/// The files that Compose puts over the one that was found: none if that one was typed itself.
pub(crate) fn over(typed: &Path, found: &Path) -> Vec<PathBuf> {
    if typed == found {
        return Vec::new();
    }
    let paths = OVER.iter().map(|name| found.with_file_name(name));
    paths.filter(|path| path.is_file()).take(1).collect()
}

/// An image of the engine goes over one of the same name elsewhere, as it does for Compose.
fn find_image(name: &str) -> (String, Option<ImageConfig>) {
    let in_engine = format!("{ENGINE_IMAGE}{name}");
    match Tables.image(&in_engine) {
        Ok(Some(says)) => (in_engine, Some(says)),
        // What is wrong with an image is reported when the workload is checked.
        _ => (name.to_owned(), Tables.image(name).ok().flatten()),
    }
}

/// The files of this machine. What lies below the folder of the Compose file must not lead out of it by a link: Tare
/// copies it, perhaps as root, and the file may be somebody else's.
struct Machine {
    file: PathBuf,
    root: PathBuf,
    /// Of what was read so far.
    digests: RefCell<Digests>,
}

impl Disk for Machine {
    fn at(&self, path: &Path) -> Option<Thing> {
        let found = fs::metadata(path).ok()?;
        let executable = found.permissions().mode() & 0o100 != 0;
        Some(match (found.is_file(), found.is_dir()) {
            (true, _) => Thing::File { executable },
            (_, true) => Thing::Folder,
            _ => Thing::Other,
        })
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        let bytes = match beneath(&self.root, path).filter(|_| path != self.file) {
            Some(name) => within::read_beneath(&self.root, name, FILE_BYTES_MAX),
            None => within::read_file(path, FILE_BYTES_MAX),
        }?;
        self.digests.borrow_mut().insert(paths::plain(path), within::digest(&bytes));
        Ok(bytes)
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, String> {
        let name = beneath(&self.root, path).ok_or("it lies outside of the Compose file's folder")?;
        // The folder itself has an empty name, relative to it.
        let name = if name.as_os_str().is_empty() { Path::new(".") } else { name };
        let entries = within::list_beneath(&self.root, name)?;
        let mut names: Vec<String> = entries.into_iter().map(|(name, _)| name).collect();
        names.sort();
        Ok(names)
    }
}

/// Writes the files into a new folder, or an empty one: all of them, or none.
fn write(out: &Path, imported: &Imported) -> Result<()> {
    let texts = imported.files.iter().map(|(name, text)| (name.as_str(), text.as_bytes()));
    let others = imported.other_files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
    write_all(out, texts.chain(others))
}

fn write_all<'f>(out: &Path, files: impl IntoIterator<Item = (&'f str, &'f [u8])>) -> Result<()> {
    let shown = paths::shown(out);
    if fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some()) || out.is_file() {
        let hint = "name another one by --out, or remove it";
        return Err(Mistake::new(format!("{shown} exists already\n  to do: {hint}")).into());
    }
    // The absolute path, for `.` has no name and no folder around it.
    let whole = paths::plain(out);
    let around = whole.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(around).doing(format_args!("make the folder {}", paths::shown(around)))?;
    let is_there = whole.is_dir();
    // Where the folder is there, it stays the same one: somebody's shell may stand in it.
    let made = tempfile::Builder::new()
        .prefix(".tare-import-")
        .tempdir_in(if is_there { whole.as_path() } else { around })
        .doing(format_args!("make a folder beside {shown}"))?;
    hand_folder_to_caller(made.path());
    for (name, content) in files {
        write_new(made.path(), name, content)?;
    }
    if is_there {
        for entry in fs::read_dir(made.path()).doing("list what was written")? {
            let entry = entry.doing("list what was written")?;
            fs::rename(entry.path(), whole.join(entry.file_name())).doing(format_args!("move files to {shown}"))?;
        }
        return Ok(());
    }
    fs::rename(made.path(), &whole).doing(format_args!("make {shown} of the folder beside it"))?;
    // It has another name now, so there is nothing to remove.
    let _ = made.keep();
    Ok(())
}

/// Writes a file, which may hold a secret: only its owner may read it, who under sudo is the calling user. Its name
/// stays in the folder, whatever a Compose file says.
pub(crate) fn write_new(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> Result<()> {
    let is_plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if name.is_empty() || !is_plain {
        return Err(Mistake::new(format!("'{name}' leads out of the folder {}", paths::shown(folder))).into());
    }
    let mut parent = folder.to_owned();
    for part in Path::new(name).parent().into_iter().flat_map(Path::components) {
        parent.push(part);
        make_own_folder(&parent).doing(format_args!("make the folder {}", paths::shown(&parent)))?;
    }
    write_own_file(&folder.join(name), content)
}

/// What was made, what differs, what was assumed, and what to do next.
fn told(file: &Path, over: &[PathBuf], out: &Path, imported: &Imported) -> String {
    let files: Vec<String> = over.iter().map(|over| format!(" -f {}", paths::shown(over))).collect();
    let (file, out) = (paths::shown(file), paths::shown(out));
    let mut lines = Vec::new();
    let mut list = |title: &str, weight: Weight| {
        let notes: Vec<&Note> = imported.notes.iter().filter(|note| note.weight == weight).collect();
        if !notes.is_empty() {
            lines.push(title.to_owned());
        }
        for Note { file, place, key, instead, .. } in notes {
            lines.push(format!("  {file}:{}:{}: {key}: {instead}", place.line, place.column));
        }
    };
    list("These keys do not mean the same in all forms:", Weight::Differs);
    list("These keep it from running until they are changed:", Weight::Stops);
    lines.push("Assumed:".to_owned());
    lines.extend(imported.assumed.iter().chain([&imported.load]).map(|what| format!("  {what}")));
    let count = imported.files.len() + imported.other_files.len();
    lines.push(format!("Wrote {count} files to {out}. Next:"));
    if !imported.built.is_empty() {
        let built: Vec<&str> = imported.built.iter().map(|build| build.service.as_str()).collect();
        lines.push(format!("  docker compose -f {file}{} build {}", files.concat(), built.join(" ")));
    }
    if imported.is_stopped() {
        lines.push(format!("  edit {out}/workload.yaml, or {file} and import it again"));
    }
    lines.push(format!("  tare check {out}/study.yaml"));
    lines.push(format!("  sudo tare run {out}/study.yaml"));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_out_of_the_folder_is_not_copied() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("stack");
        tare_testkit::files::write(&outer.path().join("secret"), "s3cret");
        let text = "services: {a: {image: x, ports: ['80'], volumes: ['./link:/link:ro', './page:/page:ro']}}\n";
        let file = tare_testkit::files::write(&folder.join("compose.yaml"), text);
        tare_testkit::files::write(&folder.join("page"), "a page");
        std::os::unix::fs::symlink("../secret", folder.join("link")).unwrap();
        let imported = read(&file, &[], &Wanted::default()).unwrap();
        assert_eq!(imported.files["files/a/page"], "a page");
        assert!(imported.files.values().all(|content| !content.contains("s3cret")));
        assert!(imported.is_stopped());
        let told = told(&file, &[], Path::new("out"), &imported);
        assert!(told.contains("leads out of its folder") && told.contains("tare run out/study.yaml"), "{told}");
    }

    #[test]
    fn all_files_are_written_or_none() {
        let outer = tempfile::tempdir().unwrap();
        let names = |folder: &Path| -> Vec<String> {
            let entries = fs::read_dir(folder).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        let write = |out: &Path, names: &[&str]| write_all(out, names.iter().map(|name| (*name, &b"x"[..])));
        let (new, empty) = (outer.path().join("new"), outer.path().join("empty"));
        fs::create_dir(&empty).unwrap();
        for out in [&new, &empty] {
            assert!(write(out, &["files/a/x", "../victim"]).is_err());
        }
        assert_eq!(names(outer.path()), ["empty"]);
        assert!(names(&empty).is_empty());
        for out in [&new, &empty] {
            write(out, &["files/a/x", "study.yaml"]).unwrap();
            assert_eq!(names(out), ["files", "study.yaml"]);
            assert!(write(out, &["study.yaml"]).is_err(), "nothing goes over what is there");
        }
        assert_eq!(names(outer.path()), ["empty", "new"]);
    }

    #[test]
    fn only_new_files_inside_of_the_folder_are_written() {
        let outer = tempfile::tempdir().unwrap();
        let victim = tare_testkit::files::write(&outer.path().join("victim"), "keep");
        let folder = outer.path().join("out");
        write_new(&folder, "files/a/etc/x", "1").unwrap();
        assert_eq!(fs::read_to_string(folder.join("files/a/etc/x")).unwrap(), "1");
        let absolute = victim.to_str().unwrap();
        for name in ["", "../victim", "files/../../victim", absolute] {
            assert!(write_new(&folder, name, "2").is_err(), "{name}");
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "keep");
        assert_eq!(fs::read_to_string(folder.join("files/a/etc/x")).unwrap(), "1");
    }

    #[test]
    fn a_folder_means_the_compose_file_in_it() {
        let folder = tempfile::tempdir().unwrap();
        assert!(find(folder.path()).unwrap_err().to_string().contains("looked for compose.yaml"));
        let file = tare_testkit::files::write(&folder.path().join("docker-compose.yml"), "services: {}\n");
        assert_eq!(find(folder.path()).unwrap(), file);
        assert!(over(folder.path(), &file).is_empty());
        let other = tare_testkit::files::write(&folder.path().join("compose.override.yaml"), "services: {}\n");
        assert_eq!(over(folder.path(), &file), [other]);
        assert!(over(&file, &file).is_empty(), "a file that is named stands alone");
        assert!(find(&folder.path().join("no.yaml")).unwrap_err().to_string().contains("no Compose file"));
    }
}
