//! The folder that is left behind: a workload and a study, to be edited and run again.

mod place;

pub(super) use self::place::{Standing, place, standing};

use self::place::head;
use super::args::About;
use super::load::Load;
use super::movable::{Movable, PORT};
use super::origins::{LIST, Origins};
use super::yaml::{list, quoted};
use crate::cmd::import;
use crate::files::{self, STUDY_FILE, WORKLOAD_FILE};
use crate::paths;
use crate::written::{make_new_folder, write_own_file};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tare_compose::Imported;
use tare_core::bundle::Source;
use tare_core::fault::Fault;
use tare_core::units::typed_duration;

/// How the first line of a workload begins that this program has made.
const MADE_BY: &str = "# Made by: tare ";
/// What may be done with a file; the command that lists all its keys follows.
const EDIT: &str = "# Edit it freely: `tare run` takes this folder as it is. All keys: ";
/// How long a service may take until it is ready: in the folder, and while its load is found.
pub(super) const READY: Duration = Duration::from_secs(60);
pub(super) const READY_SOON: Duration = Duration::from_secs(15);
/// How long a service may take to end. Each deployment may have to wait for it.
pub(super) const STOP: Duration = Duration::from_secs(1);
/// How long each deployment is measured: where load is chopped, more and shorter ones see finer.
const MEASURED: [&str; 2] = ["1s", "2s"];
/// The same for a tool, which may need most of such a time to start.
const MEASURED_BY_TOOL: &str = "5s";
/// The space of a volume that was typed; image volumes get as much.
const VOLUME: &str = "512MiB";
/// The forms of services that listen at ports of their own.
const FORMS: &str = "\
baseline: native
forms:
  # A process of this machine, rooted in the same files.
  native: []
  # A container on a bridge, its port published.
  container: [container: {network: published}]
  # A container on the host's network.
  container-hostnet: [container: {network: host}]
  # Virtual machines take longer:
  # vm: [vm: {}]
  # vm+container: [vm: {}, container: {network: published}]
";
/// The forms in which each service has a network of its own.
const FORMS_APART: &str = "\
baseline: container
forms:
  # Containers with addresses of their own on a bridge.
  container: [container: {network: bridge}]
  # The same in a virtual machine.
  vm+container: [vm: {}, container: {network: bridge}]
";

/// A service by itself.
#[derive(Clone)]
pub(super) struct Single {
    pub(super) source: Source,
    /// Where the source was found, in words.
    pub(super) found: String,
    /// What the service takes from its image, one line each.
    pub(super) taken: Vec<String>,
    /// The command of this machine, if it is one.
    pub(super) program: Option<Program>,
    /// How it takes its port, if that is known; then in place of the command that was typed.
    pub(super) movable: Option<Movable>,
}

/// The services of a Compose file, in the making of a workload.
#[derive(Clone)]
pub(super) struct Stacked {
    pub(super) imported: Imported,
    /// The file, as it was found.
    pub(super) file: PathBuf,
    /// What differs and what was assumed, one line each.
    pub(super) said: Vec<String>,
}

impl Stacked {
    /// Writes the files that services get into a workload's folder.
    ///
    /// # Errors
    /// When they cannot be written.
    fn write_files(&self, folder: &Path) -> Result<()> {
        let is_other = |name: &str| ![WORKLOAD_FILE, STUDY_FILE].contains(&name);
        let mut texts = self.imported.files.iter().filter(|(name, _)| is_other(name));
        texts.try_for_each(|(name, text)| import::write_new(folder, name, text))?;
        let mut others = self.imported.other_files.iter();
        others.try_for_each(|(name, bytes)| import::write_new(folder, name, bytes))
    }

    /// What to do about a service that does not serve: nothing that could be typed.
    fn remedy(&self) -> String {
        let (loaded, file) = (self.imported.stack.loaded(), paths::shown(&self.file));
        format!("see its last lines; give {loaded} what it lacks in {file}, or load another service: --service NAME")
    }
}

/// What is deployed.
#[derive(Clone)]
pub(super) enum Deployed {
    /// One service.
    Single(Box<Single>),
    /// The services of a Compose file.
    Stack(Box<Stacked>),
}

