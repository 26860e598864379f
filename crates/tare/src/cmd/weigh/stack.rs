//! A Compose file: its services are imported, their images built and fetched, and all are started to look at the one
//! that gets the load.

use super::args::About;
use super::before::BuildAgain;
use super::folder::{self, Deployed, Draft, Stacked, Standing};
use super::origins::Origins;
use super::port::Expected;
use super::{ANY_PORT, Made, before, first_draft, look_and_write};
use crate::catalog::Tables;
use crate::cmd::import::{self, Digests, Wanted};
use crate::cmd::look::Ground;
use crate::images::plain_image;
use crate::mistake::Mistake;
use crate::paths;
use anyhow::Result;
use std::path::{Path, PathBuf};
use tare_compose::{Build, Imported, Note, Weight};
use tare_core::bundle::{BundleStore, Recipe, Source};
use tare_core::catalog::Catalog;
use tare_core::config::Problem;
use tare_core::fault::{Doing, Fault};
use tare_layers::{BuildWays, NamedBuild};
use tare_runner::Stop;

/// With more keys that differ than this, they are counted.
const NOTES_MAX: usize = 5;

/// Makes the folder of a Compose file, unless the same command has made it before.
pub(super) fn make(about: &About, typed: &Path, verb: &str, say: &mut dyn FnMut(&str)) -> Result<Made> {
    let file = import::find(typed)?;
    refuse_options(about, &file)?;
    let over = import::over(typed, &file);
    // Before anything is built or fetched: what is wrong with the file is told at once.
    let (first, digests) = read(about, &file, &over, true)?;
    let mut origins = Origins::now(about, &[], digests);
    let name = about.name.clone().unwrap_or_else(|| first.name.clone());
    let folder = folder::place(about, &name);
    if folder::standing(&folder, about)? == Standing::Made {
        let mut build = |stop: &Stop, say: &mut dyn FnMut(&str)| build_images(&first.built, (&file, &over), stop, say);
        let build: Option<BuildAgain<'_>> = if first.built.is_empty() { None } else { Some(&mut build) };
        return before::take(folder, &origins, verb, build, say);
    }
    let ground = Ground::take(verb, &about.shown(), about.wait)?;
    let brought = build_images(&first.built, (&file, &over), &ground.stop, say)
        .and_then(|()| fetch_images(&first, &file, ground.carrier.bundles.as_ref(), &ground.stop, say));
    if ground.stop.raised() {
        return Ok(Made::Interrupted(None));
    }
    brought?;
    // Now that the images are there, it is known what they say.
    let (imported, _) = read(about, &file, &over, false)?;
    imported.stack.images().into_iter().for_each(|image| origins.add_image(image));
    let said = told(typed, &imported);
    said.iter().for_each(|line| say(line));
    let ports = imported.stack.ports();
    let port = about.port.or(ports.first().copied()).unwrap_or(ANY_PORT);
    let deployed = Deployed::Stack(Box::new(Stacked { imported, file, said }));
    let draft = Draft { port, origins, ..first_draft(about, name, deployed) };
    look_and_write(draft, &Expected { ports: &ports, by: "the Compose file names it" }, &folder, &ground, say)
}

/// Refuses what is typed of one service, and stands in the file for each of several.
fn refuse_options(about: &About, file: &Path) -> Result<()> {
    let file = paths::shown(file);
    let typed = [
        ("--command", "command", about.command.is_some()),
        ("--user", "user", about.user.is_some()),
        ("--env", "environment", !about.env.is_empty()),
        ("--volume", "volumes", !about.volume.is_empty()),
        ("--with", "volumes", !about.with.is_empty()),
        ("--cpus", "cpus", about.cpus.is_some()),
        ("--memory", "mem_limit", about.memory.is_some()),
    ];
    let told = |(option, key, _): &(&str, &str, bool)| {
        let text = format!("{option} is for one service, and a Compose file has several");
        format!("{text}\n  to do: write '{key}:' at the service that is meant, in {file}")
    };
    let told: Vec<String> = typed.iter().filter(|(_, _, typed)| *typed).map(told).collect();
    if told.is_empty() { Ok(()) } else { Err(Mistake::new(told.join("\nerror: ")).into()) }
}

