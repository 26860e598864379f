//! Redis and what speaks its protocol, RESP2: Valkey, KeyDB, Dragonfly.

mod command;
mod control;
mod options;
mod reply;

use super::{Draw, Emit, Flight, Mix, Protocol, ProtocolRow, Step, Verified, options_of};
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
    drive: |plan: &LoadPlan, emit: &mut Emit<'_>| drive(&Redis::new(options_of(plan)?), plan, emit),
};

/// The protocol with its options.
struct Redis {
    options: Options,
    value: Value,
    mix: Mix,
    // By operation.
    templates: Vec<Template>,
}

impl Redis {
    fn new(options: Options) -> Self {
        let value = Value::new(options.value_bytes);
        let used: Vec<_> = COMMANDS.iter().filter_map(|row| options.mix.get(row.name).map(|w| (row, *w))).collect();
        let mix = Mix::new(used.iter().map(|(_, weight)| *weight));
        let templates = used.iter().map(|(row, _)| Template::new(row, &value)).collect();
        Redis { options, value, mix, templates }
    }
}

impl Protocol for Redis {
    type Stream = Parser;
    type Before = Option<Counts>;

    fn operations(&self) -> Vec<String> {
        self.templates.iter().map(|template| template.row.name.to_owned()).collect()
    }

    #[inline]
    fn request(&self, draw: &mut Draw, out: &mut Vec<u8>) -> Flight {
        let operation = self.mix.draw(draw);
        let token = draw.below(self.options.keys);
        self.templates[operation].write(token, self.options.keys, out);
        Flight { start_ns: 0, token, operation: operation as u16 }
    }

    fn stream(&self) -> Parser {
        Parser::default()
    }

    #[inline]
    fn feed(&self, stream: &mut Parser, flight: &Flight, bytes: &[u8]) -> Step {
        let expected = self.templates[usize::from(flight.operation)].row.answer;
        stream.feed(expected, &self.value, flight.token, bytes)
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
        Ok(control::verify(&self.options, &self.operations(), before, &after, ledger))
    }
}