/// A command of this machine, as a service starts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// The path of the program, and its arguments.
    pub(super) command: Vec<String>,
    /// The folder that it starts in, if not the root.
    pub(super) directory: Option<String>,
    /// Where it finds other programs.
    pub(super) path: String,
    /// Where it was seen to write.
    pub(super) volumes: Vec<String>,
}

/// A workload and a study in the making.
#[derive(Clone)]
pub(super) struct Draft<'a> {
    pub(super) about: &'a About,
    pub(super) name: String,
    pub(super) deployed: Deployed,
    /// The port that gets the load.
    pub(super) port: u16,
    /// Why this port, in words.
    pub(super) port_said: String,
    pub(super) load: Load,
    pub(super) connections: u32,
    /// Why as many connections, in words.
    pub(super) connections_said: String,
    /// How long it may take until it answers the load: a service that was just looked at takes no longer than then.
    pub(super) ready: Duration,
    /// What it is made of.
    pub(super) origins: Origins,
}

impl Draft<'_> {
    /// Makes the folder that stays, and writes the files into it. That of a command is there: whoever copied its files
    /// has made it anew.
    ///
    /// # Errors
    /// When something stands there by now, or the files cannot be written.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        if !self.is_command() {
            make_new_folder(folder).with_context(|| format!("could not make the folder {}", folder.display()))?;
        }
        self.write_into(folder)
    }

    /// Writes the files, and those that the load needs, into a folder that exists and is this process's own.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(super) fn write_into(&self, folder: &Path) -> Result<()> {
        for (name, text) in &self.load.files {
            write_own_file(&folder.join(name), text)?;
        }
        if let Deployed::Stack(stack) = &self.deployed {
            stack.write_files(folder)?;
        }
        write_own_file(&folder.join(LIST), self.origins.text())?;
        write_own_file(&folder.join(WORKLOAD_FILE), self.workload())?;
        write_own_file(&folder.join(STUDY_FILE), self.study())
    }

    /// Whether it is a command of this machine.
    pub(super) fn is_command(&self) -> bool {
        matches!(&self.deployed, Deployed::Single(single) if single.program.is_some())
    }

    /// What the services of a Compose file lack is not typed, but written there.
    pub(super) fn with_remedy(&self, error: anyhow::Error) -> anyhow::Error {
        let Deployed::Stack(stack) = &self.deployed else { return error };
        match error.downcast::<Fault>() {
            Ok(fault) if fault.mistake => fault.into(),
            Ok(fault) => fault.remedy(stack.remedy()).into(),
            Err(error) => error,
        }
    }

    /// The text of the workload.
    pub(super) fn workload(&self) -> String {
        let Draft { about, name, load, .. } = self;
        let (head, about) = (head(about), quoted(&about.shown()));
        let mut text =
            format!("{head}\n{EDIT}`tare check --schema workload`.\nworkload: {name}\nabout: {about}\nservices:\n");
        let entry = match &self.deployed {
            Deployed::Single(single) => {
                text += &format!("  {name}:\n");
                self.service_lines(single).iter().for_each(|line| text += &format!("    {line}\n"));
                format!("  port: {PORT}\n")
            }
            Deployed::Stack(stack) => {
                stack.said.iter().for_each(|line| text += &format!("  {}\n", comment(line)));
                // While its load is looked for, a service that was just looked at takes no longer than then.
                let within = (self.ready < READY).then_some(self.ready);
                text += &stack.imported.stack.services(self.port, within, STOP);
                let (loaded, said) = (stack.imported.stack.loaded(), comment(&self.port_said));
                format!("  service: {loaded}\n  {said}\n  port: \"{}\"\n", self.port)
            }
        };
        text += &format!(
            "load:\n{entry}  protocol:\n    {}\n    {}:\n",
            comment(&format!("{} ({})", load.said, load.option)),
            load.protocol
        );
        load.options.iter().for_each(|line| text += &format!("      {line}\n"));
        text
    }

    /// The service, without indentation.
    fn service_lines(&self, single: &Single) -> Vec<String> {
        let (about, movable, program) = (self.about, single.movable.as_ref(), single.program.as_ref());
        let mut lines = vec![comment(&single.found), format!("bundle: {}", bundle(&single.source))];
        if matches!(single.source, Source::Image(_)) {
            lines
                .push(comment("With the rights and the writable files that container engines give it, in every form."));
            lines.push("as_image: true".to_owned());
        }
        lines.extend(single.taken.iter().map(|line| comment(line)));
        if let Some(words) = movable.and_then(Movable::command) {
            let whose = if program.is_some() { "The" } else { "The image's own" };
            lines.push(comment(&format!("{whose} program, and its arguments with the port; no shell reads them.")));
            lines.push(format!("command: {}", list(words)));
        } else if let Ok(Some(words)) = about.command() {
            let port = format!("${{{{port.{PORT}}}}}");
            let words: Vec<String> = words.iter().map(|word| word.replace("{port}", &port)).collect();
            lines.push(comment("The program and its arguments; no shell reads them."));
            lines.push(format!("command: {}", list(&words)));
        } else if let Some(program) = program {
            lines.push(comment("The program and its arguments; no shell reads them."));
            lines.push(format!("command: {}", list(&program.command)));
        }
        let directory = program.and_then(|program| program.directory.as_ref());
        lines.extend(directory.map(|directory| format!("directory: {}", quoted(directory))));
        lines.push(comment(&self.port_said));
        lines.push(format!("ports: {{{PORT}: {}}}", self.port));
        lines.push(comment("Ready once an operation of the load succeeds at this port."));
        lines.push(format!("ready: {{port: {PORT}, within: {}}}", typed_duration(self.ready)));
        let mut environment = about.environment();
        if let Some(program) = program {
            environment.entry("PATH".to_owned()).or_insert_with(|| program.path.clone());
        }
        environment.extend(movable.and_then(Movable::variable));
        if !environment.is_empty() {
            lines.push("environment:".to_owned());
            lines.extend(environment.iter().map(|(name, value)| format!("  {}: {}", quoted(name), quoted(value))));
        }
        lines.extend(about.user.iter().map(|user| format!("user: {}", quoted(user))));
        let seen = program.into_iter().flat_map(|program| &program.volumes);
        let volumes: BTreeSet<&String> = about.volume.iter().chain(seen).collect();
        if !volumes.is_empty() {
            lines.push(comment("Where it may write, and how much; each path is empty when it starts."));
            let paths: Vec<String> = volumes.iter().map(|path| format!("{}: {VOLUME}", quoted(path))).collect();
            lines.push(format!("volumes: {{{}}}", paths.join(", ")));
        }
        lines.push(comment("Then it is killed: not every program of an image heeds its stop signal."));
        lines.push(format!("stop_within: {}", typed_duration(STOP)));
        lines.push(comment("The same in every form (--cpus, --memory)."));
        lines.push(format!("resources: {{cpus: {}, memory: {}}}", about.cpus(), about.memory()));
        lines
    }

    /// The text of the study.
    pub(super) fn study(&self) -> String {
        let Draft { about, name, connections, .. } = self;
        let question = quoted(&format!("What do containers cost {}?", about.shown()));
        let said = comment(&self.connections_said);
        let at_most = typed_duration(about.at_most());
        let (stands_aside, forms) = match &self.deployed {
            Deployed::Single(single) => (single.movable.is_some(), forms(None)),
            Deployed::Stack(stack) => (false, forms(stack.imported.stack.shared_port(self.port))),
        };
        let by_tool = self.load.protocol == "exec";
        let measure = if by_tool { MEASURED_BY_TOOL } else { MEASURED[usize::from(!stands_aside)] };
        format!(
            "{}\n{EDIT}`tare check --schema study`.\nstudy: {name}\nquestion: {question}\n\
             # The workload.yaml beside this file.\nworkload: .\n\
             # Each connection sends its next request when the last one is answered.\n{said}\n\
             load: {{closed: {{connections: {connections}}}}}\n\
             # For each form, in each block: settle does not count, measure does.\n\
             time: {{settle: 500ms, measure: {measure}}}\n\
             # A block deploys every form afresh. Blocks go on until intervals are this narrow, or the time is over.\n\
             until: {{half_width: 1%, at_most: {at_most}}}\n\
             # The other forms are compared with the baseline.\n{forms}",
            head(about),
        )
    }
}

