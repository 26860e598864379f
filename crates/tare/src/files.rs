//! Finds and reads studies and workloads.

use crate::catalog::Tables;
use crate::cli::RunArgs;
use crate::images::plain_image;
use crate::mistake::Mistake;
use crate::paths::shown;
use crate::terminal::{note, tell};
use crate::{machine, paths, session, sources, within};
use anyhow::Result;
use rustix::fs::FileType;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tare_core::bundle::Source;
use tare_core::config::{NodeKind, Place, Problem, Problems, parse};
use tare_core::parameters::Parameters;
use tare_core::study::{Study, Suite};
use tare_core::units::show_bytes;
use tare_core::workload::{Service, Workload};

/// The largest study or workload; a longer file is something else.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The largest file of data that a workload's options name: it goes into the plan of the load, which may have 16 MiB.
const DATA_BYTES_MAX: u64 = 4 << 20;
/// Limits on a folder of sources, because a build takes all of it into memory.
const SOURCE_FILES_MAX: usize = 10_000;
const SOURCE_BYTES_MAX: usize = 64 << 20;

/// Reads a study and its workloads, with a preset if one is named. All mistakes of all files are in the error.
pub(crate) fn read_suite(name: &str, preset: Option<&str>, workloads: Option<&Path>) -> Result<Suite> {
    let path = find_study(name)?;
    let text = read_text(&path)?;
    read_suite_in(&text, &shown(&path), preset, path.parent(), workloads)
}

/// Reads the study that was typed; for a run, first fetches the images that its services take settings from.
pub(crate) fn read_to_run(args: &RunArgs) -> Result<Suite> {
    let read = || read_suite(&args.study, args.preset.as_deref(), args.workloads.as_deref());
    with_images(!args.dry_run, args.json, read)
}

/// Reads by `read`. What a service takes from an image is known only once the image is here, so for a run (`bring`)
/// this builds the bundles of missing images and reads again.
///
/// # Errors
/// The mistakes in the files, and why an image is not available.
pub(crate) fn with_images(bring: bool, json: bool, read: impl Fn() -> Result<Suite>) -> Result<Suite> {
    let suite = read()?;
    let services =
        suite.parts.iter().flat_map(|(_, workload)| workload.services.iter().map(|one| (&workload.file, one)));
    let awaiting: Vec<(&Option<PathBuf>, &Service)> = services.filter(|(_, one)| one.awaits_image()).collect();
    if awaiting.is_empty() || !bring {
        return Ok(suite);
    }
    session::require_root("run")?;
    let carrier = machine::carrier()?;
    let mut problems = Vec::new();
    for (file, service) in awaiting {
        let built = machine::build_bundle(service, carrier.bundles.as_ref(), &mut if json { note } else { tell });
        if let Err(fault) = built {
            problems.push(sources::placed(file.as_deref(), &service.name, "bundle", fault)?);
        }
    }
    if !problems.is_empty() {
        return Err(Mistake::in_files(problems).into());
    }
    read()
}

/// The study of `suite`, which must have one workload.
///
/// # Errors
/// When it has parts; `verb` is the user's command.
pub(crate) fn only_part(suite: Suite, verb: &str) -> Result<(Study, Workload)> {
    if suite.is_divided() {
        let text = format!("study '{}' has parts, but `tare {verb}` takes one workload at a time", suite.name);
        return Err(Mistake::new(format!("{text}\n  to do: tare run {}", suite.name)).into());
    }
    Ok(suite.parts.into_iter().next().expect("a study has a part"))
}

/// Why a part that was typed cannot be run, for a study without parts.
pub(crate) fn no_such_part(study: &str, typed: &[String]) -> Option<String> {
    typed.first().map(|part| format!("study '{study}' has no part '{part}': it has no parts"))
}

/// The names of the presets of a study.
pub(crate) fn presets(name: &str) -> Result<Vec<String>> {
    Ok(Suite::presets(&read_text(&find_study(name)?)?))
}

/// Reads a study from a text; `what` names it in messages.
pub(crate) fn read_suite_text(text: &str, what: &str, workloads: Option<&Path>) -> Result<Suite> {
    read_suite_in(text, what, None, None, workloads)
}

