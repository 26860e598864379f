//! `tare serve`: shows records and the run in progress in a browser, and starts runs where that is allowed.

use crate::cli::ServeArgs;
use crate::mistake::Mistake;
use crate::terminal::{note, print};
use crate::{EXIT_OK, files, history, paths};
use anyhow::Result;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tare_core::fault::Fault;
use tare_core::record::{EndRequest, Header};
use tare_layers::lock::MachineLock;
use tare_layers::{asking, hands, owner};
use tare_serve::{OfferedForm, Server, Settings, Surroundings, Weighing};
use tare_stats::Occasions;
use tempfile::NamedTempFile;

/// How much of its priority the server gives up.
const NICENESS: i32 = 10;

/// What is known on this machine: its history, and the runs that go on.
struct ThisMachine;

impl Surroundings for ThisMachine {
    fn occasions(&self, before: &Header, after: &Header) -> Result<Occasions, Fault> {
        history::occasions(before, after).map_err(|error| Fault::new(format!("{error:#}")))
    }

    fn live_runs(&self) -> Vec<String> {
        owner::live_runs()
    }

    fn may_ask(&self, run: &str) -> Result<(), Fault> {
        asking::may_ask(run)
    }

    fn ask(&self, run: &str, request: EndRequest) -> Result<(), Fault> {
        asking::ask(run, request)
    }
}

/// The forms of the canonical study.
const FORMS: [OfferedForm; 5] = [
    OfferedForm { name: "native", stack: "[]", layers: &[] },
    OfferedForm { name: "container", stack: "[container: {network: published}]", layers: &["container"] },
    OfferedForm { name: "container-hostnet", stack: "[container: {network: host}]", layers: &["container"] },
    OfferedForm { name: "vm", stack: "[vm: {}]", layers: &["vm"] },
    OfferedForm {
        name: "vm+container",
        stack: "[vm: {}, container: {network: published}]",
        layers: &["vm", "container"],
    },
];

/// What new runs are made of, and this very program, which starts them.
struct NewRuns(PathBuf);

impl Weighing for NewRuns {
    fn program(&self) -> &Path {
        &self.0
    }

    fn workloads(&self) -> Vec<String> {
        files::known_workloads(None, None)
    }

    fn forms(&self) -> &'static [OfferedForm] {
        &FORMS
    }

    fn studies(&self) -> Vec<String> {
        files::studies().into_keys().collect()
    }

    fn study(&self, name: &str) -> Result<Option<String>, Fault> {
        let read = files::studies().get(name).map(|path| files::read_text(path));
        read.transpose().map_err(|error| Fault::new(format!("{error:#}")))
    }

    fn may_run(&self) -> Result<(), Fault> {
        if rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let fault = Fault::new("making network namespaces, mounts and cgroups for a run needs root");
        Err(fault.remedy("start `sudo tare serve --allow-run` instead"))
    }

    fn is_free(&self) -> Result<(), Fault> {
        // The lock itself says it; it is given back at once, and the run takes it for itself.
        match MachineLock::take("tare serve, which is about to start a run")? {
            Ok(_lock) => Ok(()),
            Err(holder) => {
                let fault = Fault::new(format!("a run is in progress on this machine ({})", holder.what));
                Err(fault.remedy("wait for it to end, or stop it on the page Now"))
            }
        }
    }
}

/// Lets a server start runs. To be called while this thread has the priority that they are to have.
fn allow_runs(server: &mut Server, records: &Path) -> Result<()> {
    // Whoever could put another study in the place of the one to be run could have root run it.
    if let Some(foreign) = hands::in_other_hands(records, paths::behind_sudo()) {
        let text =
            format!("no runs can be started from {}: {} {}", records.display(), foreign.path.display(), foreign.why);
        let hint = "name a folder of your own with --records, or omit --allow-run";
        return Err(Mistake::new(format!("{text}\n  to do: {hint}")).into());
    }
    server.allow_runs(Arc::new(NewRuns(std::env::current_exe()?)))?;
    Ok(())
}

