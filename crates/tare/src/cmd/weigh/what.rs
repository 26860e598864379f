//! What is weighed: an image, a folder with a Dockerfile, Debian packages, or a command of this machine.

use super::folder::is_ours;
use super::local;
use crate::cmd::import;
use crate::files::{self, WORKLOAD_FILE};
use crate::images::is_path;
use crate::mistake::Mistake;
use crate::paths;
use anyhow::Result;
use std::path::{Path, PathBuf};
use tare_core::bundle::{ENGINE_IMAGE, Source};
use tare_core::fault::Fault;
use tare_layers::{BuildWays, engine_name};
use tare_runner::Stop;

/// What a folder has that is built, or is an image itself.
const SOURCES: [&str; 5] = ["Dockerfile", "Containerfile", "oci-layout", "index.json", "manifest.json"];
/// The longest name that is made of what was typed.
const NAME_CHARS_MAX: usize = 40;

/// What was typed, as far as it is known without asking an engine.
#[derive(Debug, PartialEq)]
pub(super) enum What {
    /// An image's archive or layout folder.
    Saved(PathBuf),
    /// A folder with a Dockerfile.
    Dockerfile(PathBuf),
    /// Debian packages.
    Packages(Vec<String>),
    /// The name of an image that an engine has, or else a registry.
    Named(String),
    /// A reference of which a registry is asked, whatever the engine has.
    Registry(String),
    /// A command of this machine, which [`local::gather`] finds.
    Command(Vec<String>),
}

/// What is weighed, found on this machine or left to a registry.
pub(super) struct Found {
    /// The source of the bundle.
    pub(super) source: Source,
    /// Where it was found, in words.
    pub(super) said: String,
}

impl What {
    /// Reads what was typed.
    ///
    /// # Errors
    /// When it is nothing that can be weighed, with what to type instead.
    pub(super) fn read(typed: &str) -> Result<What> {
        if let Some(names) = typed.strip_prefix("apt:") {
            let names: Vec<String> = names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
            let none = || mistake(&format!("'{typed}' names no package"), "write for example apt:redis-server");
            return if names.is_empty() { Err(none()) } else { Ok(What::Packages(names)) };
        }
        if let Some(reference) = typed.strip_prefix("docker://") {
            return Ok(What::Registry(reference.to_owned()));
        }
        if let Some(name) = engine_name(typed) {
            return Ok(What::Named(name.to_owned()));
        }
        let path = Path::new(typed);
        if [".yaml", ".yml"].iter().any(|end| typed.ends_with(end)) {
            return Err(refuse_file(typed));
        }
        // Any other word is a name, which never means a file in the current folder.
        if !is_path(typed) && !typed.ends_with('/') {
            return Ok(What::Named(typed.to_owned()));
        }
        match path.metadata() {
            Err(error) => {
                let text = format!("{typed} cannot be weighed: {error}");
                Err(mistake(&text, "name an archive, an OCI layout or a folder with a Dockerfile, or an image"))
            }
            Ok(there) if there.is_dir() => read_folder(typed, path),
            Ok(_) => Ok(What::Saved(paths::plain(path))),
        }
    }

    /// A name for the workload: the image's without registry and tag, the file's or the folder's, or the package's.
    pub(super) fn short_name(&self) -> String {
        let of_path = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = match self {
            What::Saved(path) => {
                let name = of_path(path);
                let ends = [".gz", ".zst", ".tgz", ".tar"];
                ends.iter().fold(name, |name, end| name.strip_suffix(*end).unwrap_or(&name).to_owned())
            }
            What::Dockerfile(path) => of_path(path),
            What::Packages(names) => names.first().cloned().unwrap_or_default(),
            What::Named(name) | What::Registry(name) => without_registry_and_tag(name).to_owned(),
            What::Command(words) => local::name(words),
        };
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = text.chars().map(plain).take(NAME_CHARS_MAX).collect();
        let name = name.trim_matches('-');
        if name.is_empty() { "service".to_owned() } else { name.to_owned() }
    }

