//! `postgres` and `mysql` against real servers, which the tests start as an unprivileged user on free ports, and
//! against peers that misbehave. Tests of servers that are not installed are skipped, with a message.

use crate::admitted;
use crate::asked::{self, driven as drive};
mod mariadb;
mod order_entry;
mod peers;
mod postgres;

use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tare_core::load::{LoadPlan, LoadProfile, LoadSummary, LoadTask};
use tare_testkit::peer::free_port;

/// Debian's `nobody` and `nogroup`: database servers refuse to run as root.
const NOBODY: u32 = 65_534;

/// A test's server; killed and removed with it.
struct Server {
    process: Child,
    folder: tempfile::TempDir,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is gone either way.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn endpoint(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// Waits until the protocol's own readiness check succeeds.
    fn await_ready(&self, protocol: &str, options: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let plan = plan(protocol, options, self.endpoint(), LoadTask::Ready);
        loop {
            let Err(fault) = drive(&plan) else { return };
            let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "{fault}\n{log}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// A folder that the server may write to.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    own(folder.path());
    folder
}

/// Gives a file or folder to the server's user, if we are root and the server runs as another user.
fn own(path: &Path) {
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// A command that runs as the server's user, in its folder, writing to its log.
fn command(program: &Path, folder: &Path) -> Command {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap();
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Runs a command to its end.
fn complete(mut command: Command, folder: &Path) {
    let status = command.status().unwrap();
    assert!(status.success(), "{}", std::fs::read_to_string(folder.join("log")).unwrap_or_default());
}

/// The first of these programs that exists.
fn installed(candidates: &[&str]) -> Option<PathBuf> {
    candidates.iter().map(PathBuf::from).find(|path| path.exists())
}

fn plan(protocol: &str, options: &str, endpoint: SocketAddr, task: LoadTask) -> LoadPlan {
    let options = asked::options(protocol, options);
    LoadPlan {
        task,
        settle: Duration::from_millis(100),
        measure: Duration::from_millis(900),
        timeout: Duration::from_secs(20),
        ..LoadPlan::of(protocol, options, endpoint, LoadProfile::Closed { connections: 4, pipeline: 1 })
    }
}

/// Makes the data set and runs the load; every check must hold.
fn populate_and_run(protocol: &str, options: &str, server: &Server) -> LoadSummary {
    drive(&plan(protocol, options, server.endpoint(), LoadTask::Populate)).unwrap();
    let summary = drive(&plan(protocol, options, server.endpoint(), LoadTask::Run)).unwrap();
    assert!(summary.checks.iter().all(|check| check.passed), "{summary:#?}");
    assert!(summary.operations.values().any(|operation| operation.count > 0), "{summary:#?}");
    summary
}

fn fact(summary: &LoadSummary, name: &str) -> u64 {
    summary.facts[name].parse().unwrap()
}
