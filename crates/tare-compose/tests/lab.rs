//! What the tests of this crate stand on: a disk, a table of protocols, and images that say something.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tare_compose::{Around, Disk, Imported, Thing, Weight, import};
use tare_core::catalog::Catalog;
use tare_core::config::Problems;
use tare_core::image::ImageConfig;
use tare_core::layer::LayerOptions;
use tare_core::parameters::Parameters;
use tare_core::protocol::ProtocolInfo;
use tare_core::workload::Workload;

/// The folder of the stacks.
pub(crate) struct Stacks;

impl Stacks {
    fn path(path: &Path) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stacks").join(path)
    }
}

impl Disk for Stacks {
    fn at(&self, path: &Path) -> Option<Thing> {
        let found = std::fs::metadata(Stacks::path(path)).ok()?;
        Some(match (found.is_file(), found.is_dir()) {
            (true, _) => Thing::File { executable: false },
            (_, true) => Thing::Folder,
            _ => Thing::Other,
        })
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        std::fs::read(Stacks::path(path)).map_err(|error| error.to_string())
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, String> {
        let entries = std::fs::read_dir(Stacks::path(path)).map_err(|error| error.to_string())?;
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        Ok(names)
    }
}

/// Files that are nowhere but in memory.
pub(crate) struct Memory(pub(crate) BTreeMap<PathBuf, Vec<u8>>);

impl Disk for Memory {
    fn at(&self, path: &Path) -> Option<Thing> {
        self.0.contains_key(path).then_some(Thing::File { executable: true })
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        self.0.get(path).cloned().ok_or_else(|| "there is no such file".to_owned())
    }

    fn list(&self, _path: &Path) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }
}

/// The protocols of Tare, for reading what was written.
struct Protocols;

impl Catalog for Protocols {
    fn layers(&self) -> Vec<&'static dyn LayerOptions> {
        Vec::new()
    }

    fn protocols(&self) -> Vec<&'static dyn ProtocolInfo> {
        tare_load::PROTOCOLS.iter().map(|protocol| *protocol as &'static dyn ProtocolInfo).collect()
    }
}

/// Images that are known: those that begin with `known/`, and MariaDB's.
fn find_image(name: &str) -> (String, Option<ImageConfig>) {
    let known = name.starts_with("known/") || name.starts_with("mariadb");
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let says = ImageConfig {
        entrypoint: texts(&["docker-entrypoint.sh"]),
        command: texts(&["mariadbd"]),
        ports: texts(&["3306/tcp"]),
        ..ImageConfig::default()
    };
    if known { (format!("docker-daemon:{name}"), Some(says)) } else { (name.to_owned(), None) }
}

/// Imports a file, with these profiles. The environment has a `TOKEN`, and the `PATH` that every process here has.
pub(crate) fn imported(disk: &dyn Disk, file: &str, profiles: &[&str]) -> Result<Imported, Vec<String>> {
    imported_over(disk, file, &[], profiles)
}

/// Imports a file with others over it.
pub(crate) fn imported_over(
    disk: &dyn Disk,
    file: &str,
    over: &[PathBuf],
    profiles: &[&str],
) -> Result<Imported, Vec<String>> {
    let environment = [("TOKEN", "t0ken"), ("PATH", "/bin")];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let profiles: Vec<String> = profiles.iter().map(|name| (*name).to_owned()).collect();
    let folder = Path::new(file).parent().and_then(Path::to_str).unwrap_or_default();
    let around = Around {
        disk,
        over,
        environment: &environment,
        profiles: &profiles,
        folder,
        image: &find_image,
        service: None,
        images_follow: false,
    };
    import(Path::new(file), &around).map_err(|found| found.iter().map(ToString::to_string).collect())
}

/// Imports one text.
pub(crate) fn of_text(text: &str) -> Result<Imported, Vec<String>> {
    let disk = Memory([(PathBuf::from("c/compose.yaml"), text.as_bytes().to_vec())].into());
    imported(&disk, "c/compose.yaml", &[])
}

/// Reads the workload that was written; panics with its mistakes.
pub(crate) fn read(imported: &Imported) -> Workload {
    let text = &imported.files["workload.yaml"];
    let mut problems = Problems::new("workload.yaml", text);
    let workload = Workload::read(text, Path::new("out"), &Parameters::new(), &Protocols, &mut problems);
    let told: Vec<String> = problems.into_vec().iter().map(ToString::to_string).collect();
    workload.unwrap_or_else(|| panic!("{}\n{text}", told.join("\n")))
}

/// The notes as `LINE KEY`, with `!` before those that keep it from running.
pub(crate) fn notes(imported: &Imported) -> Vec<String> {
    let mark = |weight| if weight == Weight::Stops { "!" } else { "" };
    imported.notes.iter().map(|note| format!("{}{} {}", mark(note.weight), note.place.line, note.key)).collect()
}

/// Everything that came of an import, as a text for golden files.
pub(crate) fn shown(imported: &Imported) -> String {
    let mut text = String::new();
    for (name, content) in &imported.files {
        text += &format!("==> {name}\n{content}\n");
    }
    for note in &imported.notes {
        let place = note.place;
        text += &format!("{}:{}:{}: {}: {}\n", note.file, place.line, place.column, note.key, note.instead);
    }
    text + &[&imported.assumed[..], std::slice::from_ref(&imported.load)].concat().join("\n")
}