/// The forms of services of which two have the port `shared`, if any have.
fn forms(shared: Option<u16>) -> String {
    match shared {
        None => FORMS.to_owned(),
        Some(port) => format!(
            "# Two services have port {port}, so each needs a network of its own; forms without one are left out.\n\
             {FORMS_APART}"
        ),
    }
}

/// A bundle's source as a workload names it.
fn bundle(source: &Source) -> String {
    match source {
        Source::Packages(names) => format!("{{packages: {}}}", list(names)),
        Source::Image(image) => format!("{{image: {}}}", quoted(image)),
        Source::Folder(path) => format!("{{folder: {}}}", quoted(&path.display().to_string())),
        Source::Program(name) => format!("{{program: {}}}", quoted(name)),
    }
}

/// Whether something in a folder of sources or of an application was made by this program: records of runs, and folders
/// of other commands.
pub(super) fn is_ours(path: &Path) -> bool {
    let is_record =
        |entry: std::io::Result<std::fs::DirEntry>| entry.is_ok_and(|entry| entry.path().join("record.json").is_file());
    let has_records = || std::fs::read_dir(path).is_ok_and(|mut entries| entries.any(is_record));
    let made = || files::read_text(&path.join(WORKLOAD_FILE)).is_ok_and(|text| text.starts_with(MADE_BY));
    match path.file_name().and_then(|name| name.to_str()) {
        Some("records") => has_records(),
        _ => made(),
    }
}

