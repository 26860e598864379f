//! Redis and servers that use its protocol, RESP2 or RESP3: Valkey, KeyDB, Dragonfly.

mod command;
mod control;
mod options;
mod reply;

use super::{ErasedProtocol, LoadProtocol, erased};
use crate::draw::Draw;
use crate::engine::{self, Emit};
use crate::operation::{Failure, Flight, Greeting, Ledger, Link, OperationRow, Protocol, Reply, Step, Verified};
use command::{Answer, COMMANDS, CommandRow, Template, Value};
#[cfg(any(test, fuzzing))]
pub(crate) use control::chew_counts;
use control::{Control, Counts};
use options::Options;
use reply::Parser;
use tare_core::config::{Node, Problems};
#[cfg(any(test, fuzzing))]
use tare_core::fault::Doing;
use tare_core::fault::Fault;
use tare_core::load::{LoadPlan, LoadSummary};

/// This protocol, for the list.
pub(super) const PROTOCOL: &dyn ErasedProtocol = erased::<Redis>();

impl LoadProtocol for Redis {
    type Options = Options;
    const NAME: &'static str = "redis";
    const ABOUT: &'static str =
        "Redis commands (RESP2 or 3), drawn from a mix over a key space; checked against the server's own counts";

    fn read(node: &Node, problems: &mut Problems) -> Option<Options> {
        options::read(node, problems)
    }

    fn operations(options: &Options) -> Vec<String> {
        commands_of(options).map(|(row, _)| row.name.to_owned()).collect()
    }

    fn speaks_to(options: &Options) -> Vec<String> {
        options.servers.iter().cloned().collect()
    }

    fn drive(plan: &LoadPlan, options: Options, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault> {
        engine::drive(&Redis::new(options), plan, emit)
    }
}

/// The commands of the mix with their weights, in the order of their operations.
fn commands_of(options: &Options) -> impl Iterator<Item = (&'static CommandRow, u64)> {
    COMMANDS.iter().filter_map(move |row| options.mix.get(row.name).map(|weight| (row, *weight)))
}

/// The protocol with its options.
struct Redis {
    options: Options,
    value: Value,
    // By operation, with its weight.
    templates: Vec<Template>,
    weights: Vec<u64>,
}

impl Redis {
    fn new(options: Options) -> Self {
        let value = Value::new(options.value_bytes);
        let used: Vec<_> = commands_of(&options).collect();
        let weights = used.iter().map(|(_, weight)| *weight).collect();
        let templates = used.iter().map(|(row, _)| Template::new(row, &value)).collect();
        Redis { options, value, templates, weights }
    }
}

/// The protocol with options in their written form, for fuzzing.
#[cfg(any(test, fuzzing))]
pub(super) fn made(options: serde_json::Value) -> Result<impl Protocol, Fault> {
    serde_json::from_value(options).map(Redis::new).doing("read the options")
}

impl Protocol for Redis {
    type Session = Parser;
    type User = ();
    type Before = Option<Counts>;
    const PIPELINES: bool = true;

    fn operations(&self) -> Vec<OperationRow> {
        let rows = self.templates.iter().zip(&self.weights);
        rows.map(|(template, weight)| OperationRow {
            name: template.row.name.to_owned(),
            weight: *weight,
            lingers: false,
        })
        .collect()
    }

    fn session(&self) -> Parser {
        Parser::default()
    }

    fn user(&self, _number: u64) {}

    fn greet(&self, _session: &mut Parser, out: &mut Vec<u8>) -> Greeting {
        if self.options.resp == 2 {
            return Greeting::Ready;
        }
        out.extend_from_slice(b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n");
        Greeting::Wait
    }

    fn shake(&self, session: &mut Parser, bytes: &[u8], _out: &mut Vec<u8>) -> Result<Greeting, Failure> {
        match session.feed(Answer::Map, &self.value, 0, bytes) {
            Step::More => Ok(Greeting::Wait),
            Step::Done { used, reply: Reply::Right, .. } if used == bytes.len() => Ok(Greeting::Ready),
            Step::Done { reply: Reply::Wrong(failure), .. } | Step::Broken(failure) => Err(failure),
            Step::Done { .. } | Step::Reopen => Err(Failure::Garbage),
        }
    }

    /// A RESP3 server may push messages that were not asked for.
    fn idle(&self, session: &mut Parser, bytes: &[u8], _out: &mut Vec<u8>) -> Result<(), Failure> {
        let taken = session.unasked(bytes) && session.feed(Answer::Map, &self.value, 0, bytes) == Step::More;
        if taken { Ok(()) } else { Err(Failure::Garbage) }
    }

    #[inline]
    fn begin(&self, _: &mut Parser, _user: &mut (), operation: u16, draw: &mut Draw, out: &mut Vec<u8>) -> u64 {
        let key = draw.below(self.options.keys);
        self.templates[usize::from(operation)].write(key, self.options.keys, out);
        key
    }

    #[inline]
    fn feed(
        &self,
        session: &mut Parser,
        _user: &mut (),
        flight: &Flight,
        bytes: &[u8],
        _draw: &mut Draw,
        _out: &mut Vec<u8>,
    ) -> Step {
        let expected = self.templates[usize::from(flight.operation)].row.answer;
        session.feed(expected, &self.value, flight.token, bytes)
    }

    /// PING leaves no trace in the data set; a server that is still loading its own answers with an error.
    fn ready(&self, link: &mut Link, _seed: u64) -> Result<(), Fault> {
        Control::new(link).ping()
    }

    fn populate(&self, plan: &LoadPlan) -> Result<Verified, Fault> {
        control::populate(&self.options, &self.value, plan)
    }

    fn before(&self, plan: &LoadPlan) -> Result<Option<Counts>, Fault> {
        if self.options.verify { Counts::read(&self.options, plan).map(Some) } else { Ok(None) }
    }

    fn verify(&self, plan: &LoadPlan, before: &Option<Counts>, ledger: &Ledger) -> Result<Verified, Fault> {
        let Some(before) = before else { return Ok(Verified::default()) };
        let after = Counts::read(&self.options, plan)?;
        let names = <Redis as LoadProtocol>::operations(&self.options);
        Ok(control::verify(&self.options, &names, before, &after, ledger))
    }
}
