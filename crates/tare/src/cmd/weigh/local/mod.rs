//! A command of this machine: it is started once to see which files it uses, and these are copied into a folder, of
//! which the bundle is made that all forms get.

mod copying;
mod place;
mod tree;
mod trial;
mod words;
mod written;

pub(super) use place::{Place, ROOT};

use super::args::About;
use super::folder::Program;
use super::movable::PORT;
use crate::paths;
use crate::written::write_own_file;
use anyhow::{Context, Result};
use copying::{Bounds, Copied};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tare_core::fault::Fault;
use tare_core::workload::USUAL_PATH;
use tare_layers::opened::{self, Names};
use tare_runner::Stop;
use tree::{Chooser, Room, Tree};
use trial::{Ports, Trial};
use written::{Stamp, Written, written};

/// Stands for the port in the words of a command.
const PORT_PLACE: &str = "{port}";
/// The file that lists what was copied.
const LIST: &str = "files.txt";
/// How much of whole folders is taken.
const WHOLE_BYTES: u64 = 512 << 20;
const WHOLE_ENTRIES: usize = 50_000;
/// The most that is copied in all.
const COPIED_BYTES: u64 = 4 << 30;
/// How many files that were left out are named.
const SHOWN: usize = 5;

/// A command whose files were copied.
pub(super) struct Gathered {
    /// The folder with the copies.
    pub(super) root: PathBuf,
    /// What it is, in words.
    pub(super) said: String,
    pub(super) program: Program,
    /// A port at which it will listen if it is told so, as it has while it was watched.
    pub(super) port: Option<u16>,
    /// What goes away unless it is kept.
    pub(super) place: Place,
}

/// What the service is called.
pub(super) fn name(words: &[String]) -> String {
    words::name(words)
}

/// Checks what can be checked before it is started.
///
/// # Errors
/// When its program is not found, or cannot be in any form where it is, or nobody but root reaches it.
pub(super) fn check(words: &[String]) -> Result<()> {
    let (program, here) = program(words)?;
    // Without root nothing starts at all, and that is said first.
    if rustix::process::geteuid().is_root() {
        trial::user(paths::user_behind_sudo(), &program, &here)?;
    }
    Ok(())
}

/// The program of a command, and the files that it names.
pub(super) fn named_files(words: &[String]) -> Vec<PathBuf> {
    // What is gone is told when it is looked for.
    let Ok((program, here)) = program(words) else { return Vec::new() };
    let named = words.iter().skip(1).map(|word| here.join(word));
    let files = std::iter::once(program).chain(named).filter_map(|path| path.canonicalize().ok());
    files.filter(|path| path.is_file()).collect()
}

/// The program that a command starts, and the current folder.
fn program(words: &[String]) -> Result<(PathBuf, PathBuf)> {
    let here = std::env::current_dir().context("could not find the current folder")?;
    let program = words::find(&words[0], &here, paths::search_path().as_deref())?;
    words::check_places(&program, words, &here)?;
    Ok((program, here))
}

