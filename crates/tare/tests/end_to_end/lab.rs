//! A folder to run in, the program, and the checks that every test makes after a run.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tare_core::record::Record;
use tare_layers::lock::MachineLock;

static MACHINE: Mutex<()> = Mutex::new(());

/// Exclusive use of the machine.
pub(crate) struct Lab {
    folder: tempfile::TempDir,
    _machine: MutexGuard<'static, ()>,
}

impl Lab {
    /// Waits for the machine; none, after printing the reason, if it lacks one of `needs` (programs on PATH).
    pub(crate) fn open(needs: &[&str]) -> Option<Lab> {
        let machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
        let root = std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
        if !root {
            println!("skipped: not root");
            return None;
        }
        for need in needs {
            if !["/usr/sbin", "/usr/bin", "/sbin", "/bin"].iter().any(|dir| Path::new(dir).join(need).exists()) {
                println!("skipped: there is no {need} on this machine");
                return None;
            }
        }
        let lab = Lab { folder: tempfile::tempdir().unwrap(), _machine: machine };
        // Wait for other runs; leftovers of an earlier, failed test must not fail this one.
        for _ in 0..300 {
            if MachineLock::take("a test of Tare's").unwrap().is_ok() {
                lab.tare(&["clean"]);
                return Some(lab);
            }
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        panic!("another run has been under way on this machine for five minutes");
    }

    /// Like [`Lab::open`], for tests that need a container engine too.
    pub(crate) fn with_engine(needs: &[&str]) -> Option<Lab> {
        let lab = Lab::open(needs)?;
        let engine = std::os::unix::net::UnixStream::connect("/var/run/docker.sock");
        if engine.is_err() {
            println!("skipped: no container engine answers at /var/run/docker.sock");
            return None;
        }
        Some(lab)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file of the folder, with the folders on its way.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("it is in the folder")).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The program, in the source tree's root so that it finds studies and workloads.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let built = env!("CARGO_BIN_EXE_tare");
        let program = std::env::var_os("TARE_BIN").unwrap_or_else(|| built.into());
        let mut command = Command::new(program);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        command.current_dir(root).args(args).stdin(Stdio::null());
        command
    }

    pub(crate) fn tare(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs the program and checks its exit code.
    pub(crate) fn expect(&self, code: i32, args: &[&str]) -> String {
        let output = self.tare(args);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(code), "tare {args:?} said:\n{said}");
        assert!(!said.contains("panicked"), "{said}");
        said
    }

    /// The record at `path`, read by the library that reports read it with.
    pub(crate) fn record(&self, path: &Path) -> Record {
        tare_runner::read_record(path).unwrap()
    }

    /// Checks that Tare left nothing on the machine.
    pub(crate) fn expect_clean(&self) {
        let output = self.tare(&["clean", "--dry-run", "--json"]);
        let left: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(left.as_array().map(Vec::len), Some(0), "left on the machine: {left:#}");
    }
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("the folder has a plain name")
}
