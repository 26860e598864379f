//! PostgreSQL and what speaks its protocol, version 3.

mod control;
mod scram;
mod session;
mod wire;

use super::sql::{self, Ask as _, Dialect, Isolation, Options, Places, Program, Tallies};
use super::tls::Tls;
use super::{Draw, Emit, Failure, Flight, Greeting, OperationRow, Protocol, ProtocolRow, Step, Verified, options_of};
use crate::engine::{Ledger, drive};
use crate::link::Link;
use crate::script::Values;
use control::{Control, Counts};
use scram::Salted;
use session::{Around, Calls, Login, Session};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tare_core::fault::Fault;
use tare_core::load::LoadPlan;

/// The row of this protocol.
pub(super) const ROW: ProtocolRow = ProtocolRow {
    name: "postgres",
    about: "transactions of prepared statements on PostgreSQL, as scripts; checked against the server's own counts",
    options: |node, problems| sql::read(&DIALECT, node, problems),
    operations: sql::operation_names,
    drive: |plan: &LoadPlan, emit: &mut Emit<'_>| {
        let postgres = Postgres::new(options_of(plan)?, plan.endpoint)?;
        let admitted = sql::admitted(&postgres, plan);
        admitted.and_then(|()| drive(&postgres, plan, emit)).map_err(|fault| postgres.tallies.explain(fault))
    },
};

const DIALECT: Dialect = Dialect {
    protocol: "postgres",
    places: Places::Numbered,
    together: true,
    user: "postgres",
    database: "postgres",
    begin,
    // serialization_failure, deadlock_detected
    passing: &["40001", "40P01"],
};

fn begin(isolation: Option<Isolation>) -> Vec<String> {
    vec![match isolation {
        Some(level) => format!("BEGIN ISOLATION LEVEL {}", level.sql()),
        None => "BEGIN".into(),
    }]
}

/// The protocol with its options.
struct Postgres {
    options: Options,
    program: Program,
    calls: Calls,
    login: Login,
    tallies: Arc<Tallies>,
}

impl Postgres {
    fn new(options: Options, endpoint: SocketAddr) -> Result<Self, Fault> {
        let program = sql::compile(&options, &DIALECT)?;
        let login = Login {
            user: options.user.clone(),
            password: options.password.clone(),
            database: options.database.clone(),
            salted: Salted::default(),
            tls: options.tls.as_ref().map(|tls| Tls::new(tls, endpoint, &[])).transpose()?,
        };
        let tallies = Arc::new(Tallies::new(options.operations.len()));
        Ok(Postgres { calls: Calls::new(&program), options, program, login, tallies })
    }
}

impl Protocol for Postgres {
    type Session = Session;
    type User = Values;
    type Before = Counts;
    const PIPELINES: bool = false;

    fn operations(&self) -> Vec<OperationRow> {
        sql::operation_rows(&self.options)
    }

    fn session(&self) -> Session {
        Session::new(&self.program, &self.tallies)
    }

    fn user(&self, _number: u64) -> Values {
        Values::new(&self.program.names)
    }

    fn socket(&self) -> Option<&Path> {
        self.options.socket.as_deref()
    }

    fn greet(&self, session: &mut Session, out: &mut Vec<u8>) -> Greeting {
        session.greet(&self.login, out);
        Greeting::Wait
    }

    fn shake(&self, session: &mut Session, bytes: &[u8], out: &mut Vec<u8>) -> Result<Greeting, Failure> {
        session.shake(&self.login, &self.program.statements, &self.tallies, bytes, out)
    }

    #[inline]
    fn begin(
        &self,
        session: &mut Session,
        values: &mut Values,
        operation: u16,
        draw: &mut Draw,
        out: &mut Vec<u8>,
    ) -> u64 {
        let (program, wire, tallies) = (&self.program, &self.calls, &*self.tallies);
        session.begin(operation, Around { program, wire, tallies, values, draw, out });
        0
    }

    #[inline]
    fn feed(
        &self,
        session: &mut Session,
        values: &mut Values,
        _flight: &Flight,
        bytes: &[u8],
        draw: &mut Draw,
        out: &mut Vec<u8>,
    ) -> Step {
        let (program, wire, tallies) = (&self.program, &self.calls, &*self.tallies);
        session.feed(bytes, Around { program, wire, tallies, values, draw, out })
    }

    fn idle(&self, session: &mut Session, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
        session.idle(bytes, &self.tallies, out)
    }

    /// A query of its own: the tables of the load may not be there yet.
    fn ready(&self, link: &mut Link, _seed: u64) -> Result<(), Fault> {
        Control::greet(self, link)?.value("SELECT 1").map(drop)
    }

    fn populate(&self, plan: &LoadPlan) -> Result<Verified, Fault> {
        control::populate(self, plan)
    }

    fn before(&self, plan: &LoadPlan) -> Result<Counts, Fault> {
        control::before(self, plan)
    }

    fn verify(&self, plan: &LoadPlan, before: &Counts, ledger: &Ledger) -> Result<Verified, Fault> {
        control::verify(self, plan, before, ledger)
    }
}
