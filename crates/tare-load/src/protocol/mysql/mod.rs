//! MySQL and what speaks its protocol, version 4.1: MariaDB, Percona.

mod auth;
mod control;
mod greeting;
mod session;
mod wire;

use super::sql::{self, Ask as _, Dialect, Isolation, Options, Places, Program, Tallies};
use super::tls::Tls;
use super::{Draw, Emit, Failure, Flight, Greeting, OperationRow, Protocol, ProtocolRow, Step, Verified, options_of};
use crate::engine::{Ledger, drive};
use crate::link::Link;
use crate::script::Values;
use control::{Control, Counts};
use greeting::Login;
use session::{Around, Session};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tare_core::fault::Fault;
use tare_core::load::LoadPlan;

/// The row of this protocol.
pub(super) const ROW: ProtocolRow = ProtocolRow {
    name: "mysql",
    about: "transactions of prepared statements on MySQL or MariaDB, as scripts; checked against the server's own counts",
    options: |node, problems| sql::read(&DIALECT, node, problems),
    operations: sql::operation_names,
    drive: |plan: &LoadPlan, emit: &mut Emit<'_>| {
        let mysql = MySql::new(options_of(plan)?, plan.endpoint)?;
        let admitted = sql::admitted(&mysql, plan);
        admitted.and_then(|()| drive(&mysql, plan, emit)).map_err(|fault| mysql.tallies.explain(fault))
    },
};

const DIALECT: Dialect = Dialect {
    protocol: "mysql",
    places: Places::Marks,
    together: false,
    user: "root",
    database: "test",
    begin,
    // ER_LOCK_DEADLOCK, ER_LOCK_WAIT_TIMEOUT
    passing: &["1213", "1205"],
};

fn begin(isolation: Option<Isolation>) -> Vec<String> {
    // The level is that of the next transaction only.
    let level = isolation.map(|level| format!("SET TRANSACTION ISOLATION LEVEL {}", level.sql()));
    level.into_iter().chain(["BEGIN".to_owned()]).collect()
}

/// The protocol with its options.
struct MySql {
    options: Options,
    program: Program,
    login: Login,
    tallies: Arc<Tallies>,
}

impl MySql {
    fn new(options: Options, endpoint: SocketAddr) -> Result<Self, Fault> {
        let program = sql::compile(&options, &DIALECT)?;
        let login = Login {
            user: options.user.clone(),
            password: options.password.clone(),
            database: options.database.clone(),
            private: options.socket.is_some(),
            tls: options.tls.as_ref().map(|tls| Tls::new(tls, endpoint, &[])).transpose()?,
        };
        let tallies = Arc::new(Tallies::new(options.operations.len()));
        Ok(MySql { options, program, login, tallies })
    }
}

impl Protocol for MySql {
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

    /// The server speaks first.
    fn greet(&self, _session: &mut Session, _out: &mut Vec<u8>) -> Greeting {
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
        session.begin(operation, Around { program: &self.program, tallies: &self.tallies, values, draw, out });
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
        session.feed(bytes, Around { program: &self.program, tallies: &self.tallies, values, draw, out })
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