/// Reads the file, with digests of what was read; what keeps its services from running in every form is a mistake.
fn read(about: &About, file: &Path, over: &[PathBuf], images_follow: bool) -> Result<(Imported, Digests)> {
    let wanted = Wanted { profiles: &about.profile, service: about.service.as_deref(), images_follow };
    let (imported, digests) = import::read_noting(file, over, &wanted)?;
    let stops = imported.notes.iter().filter(|note| note.weight == Weight::Stops);
    let told = |note: &Note| Problem { message: format!("'{}' keeps it from running", note.key), ..note.as_problem() };
    let stops: Vec<Problem> = stops.map(told).collect();
    if stops.is_empty() { Ok((imported, digests)) } else { Err(Mistake::in_files(stops).into()) }
}

/// What differs between forms, and what was assumed, one line each.
fn told(typed: &Path, imported: &Imported) -> Vec<String> {
    let notes = &imported.notes;
    let line = |Note { file, place, key, instead, .. }: &Note| {
        format!("{file}:{}:{}: {key}: {instead}", place.line, place.column)
    };
    let mut said: Vec<String> = if notes.len() > NOTES_MAX {
        let typed = paths::shown(typed);
        vec![format!("{} keys differ between forms: `tare import {typed}` lists them", notes.len())]
    } else {
        notes.iter().map(line).collect()
    };
    said.extend(imported.assumed.iter().cloned());
    said
}

/// Has the engine build images, as `docker compose build` would leave them. Ends early, without an error, once `stop`
/// is raised. `files` are the Compose file and those over it.
fn build_images(built: &[Build], files: (&Path, &[PathBuf]), stop: &Stop, say: &mut dyn FnMut(&str)) -> Result<()> {
    let is_same = |one: &Build, other: &Build| {
        (&one.tag, &one.context, &one.dockerfile) == (&other.tag, &other.context, &other.dockerfile)
            && (&one.args, &one.target) == (&other.args, &other.target)
    };
    for (number, build) in built.iter().enumerate() {
        if stop.raised() {
            break;
        }
        if !built[..number].iter().any(|earlier| is_same(earlier, build)) {
            build_one(build, files, stop, say)?;
        }
    }
    Ok(())
}

/// The commands that read the same files, as they are typed: Compose's, and `tare import`.
fn commands((file, over): (&Path, &[PathBuf])) -> (String, String) {
    let mut compose = format!("docker compose -f {}", paths::shown(file));
    over.iter().for_each(|file| compose += &format!(" -f {}", paths::shown(file)));
    // It looks for the others if a folder was typed, and takes a file alone.
    let folder = file.parent().map(paths::shown).filter(|shown| !shown.is_empty());
    let import = if over.is_empty() { paths::shown(file) } else { folder.unwrap_or_else(|| ".".to_owned()) };
    (compose, format!("tare import {import}"))
}

fn build_one(build: &Build, files: (&Path, &[PathBuf]), stop: &Stop, say: &mut dyn FnMut(&str)) -> Result<()> {
    let Build { service, tag, .. } = build;
    let (compose, import) = commands(files);
    let place = format!("{}:{}:{}", build.file, build.place.line, build.place.column);
    let by_hand = format!("{compose} build {service}");
    if let Some(why) = &build.by_hand {
        // Somebody may have built it by hand.
        let Ok(_) = tare_layers::engine_image(tag) else {
            let text = format!("{place}: the image of service '{service}' cannot be built here: {why}");
            return Err(Mistake::new(format!("{text}\n  to do: {by_hand}, and the same command again")).into());
        };
        say(&format!("image {tag} of service {service}: as the engine has it, for {why} ({by_hand})"));
        return Ok(());
    }
    let context = match inside(files.0, &build.context) {
        Ok(context) => context,
        Err(fault) if fault.mistake && tare_layers::engine_image(tag).is_ok() => {
            say(&format!("image {tag} of service {service}: as the engine has it ({by_hand})"));
            return Ok(());
        }
        Err(fault) => return Err(fault.context(&place).into()),
    };
    let ways = BuildWays { is_no_source: &folder::is_ours, stop: &|| stop.raised() };
    let named = NamedBuild {
        name: tag,
        dockerfile: build.dockerfile.as_deref(),
        args: &build.args,
        target: build.target.as_deref(),
    };
    tare_layers::build_named_image(&context, &named, &ways, say).map_err(|fault| {
        let remedy = format!(
            "fix what its last lines show; if it needs BuildKit, build it yourself ({by_hand}), then: {import} \
             --out DIR; tare run DIR"
        );
        // A build that was refused before it began has no lines.
        let remedy = if fault.mistake && !fault.log.is_empty() { remedy } else { fault.remedy.clone() };
        fault.context(format_args!("{place}: service '{service}'")).remedy(remedy)
    })?;
    say(&format!("image {tag} of service {service}: built by the engine"));
    Ok(())
}

