//! A folder to run in, the program, and the checks that every test makes after a run.

pub(crate) use crate::cli::{one_line as flat, said};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tare_core::record::Record;
use tare_layers::lock::MachineLock;
use tare_testkit::{files, needs};

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
        needs::root()?;
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
            std::thread::sleep(Duration::from_secs(1));
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
        files::write(&self.path(name), &content)
    }

    /// Runs a study of this text, into the record `record`: what was said, and the record. Nothing is left.
    pub(crate) fn run(&self, study: &str) -> (String, Record) {
        let (study, out) = (self.write("study.yaml", study), self.path("record"));
        let said = self.expect(0, &["run", text(&study), "--out", text(&out)]);
        self.expect_clean();
        (said, self.record(&out))
    }

    /// What a report of a record says as JSON.
    pub(crate) fn report(&self, record: &Path) -> Value {
        serde_json::from_str(&self.expect(0, &["report", text(record), "--format", "json"])).unwrap()
    }

    /// Interrupts the program when a file has been `there` for so long; what it said. Nothing is left.
    pub(crate) fn interrupt(&self, args: &[&str], there: &Path, after: Duration) -> String {
        let mut command = self.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while !there.exists() {
            assert!(child.try_wait().unwrap().is_none(), "the run ended before {} was there", there.display());
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(after);
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", said(&output));
        self.expect_clean();
        said(&output)
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

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("the folder has a plain name")
}