pub(crate) fn serve(args: &ServeArgs) -> Result<u8> {
    let settings = Settings { records: args.records.clone(), port: args.port };
    let mut server = Server::bind(&settings, Arc::new(ThisMachine))?;
    if args.allow_run {
        allow_runs(&mut server, &args.records)?;
    }
    let stopper = server.stopper();
    ctrlc::set_handler(move || stopper.stop())?;
    let link = server.link();
    note("open this link, which is for this machine and you alone; Ctrl-C ends");
    print(&link);
    // Kept for as long as the link is good.
    let _page = match (args.open, rustix::process::geteuid().is_root()) {
        (true, true) => {
            note("no browser was opened: it would be root's; open the link as yourself");
            None
        }
        (true, false) => open(&link),
        (false, _) => None,
    };
    // A run that measures comes first. The threads of the server inherit this; the browser does not, and neither does a
    // run that is started here.
    let _ = rustix::process::nice(NICENESS);
    server.run()?;
    Ok(EXIT_OK)
}

/// Has the user's browser show it, by way of a page that leads there: the arguments of a browser can be read by
/// all users of a machine for as long as it runs, and the link holds the key. Where there is no browser, the link is
/// printed anyway.
fn open(link: &str) -> Option<NamedTempFile> {
    let mut folders = paths::runtime_folder().into_iter().chain([std::env::temp_dir()]);
    let Some(page) = folders.find_map(|folder| page_to(link, &folder).ok()) else {
        note("no browser was opened: there is no folder for the page that leads it here; open the link yourself");
        return None;
    };
    let mut browser = Command::new("xdg-open");
    browser.arg(page.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match browser.spawn() {
        Ok(mut browser) => drop(std::thread::spawn(move || browser.wait())),
        Err(error) => note(&format!("no browser was opened: could not start xdg-open: {error}")),
    }
    Some(page)
}

/// A page that leads to the link and that only its owner can read. It goes when this is dropped.
fn page_to(link: &str, folder: &Path) -> std::io::Result<NamedTempFile> {
    let mut page = tempfile::Builder::new().prefix("tare-serve-").suffix(".html").tempfile_in(folder)?;
    write!(
        page,
        "<!doctype html>\n<meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0; url={link}\"><title>Tare</title>\n<a href=\"{link}\">Tare</a>\n"
    )?;
    page.flush()?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_page_that_leads_a_browser_here_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let page = page_to("http://127.0.0.1:1/key/", folder.path()).unwrap();
        assert_eq!(page.as_file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(page.path()).unwrap();
        assert!(text.contains("content=\"0; url=http://127.0.0.1:1/key/\""), "{text}");
        drop(page);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(page_to("http://127.0.0.1:1/key/", &folder.path().join("missing")).is_err());
    }

    #[test]
    fn root_starts_nothing_from_a_folder_in_other_hands() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { records: folder.path().to_owned(), port: 0 };
        let mut server = Server::bind(&settings, Arc::new(ThisMachine)).unwrap();
        allow_runs(&mut server, folder.path()).unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let refused = allow_runs(&mut server, folder.path());
        // Whoever is not root can have nothing started as root.
        assert_eq!(refused.is_err(), rustix::process::geteuid().is_root(), "{refused:?}");
    }

    #[test]
    fn each_form_that_is_offered_makes_a_study_without_mistakes() {
        let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
        let forms: String = FORMS.iter().map(|form| format!("  {}: {}\n", form.name, form.stack)).collect();
        let text = format!("study: s\nworkload: redis\nload: {{closed: {{connections: 50}}}}\nforms:\n{forms}");
        let suite = files::read_suite_text(&text, "s", Some(&workloads)).unwrap();
        let (study, _) = suite.parts.into_iter().next().unwrap();
        for (form, offered) in study.forms.iter().zip(&FORMS) {
            let layers: Vec<&str> = form.layers.iter().map(|used| used.layer.as_str()).collect();
            assert_eq!((form.name.as_str(), layers.as_slice()), (offered.name, offered.layers));
        }
        assert_eq!(study.forms.len(), FORMS.len());
    }
}
