//! `tare weigh`: from the name of an image to its table, in one command. `tare init`: the same without measuring.
//!
//! The service is started once to see where it listens and which protocol it speaks. What is found out is written into
//! a folder of a workload and a study, which is then run as `tare run` runs any other. Each guess is said in one line
//! with the option that overrides it.

mod args;
mod before;
mod early;
mod ended;
mod folder;
mod load;
mod local;
mod movable;
mod origins;
mod port;
mod script;
mod stack;
mod tried;
mod what;
mod yaml;

pub(crate) use args::{InitArgs, WeighArgs};

use super::import::Digests;
use super::look::{self, Found, Ground};
use super::run;
use crate::cli::RunArgs;
use crate::images::{self, plain_image};
use crate::mistake::Mistake;
use crate::terminal::{note, tell};
use crate::{EXIT_INTERRUPTED, EXIT_OK, files, machine};
use anyhow::{Context, Result};
use args::About;
use before::BuildAgain;
use ended::{exited, with_more_files, with_other_loads};
use folder::{Deployed, Draft, READY, READY_SOON, Single, Standing};
use load::Load;
use local::Gathered;
use movable::Movable;
use origins::Origins;
use port::Expected;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tare_core::bundle::{BundleStore, Recipe, Source};
use tare_core::config::Problem;
use tare_core::image::ImageConfig;
use tare_core::study::Study;
use tare_core::units::grouped;
use tare_core::workload::{Service, Workload};
use tare_load::greeting::Spoken;
use tare_runner::Stop;
use tempfile::TempDir;
use what::What;

/// The connections of a study that was written before their number was found.
const USUAL_CONNECTIONS: u32 = 50;
/// Stands for the port of a service of which none is known, until it is seen where it listens.
const ANY_PORT: u16 = 8080;
/// Where a service is to listen that probably takes its port from its command or a variable; or one less, if that is
/// its own.
const TRIED_PORT: u16 = 28_417;
/// How long it may take to answer there: it has just been started once.
const MOVES_WITHIN: Duration = Duration::from_secs(10);
/// How long a service may take until it listens and answers.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// How the folder came to be.
enum Made {
    /// It is whole.
    Whole(PathBuf),
    /// It was whole before.
    Before(PathBuf),
    /// The user ended it before; the folder, if it was written.
    Interrupted(Option<PathBuf>),
}

/// `tare weigh`: makes the folder and runs its study.
pub(crate) fn weigh(args: &WeighArgs) -> Result<u8> {
    let WeighArgs { about, json, verbose } = args;
    let mut say = |text: &str| if *json { note(text) } else { tell(text) };
    let (folder, anew) = match make(about, "weigh", &mut say)? {
        Made::Whole(folder) => (folder, true),
        Made::Before(folder) => (folder, false),
        Made::Interrupted(folder) => return Ok(interrupted(folder.as_deref(), &mut say)),
    };
    let typed = typed_path(&folder);
    let code = run::run(&as_run(&folder, about.wait, *json, *verbose, anew))?;
    say(&format!("to repeat it: tare run {typed}"));
    Ok(code)
}

/// `tare init`: makes the folder and says how to run it.
pub(crate) fn init(args: &InitArgs) -> Result<u8> {
    match make(&args.about, "init", &mut tell)? {
        Made::Whole(folder) | Made::Before(folder) => tell(&format!("to run it: tare run {}", typed_path(&folder))),
        Made::Interrupted(folder) => return Ok(interrupted(folder.as_deref(), &mut tell)),
    }
    Ok(EXIT_OK)
}

fn interrupted(folder: Option<&Path>, say: &mut dyn FnMut(&str)) -> u8 {
    match folder {
        Some(folder) => say(&format!("interrupted; to measure what was found: tare run {}", typed_path(folder))),
        None => say("interrupted before the service was known; nothing is left"),
    }
    EXIT_INTERRUPTED
}

/// A folder as it is typed in a shell. A path without a slash would be the name of a study.
fn typed_path(folder: &Path) -> String {
    let text = folder.display().to_string();
    shlex::try_quote(&text).map_or_else(|_| text.clone(), |quoted| quoted.into_owned())
}

/// `tare run FOLDER`.
fn as_run(folder: &Path, wait: bool, json: bool, verbose: bool, image_said: bool) -> RunArgs {
    RunArgs {
        study: folder.display().to_string(),
        preset: None,
        parts: Vec::new(),
        repeat: None,
        design: None,
        ruler: None,
        forms: Vec::new(),
        at_most: None,
        settle: None,
        measure: None,
        seed: None,
        out: None,
        workloads: None,
        profile: false,
        json,
        verbose,
        wait,
        keep_failed: false,
        dry_run: false,
        image_said,
    }
}

