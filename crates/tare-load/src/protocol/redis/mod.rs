//! Redis and what speaks its protocol, RESP2: Valkey, KeyDB, Dragonfly.

mod command;
mod control;
mod options;
mod reply;

use super::{Draw, Emit, Flight, OperationRow, Protocol, ProtocolRow, Step, Verified, names, options_of};
use crate::engine::{Ledger, drive};
use crate::link::Link;
use command::{COMMANDS, Template, Value};
use control::{Control, Counts};
use options::Options;
use reply::Parser;
use tare_core::fault::Fault;
use tare_core::load::LoadPlan;

/// The row of this protocol.
pub(super) const ROW: ProtocolRow = ProtocolRow {
    name: "redis",
    about: "Redis commands (RESP2), drawn from a mix over a key space; checked against the server's own counts",
    options: options::read,
    operations: |options| serde_json::from_value(options.clone()).map_or(Vec::new(), |o| names(&Redis::new(o))),
    drive: |plan: &LoadPlan, emit: &mut Emit<'_>| drive(&Redis::new(options_of(plan)?), plan, emit),
};

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
        let used: Vec<_> = COMMANDS.iter().filter_map(|row| options.mix.get(row.name).map(|w| (row, *w))).collect();
        let weights = used.iter().map(|(_, weight)| *weight).collect();
        let templates = used.iter().map(|(row, _)| Template::new(row, &value)).collect();
        Redis { options, value, templates, weights }
    }
}

/// Takes any bytes for replies.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(bytes: &[u8]) {
    let options = serde_json::json!({
        "mix": {"get": 1, "set": 1}, "value_bytes": 5, "keys": 10, "populate": 10, "verify": true,
    });
    crate::fuzz::chew(&Redis::new(serde_json::from_value(options).expect("they are options")), bytes);
}

impl Protocol for Redis {
    type Session = Parser;
    type User = ();
    type Before = Option<Counts>;
    const PIPELINES: bool = true;

    fn operations(&self) -> Vec<OperationRow> {
        let rows = self.templates.iter().zip(&self.weights);
        rows.map(|(template, weight)| OperationRow { name: template.row.name.to_owned(), weight: *weight }).collect()
    }

    fn session(&self) -> Parser {
        Parser::default()
    }

    fn user(&self, _number: u64) {}

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

    /// PING leaves no trace in the data set; a server that still loads its own answers it with an error.
    fn ready(&self, link: &mut Link, _seed: u64) -> Result<(), Fault> {
        Control::new(link).ping()
    }

    fn populate(&self, plan: &LoadPlan) -> Result<Verified, Fault> {
        control::populate(&self.options, &self.value, plan)
    }

    fn before(&self, plan: &LoadPlan) -> Result<Option<Counts>, Fault> {
        if self.options.verify { Counts::read(plan).map(Some) } else { Ok(None) }
    }

    fn verify(&self, plan: &LoadPlan, before: &Option<Counts>, ledger: &Ledger) -> Result<Verified, Fault> {
        let Some(before) = before else { return Ok(Verified::default()) };
        let after = Counts::read(plan)?;
        Ok(control::verify(&self.options, &names(self), before, &after, ledger))
    }
}