/// A folder below that of the Compose file, without links. The engine is sent all of it, perhaps by root, and the file
/// may be somebody else's.
fn inside(file: &Path, folder: &Path) -> Result<PathBuf, Fault> {
    let real = |path: &Path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        path.canonicalize().doing(format_args!("open the folder {}", path.display())).map_err(Fault::as_mistake)
    };
    let (root, context) = (real(file.parent().unwrap_or(Path::new("")))?, real(folder)?);
    if context.starts_with(&root) {
        return Ok(context);
    }
    let fault = Fault::new(format!("{} leads out of the folder of the Compose file", folder.display()));
    Err(fault.remedy("put the sources there, or build the image by hand").as_mistake())
}

/// Fetches images of which nothing is known yet. Ends early, without an error, once `stop` is raised.
fn fetch_images(
    imported: &Imported,
    file: &Path,
    store: &dyn BundleStore,
    stop: &Stop,
    say: &mut dyn FnMut(&str),
) -> Result<()> {
    for image in imported.stack.images() {
        if stop.raised() {
            break;
        }
        let in_file = |fault: Fault| fault.context(format_args!("image {image} of {}", paths::shown(file)));
        if Tables.image(image).map_err(in_file)?.is_none() {
            say(&format!("fetching image {image}"));
            store.bundle(&Recipe::plain(Source::Image(plain_image(image)))).map_err(in_file)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::weigh::args::typed::about;
    use crate::cmd::weigh::folder::READY_SOON;
    use crate::cmd::weigh::load::Load;
    use crate::files;
    use tare_testkit::files::write;

    const TEXT: &str = "\
services:
  web:
    image: shop/web:1
    ports: ['8080:8000', '22']
    volumes: ['./page:/page:ro']
    environment: {CACHE: 'redis://cache:6379'}
  cache:
    image: 'redis:7'
";

    fn draft(about: &About, imported: Imported) -> Draft<'_> {
        let said = told(Path::new("compose.yaml"), &imported);
        Draft {
            about,
            name: "shop".to_owned(),
            deployed: Deployed::Stack(Box::new(Stacked { imported, file: "compose.yaml".into(), said })),
            port: 8000,
            port_said: "port 8000: the Compose file names it (--port)".to_owned(),
            load: Load::none(),
            connections: 20,
            connections_said: "20 connections".to_owned(),
            ready: READY_SOON,
            origins: Origins::default(),
        }
    }

    #[test]
    fn the_folder_of_a_stack_is_a_workload_and_a_study_without_mistakes() {
        let stack = tempfile::tempdir().unwrap();
        let file = write(&stack.path().join("compose.yaml"), TEXT);
        write(&stack.path().join("page"), "a page");
        let about = about(&["compose.yaml"]);
        let (imported, digests) = read(&about, &file, &[], true).unwrap();
        assert!(digests.contains_key(&file.canonicalize().unwrap()) && digests.len() == 2, "{digests:?}");
        assert_eq!((imported.stack.loaded(), imported.stack.ports()), ("web", vec![8000, 22]));
        let out = stack.path().join("weigh-shop");
        draft(&about, imported).write(&out).unwrap();
        assert_eq!(std::fs::read_to_string(out.join("files/web/page")).unwrap(), "a page");
        let suite = files::read_suite(out.to_str().unwrap(), None, None).unwrap_or_else(|wrong| panic!("{wrong:#}"));
        let (study, workload) = files::only_part(suite, "run").unwrap();
        let names: Vec<&str> = workload.services.iter().map(|service| service.name.as_str()).collect();
        assert_eq!(names, ["cache", "web"]);
        assert_eq!((workload.protocol.service.as_str(), workload.protocol.port.as_deref()), ("web", Some("8000")));
        assert_eq!(workload.services[1].ready.within(), READY_SOON);
        assert_eq!(study.forms.len(), 3);
    }

    #[test]
    fn services_with_one_port_are_weighed_apart() {
        let stack = tempfile::tempdir().unwrap();
        let text = TEXT.replace("  cache:\n", "  cache:\n    expose: ['8000']\n");
        let file = write(&stack.path().join("compose.yaml"), &text);
        write(&stack.path().join("page"), "a page");
        let about = about(&["compose.yaml", "--service", "web"]);
        let study = draft(&about, read(&about, &file, &[], true).unwrap().0).study();
        assert!(study.contains("baseline: container\n") && !study.contains("native"), "{study}");
        let wrong = crate::cmd::weigh::args::typed::about(&["compose.yaml", "--service", "wbe"]);
        let told = read(&wrong, &file, &[], true).unwrap_err().to_string();
        assert!(told.contains("no service 'wbe'") && told.contains("web"), "{told}");
    }

    #[test]
    fn what_keeps_it_from_running_and_what_is_for_one_service_is_told_at_once() {
        let stack = tempfile::tempdir().unwrap();
        let text = "services: {a: {image: x, ports: ['80'], gpus: all}}\n";
        let file = write(&stack.path().join("compose.yaml"), text);
        let told = read(&about(&["x"]), &file, &[], true).unwrap_err().to_string();
        assert!(told.contains("compose.yaml:1:") && told.contains("'services.a.gpus' keeps it from running"), "{told}");
        let told = refuse_options(&about(&["x", "--cpus", "2", "--env", "A=1"]), &file).unwrap_err().to_string();
        assert!(told.contains("write 'cpus:' at") && told.contains("write 'environment:' at"), "{told}");
        assert!(refuse_options(&about(&["x", "--with", "y"]), &file).unwrap_err().to_string().contains("'volumes:'"));
        assert!(refuse_options(&about(&["x", "--port", "80"]), &file).is_ok());
    }

    #[test]
    fn commands_to_be_typed_read_the_same_files() {
        let (compose, import) = commands((Path::new("shop/compose.yaml"), &[]));
        assert_eq!(compose, "docker compose -f shop/compose.yaml");
        assert_eq!(import, "tare import shop/compose.yaml");
        let over = [PathBuf::from("shop/compose.override.yaml")];
        let (compose, import) = commands((Path::new("shop/compose.yaml"), &over));
        assert_eq!(compose, "docker compose -f shop/compose.yaml -f shop/compose.override.yaml");
        assert_eq!(import, "tare import shop");
        assert_eq!(commands((Path::new("compose.yaml"), &over)).1, "tare import .");
    }

    #[test]
    fn nothing_outside_of_the_folder_is_sent_to_a_build() {
        let outer = tempfile::tempdir().unwrap();
        let file = write(&outer.path().join("stack/compose.yaml"), "services: {}\n");
        write(&outer.path().join("stack/app/Dockerfile"), "FROM scratch\n");
        std::os::unix::fs::symlink("/etc", outer.path().join("stack/link")).unwrap();
        assert!(inside(&file, &outer.path().join("stack/app")).is_ok());
        for out in ["stack/link", "stack/..", "stack/none"] {
            assert!(inside(&file, &outer.path().join(out)).unwrap_err().mistake, "{out}");
        }
    }
}
