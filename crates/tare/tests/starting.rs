//! The page of `tare serve` that makes studies, with the program itself behind it. No run is started.

use crate::cli::{one_line, root};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server on a folder of its own.
struct Server {
    folder: tempfile::TempDir,
    process: Child,
    host: String,
    key: String,
}

impl Server {
    fn start(more: &[&str]) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("records");
        std::fs::create_dir(&records).unwrap();
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("tare"));
        command.current_dir(root()).env("TARE_HOME", folder.path().join("home")).env_remove("SUDO_UID");
        command.args(["serve", "--records"]).arg(&records).args(more).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let mut link = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut link).unwrap();
        let (host, key) = link.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
        Server { folder, host: host.to_owned(), key: key.trim_end_matches('/').to_owned(), process }
    }

    /// Sends a form as a page does; the whole answer as one line, with its slashes and quotes.
    fn post(&self, form: &str) -> String {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (host, key, length) = (&self.host, &self.key, form.len());
        let lines =
            format!("Host: {host}\r\nOrigin: http://{host}\r\nContent-Length: {length}\r\nConnection: close\r\n");
        write!(stream, "POST /{key}/new HTTP/1.1\r\n{lines}\r\n{form}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        one_line(&answer.replace("&#x2f;", "/").replace("&#x27;", "'").replace("&quot;", "\"").replace("&gt;", ">"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::INT);
        let ended = self.process.wait();
        if !std::thread::panicking() {
            assert!(ended.unwrap().success());
        }
    }
}

#[test]
fn what_the_page_makes_is_a_study_to_the_program_and_mistakes_have_their_place() {
    let server = Server::start(&["--allow-run"]);
    let chosen =
        "do=make&name=mine&workload=redis&form=native&form=container&form=vm%2Bcontainer&connections=4&repeat=6";
    let made = server.post(&format!("{chosen}&minutes=30&ruler=1%25"));
    assert!(made.starts_with("HTTP/1.1 200"), "{made}");
    for wanted in
        ["forms native, container, vm+container, no mistakes", "study mine", "block 1:", "Nothing was started."]
    {
        assert!(made.contains(wanted), "{wanted} is missing: {made}");
    }
    let wrong = server.post("do=start&name=mine&text=study:+mine%0D%0Aworkload:+redis%0D%0Aloads:+1%0D%0A");
    assert!(wrong.starts_with("HTTP/1.1 422"), "{wrong}");
    for wanted in [".tare-new.yaml:3:1", "hint:", "nothing was started"] {
        assert!(wrong.contains(wanted), "{wanted} is missing: {wrong}");
    }
    if !rustix::process::geteuid().is_root() {
        let text = std::fs::read_to_string(server.folder.path().join("records/.tare-new.yaml")).unwrap();
        assert!(text.starts_with("study: mine\nworkload: redis\nloads: 1"), "{text}");
        let sound = "study:+mine%0Aworkload:+redis%0Aload:+%7Bclosed:+%7B%7D%7D%0Aforms:+%7Bnative:+%5B%5D%7D";
        let barred = server.post(&format!("do=start&name=mine&text={sound}"));
        assert!(barred.starts_with("HTTP/1.1 409") && barred.contains("needs root"), "{barred}");
    }
    assert!(!server.folder.path().join("records/mine").exists());
}

#[test]
fn without_leave_there_is_no_such_page() {
    let server = Server::start(&[]);
    assert!(server.post("do=check&name=mine&text=study:+mine").starts_with("HTTP/1.1 404"));
    assert!(!server.folder.path().join("records/.tare-new.yaml").exists());
}
