//! QEMU's control line: JSON commands, their answers, and events in between.

use serde_json::{Value, json};
use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tare_core::fault::{Doing, Fault};

/// How long QEMU may take to answer; it answers from a thread that does not wait for the guest.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// The longest answer, bytes.
const ANSWER_MAX: u64 = 1 << 20;

/// A control line, past its greeting.
pub(super) struct Qmp {
    stream: BufReader<UnixStream>,
    /// The version that QEMU greets with.
    pub(super) version: String,
}

impl Qmp {
    /// Waits for the greeting and leaves the negotiation mode.
    ///
    /// # Errors
    /// When what answers is not QEMU, or nothing answers.
    pub(super) fn greet(stream: UnixStream) -> Result<Self, Fault> {
        stream.set_read_timeout(Some(ANSWER_WITHIN)).doing("set the time limit of QEMU's control line")?;
        stream.set_write_timeout(Some(ANSWER_WITHIN)).doing("set the time limit of QEMU's control line")?;
        let mut qmp = Qmp { stream: BufReader::new(stream), version: String::new() };
        let greeting = qmp.receive()?;
        let version = &greeting["QMP"]["version"]["qemu"];
        if version.is_null() {
            return Err(Fault::new("QEMU's control line does not greet as one").with_log(greeting.to_string()));
        }
        qmp.version = format!("{}.{}.{}", version["major"], version["minor"], version["micro"]);
        qmp.execute("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    /// Executes a command and returns its result.
    ///
    /// # Errors
    /// When QEMU refuses it or does not answer.
    pub(super) fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, Fault> {
        let mut line = json!({"execute": command, "arguments": arguments}).to_string();
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes()).doing(format!("ask QEMU to {command}"))?;
        loop {
            let mut answer = self.receive()?;
            if let Some(error) = answer.get("error") {
                let why = error["desc"].as_str().unwrap_or("no reason given");
                return Err(Fault::new(format!("QEMU refused '{command}': {why}")));
            }
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
            // Anything else is an event. Those that matter also show in the process and on the console.
        }
    }

    /// The host's thread for every virtual CPU, in CPU order.
    ///
    /// # Errors
    /// When QEMU does not say.
    pub(super) fn cpu_threads(&mut self) -> Result<Vec<i32>, Fault> {
        let answer = self.execute("query-cpus-fast", json!({}))?;
        let mut threads: Vec<(i64, i32)> = Vec::new();
        for cpu in answer.as_array().into_iter().flatten() {
            let thread = cpu["thread-id"].as_i64().and_then(|thread| i32::try_from(thread).ok());
            let (Some(index), Some(thread)) = (cpu["cpu-index"].as_i64(), thread) else {
                return Err(Fault::new("QEMU does not say which threads its virtual CPUs are"));
            };
            threads.push((index, thread));
        }
        threads.sort_unstable();
        Ok(threads.into_iter().map(|(_, thread)| thread).collect())
    }

    fn receive(&mut self) -> Result<Value, Fault> {
        use std::io::{BufRead, Read};
        let mut line = String::new();
        let read = (&mut self.stream).take(ANSWER_MAX).read_line(&mut line).doing("read QEMU's control line")?;
        if read == 0 {
            return Err(Fault::new("QEMU hung up its control line"));
        }
        serde_json::from_str(&line).doing("understand QEMU's control line")
    }
}

/// Reads any bytes as what QEMU says on its control line until it hangs up.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(bytes: &[u8]) {
    let (near, far) = UnixStream::pair().expect("there are sockets");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A reader that understands none of it hangs up first.
            let _ = (&far).write_all(bytes);
            let _ = far.shutdown(std::net::Shutdown::Write);
            let _ = std::io::copy(&mut &far, &mut std::io::sink());
        });
        let threads = Qmp::greet(near).and_then(|mut qmp| qmp.cpu_threads());
        if let Err(fault) = threads {
            assert!(!fault.message.is_empty());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_between_command_and_answer_are_passed_over() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let script = concat!(
            r#"{"QMP":{"version":{"qemu":{"micro":22,"minor":2,"major":7}},"capabilities":[]}}"#,
            "\n{\"return\":{}}\n",
            r#"{"timestamp":{"seconds":1,"microseconds":2},"event":"RESUME"}"#,
            "\n",
            r#"{"return":[{"cpu-index":1,"thread-id":77},{"cpu-index":0,"thread-id":76}]}"#,
            "\n{\"error\":{\"class\":\"CommandNotFound\",\"desc\":\"no such thing\"}}\n",
        );
        far.write_all(script.as_bytes()).unwrap();
        let mut qmp = Qmp::greet(near).unwrap();
        assert_eq!(qmp.version, "7.2.22");
        assert_eq!(qmp.cpu_threads().unwrap(), vec![76, 77]);
        assert!(qmp.execute("fly", json!({})).unwrap_err().message.contains("no such thing"));
        drop(far);
        assert!(qmp.execute("quit", json!({})).is_err());
    }
}