/// Makes the folder, unless the same command has made it before.
fn make(about: &About, verb: &str, say: &mut dyn FnMut(&str)) -> Result<Made> {
    if let Some(typed) = about.what.as_deref().and_then(what::compose_file) {
        load::check(about)?;
        return stack::make(about, typed, verb, say);
    }
    let what = early::read(about)?;
    let name = about.name.clone().unwrap_or_else(|| what.short_name());
    let folder = folder::place(about, &name);
    // As it is before anything is made of it.
    let mut origins = Origins::now(about, &what.files(), Digests::new());
    if folder::standing(&folder, about)? == Standing::Made {
        let mut build = |stop: &Stop, say: &mut dyn FnMut(&str)| what.find(stop, say).map(drop);
        let build: Option<BuildAgain<'_>> = if matches!(what, What::Dockerfile(_)) { Some(&mut build) } else { None };
        return before::take(folder, &origins, verb, build, say);
    }
    if let What::Command(words) = &what {
        local::check(words)?;
    }
    // Given back before the study runs, which takes the machine by itself.
    let ground = Ground::take(verb, &about.shown(), about.wait)?;
    if let What::Command(words) = &what {
        return make_of_command((about, words), (name, &folder), origins, &ground, say);
    }
    let found = what.find(&ground.stop, say);
    if ground.stop.raised() {
        return Ok(Made::Interrupted(None));
    }
    let found = found?;
    say(&found.said);
    let image = build(about, &found.source, ground.carrier.bundles.as_ref(), say)?;
    if ground.stop.raised() {
        return Ok(Made::Interrupted(None));
    }
    origins.add(&found.source);
    let exposed: Vec<u16> = image.iter().flat_map(|says| says.tcp_ports().into_values()).collect();
    let port = about.port.or(exposed.first().copied()).unwrap_or(ANY_PORT);
    let single = Single { source: found.source, found: found.said, taken: Vec::new(), program: None, movable: None };
    let draft = Draft { port, origins, ..first_draft(about, name, Deployed::Single(Box::new(single))) };
    look_and_write(draft, &Expected { ports: &exposed, by: "the image exposes it" }, &folder, &ground, say)
}

/// The same for a command of this machine, whose files are copied into the folder.
fn make_of_command(
    (about, words): (&About, &[String]),
    (name, folder): (String, &Path),
    origins: Origins,
    ground: &Ground,
    say: &mut dyn FnMut(&str),
) -> Result<Made> {
    let gathered = local::gather(about, words, folder, &ground.stop, say);
    if ground.stop.raised() {
        return Ok(Made::Interrupted(None));
    }
    let Gathered { root, said, program, port, place } = gathered?;
    say(&said);
    let source = Source::Folder(root);
    build(about, &source, ground.carrier.bundles.as_ref(), say)?;
    if ground.stop.raised() {
        return Ok(Made::Interrupted(None));
    }
    // While it was watched it has listened where it was told to.
    let movable = port.map(|_| Movable::Command { words: program.command.clone(), by: "{port}".to_owned() });
    let port = about.port.or(port).unwrap_or(ANY_PORT);
    let single = Single { source, found: said, taken: Vec::new(), program: Some(program), movable };
    let draft = Draft { port, origins, ..first_draft(about, name, Deployed::Single(Box::new(single))) };
    let made = look_and_write(draft, &Expected { ports: &[], by: "" }, folder, ground, say)?;
    if !matches!(made, Made::Interrupted(None)) {
        place.keep();
    }
    Ok(made)
}

/// What is known before the service was looked at.
fn first_draft(about: &About, name: String, deployed: Deployed) -> Draft<'_> {
    Draft {
        about,
        name,
        deployed,
        port: ANY_PORT,
        port_said: String::new(),
        load: Load::none(),
        connections: about.connections.unwrap_or(USUAL_CONNECTIONS),
        connections_said: format!("{USUAL_CONNECTIONS} connections: the usual number (--connections)"),
        ready: READY_SOON,
        origins: Origins::default(),
    }
}

/// Builds the bundle; returns what the image says, if it is one.
fn build(
    about: &About,
    source: &Source,
    store: &dyn BundleStore,
    say: &mut dyn FnMut(&str),
) -> Result<Option<ImageConfig>> {
    // By the name that the bundle has in workloads, too.
    let recipe = Recipe::plain(match source {
        Source::Image(image) => Source::Image(plain_image(image)),
        other => other.clone(),
    });
    if !store.keeps(&recipe) {
        say("building the bundle that all forms get");
    }
    let image = store.bundle(&recipe)?.image().cloned();
    let starts = image.as_ref().is_none_or(|says| !says.whole_command().is_empty());
    if !starts && about.command.is_none() {
        let text = "the image starts nothing by itself: it has neither ENTRYPOINT nor CMD";
        return Err(Mistake::new(format!("{text}\n  to do: --command 'PROGRAM ARGUMENTS'")).into());
    }
    Ok(image)
}

