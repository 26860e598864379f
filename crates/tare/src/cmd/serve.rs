//! `tare serve`: shows records and the run in progress in a browser.

use crate::cli::ServeArgs;
use crate::terminal::{note, print};
use crate::{EXIT_OK, history};
use anyhow::Result;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tare_core::fault::Fault;
use tare_core::record::Header;
use tare_layers::owner;
use tare_serve::{Server, Settings, Surroundings};
use tare_stats::Occasions;

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
}

pub(crate) fn serve(args: &ServeArgs) -> Result<u8> {
    let settings = Settings { records: args.records.clone(), port: args.port };
    let server = Server::bind(&settings, Arc::new(ThisMachine))?;
    let stopper = server.stopper();
    ctrlc::set_handler(move || stopper.stop())?;
    let link = server.link();
    note("open this link, which is for this machine and you alone; Ctrl-C ends");
    print(&link);
    match (args.open, rustix::process::geteuid().is_root()) {
        (true, true) => note("no browser was opened: it would be root's; open the link as yourself"),
        (true, false) => open(&link),
        (false, _) => {}
    }
    // A run that measures comes first. The threads of the server inherit this, and the browser does not.
    let _ = rustix::process::nice(NICENESS);
    server.run()?;
    Ok(EXIT_OK)
}

/// Has the user's browser show it. Where there is none, the link is printed anyway.
fn open(link: &str) {
    let browser =
        Command::new("xdg-open").arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    match browser {
        Ok(mut browser) => drop(std::thread::spawn(move || browser.wait())),
        Err(error) => note(&format!("no browser was opened: could not start xdg-open: {error}")),
    }
}
