//! The far end: answers the calls of an [`super::AgentHost`] with a host of its own.

use super::wire::{Call, Outcome, Reply, Request, receive_line, send};
use std::io::{BufReader, Read, Write};
use tare_clock::monotonic_ns;
use tare_core::fault::{Doing, Fault};
use tare_core::host::{Host, Wait};

/// Answers calls until the host is closed or the line ends; by then the host has been closed.
///
/// A line that is not a request is answered with a fault under the number 0; it does not end the service.
///
/// # Errors
/// When the line breaks, or what could not be removed once it has ended.
pub fn serve(reader: impl Read, mut writer: impl Write, host: Box<dyn Host>) -> Result<(), Fault> {
    let mut reader = BufReader::new(reader);
    let mut host = Some(host);
    let mut line = Vec::new();
    loop {
        line.clear();
        let whole = receive_line(&mut reader, &mut line);
        let Ok(true) = whole else {
            let closed = host.take().map_or(Ok(()), Host::close);
            whole.doing("read from the line")?;
            return closed;
        };
        let Ok(request) = serde_json::from_slice::<Request>(&line) else {
            let outcome: Outcome = Outcome::Failed(Fault::new("the agent was sent something that is no request"));
            send(&mut writer, &Reply { id: 0, outcome }).doing("answer")?;
            continue;
        };
        let ends = matches!(request.call, Call::Close);
        let outcome = answer(&mut host, request.call);
        send(&mut writer, &Reply { id: request.id, outcome }).doing("answer")?;
        if ends {
            return Ok(());
        }
    }
}