/// Starts the command once, and copies the files that it uses into `root` below `folder`, which must not exist yet.
/// Tells `say` what it does, and what the service will not get.
///
/// # Errors
/// When the program is not found, does not serve, or its files cannot be copied; or when the user ended that.
pub(super) fn gather(
    about: &About,
    words: &[String],
    folder: &Path,
    stop: &Stop,
    say: &mut dyn FnMut(&str),
) -> Result<Gathered> {
    let (program, here) = program(words)?;
    let with: Vec<PathBuf> = about.with.iter().map(|path| here.join(path)).collect();
    let (user, who) = trial::user(paths::user_behind_sudo(), &program, &here)?;
    let takes_port = words.iter().any(|word| word.contains(PORT_PLACE));
    let ports = if takes_port { Some(Ports::choose(about.port)?) } else { None };
    let port = ports.as_ref().map(|ports| ports.watched);
    let path = paths::search_path();
    let path = path.map_or_else(|| USUAL_PATH.to_owned(), |path| path.to_string_lossy().into_owned());
    let variables = trial::environment(about.environment(), &paths::environment(), &path);
    let started = with_port(words, &program, &port.map(|port| port.to_string()).unwrap_or_default());
    say(&format!("starting the command as {who}, to see which files it uses"));
    let watched = opened::Program { words: &started, directory: &here, environment: &variables, user };
    let secrets: Vec<&String> = about.env.iter().filter(|typed| !typed.contains('=')).collect();
    let trial = Trial { program: watched, port, path: about.http.as_deref().unwrap_or("/"), secrets: &secrets };
    let (names, began) = trial::watch(&trial, stop)?;
    let (place, root) = Place::make(folder, user)?;
    let own = words::own_folders(&program, words, &here);
    let wanted = Wanted { user: user.0, own: &own, with: &with, apart: &paths::plain(folder) };
    let taken = opened::with_rights_of(user, || take(&wanted, &names, began, &root, stop))??;
    place.open_root(&root)?;
    write_own_file(&folder.join(LIST), &taken.copied.list)?;
    taken.lines().iter().for_each(|line| say(line));
    let shown = words.join(" ");
    let mib = taken.copied.bytes.div_ceil(1 << 20);
    let said = format!(
        "command {shown}: {} files of this machine, {mib} MiB, listed in {} (--with)",
        taken.copied.files,
        folder.join(LIST).display()
    );
    let volumes = taken.written.volumes.iter().map(|path| path.display().to_string()).collect();
    let program = Program {
        command: with_port(words, &program, &format!("${{{{port.{PORT}}}}}")),
        directory: taken.tree.holds(&here).then(|| here.display().to_string()),
        path,
        volumes,
    };
    let port = ports.map(|ports| ports.service);
    Ok(Gathered { root: paths::plain(&place.root()), said, program, port, place })
}

/// The words with the path of the program, and a port where its place is.
fn with_port(words: &[String], program: &Path, port: &str) -> Vec<String> {
    let arguments = words.iter().skip(1).map(|word| word.replace(PORT_PLACE, port));
    std::iter::once(program.display().to_string()).chain(arguments).collect()
}

/// What is to be taken of a command, beside the files that it has named.
struct Wanted<'a> {
    /// The user who typed it.
    user: u32,
    /// Its own folders.
    own: &'a [PathBuf],
    /// What options name.
    with: &'a [PathBuf],
    /// The folder in which the copies are, of which nothing is taken.
    apart: &'a Path,
}

/// What was taken of a command.
struct Taken {
    tree: Tree,
    written: Written,
    copied: Copied,
}

/// Chooses and copies files, with the rights of the user who typed the command.
fn take(wanted: &Wanted<'_>, names: &Names, began: Stamp, root: &OwnedFd, stop: &Stop) -> Result<Taken, Fault> {
    let mut room = Room { bytes: WHOLE_BYTES, entries: WHOLE_ENTRIES };
    let mut chooser = Chooser::new(wanted.user, wanted.own, wanted.apart, stop);
    for path in wanted.with {
        let shown = path.display();
        if let Err(error) = path.metadata() {
            return Err(Fault::new(format!("--with {shown}: {error}")).as_mistake());
        }
        if !chooser.take_named(path, &mut room) {
            let (mib, entries) = (WHOLE_BYTES >> 20, WHOLE_ENTRIES);
            let text = format!("--with {shown}: it is more than {mib} MiB or {entries} files, or cannot be in a form");
            return Err(Fault::new(text).remedy("name less, or put the command into an image").as_mistake());
        }
    }
    chooser.take_all(names, &mut room);
    if stop.raised() {
        return Err(Fault::new("interrupted"));
    }
    let written = written(names, &chooser.tree, began);
    let copied = copying::copy(&chooser.tree, root, &Bounds { bytes: COPIED_BYTES, stop })?;
    Ok(Taken { tree: chooser.tree, written, copied })
}