/// Starts the services once, decides what the loaded one gets, and writes the folder.
fn look_and_write(
    mut draft: Draft,
    expected: &Expected,
    folder: &Path,
    ground: &Ground,
    say: &mut dyn FnMut(&str),
) -> Result<Made> {
    let (_kept, _, mut workload) = read_draft(&draft)?;
    machine::build_bundles(&mut workload, ground.carrier.bundles.as_ref(), say).map_err(without_places)?;
    match &mut draft.deployed {
        Deployed::Single(single) => {
            single.taken = taken(&workload);
            single.taken.iter().for_each(|line| say(line));
            say("starting the service once, to see where it listens and what it speaks");
        }
        Deployed::Stack(stack) => {
            images::lines(&workload).iter().for_each(|line| say(line));
            let loaded = stack.imported.stack.loaded();
            say(&format!("starting all services once, to see where {loaded} listens and what it speaks (--service)"));
        }
    }
    let (_kept, _, mut workload) = read_draft(&draft)?;
    let page = load::page(draft.about)?;
    let seen = look::look(ground, &mut workload, ANSWERS_WITHIN, page, say);
    if ground.stop.raised() {
        return Ok(Made::Interrupted(None));
    }
    let seen = seen.map_err(without_places)?;
    if let Some(how) = &seen.exited {
        let fault = exited(how, &seen.output);
        let fault = if draft.is_command() { with_more_files(fault) } else { fault };
        return Err(draft.with_remedy(fault.into()));
    }
    let port = port::choose(draft.about, expected, &seen).map_err(|error| draft.with_remedy(error))?;
    say(&port.said);
    let service = loaded(&workload);
    draft.load = load::choose(draft.about, port.number, &port.spoken, &service.environment)?;
    say(&format!("load {} ({})", draft.load.said, draft.load.option));
    load::check_answer(page.unwrap_or_default(), seen.answers.get(&port.number))
        .map_err(|fault| if fault.mistake { fault } else { fault.with_log(seen.output.clone()) })?;
    (draft.port, draft.port_said) = (port.number, port.said);
    let takes_port = movable(&draft, service, &port.spoken, ground, say)?;
    if let Deployed::Single(single) = &mut draft.deployed {
        single.movable = takes_port;
    }
    if ground.stop.raised() {
        return Ok(Made::Interrupted(None));
    }
    try_load(&mut draft, ground, say)?;
    draft.ready = READY;
    if ground.stop.raised() {
        leave(draft, folder)?;
        return Ok(Made::Interrupted(Some(folder.to_owned())));
    }
    say(&draft.connections_said);
    leave(draft, folder)?;
    say(&format!("written: {}", folder.display()));
    Ok(Made::Whole(folder.to_owned()))
}

/// Finds a number of connections, or tries the tool that is the load. Ends early, without an error, on an interrupt.
fn try_load(draft: &mut Draft, ground: &Ground, say: &mut dyn FnMut(&str)) -> Result<()> {
    if let Some(count) = draft.about.connections {
        draft.connections_said = format!("{count} connections: as typed (--connections)");
    } else if !draft.load.takes_connections() {
        draft.connections_said = "as many connections as the tool makes".to_owned();
    }
    if draft.load.protocol == "exec" {
        // A tool may take no number of connections, and each try would start it anew.
        return tried::try_tool(draft, ground, say);
    }
    if draft.about.connections.is_some() {
        return Ok(());
    }
    say("looking for a number of connections that keeps it busy");
    let (_kept, study, mut workload) = read_draft(draft)?;
    let found = look::connections(ground, &study, &mut workload, say);
    if ground.stop.raised() {
        return Ok(());
    }
    let found = found.map_err(|error| with_other_loads(without_places(error), &draft.load))?;
    draft.connections = found.connections;
    draft.connections_said = describe(&found);
    Ok(())
}

/// Writes the folder that stays. The files of a command are in it already, and are named from there.
fn leave(mut draft: Draft<'_>, folder: &Path) -> Result<()> {
    if let Deployed::Single(single) = &mut draft.deployed
        && single.program.is_some()
    {
        single.source = Source::Folder(PathBuf::from(local::ROOT));
    }
    draft.write(folder)
}

