//! A real browser, by the protocol that browsers are tested with: <https://www.w3.org/TR/webdriver2/>.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The key under which the protocol gives an element's name.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Chromium without a window. It ends when this is dropped.
pub(crate) struct Chromium {
    driver: Child,
    port: u16,
    session: String,
}

impl Chromium {
    /// Starts one that keeps its profile in `folder`.
    pub(crate) fn start(folder: &Path) -> Chromium {
        let mut command = Command::new("/usr/bin/chromedriver");
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = command.spawn().unwrap();
        let lines = BufReader::new(driver.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = lines.filter_map(|line| line.split_once("on port ")?.1.strip_suffix('.')?.parse().ok()).next();
        let mut chromium = Chromium { driver, port: port.expect("a port is named"), session: String::new() };
        // Root has no sandbox of Chromium's, and machines that test have little in /dev/shm.
        let profile = format!("--user-data-dir={}", folder.display());
        let arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", &profile];
        let wanted = json!({"goog:chromeOptions": {"args": arguments}});
        let session = chromium.ask("POST", "/session", &json!({"capabilities": {"alwaysMatch": wanted}}));
        chromium.session = format!("/session/{}", session["sessionId"].as_str().expect("sessions have a name"));
        chromium
    }

    /// Opens an address.
    pub(crate) fn open(&self, address: &str) {
        self.command("url", &json!({"url": address}));
    }

    /// The address of the page.
    pub(crate) fn address(&self) -> String {
        let address = self.ask("GET", &format!("{}/url", self.session), &Value::Null);
        address.as_str().expect("an address is text").to_owned()
    }

    pub(crate) fn reload(&self) {
        self.command("refresh", &json!({}));
    }

    /// What a piece of script returns in the page.
    pub(crate) fn script(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Clicks on the only element, or the first, that a CSS selector finds.
    pub(crate) fn click(&self, selector: &str) {
        let found = self.command("element", &json!({"using": "css selector", "value": selector}));
        let name = found[ELEMENT].as_str().expect("elements have a name");
        self.command(&format!("element/{name}/click"), &json!({}));
    }

    /// Waits until a piece of script returns true.
    pub(crate) fn wait_until(&self, script: &str) {
        let began = Instant::now();
        while self.script(script) != true {
            let page = || self.script("return document.body.innerText");
            assert!(began.elapsed() < Duration::from_secs(60), "never true: {script}\n{}", page());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn command(&self, command: &str, body: &Value) -> Value {
        self.ask("POST", &format!("{}/{command}", self.session), body)
    }

    /// Asks the driver, which must answer that all is well; what it found.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost:{}\r\n", self.port);
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let (head, said) = answer(stream);
        assert!(head.starts_with("HTTP/1.1 200"), "{method} {path} {body}: {said}");
        said["value"].clone()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // The driver ends its browser when it is asked to end the session, and not when it is killed.
        if !self.session.is_empty()
            && let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port))
        {
            let head = format!("DELETE {} HTTP/1.1\r\nHost: localhost:{}\r\n", self.session, self.port);
            let _ = write!(stream, "{head}\r\n");
            let _ = stream.read(&mut [0]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Reads an answer: its head, and the JSON after it. The driver leaves the connection open.
fn answer(stream: TcpStream) -> (String, Value) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "the driver hung up after {head}");
    }
    let mut lengths =
        head.lines().filter_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let length: u64 = lengths.next().expect("a length");
    (head, serde_json::from_reader(stream.take(length)).unwrap())
}