fn read_suite_in(
    text: &str,
    what: &str,
    preset: Option<&str>,
    beside: Option<&Path>,
    workloads: Option<&Path>,
) -> Result<Suite> {
    let mut problems = Problems::new(what, text);
    let mut others: Vec<Problem> = Vec::new();
    let mut find = |workload: &str, place: Place, chosen: &Parameters, problems: &mut Problems| {
        let files = workload_files(workload, beside, workloads);
        let Some(file) = files.iter().find(|file| file.is_file()) else {
            let known = known_workloads(beside, workloads);
            problems.add_unknown(place, no_workload(workload, &files), workload, &refs(&known));
            return None;
        };
        match read_workload(file, chosen) {
            Ok(Ok(workload)) => Some(workload),
            Ok(Err(found)) => {
                // Each once: several parts may have one workload.
                let new: Vec<Problem> = found.into_iter().filter(|problem| !others.contains(problem)).collect();
                others.extend(new);
                None
            }
            Err(error) => {
                problems.add(place, format!("cannot read this workload: {error:#}"), "");
                None
            }
        }
    };
    let read = Suite::read(text, preset, &Tables, &mut problems, &mut find);
    let mut found = problems.into_vec();
    found.extend(others);
    match read {
        Some(read) if found.is_empty() => Ok(read),
        _ => Err(Mistake::in_files(found).into()),
    }
}

/// Reads the workload in a file, with the parameters that a study chose. The inner error is the list of its mistakes.
pub(crate) fn read_workload(path: &Path, chosen: &Parameters) -> Result<Result<Workload, Vec<Problem>>> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let text = text_beneath(folder, Path::new(path.file_name().unwrap_or_default())).map_err(Mistake::new)?;
    let mut problems = Problems::new(shown(path), &text).with_files(files_of(folder));
    let Some(mut workload) = Workload::read(&text, folder, chosen, &Tables, &mut problems) else {
        sources::missing(&text, folder, None, &mut problems);
        return Ok(Err(problems.into_vec()));
    };
    workload.file = Some(path.to_owned());
    for (service, inside, file) in workload.files_wanted() {
        let name = file.strip_prefix(folder).unwrap_or(&file);
        let supplied = if inside.ends_with('/') {
            files_below(folder, name).map(|files| workload.supply_folder(&service, &inside, &files))
        } else if inside.starts_with('/') {
            bytes_beneath(folder, name).map(|content| workload.supply_file(&service, &inside, content.into()))
        } else {
            // Sources of a build are text.
            text_beneath(folder, name).map(|content| workload.supply_file(&service, &inside, content.into()))
        };
        if let Err(message) = supplied {
            let hint = "name regular files of the workload's own folder";
            problems.add(place_of_file(&text, &service, &inside), message, hint);
        }
    }
    sources::missing(&text, folder, Some(&workload), &mut problems);
    // So that each source has one name, wherever it is named.
    for service in &mut workload.services {
        match &mut service.recipe.source {
            Source::Folder(path) => *path = paths::plain(path),
            Source::Image(image) => *image = plain_image(image),
            Source::Packages(_) | Source::Program(_) => {}
        }
    }
    if problems.is_empty() { Ok(Ok(workload)) } else { Ok(Err(problems.into_vec())) }
}

/// Where a workload names the file for `inside` of a service's bundle, or a source of its build.
fn place_of_file(text: &str, service: &str, inside: &str) -> Place {
    let root = parse(text, &mut Problems::default());
    let find = |keys: &[&str]| root.as_ref().and_then(|root| root.find(keys));
    let sources = find(&["services", service, "build", "sources"]);
    let source = sources.and_then(|node| match &node.kind {
        NodeKind::List(items) => {
            items.iter().find(|item| item.text(&mut Problems::default()).as_deref() == Some(inside))
        }
        _ => None,
    });
    let found = find(&["services", service, "files", inside]).or(source).or(sources);
    found.map_or(Place { line: 1, column: 1, width: 1 }, |node| node.place)
}