fn answer(slot: &mut Option<Box<dyn Host>>, call: Call) -> Outcome {
    let Some(host) = slot.as_mut() else {
        return Outcome::of::<()>(match call {
            Call::Close => Ok(()),
            _ => Err(Fault::new("the host was closed when a layer could not be opened on it")),
        });
    };
    match call {
        Call::Clock => Outcome::of(Ok(monotonic_ns())),
        Call::Facts => Outcome::of(host.facts()),
        Call::Resources(start) => Outcome::of(host.resources(&start)),
        Call::Start(start) => Outcome::of(host.start(&start)),
        Call::State(instance) => Outcome::of(host.state(&instance)),
        Call::MappedFiles(instance) => Outcome::of(host.mapped_files(&instance, Wait::always())),
        Call::FilesSeen(start, bundle) => Outcome::of(host.files_seen(&start, bundle.as_deref(), Wait::always())),
        Call::Log(instance) => Outcome::of(host.log(&instance)),
        Call::Stop(instance) => Outcome::of(host.stop(&instance)),
        Call::BeginCommand(instance, command) => Outcome::of(host.begin_command(&instance, &command)),
        Call::AwaitCommand(instance, patience) => Outcome::of(host.await_command(&instance, patience)),
        Call::EndCommand(instance) => Outcome::of(host.end_command(&instance)),
        Call::Freeze => Outcome::of(host.freeze()),
        Call::Thaw => Outcome::of(host.thaw()),
        Call::BeginProbe(outside, period) => Outcome::of(host.begin_probe(&outside, period)),
        Call::RestProbe(rests) => Outcome::of(host.rest_probe(&rests)),
        Call::EndProbe => Outcome::of(host.end_probe()),
        Call::Open(layer, surroundings) => {
            let opened = slot.take().map(|host| host.open(&layer, &surroundings));
            match opened.expect("the host is there, it was looked at above") {
                Ok(inner) => {
                    *slot = Some(inner);
                    Outcome::of_open(None)
                }
                Err(error) => Outcome::of_open(Some(error)),
            }
        }
        Call::Close => Outcome::of(slot.take().map_or(Ok(()), Host::close)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AgentHost, NoPeer, Peer};
    use super::*;
    use crate::sample;
    use std::collections::BTreeMap;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;
    use tare_core::command::{CommandEnd, CommandStart, Ended};
    use tare_core::host::{
        Facts, FilesSeen, Instance, InstanceState, OpenError, ResourceReport, SeenFile, ServiceStart, TrialContext,
    };
    use tare_core::layer::LayerUse;
    use tare_core::telemetry::{Scope, TelemetryRow, Vantage};

    /// Answers every call with something recognisable.
    struct Echo(&'static str);

    impl Host for Echo {
        fn facts(&mut self) -> Result<Facts, Fault> {
            Ok(BTreeMap::from([("host".to_owned(), self.0.to_owned())]))
        }
        fn resources(&mut self, _: &ServiceStart) -> Result<ResourceReport, Fault> {
            Ok(ResourceReport::default())
        }
        fn start(&mut self, start: &ServiceStart) -> Result<Instance, Fault> {
            Ok(Instance {
                instance: start.instance.clone(),
                endpoints: BTreeMap::new(),
                peers: BTreeMap::new(),
                path: self.0.to_owned(),
                cpus: None,
                warnings: Vec::new(),
            })
        }
        fn state(&mut self, instance: &str) -> Result<InstanceState, Fault> {
            Ok(InstanceState::Ended(instance.to_owned()))
        }
        fn mapped_files(&mut self, _: &str, _: Wait) -> Result<Vec<SeenFile>, Fault> {
            Err(Fault::new("nothing is mapped").remedy("start it").with_log("line 1\nline 2"))
        }
        fn files_seen(
            &mut self,
            start: &ServiceStart,
            bundle: Option<&[SeenFile]>,
            _: Wait,
        ) -> Result<FilesSeen, Fault> {
            let mut seen = FilesSeen::default();
            bundle.into_iter().flatten().for_each(|file| seen.note(&file.path, file.digest == start.instance));
            Ok(seen)
        }
        fn log(&mut self, instance: &str) -> Result<String, Fault> {
            Ok(format!("{instance}\nsays \u{1f600} \"hello\"\n"))
        }
        fn stop(&mut self, _: &str) -> Result<(), Fault> {
            Ok(())
        }
        fn begin_command(&mut self, _: &str, command: &CommandStart) -> Result<(), Fault> {
            Err(Fault::new(command.command.join(" ")))
        }
        fn await_command(&mut self, instance: &str, patience: Duration) -> Result<Option<CommandEnd>, Fault> {
            let stdout = format!("{instance}\u{1}");
            let end = CommandEnd { ended: Ended::Late, stdout, stderr: String::new(), took: patience, cpu_s: None };
            Ok((!patience.is_zero()).then_some(end))
        }
        fn begin_probe(&mut self, _: &[Scope], _: Duration) -> Result<(), Fault> {
            Ok(())
        }
        fn end_probe(&mut self) -> Result<Vec<TelemetryRow>, Fault> {
            let values = BTreeMap::from([("cpu_user_s".to_owned(), 0.1)]);
            let row =
                TelemetryRow { at_ns: u64::MAX, vantage: Vantage::Host, scope: "a".into(), serving: true, values };
            Ok(vec![row])
        }
        fn open(self: Box<Self>, layer: &LayerUse, _: &TrialContext) -> Result<Box<dyn Host>, OpenError> {
            match layer.layer.as_str() {
                "inner" => Ok(Box::new(Echo("inner"))),
                other => Err(OpenError::Unavailable(Fault::new(format!("no {other} here")))),
            }
        }
        fn close(self: Box<Self>) -> Result<(), Fault> {
            Err(Fault::new(format!("{} left a file", self.0)))
        }
    }

    fn surroundings() -> TrialContext {
        tare_testkit::sample::surroundings("abc123", std::path::Path::new("/nowhere"), [10, 99, 0, 1], (10, 99))
    }

    fn layer(name: &str) -> LayerUse {
        LayerUse { layer: name.to_owned(), options: serde_json::json!({}) }
    }

    fn pair() -> (AgentHost, std::thread::JoinHandle<Result<(), Fault>>) {
        let (near, far) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || serve(far.try_clone().unwrap(), far, Box::new(Echo("outer"))));
        (AgentHost::new(near, Box::new(NoPeer)).unwrap(), server)
    }

    #[test]
    fn every_call_goes_there_and_back() {
        let (mut agent, server) = pair();
        assert_eq!(agent.facts().unwrap()["host"], "outer");
        assert_eq!(agent.state("x").unwrap(), InstanceState::Ended("x".to_owned()));
        assert_eq!(agent.log("x").unwrap(), "x\nsays \u{1f600} \"hello\"\n");
        let command = CommandStart {
            command: vec!["look".to_owned(), "\"there\"".to_owned()],
            environment: BTreeMap::new(),
            directory: "/".to_owned(),
            within: Duration::MAX,
        };
        assert_eq!(agent.begin_command("x", &command).unwrap_err().message, "look \"there\"");
        assert_eq!(agent.await_command("x", Duration::ZERO).unwrap(), None);
        let end = agent.await_command("x", Duration::from_millis(1)).unwrap().unwrap();
        assert_eq!((end.ended, end.stdout.as_str(), end.took.as_millis()), (Ended::Late, "x\u{1}", 1));
        agent.end_command("x").unwrap();
        agent.begin_probe(&[], Duration::from_secs(1)).unwrap();
        let rows = agent.end_probe().unwrap();
        assert_eq!((rows[0].at_ns, rows[0].values["cpu_user_s"]), (u64::MAX, 0.1));
        let fault = agent.mapped_files("x", Wait::always()).unwrap_err();
        let wanted = ("nothing is mapped", "start it", "line 1\nline 2");
        assert_eq!((fault.message.as_str(), fault.remedy.as_str(), fault.log.as_str()), wanted);
        let start = ServiceStart::on(sample::service("x"), None);
        let file = |path: &str, digest: &str| SeenFile { path: path.to_owned(), digest: digest.to_owned() };
        let files = [file("/a", "x"), file("/b", "y")];
        let seen = agent.files_seen(&start, Some(&files), Wait::always()).unwrap();
        assert_eq!((seen.compared, seen.differing), (2, vec!["/b".to_owned()]));
        assert_eq!(Box::new(agent).close().unwrap_err().message, "outer left a file");
        server.join().unwrap().unwrap();
    }

    #[test]
    fn a_layer_opened_there_answers_from_then_on() {
        let (agent, server) = pair();
        let mut inner = Box::new(agent).open(&layer("inner"), &surroundings()).ok().unwrap();
        assert_eq!(inner.facts().unwrap()["host"], "inner");
        assert_eq!(inner.close().unwrap_err().message, "inner left a file");
        server.join().unwrap().unwrap();
    }

    #[test]
    fn a_layer_that_cannot_be_had_is_unavailable_here_too() {
        let (mut agent, server) = pair();
        let error = agent.open_inside(&layer("moon"), &surroundings()).unwrap_err();
        assert_eq!(error, OpenError::Unavailable(Fault::new("no moon here")));
        assert!(agent.facts().unwrap_err().message.contains("was closed"));
        agent.close_inside().unwrap();
        server.join().unwrap().unwrap();
    }

    #[test]
    fn garbage_is_a_fault_at_either_end() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || serve(far.try_clone().unwrap(), far, Box::new(Echo("outer"))));
        near.write_all(b"\xff\xfe{]\n{\"id\":1,\"call\":\"facts\"}\n").unwrap();
        let mut reader = BufReader::new(near.try_clone().unwrap());
        for wanted in ["no request", "outer"] {
            let mut line = Vec::new();
            assert!(receive_line(&mut reader, &mut line).unwrap());
            assert!(String::from_utf8_lossy(&line).contains(wanted), "{}", String::from_utf8_lossy(&line));
        }
        drop((near, reader));
        assert_eq!(server.join().unwrap().unwrap_err().message, "outer left a file");

        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(b"Segmentation fault\n").unwrap();
        let mut agent = AgentHost::new(near, Box::new(NoPeer)).unwrap();
        let fault = agent.facts().unwrap_err();
        assert_eq!((fault.message.contains("no answer"), fault.log.as_str()), (true, "Segmentation fault"));
    }

    struct Dead;
    impl Peer for Dead {
        fn check(&mut self) -> Result<(), Fault> {
            Err(Fault::new("the guest's kernel panicked"))
        }
        fn last_words(&self) -> String {
            "Kernel panic - not syncing".to_owned()
        }
    }

    #[test]
    fn a_dead_peer_is_named_and_asked_nothing_more() {
        let (near, _far) = UnixStream::pair().unwrap();
        let mut agent = AgentHost::new(near, Box::new(Dead)).unwrap();
        for _ in 0..2 {
            let fault = agent.state("x").unwrap_err();
            assert!(fault.message.contains("panicked"), "{}", fault.message);
            assert!(fault.log.contains("not syncing"), "{}", fault.log);
        }
    }

    #[test]
    fn the_other_clock_is_read() {
        let (mut agent, _server) = pair();
        let before = super::monotonic_ns();
        let (offset, at) = agent.clock_offset(5).unwrap();
        // Both ends share one clock here, so what remains is at most the round trip.
        assert!(at >= before && offset.unsigned_abs() <= u128::from(super::monotonic_ns() - before));
    }
}