/// A comment of one line.
fn comment(text: &str) -> String {
    format!("# {}", text.replace(char::is_control, " "))
}

#[cfg(test)]
mod tests {
    use super::place::not_own;
    use super::*;
    use crate::cmd::weigh::args::typed;
    use tare_core::load::LoadProfile;

    const TYPED: &[&str] = &[
        "apt:redis-server",
        "--command",
        "/usr/bin/redis-server --port {port} 'a \"b\"'",
        "--env",
        "A=x: y # z",
        "--volume",
        "/data",
        "--user",
        "5:6",
        "--at-most",
        "40s",
    ];

    fn draft(about: &About) -> Draft<'_> {
        Draft {
            about,
            name: "redis".to_owned(),
            deployed: Deployed::Single(Box::new(Single {
                source: Source::Packages(vec!["redis-server".to_owned()]),
                found: "packages redis-server\nDebian's".to_owned(),
                taken: vec!["user: a: b".to_owned()],
                program: None,
                movable: None,
            })),
            port: 6379,
            port_said: "port 6379: as typed (--port)".to_owned(),
            load: Load {
                protocol: "redis",
                options: vec!["mix: {get: 75, set: 25}".to_owned()],
                said: "GET and SET".to_owned(),
                option: "--redis",
                files: vec![("script.js".to_owned(), "export default function () {}".to_owned())],
            },
            connections: 20,
            connections_said: "20 connections".to_owned(),
            ready: READY,
            origins: Origins::default(),
        }
    }

    #[test]
    fn the_folder_is_a_workload_and_a_study_without_mistakes() {
        let (about, folder) = (typed::about(TYPED), tempfile::tempdir().unwrap());
        let path = folder.path().join("weigh-redis");
        draft(&about).write(&path).unwrap();
        assert!(path.join("script.js").is_file(), "what the load needs is beside the workload");
        let suite = files::read_suite(path.to_str().unwrap(), None, None).unwrap_or_else(|wrong| panic!("{wrong:#}"));
        let (study, workload) = files::only_part(suite, "run").unwrap();
        let service = &workload.services[0];
        assert_eq!(service.command, ["/usr/bin/redis-server", "--port", "${{port.main}}", "a \"b\""]);
        assert_eq!((service.environment["A"].as_str(), service.ports["main"]), ("x: y # z", 6379));
        assert_eq!((service.user, service.own_user), ((5, 6), false));
        assert_eq!((service.volumes["/data"].bytes, service.resources.memory_bytes), (512 << 20, 512 << 20));
        assert!(matches!(study.load, LoadProfile::Closed { connections: 20, .. }), "{:?}", study.load);
        assert_eq!(study.at_most, Some(Duration::from_secs(40)));
        let forms: Vec<&str> = study.forms.iter().map(|form| form.name.as_str()).collect();
        assert_eq!(forms, ["native", "container", "container-hostnet"]);
    }

    #[test]
    fn a_command_of_this_machine_has_its_folder_its_path_and_where_it_wrote() {
        let about = typed::about(&["--volume", "/data", "--", "./server", "{port}"]);
        let program = Program {
            command: vec!["/srv/app/server".to_owned(), "${{port.main}}".to_owned()],
            directory: Some("/srv/app".to_owned()),
            path: "/usr/bin:/bin".to_owned(),
            volumes: vec!["/data".to_owned(), "/srv/app/log".to_owned()],
        };
        let (folder, source) = (tempfile::tempdir().unwrap(), Source::Folder(PathBuf::from("root")));
        let path = folder.path().join("weigh-server");
        std::fs::create_dir_all(path.join("root")).unwrap();
        let (found, taken, movable) = (String::new(), Vec::new(), None);
        let deployed = Deployed::Single(Box::new(Single { source, found, taken, program: Some(program), movable }));
        Draft { deployed, ..draft(&about) }.write(&path).unwrap();
        let suite = files::read_suite(path.to_str().unwrap(), None, None).unwrap_or_else(|wrong| panic!("{wrong:#}"));
        let (_, workload) = files::only_part(suite, "run").unwrap();
        let service = &workload.services[0];
        assert_eq!(service.recipe.source, Source::Folder(path.canonicalize().unwrap().join("root")));
        assert_eq!(service.command, ["/srv/app/server", "${{port.main}}"]);
        assert_eq!(service.directory.as_deref(), Some("/srv/app"));
        assert_eq!(service.environment["PATH"], "/usr/bin:/bin");
        assert_eq!(service.volumes.keys().collect::<Vec<_>>(), ["/data", "/srv/app/log"]);
    }

    #[test]
    fn a_folder_is_never_written_over() {
        let (about, folder) = (typed::about(TYPED), tempfile::tempdir().unwrap());
        let about = &about;
        let path = folder.path().join("weigh-redis");
        assert_eq!(standing(&path, about).unwrap(), Standing::Nothing);
        draft(about).write(&path).unwrap();
        assert_eq!(standing(&path, about).unwrap(), Standing::Made);
        let other = typed::about(&[TYPED, &["--port", "1"]].concat());
        let told = standing(&path, &other).unwrap_err().to_string();
        assert!(told.contains("--out DIR; to run what is there, `tare run "), "{told}");
        std::fs::remove_file(path.join(STUDY_FILE)).unwrap();
        let told = standing(&path, about).unwrap_err().to_string();
        assert!(told.contains("--out DIR") && !told.contains("tare run "), "{told}");
    }

    #[test]
    fn a_folder_that_somebody_else_prepared_is_not_taken() {
        let (about, above) = (typed::about(TYPED), tempfile::tempdir().unwrap());
        let (path, link) = (above.path().join("weigh-redis"), above.path().join("link"));
        draft(&about).write(&path).unwrap();
        assert!(draft(&about).write(&path).is_err(), "it is there");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(draft(&about).write(&link).is_err(), "a link is there");
        let told = standing(&link, &about).unwrap_err().to_string();
        assert!(told.contains("link is a link") && told.contains("--out DIR"), "{told}");
        let Some(()) = tare_testkit::needs::root() else { return };
        let own = |place: &Path, user| std::os::unix::fs::lchown(place, Some(user), None).unwrap();
        let places = [path.clone(), path.join(WORKLOAD_FILE), path.join(STUDY_FILE)];
        places.iter().for_each(|place| own(place, 0));
        for place in &places {
            own(place, 4242);
            let told = not_own(&path, None).expect("it is somebody else's");
            assert!(told.starts_with(&format!("{} belongs to user 4242: somebody else", place.display())), "{told}");
            assert_eq!(not_own(&path, Some(4242)), None, "the user behind root has made it");
            own(place, 0);
        }
        let study = path.join(STUDY_FILE);
        std::fs::rename(&study, path.join("other")).unwrap();
        std::os::unix::fs::symlink("other", &study).unwrap();
        assert!(not_own(&path, None).is_some_and(|told| told.contains("study.yaml is a link")));
    }
}
