//! The process that freezes services between the turns of a chopped load, because the load process itself may not.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};
use tare_core::fault::{Doing, Fault};
use tare_core::held::Held;

/// Starts the process that freezes services for this one, which is about to lose the right to.
pub(crate) fn begin(held: &[Vec<Held>]) -> Result<UnixStream, Fault> {
    let start = || -> std::io::Result<UnixStream> {
        let (mut here, there) = UnixStream::pair()?;
        let mut command = Command::new("/proc/self/exe");
        command.arg("freeze").env_clear().stdin(Stdio::from(OwnedFd::from(there))).stdout(Stdio::null());
        // It ends when this end is closed, and with the group of the load process.
        drop(command.spawn()?);
        let mut held = serde_json::to_vec(held)?;
        held.push(b'\n');
        here.write_all(&held)?;
        Ok(here)
    };
    start().doing("start the process that freezes services between turns")
}

/// `tare freeze`: freezes and thaws services on orders.
pub(crate) fn serve() -> ExitCode {
    let serve = || -> Result<(), Fault> {
        let stdin = std::io::stdin().as_fd().try_clone_to_owned().doing("take standard input")?;
        let mut stream = UnixStream::from(stdin);
        let mut list = Vec::new();
        // Read no byte beyond the line: orders follow.
        let mut byte = [0];
        while stream.read(&mut byte).doing("read the list of services to freeze")? == 1 && byte != *b"\n" {
            list.push(byte[0]);
        }
        let held: Vec<Vec<Held>> = serde_json::from_slice(&list).doing("parse the list of services to freeze")?;
        tare_load::serve_freezer(&held, &mut stream)
    };
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}