    /// The files that decide what is weighed: of a folder the one that says how it is built or what is in it.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let [dockerfile, containerfile, _, saved @ ..] = SOURCES;
        let first = |folder: &Path, names: [&str; 2]| {
            names.map(|name| folder.join(name)).into_iter().find(|file| file.is_file()).into_iter().collect()
        };
        match self {
            What::Saved(path) if path.is_dir() => first(path, saved),
            What::Saved(path) => vec![path.clone()],
            What::Dockerfile(folder) => first(folder, [dockerfile, containerfile]),
            What::Command(words) => local::named_files(words),
            What::Packages(_) | What::Named(_) | What::Registry(_) => Vec::new(),
        }
    }

    /// Finds it: asks the engine for an image, or has it build one. Tells `say` what takes long.
    ///
    /// # Errors
    /// When there is no such image, with those of similar names; or when it could not be built, or the user ended that.
    pub(super) fn find(&self, stop: &Stop, say: &mut dyn FnMut(&str)) -> Result<Found> {
        let image = |name: &str| Source::Image(format!("{ENGINE_IMAGE}{name}"));
        let found = |source, said: String| Ok(Found { source, said });
        match self {
            What::Saved(path) => {
                let shown = path.display().to_string();
                found(Source::Image(shown.clone()), format!("image {shown}: a file or folder of this machine"))
            }
            What::Dockerfile(folder) => {
                let ways = BuildWays { is_no_source: &is_ours, stop: &|| stop.raised() };
                let built = tare_layers::build_image(folder, &ways, say)?;
                // The tag of the build moves with the next one; another tag of the same image may not.
                let own = built.tags.iter().find(|tag| tag.starts_with("localhost/"));
                let name = own.or(built.tags.first()).unwrap_or(&built.id);
                found(image(name), format!("image {name}: built by the engine from {}", folder.display()))
            }
            What::Packages(names) => {
                let said = format!("packages {}: Debian's, with their dependencies", names.join(", "));
                found(Source::Packages(names.clone()), said)
            }
            What::Registry(reference) => {
                let said = format!("image {reference}: fetched from a registry");
                found(Source::Image(reference.clone()), said)
            }
            What::Named(name) => match tare_layers::engine_image(name) {
                Ok(there) => found(image(name), format!("image {name}: the engine has it as {}", short_id(&there.id))),
                Err(_) if names_registry(name) => {
                    let said = format!("image {name}: the engine does not have it; fetched from its registry");
                    found(Source::Image(name.clone()), said)
                }
                Err(fault) if fault.mistake => Err(with_other_places(name, fault).into()),
                Err(fault) => Err(fault.into()),
            },
            What::Command(_) => unreachable!("the files of a command are gathered"),
        }
    }
}

/// The Compose file, or the folder that has one, if that is what was typed.
pub(super) fn compose_file(typed: &str) -> Option<&Path> {
    let path = Path::new(typed);
    let has = |name: &&str| path.join(name).is_file();
    if [".yaml", ".yml"].iter().any(|end| typed.ends_with(end)) {
        // A study or a workload says so.
        let text = files::read_text(path).unwrap_or_default();
        let is_ours = text.lines().any(|line| line.starts_with("study:") || line.starts_with("workload:"));
        return (!is_ours).then_some(path);
    }
    let is_folder = (is_path(typed) || typed.ends_with('/')) && import::NAMES.iter().any(has);
    (is_folder && !SOURCES.iter().any(has)).then_some(path)
}

fn mistake(text: &str, to_do: &str) -> anyhow::Error {
    Mistake::new(format!("{text}\n  to do: {to_do}")).into()
}

/// A file of Tare's own.
fn refuse_file(typed: &str) -> anyhow::Error {
    let text = format!("{typed} is a study or a workload; `tare weigh` takes an image, a Compose file or a package");
    mistake(&text, &format!("for a study, `tare run {typed}`"))
}

fn read_folder(typed: &str, path: &Path) -> Result<What> {
    let has = |name: &str| path.join(name).is_file();
    let [dockerfile, containerfile, saved @ ..] = SOURCES;
    if has(dockerfile) || has(containerfile) {
        return Ok(What::Dockerfile(paths::plain(path)));
    }
    if saved.into_iter().any(has) {
        return Ok(What::Saved(paths::plain(path)));
    }
    let trimmed = typed.trim_end_matches('/');
    if has(WORKLOAD_FILE) {
        let text = format!("{typed} is the folder of a workload");
        return Err(mistake(&text, &format!("if it has a study.yaml, `tare run {trimmed}/`")));
    }
    let text = format!("the folder {typed} has neither a Dockerfile nor an image: no oci-layout and no manifest.json");
    Err(mistake(&text, "add a Dockerfile, or write a workload with `bundle: {folder: ...}` and a command"))
}

