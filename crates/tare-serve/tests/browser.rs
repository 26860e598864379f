//! A server on a folder of sample records, and who asks it.

use crate::{events, sample};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::record::{EndRequest, Header, Record};
use tare_runner::RecordDir;
use tare_serve::{Server, Settings, Stopper, Surroundings};
use tare_stats::Occasions;

/// Longer than anything here takes.
const WITHIN: Duration = Duration::from_secs(60);

/// A machine without a history, on which these runs go on.
#[derive(Default)]
pub(crate) struct Machine {
    runs: Mutex<Vec<String>>,
    /// The process of these runs; without one they are another user's.
    process: Mutex<Option<Child>>,
}

impl Surroundings for Machine {
    fn occasions(&self, _: &Header, _: &Header) -> Result<Occasions, Fault> {
        Ok(Occasions::new())
    }

    fn live_runs(&self) -> Vec<String> {
        self.runs.lock().unwrap().clone()
    }

    fn may_ask(&self, run: &str) -> Result<(), Fault> {
        let is_own = self.process.lock().unwrap().is_some();
        let fault = || Fault::new(format!("run {run} belongs to another user")).remedy("press Ctrl-C");
        if is_own { Ok(()) } else { Err(fault()) }
    }

    fn ask(&self, _: &str, request: EndRequest) -> Result<(), Fault> {
        let process = self.process.lock().unwrap();
        let process = process.as_ref().expect("it may be asked");
        // Of a test that runs in the background, a shell would ignore SIGINT.
        let signal = if request == EndRequest::AtOnce { Signal::TERM } else { Signal::USR1 };
        kill_process(Pid::from_child(process), signal).doing("signal the run")
    }
}

/// A server that runs until this is dropped.
pub(crate) struct Site {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
    machine: Arc<Machine>,
    stopper: Stopper,
    running: Option<JoinHandle<Result<(), Fault>>>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Site {
    /// Serves what `fill` puts into a folder.
    pub(crate) fn of(fill: impl FnOnce(&Path)) -> Site {
        Site::that(fill, |_| {})
    }

    /// The same, after `prepare` has had the server.
    pub(crate) fn that(fill: impl FnOnce(&Path), prepare: impl FnOnce(&mut Server)) -> Site {
        let folder = tempfile::tempdir().unwrap();
        fill(folder.path());
        let machine = Arc::new(Machine::default());
        let settings = Settings { records: folder.path().to_owned(), port: 0 };
        let mut server = Server::bind(&settings, machine.clone()).unwrap();
        prepare(&mut server);
        let key = server.link().trim_end_matches('/').rsplit_once('/').unwrap().1.to_owned();
        let (address, stopper) = (server.address().unwrap(), server.stopper());
        let running = Some(std::thread::spawn(move || server.run()));
        Site { folder, address, key, machine, stopper, running }
    }

    /// Ends the server.
    pub(crate) fn stop(&mut self) {
        self.stopper.stop();
        self.running.take().expect("it was not stopped yet").join().unwrap().unwrap();
    }

    /// From now on, this run goes on.
    pub(crate) fn lives(&self, run: &str) {
        self.machine.runs.lock().unwrap().push(run.to_owned());
    }

    /// From now on, this process carries out the runs.
    pub(crate) fn carried_out_by(&self, process: Child) {
        *self.machine.process.lock().unwrap() = Some(process);
    }

    /// The exit code of that process, once it has ended.
    pub(crate) fn run_ended(&self) -> Option<i32> {
        let process = self.machine.process.lock().unwrap().take();
        process.expect("a process carries out the runs").wait().unwrap().code()
    }

    fn host(&self) -> String {
        format!("Host: {}\r\n", self.address)
    }

    /// Asks for `path` as a browser does that has the key.
    pub(crate) fn get(&self, path: &str) -> Said {
        self.get_with(&format!("/{}{path}", self.key), &self.host())
    }

    /// Asks for `path` as it stands, with these lines instead of the host's.
    pub(crate) fn get_with(&self, path: &str, lines: &str) -> Said {
        self.ask(&format!("GET {path} HTTP/1.1\r\n{lines}"))
    }

    /// Sends a head and reads the whole answer.
    pub(crate) fn ask(&self, head: &str) -> Said {
        self.send(head, "")
    }

    /// Sends a form of a page of the server, as a browser does.
    pub(crate) fn post(&self, path: &str, form: &str) -> Said {
        self.post_with(path, form, &format!("{}Origin: http://{}\r\n", self.host(), self.address))
    }

    /// Sends a form with these lines.
    pub(crate) fn post_with(&self, path: &str, form: &str, lines: &str) -> Said {
        let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
        let length = form.len();
        let head = format!("POST /{}{path} HTTP/1.1\r\n{lines}{kind}Content-Length: {length}\r\n", self.key);
        self.send(&head, form)
    }

    /// What an answer holds that is no text.
    pub(crate) fn download(&self, path: &str) -> Vec<u8> {
        let mut stream = self.connect();
        // Who speaks this version is sent no chunks.
        let head = format!("GET /{}{path} HTTP/1.0\r\n{}\r\n", self.key, self.host());
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        answer.split_off(end + 4)
    }

    fn send(&self, head: &str, body: &str) -> Said {
        let mut stream = self.connect();
        stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).expect("all answers are UTF-8");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Said { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        stream
    }

    /// Asks for the list once, waits until the folder has been looked through, and returns the list, which must hold
    /// `wanted`.
    pub(crate) fn listed(&self, wanted: &str) -> String {
        let began = Instant::now();
        let mut list = self.get("/?part=list").body;
        while list.contains("data-busy=\"yes\"") {
            assert!(began.elapsed() < WITHIN, "the folder is never looked through: {list}");
            std::thread::sleep(Duration::from_millis(100));
            list = self.get("/?part=list&again=yes").body;
        }
        assert!(list.contains(wanted), "{wanted} is not in the list: {list}");
        list
    }

    /// Follows a run, and returns its events as they come.
    pub(crate) fn follow(&self, name: &str) -> impl Iterator<Item = (String, serde_json::Value)> + use<> {
        let mut stream = self.connect();
        let head = format!("GET /{}/now/events?run={name} HTTP/1.1\r\n{}\r\n", self.key, self.host());
        stream.write_all(head.as_bytes()).unwrap();
        // Pieces of the chunked answer are whole events, whose lines are told apart by how they begin.
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        let mut event = String::new();
        lines.filter_map(move |line| {
            if let Some(name) = line.strip_prefix("event: ") {
                name.trim().clone_into(&mut event);
            }
            let data = line.strip_prefix("data: ")?;
            Some((event.clone(), serde_json::from_str(data.trim()).unwrap()))
        })
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(ended) = self.running.take().map(JoinHandle::join)
            && !std::thread::panicking()
        {
            ended.unwrap().unwrap();
        }
    }
}

/// Writes a whole record, events included.
pub(crate) fn write(path: &Path, record: &Record) {
    let mut written = RecordDir::create(path, &record.header).unwrap();
    record.trials.iter().for_each(|trial| written.write_trial(trial).unwrap());
    for (at, event) in events::events(record) {
        written.write_event(&at, &event).unwrap();
    }
    if let Some(end) = &record.end {
        written.write_end(end).unwrap();
    }
}

/// Writes the sample with this id, after `change` has been made to it.
pub(crate) fn sample(folder: &Path, name: &str, change: impl FnOnce(&mut Record)) -> PathBuf {
    let mut record = sample::record();
    name.rsplit('/').next().unwrap_or(name).clone_into(&mut record.header.run);
    change(&mut record);
    let path = folder.join(name);
    write(&path, &record);
    path
}
