//! A protocol of another crate, written with only what this crate makes public, and loaded by the engine. It is the
//! example named in CONTRIBUTING.md: a line of text is sent, and the same line must come back.

use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Cursor, Write};
use std::net::SocketAddr;
use std::time::Duration;
use tare_core::config::{self, Fields, Node, Problems};
use tare_core::fault::Fault;
use tare_core::load::{LoadPlan, LoadProfile, LoadSummary, LoadTask};
use tare_load::operation::{Failure, Flight, Ledger, OperationRow, Protocol, Reply, Step, Verified};
use tare_load::{Draw, Emit, ErasedProtocol, LoadProtocol, PROTOCOLS, drive, erased};
use tare_testkit::{load, peer};

/// What a workload may say: `protocol: {echo: {line: hello}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    line: String,
}

/// The protocol with its options.
struct Echo {
    // Including the end of the line.
    line: Vec<u8>,
}

impl LoadProtocol for Echo {
    type Options = Options;
    const NAME: &'static str = "echo";
    const ABOUT: &'static str = "a line of text that must come back as it was sent";

    fn read(node: &Node, problems: &mut Problems) -> Option<Options> {
        let before = problems.len();
        let mut fields = Fields::of(node, "protocol 'echo'", problems)?;
        let line = fields.text("line", problems).unwrap_or_else(|| "hello".to_owned());
        fields.finish(problems);
        (problems.len() == before).then_some(Options { line })
    }

    fn operations(_options: &Options) -> Vec<String> {
        vec!["echo".to_owned()]
    }

    fn drive(plan: &LoadPlan, options: Options, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault> {
        drive(&Echo { line: (options.line + "\n").into_bytes() }, plan, emit)
    }
}

/// How far the awaited reply has come. Nothing of it is kept.
#[derive(Default)]
struct Session {
    bytes: usize,
    wrong: bool,
}

impl Protocol for Echo {
    type Session = Session;
    type User = ();
    type Before = ();
    const PIPELINES: bool = true;

    fn operations(&self) -> Vec<OperationRow> {
        vec![OperationRow { name: "echo".to_owned(), weight: 1, lingers: false }]
    }

    fn session(&self) -> Session {
        Session::default()
    }

    fn user(&self, _number: u64) {}

    fn begin(&self, _: &mut Session, _user: &mut (), _operation: u16, _draw: &mut Draw, out: &mut Vec<u8>) -> u64 {
        out.extend_from_slice(&self.line);
        0
    }

    fn feed(
        &self,
        session: &mut Session,
        _user: &mut (),
        _flight: &Flight,
        bytes: &[u8],
        _draw: &mut Draw,
        _out: &mut Vec<u8>,
    ) -> Step {
        let expected = &self.line[session.bytes..];
        let used = bytes.len().min(expected.len());
        session.wrong |= bytes[..used] != expected[..used];
        session.bytes += used;
        if session.bytes < self.line.len() {
            return Step::More;
        }
        let Session { wrong, .. } = std::mem::take(session);
        Step::Done { used, reply: if wrong { Reply::Wrong(Failure::WrongReply) } else { Reply::Right }, last: false }
    }

    fn populate(&self, _plan: &LoadPlan) -> Result<Verified, Fault> {
        Ok(Verified::default())
    }

    fn before(&self, _plan: &LoadPlan) -> Result<(), Fault> {
        Ok(())
    }

    fn verify(&self, _plan: &LoadPlan, _before: &(), _ledger: &Ledger) -> Result<Verified, Fault> {
        Ok(Verified::default())
    }
}

/// The list of protocols in a program that has this one too.
fn protocols() -> Vec<&'static dyn ErasedProtocol> {
    [PROTOCOLS, &[erased::<Echo>()]].concat()
}

/// A server on a free port of the loopback that answers each line with the result of `answer`.
fn server(answer: fn(&str) -> String) -> SocketAddr {
    peer::each_connection(move |_, mut stream| {
        for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
            if stream.write_all(answer(&line).as_bytes()).is_err() {
                return;
            }
        }
    })
}

/// Options as a workload's file states them, or the mistakes in them.
fn options(text: &str) -> Result<serde_json::Value, Vec<String>> {
    let read = config::read("workload.yaml", text, |node, problems| erased::<Echo>().read(node, problems));
    read.map_err(|told| told.iter().map(ToString::to_string).collect())
}

fn plan(endpoint: SocketAddr) -> LoadPlan {
    let profile = LoadProfile::Closed { connections: 2, pipeline: 3 };
    LoadPlan {
        measure: Duration::from_millis(300),
        timeout: Duration::from_secs(3),
        ..LoadPlan::of("echo", options("line: good morning").unwrap(), endpoint, profile)
    }
}

/// Carries out a plan as the load process does.
fn carried_out(protocols: &[&'static dyn ErasedProtocol], plan: &LoadPlan) -> Result<LoadSummary, Fault> {
    let mut out = Vec::new();
    // The last line also shows whether it succeeded.
    let _ = tare_load::serve(protocols, Cursor::new(serde_json::to_vec(plan).unwrap()), &mut out);
    load::lines(&out).1
}

#[test]
fn a_protocol_of_another_crate_is_loaded_and_judged() {
    let endpoint = server(|line| format!("{line}\n"));
    let ready = LoadPlan { task: LoadTask::Ready, ..plan(endpoint) };
    carried_out(&protocols(), &ready).unwrap();
    let summary = carried_out(&protocols(), &plan(endpoint)).unwrap();
    assert!(summary.operations["echo"].count > 3 && summary.failures.is_empty(), "{summary:?}");
    let other = server(|line| format!("{}\n", line.replace('o', "a")));
    let summary = carried_out(&protocols(), &plan(other)).unwrap();
    assert_eq!(summary.failures.keys().collect::<Vec<_>>(), ["wrong reply"], "{summary:?}");
    assert_eq!(summary.operations["echo"].count, 0);
}

#[test]
fn its_options_are_checked_and_described_as_those_of_others() {
    assert_eq!(options("{}").unwrap(), serde_json::json!({"line": "hello"}));
    let found = options("lnie: x").unwrap_err();
    assert!(found[0].contains("workload.yaml:1:1") && found[0].contains("did you mean 'line'"), "{found:?}");
    let facts = erased::<Echo>().facts(&options("{}").unwrap());
    assert_eq!((facts.operations, facts.runs_inside), (vec!["echo".to_owned()], false));
    let strange = LoadPlan { options: serde_json::json!({"word": 1}), ..plan(([127, 0, 0, 1], 1).into()) };
    let fault = carried_out(&protocols(), &strange).unwrap_err();
    assert!(fault.message.contains("not those of protocol 'echo'"), "{fault}");
}

#[test]
fn a_protocol_that_is_not_in_the_list_is_not_known() {
    let fault = carried_out(PROTOCOLS, &plan(([127, 0, 0, 1], 1).into())).unwrap_err();
    assert!(fault.message.contains("no protocol 'echo'") && fault.remedy.contains("redis"), "{fault}");
}