impl Taken {
    /// What the service gets otherwise than the command, one line each.
    fn lines(&self) -> Vec<String> {
        let left_out = self.tree.left_out.iter().map(|(path, why)| format!("left out: {}: {why}", path.display()));
        let unread = self.copied.unread.iter().map(|path| format!("left out: {}: it cannot be read", path.display()));
        let all: Vec<String> = left_out.chain(unread).collect();
        let more = all.len().saturating_sub(SHOWN);
        let mut lines: Vec<String> = all.into_iter().take(SHOWN).collect();
        if more > 0 {
            lines.push(format!("left out: {more} more"));
        }
        for path in &self.written.volumes {
            lines.push(format!("it wrote to {}: there it gets a volume, empty at first (--volume)", path.display()));
        }
        for path in &self.written.beside {
            let shown = path.display();
            lines.push(format!("it wrote to {shown}, beside files that it needs: the service cannot write there"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_layers::opened::Use;

    #[test]
    fn what_was_used_is_copied_and_told() {
        let (from, to) = (tempfile::tempdir_in("/var/tmp").unwrap(), tempfile::tempdir().unwrap());
        let app = from.path().canonicalize().unwrap();
        let file = |name: &str| tare_testkit::files::write(&app.join(name), b"x");
        let script = tare_testkit::files::write(&app.join("app.sh"), b"#!/bin/sh\n");
        std::os::unix::fs::symlink("app.sh", app.join("app")).unwrap();
        tare_testkit::files::write(&app.join("static/weigh-x/workload.yaml"), b"# Made by: tare weigh x\n");
        for name in ["static/page", "unused/page", ".aws/key", ".git/config"] {
            file(name);
        }
        let began = written::now();
        file("data/new");
        let opened = Use { opened: true, ..Use::default() };
        let made = Use { changed: true, made: true, ..Use::default() };
        let names: Names = [
            (app.join("app"), Use { run: true, ..opened }),
            (app.join("static"), opened),
            (app.join(".aws/key"), opened),
            (app.join("data"), made),
            (app.join("data/new"), made),
            (app.join("missing"), opened),
            ("/proc/self/status".into(), opened),
            ("/etc/passwd".into(), opened),
        ]
        .into();
        let root = OwnedFd::from(std::fs::File::open(to.path()).unwrap());
        let user = rustix::process::geteuid().as_raw();
        let (own, apart, stop) = ([app.clone()], app.join("weigh"), Stop::default());
        let wanted = Wanted { user, own: &own, with: &[], apart: &apart };
        let taken = take(&wanted, &names, began, &root, &stop).unwrap();
        let has = |path: &Path| to.path().join(path.strip_prefix("/").unwrap()).symlink_metadata().is_ok();
        assert!(has(&script) && has(&app.join("app")) && has(&app.join("static/page")));
        let without = ["unused", "static/weigh-x", ".aws/key", ".git", "data/new", "missing"];
        assert!(without.iter().all(|name| !has(&app.join(name))));
        assert!(has(Path::new("/bin/sh")), "the kernel opens the interpreter by itself: {:?}", taken.tree);
        assert!(!has(Path::new("/proc/self")));
        assert!(taken.tree.holds(&app) && !taken.tree.holds(Path::new("/srv/other")));
        let lines = taken.lines();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains(".aws/key: it may hold a secret"), "{lines:?}");
        assert!(lines[1].starts_with(&format!("it wrote to {}/data: ", app.display())), "{lines:?}");
        // All of a folder that an option names.
        let (to, with) = (tempfile::tempdir().unwrap(), [app.join("unused")]);
        let root = OwnedFd::from(std::fs::File::open(to.path()).unwrap());
        take(&Wanted { with: &with, ..wanted }, &Names::new(), began, &root, &stop).unwrap();
        assert!(to.path().join(app.strip_prefix("/").unwrap()).join("unused/page").exists());
    }

    #[test]
    fn the_port_is_put_in_where_its_place_is() {
        let words = ["server", "--listen", "0.0.0.0:{port}"].map(str::to_owned);
        let with = with_port(&words, Path::new("/srv/server"), "80");
        assert_eq!(with, ["/srv/server", "--listen", "0.0.0.0:80"]);
    }
}