/// All files below the folder `name` of a workload's `folder`, by their names relative to it. Hidden files, which
/// belong to editors and tools, are left out. Links are not followed.
fn files_below(folder: &Path, name: &Path) -> Result<BTreeMap<String, String>, String> {
    let whole = shown(&folder.join(name));
    let (mut found, mut bytes, mut open) = (BTreeMap::new(), 0, vec![PathBuf::new()]);
    while let Some(current) = open.pop() {
        let entries = within::list_beneath(folder, &name.join(&current))
            .map_err(|why| format!("cannot read the folder {}: {why}", shown(&folder.join(name).join(&current))))?;
        for (entry, kind) in entries.into_iter().filter(|(entry, _)| !entry.starts_with('.')) {
            let path = current.join(entry);
            if kind == FileType::Directory {
                open.push(path);
            } else if kind == FileType::RegularFile {
                let text = text_beneath(folder, &name.join(&path))?;
                bytes += text.len();
                found.insert(path.display().to_string(), text);
            }
            if found.len() + open.len() > SOURCE_FILES_MAX || bytes > SOURCE_BYTES_MAX {
                let most = show_bytes(SOURCE_BYTES_MAX as u64);
                return Err(format!("the folder {whole} has more than {SOURCE_FILES_MAX} files, or more than {most}"));
            }
        }
    }
    if found.is_empty() { Err(format!("the folder {whole} has no files to build from")) } else { Ok(found) }
}

/// Reads the files of a folder by the names that another file in it uses.
pub(crate) fn files_of(folder: &Path) -> impl Fn(&str) -> Result<Vec<u8>, String> + 'static {
    let folder = folder.to_owned();
    move |name| {
        let read = within::read_beneath(&folder, Path::new(name), DATA_BYTES_MAX);
        read.map_err(|why| cannot_read(&folder.join(name), &why))
    }
}

/// Reads a workload by its file, its folder or its name. The error has all mistakes.
pub(crate) fn find_workload(name: &str, workloads: Option<&Path>) -> Result<Workload> {
    let files = workload_files(name, None, workloads);
    let typed = Some(PathBuf::from(name)).filter(|_| is_typed_path(name));
    let Some(file) = typed.into_iter().chain(files.clone()).find(|file| file.is_file()) else {
        let mut text = format!("{}\n  {}", no_workload(name, &files), workloads_there_are(workloads));
        text += &meant_here(name, "workloads", Path::new(name).join(WORKLOAD_FILE).is_file()).unwrap_or_default();
        return Err(Mistake::new(text).into());
    };
    read_workload(&file, &Parameters::new())?.map_err(|found| Mistake::in_files(found).into())
}

/// The studies that can be run by their names, each with its file.
pub(crate) fn studies() -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    // The first folder that has one decides, as in `find_study`.
    for folder in paths::data_folders("studies").iter().rev() {
        let names = names_in(folder, "yaml").into_iter();
        found.extend(names.map(|name| (name.clone(), folder.join(format!("{name}.yaml")))));
    }
    found
}

fn find_study(name: &str) -> Result<PathBuf> {
    let direct = PathBuf::from(name);
    if is_typed_path(name) && direct.is_file() {
        return Ok(direct);
    }
    let inside = direct.join(STUDY_FILE);
    if is_typed_path(name) && inside.is_file() {
        return Ok(inside);
    }
    let file_name = format!("{name}.yaml");
    let folders = paths::data_folders("studies");
    if let Some(path) = folders.iter().map(|folder| folder.join(&file_name)).find(|path| path.is_file()) {
        return Ok(path);
    }
    let mut known: Vec<String> = folders.iter().flat_map(|folder| names_in(folder, "yaml")).collect();
    known.sort();
    known.dedup();
    let hint = if known.is_empty() {
        "there is no folder studies/ near this program; change to Tare's source tree, or name a file".to_owned()
    } else {
        // After a path, say that these are names.
        format!("{}: {}", if is_typed_path(name) { "studies by name" } else { "there are" }, known.join(", "))
    };
    let what = match direct.metadata() {
        _ if !is_typed_path(name) => format!("there is no study '{name}'"),
        Ok(there) if there.is_dir() => format!("{name} is a folder without a {STUDY_FILE}"),
        Ok(_) => format!("{name} is not a regular file"),
        Err(error) => format!("{name} cannot be read: {error}"),
    };
    let hint = hint + &meant_here(name, &format!("studies/{file_name}"), inside.is_file()).unwrap_or_default();
    Err(Mistake::new(format!("{what}; {hint}")).into())
}

/// Whether a path was typed. Any other word is a name, which never means a file in the current folder: that may be
/// anybody's.
fn is_typed_path(typed: &str) -> bool {
    typed.contains('/') || [".yaml", ".yml"].iter().any(|end| typed.ends_with(end))
}