/// How the service takes its port, if that can be found out. It is tried at another one, since it may as well listen
/// where it always does.
fn movable(
    draft: &Draft,
    service: &Service,
    spoken: &Spoken,
    ground: &Ground,
    say: &mut dyn FnMut(&str),
) -> Result<Option<Movable>> {
    let Deployed::Single(single) = &draft.deployed else { return Ok(None) };
    // Under a tool, forms do not stand side by side: its figures are those of its whole run.
    let by_tool = draft.load.protocol == "exec";
    if let Some(known) = &single.movable {
        if !by_tool {
            say(&format!("it takes its port by {}, so forms stand side by side", known.by()));
        }
        return Ok(Some(known.clone()));
    }
    if draft.about.command.is_some() || by_tool {
        return Ok(None);
    }
    let Some(likely) = movable::likeliest(&service.command, &service.environment, draft.port) else { return Ok(None) };
    let other = if draft.port < TRIED_PORT { TRIED_PORT } else { TRIED_PORT - 1 };
    let deployed = Deployed::Single(Box::new(Single { movable: Some(likely.clone()), ..Single::clone(single) }));
    let tried = Draft { deployed, port: other, ..draft.clone() };
    let (_kept, _, mut workload) = read_draft(&tried)?;
    let seen = look::look(ground, &mut workload, MOVES_WITHIN, None, say);
    // Why it does not start with another command does not matter.
    let moved = seen.is_ok_and(|seen| seen.exited.is_none() && seen.spoken.get(&other) == Some(spoken));
    if moved {
        say(&format!("it takes its port by {}, so forms stand side by side", likely.by()));
    }
    Ok(moved.then_some(likely))
}

/// The service that gets the load.
fn loaded(workload: &Workload) -> &Service {
    let name = &workload.protocol.service;
    workload.services.iter().find(|service| service.name == *name).expect("a workload has the service that is loaded")
}

fn describe(found: &Found) -> String {
    let Found { connections, operations_per_s, p50, limited } = found;
    let why = match limited {
        Some(why) => format!("more could not be tried: {why}"),
        None => "found by doubling them as long as that gained throughput".to_owned(),
    };
    let (rate, p50) = (grouped(operations_per_s.round()), p50.as_micros());
    format!("{connections} connections, {rate} op/s, p50 {p50} us: {why} (--connections)")
}

/// Writes a draft into a folder that goes away with the first value, and reads it as a run would.
fn read_draft(draft: &Draft) -> Result<(TempDir, Study, Workload)> {
    let folder = tempfile::tempdir().context("could not make a temporary folder")?;
    draft.write_into(folder.path())?;
    let suite = files::read_suite(&folder.path().display().to_string(), None, None).map_err(without_places)?;
    let (study, workload) = files::only_part(suite, "weigh")?;
    Ok((folder, study, workload))
}

/// Mistakes of a draft came from the command line: nobody has seen the file.
fn without_places(error: anyhow::Error) -> anyhow::Error {
    let told = |Problem { message, hint, .. }: &Problem| match hint.as_str() {
        "" => message.clone(),
        hint => format!("{message}\n  to do: {hint}"),
    };
    match error.downcast_ref::<Mistake>() {
        Some(Mistake::InFiles(problems)) => {
            Mistake::new(problems.iter().map(told).collect::<Vec<_>>().join("\nerror: ")).into()
        }
        _ => error,
    }
}

/// What the service takes from its image, one line each, with the option that overrides it.
fn taken(workload: &Workload) -> Vec<String> {
    const OPTIONS: [(&str, &str); 4] =
        [("command", "--command"), ("environment", "--env"), ("user", "--user"), ("volumes", "--volume")];
    let image = workload.services[0].image.as_ref();
    let fields = image.into_iter().flat_map(|image| &image.taken);
    let line = |(field, what): (&String, &String)| {
        let (_, option) = OPTIONS.iter().find(|(known, _)| known == field)?;
        // A command may be a script of many lines.
        let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(format!("{field}: {what}, from the image ({option})"))
    };
    let health = image.and_then(|image| image.says.as_ref()?.health.as_ref()).map(|health| {
        let words: Vec<String> = health.command.iter().map(|word| word.replace(char::is_whitespace, " ")).collect();
        let command = yaml::list(&words);
        format!("ready: the load asks. The image's health check is not run; `ready: {{command: {command}}}` runs it")
    });
    fields.filter_map(line).chain(health).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_of_a_draft_are_told_without_its_file() {
        let mut problems = tare_core::config::Problems::new("/tmp/x/workload.yaml", "a: b\n");
        problems.add(tare_core::config::Place { line: 1, column: 1, width: 1 }, "it is wrong", "write it right");
        let told = without_places(Mistake::in_files(problems.into_vec()).into());
        assert_eq!(told.to_string(), "it is wrong\n  to do: write it right");
        assert!(told.is::<Mistake>());
    }
}
