//! The protocol, as far as it is the same for every database; what is specific to one is behind [`Database`].

use super::checks::Ask as _;
use super::control;
use super::database::{Admission, Around, Database, Sql};
use super::program::{operation_rows, variable_names};
use super::read::read;
use super::spec::Options;
use crate::draw::Draw;
use crate::engine::{self, Emit};
use crate::operation::{Failure, Flight, Greeting, Ledger, Link, OperationRow, Protocol, Step, Verified};
use crate::protocol::LoadProtocol;
use crate::script::{Slot, ValueRef, Values};
use std::path::Path;
use tare_core::config::{Node, Problems};
#[cfg(any(test, fuzzing))]
use tare_core::fault::Doing;
use tare_core::fault::Fault;
use tare_core::load::{LoadPlan, LoadSummary, LoadTask};

impl<D: Database> LoadProtocol for Sql<D> {
    type Options = Options;
    const NAME: &'static str = D::NAME;
    const ABOUT: &'static str = D::ABOUT;

    fn read(node: &Node, problems: &mut Problems) -> Option<Options> {
        read(D::DIALECT, node, problems)
    }

    fn operations(options: &Options) -> Vec<String> {
        options.operations.iter().map(|operation| operation.name.clone()).collect()
    }

    fn variables(options: &Options) -> Vec<String> {
        variable_names(options)
    }

    /// The fault includes the server's message, if there was one.
    fn drive(plan: &LoadPlan, options: Options, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault> {
        let sql = Sql::<D>::new(options, plan.endpoint)?;
        let admitted = admitted(&sql, plan);
        admitted.and_then(|()| engine::drive(&sql, plan, emit)).map_err(|fault| sql.tallies.explain(fault))
    }
}

/// The protocol with options in their written form, for fuzzing.
#[cfg(any(test, fuzzing))]
pub(in crate::protocol) fn made<D: Database>(options: serde_json::Value) -> Result<impl Protocol, Fault> {
    let options = serde_json::from_value(options).doing("read the options")?;
    Sql::<D>::new(options, std::net::SocketAddr::from(([127, 0, 0, 1], 80)))
}

/// Checks before a run whether the server lets the load in and accepts its statements: a mistake in them is reported at
/// once, rather than after every connection has tried for a while.
fn admitted<D: Database>(sql: &Sql<D>, plan: &LoadPlan) -> Result<(), Fault> {
    if plan.task != LoadTask::Run {
        return Ok(());
    }
    Link::to(sql, plan.endpoint, plan.timeout)?.greet(sql).map(drop)
}

impl<D: Database> Protocol for Sql<D> {
    type Session = D::Session;
    type User = Values;
    type Before = control::Before<D::Counts>;
    const PIPELINES: bool = false;

    fn operations(&self) -> Vec<OperationRow> {
        operation_rows(&self.options)
    }

    fn session(&self) -> D::Session {
        self.database.session(&self.program, &self.tallies)
    }

    fn user(&self, _number: u64) -> Values {
        Values::new(&self.program.names)
    }

    fn variable(&self, name: &str) -> Option<Slot> {
        self.program.names.slot(name)
    }

    fn value<'u>(&'u self, user: &'u Values, variable: Slot) -> ValueRef<'u> {
        user.get(variable, self.program.feeds.texts())
    }

    fn socket(&self) -> Option<&Path> {
        self.options.socket.as_deref()
    }

    fn greet(&self, session: &mut D::Session, out: &mut Vec<u8>) -> Greeting {
        self.database.greet(session, &self.login, out);
        Greeting::Wait
    }

    fn shake(&self, session: &mut D::Session, bytes: &[u8], out: &mut Vec<u8>) -> Result<Greeting, Failure> {
        let admission = Admission { login: &self.login, statements: &self.program.statements, tallies: &self.tallies };
        self.database.shake(session, admission, bytes, out)
    }

    #[inline]
    fn begin(
        &self,
        session: &mut D::Session,
        values: &mut Values,
        operation: u16,
        draw: &mut Draw,
        out: &mut Vec<u8>,
    ) -> u64 {
        let (program, tallies) = (&self.program, &*self.tallies);
        self.database.begin(session, operation, Around { program, tallies, values, draw, out });
        0
    }

    #[inline]
    fn feed(
        &self,
        session: &mut D::Session,
        values: &mut Values,
        _flight: &Flight,
        bytes: &[u8],
        draw: &mut Draw,
        out: &mut Vec<u8>,
    ) -> Step {
        let (program, tallies) = (&self.program, &*self.tallies);
        self.database.feed(session, bytes, Around { program, tallies, values, draw, out })
    }

    fn idle(&self, session: &mut D::Session, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
        D::idle(session, bytes, &self.tallies, out)
    }

    /// Uses a query of its own, because the load's tables may not exist yet.
    fn ready(&self, link: &mut Link, _seed: u64) -> Result<(), Fault> {
        control::log_in(self, link)?.value("SELECT 1").map(drop)
    }

    fn populate(&self, plan: &LoadPlan) -> Result<Verified, Fault> {
        control::populate(self, plan)
    }

    fn before(&self, plan: &LoadPlan) -> Result<Self::Before, Fault> {
        control::before(self, plan)
    }

    fn verify(&self, plan: &LoadPlan, before: &Self::Before, ledger: &Ledger) -> Result<Verified, Fault> {
        control::verify(self, plan, before, ledger)
    }
}