/// How to refer to what has this name here, if anything has: a file, a folder (`is_folder`), or one in `among`.
fn meant_here(name: &str, among: &str, is_folder: bool) -> Option<String> {
    if is_typed_path(name) {
        return None;
    }
    let (file, folder) = (Path::new(among), Path::new(among).join(name));
    let places = [
        (is_folder, "folder", format!("./{name}")),
        (Path::new(name).is_file(), "file", format!("./{name}")),
        (file.is_file(), "file", format!("./{among}")),
        (folder.join(WORKLOAD_FILE).is_file(), "folder", format!("./{among}/{name}")),
    ];
    let (_, what, path) = places.into_iter().find(|(there, ..)| *there)?;
    Some(format!("\n  to do: to use the {what} here, write {path}"))
}

/// The study of a folder that is run by its name, such as one that `tare weigh` has written.
pub(crate) const STUDY_FILE: &str = "study.yaml";
/// The file of a workload in its folder; other `.yaml` files there are its variants.
pub(crate) const WORKLOAD_FILE: &str = "workload.yaml";

/// The files that a workload's name may mean, in search order. A path names a folder, relative to the study or else to
/// the current folder; a name is that of a folder in [`homes`], or of such a folder and a variant in it, separated by a
/// slash.
fn workload_files(name: &str, study: Option<&Path>, extra: Option<&Path>) -> Vec<PathBuf> {
    if !name.contains('/') && name != "." {
        return homes(study, extra).into_iter().map(|folder| folder.join(name).join(WORKLOAD_FILE)).collect();
    }
    let as_path = [study.map(|folder| folder.join(name)), Some(PathBuf::from(name))];
    let mut files: Vec<PathBuf> = as_path.into_iter().flatten().map(|folder| folder.join(WORKLOAD_FILE)).collect();
    if let Some((folder, variant)) = name.split_once('/').filter(|(folder, _)| !["", ".", ".."].contains(folder)) {
        files.extend(homes(study, extra).iter().map(|home| home.join(folder).join(format!("{variant}.yaml"))));
    }
    files
}

/// The folders in which workloads are looked up by name: the one that was typed, those beside the study and above it,
/// and those that come with Tare.
fn homes(study: Option<&Path>, extra: Option<&Path>) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = extra.iter().map(|folder| (*folder).to_owned()).collect();
    let beside = study.into_iter().flat_map(|study| {
        let places = [study.join("workloads"), study.to_owned(), study.join("../workloads")];
        // Only users who could change the study itself may provide workloads beside it.
        places.into_iter().filter(move |place| paths::is_trusted(place, study))
    });
    folders.extend(beside);
    folders.extend(paths::data_folders("workloads"));
    let mut seen: Vec<PathBuf> = Vec::new();
    folders.retain(|folder| {
        let new = !seen.contains(folder);
        seen.push(folder.clone());
        new
    });
    folders
}

/// Such as `there are: echo, nginx, redis`.
pub(crate) fn workloads_there_are(extra: Option<&Path>) -> String {
    format!("there are: {}", known_workloads(None, extra).join(", "))
}

/// The message that there is no such workload, with the places that were searched.
fn no_workload(name: &str, files: &[PathBuf]) -> String {
    let mut looked: Vec<String> = Vec::new();
    for file in files.iter().map(|file| shown(file)) {
        // Two names may lead to one folder.
        if !looked.contains(&file) {
            looked.push(file);
        }
    }
    format!("there is no workload '{name}': none of these files exists: {}", looked.join(", "))
}

/// The names of the workloads that are found beside `study`, in `extra` and by default, variants included.
pub(crate) fn known_workloads(study: Option<&Path>, extra: Option<&Path>) -> Vec<String> {
    let folders = homes(study, extra);
    let mut names: Vec<String> = Vec::new();
    for folder in folders {
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.path().join(WORKLOAD_FILE).is_file()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let variants = names_in(&entry.path(), "yaml").into_iter().filter(|variant| *variant != "workload");
            names.extend(variants.map(|variant| format!("{name}/{variant}")));
            names.push(name);
        }
    }
    names.sort();
    names.dedup();
    names
}

fn names_in(folder: &Path, extension: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = entries.filter(|path| path.extension().is_some_and(|found| found == extension));
    let mut names: Vec<String> =
        files.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect();
    names.sort();
    names
}

/// Reads a file that the user named.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    text(path, within::read_file(path, FILE_BYTES_MAX)).map_err(|message| Mistake::new(message).into())
}