/// The repository of an image: `my/app` of `registry.test:5000/my/app:1@sha256:...`.
fn without_registry_and_tag(name: &str) -> &str {
    let name = name.split('@').next().unwrap_or_default();
    let name = match name.split_once('/') {
        Some((_, rest)) if names_registry(name) => rest,
        _ => name,
    };
    let name = name.strip_prefix("library/").unwrap_or(name);
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => name,
    }
}

/// Whether a name begins with that of a registry, by the rule of container engines.
fn names_registry(name: &str) -> bool {
    name.split_once('/').is_some_and(|(host, _)| host.contains(['.', ':']) || host == "localhost")
}

fn short_id(id: &str) -> &str {
    id.get(..19).unwrap_or(id)
}

/// Adds where else an image of this name may be.
fn with_other_places(name: &str, fault: Fault) -> Fault {
    let mut others = vec![format!("docker://{name} for the one of a registry")];
    if Path::new(name).exists() {
        others.insert(0, format!("./{name} for the file or folder here"));
    }
    fault.also(format_args!("or write {}", others.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_is_told_apart_without_asking_anybody() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let files = ["app/Dockerfile", "layout/oci-layout", "stack/compose.yaml", "w/workload.yaml", "none/x", "i.tar"];
        for name in files {
            tare_testkit::files::write(&root.join(name), "x");
        }
        tare_testkit::files::write(&root.join("s.yaml"), "study: s\n");
        let read = |name: &str| What::read(root.join(name).to_str().unwrap());
        assert_eq!(read("app").unwrap(), What::Dockerfile(root.join("app")));
        assert_eq!(read("layout").unwrap(), What::Saved(root.join("layout")));
        assert_eq!(read("i.tar").unwrap(), What::Saved(root.join("i.tar")));
        let told = |name: &str| read(name).unwrap_err().to_string();
        let compose = |name: &str| compose_file(root.join(name).to_str().unwrap()).is_some();
        assert!(compose("stack") && compose("stack/compose.yaml") && compose("missing.yml"));
        assert!(!compose("app") && !compose("w") && !compose("s.yaml") && !compose("i.tar"));
        assert_eq!(compose_file("stack"), None, "a word is the name of an image");
        assert!(told("s.yaml").contains("`tare run "));
        assert!(told("w").contains("the folder of a workload"));
        assert!(told("none").contains("neither a Dockerfile nor an image"));
        assert!(told("missing").contains("cannot be weighed"));
        assert_eq!(What::read("my/app:1").unwrap(), What::Named("my/app:1".into()));
        assert_eq!(What::read("docker://redis:7").unwrap(), What::Registry("redis:7".into()));
        assert_eq!(What::read("apt:a,b").unwrap(), What::Packages(vec!["a".into(), "b".into()]));
        assert!(What::read("apt:").is_err());
    }

    #[test]
    fn the_files_that_decide_what_is_weighed_are_known() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["app/Containerfile", "layout/oci-layout", "layout/index.json", "app.tar", "server"] {
            tare_testkit::files::write(&root.join(name), "x");
        }
        let program = root.join("server");
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(What::Dockerfile(root.join("app")).files(), [root.join("app/Containerfile")]);
        assert_eq!(What::Saved(root.join("layout")).files(), [root.join("layout/index.json")]);
        assert_eq!(What::Saved(root.join("app.tar")).files(), [root.join("app.tar")]);
        let words = [program.display().to_string(), root.join("app.tar").display().to_string(), "{port}".to_owned()];
        assert_eq!(What::Command(words.to_vec()).files(), [program, root.join("app.tar")]);
        assert_eq!(What::Named("my/app:1".to_owned()).files(), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_name_is_made_of_what_was_typed() {
        let name = |typed: &str| What::read(typed).unwrap().short_name();
        assert_eq!(name("my/app:1"), "my-app");
        assert_eq!(name("registry.test:5000/my/App_x:1@sha256:00"), "my-app-x");
        assert_eq!(name("docker.io/library/redis:7"), "redis");
        assert_eq!(name("apt:redis-server"), "redis-server");
        assert_eq!(What::Saved("/x/redis.tar.gz".into()).short_name(), "redis");
        assert_eq!(name("___"), "service");
        assert_eq!(What::Command(vec!["./My_server".into(), "x".into()]).short_name(), "my-server");
    }

    #[test]
    fn an_image_that_is_not_here_may_be_elsewhere() {
        let told = with_other_places("redsi:7", Fault::new("there is none").remedy("did you mean redis:7?")).remedy;
        assert_eq!(told, "did you mean redis:7?; or write docker://redsi:7 for the one of a registry");
    }
}