/// Reads a file of a workload's folder; the error is the message.
fn text_beneath(folder: &Path, name: &Path) -> Result<String, String> {
    text(&folder.join(name), within::read_beneath(folder, name, FILE_BYTES_MAX))
}

/// The same of a file that need not be a text.
fn bytes_beneath(folder: &Path, name: &Path) -> Result<Vec<u8>, String> {
    within::read_beneath(folder, name, FILE_BYTES_MAX).map_err(|why| cannot_read(&folder.join(name), &why))
}

fn text(path: &Path, read: Result<Vec<u8>, String>) -> Result<String, String> {
    String::from_utf8(read.map_err(|why| cannot_read(path, &why))?).map_err(|error| {
        let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count();
        cannot_read(path, &format!("line {line} is not UTF-8 text"))
    })
}

fn cannot_read(path: &Path, why: &str) -> String {
    format!("cannot read {}: {why}", shown(path))
}

fn refs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_among_the_sources_stands_for_all_files_in_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("src/deep/er")).unwrap();
        let text = "workload: x\nservices:\n  x:\n    bundle: {packages: [bash]}\n    build: {sources: [src/, y], \
                    command: [make], installs: {/x: x}}\n    command: [/x]\n    ports: {x: 1}\nload: {protocol: {tcp: \
                    {request: a, reply: {until: b}}}}\n";
        let file = folder.path().join("workload.yaml");
        for (name, content) in
            [("workload.yaml", text), ("y", "y"), ("src/a", "1"), ("src/deep/er/b", "2"), ("src/.c", "3")]
        {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let workload = read_workload(&file, &Parameters::new()).unwrap().unwrap();
        let sources = &workload.services[0].recipe.build.as_ref().unwrap().sources;
        let found: Vec<_> = sources.iter().map(|(name, content)| (name.as_str(), content.as_str())).collect();
        assert_eq!(found, [("src/a", "1"), ("src/deep/er/b", "2"), ("y", "y")]);
        std::fs::remove_dir_all(folder.path().join("src/deep")).unwrap();
        std::fs::remove_file(folder.path().join("src/a")).unwrap();
        let mistakes = read_workload(&file, &Parameters::new()).unwrap().unwrap_err();
        assert!(mistakes[0].to_string().contains("has no files to build from"), "{mistakes:?}");
    }

    #[test]
    fn naming_a_file_outside_the_workloads_folder_is_a_mistake_with_its_place() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("w");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(outer.path().join("secret"), "root:s3cret\n").unwrap();
        tare_testkit::files::write(&outer.path().join("keys/id"), "s3cret");
        std::os::unix::fs::symlink("../secret", folder.join("x.conf")).unwrap();
        std::os::unix::fs::symlink("../keys", folder.join("src")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, folder.join("pipe"), FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        let read = |file: &str, more: &str| {
            let text = format!(
                "workload: x\nservices:\n  x:\n    bundle: {{packages: [bash]}}\n    command: [/x]\n    ports: \
                 {{x: 1}}\n    files: {{/etc/x.conf: '{file}'}}\n{more}load: {{protocol: {{tcp: {{request: a, \
                 reply: {{until: b}}}}}}}}\n"
            );
            std::fs::write(folder.join("workload.yaml"), text).unwrap();
            let found = read_workload(&folder.join("workload.yaml"), &Parameters::new()).unwrap().unwrap_err();
            found.iter().map(ToString::to_string).collect::<String>()
        };
        std::fs::write(folder.join("y"), "y").unwrap();
        let build = "    build: {sources: [src/], command: [make], installs: {/x: x}}\n";
        let cases = [
            (read("x.conf", ""), "workload.yaml:7:26", "leads out of its folder"),
            (read("../../etc/shadow", ""), "workload.yaml:7:26", "own folder"),
            (read("pipe", ""), "workload.yaml:7:26", "a named pipe"),
            (read("y", build), "workload.yaml:8:23", "leads out of its folder"),
        ];
        for (told, place, why) in cases {
            assert!(told.contains(place) && told.contains(why) && !told.contains("s3cret"), "{told}");
        }
        std::fs::remove_file(folder.join("workload.yaml")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.join("workload.yaml")).unwrap();
        let told = read_workload(&folder.join("workload.yaml"), &Parameters::new()).unwrap_err().to_string();
        assert!(told.contains("leads out of its folder"), "{told}");
    }
}
