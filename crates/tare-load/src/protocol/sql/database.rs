//! The protocol itself, as far as it is the same for every database; what is a database's own is behind [`Database`].

use super::checks::Ask as _;
use super::control::{self, Control};
use super::dialect::Dialect;
use super::program::{Program, Statement, compile, operation_rows};
use super::spec::Options;
use super::tally::Tallies;
use crate::engine::{self, Ledger};
use crate::link::Link;
use crate::protocol::tls::Tls;
use crate::protocol::{Draw, Emit, Failure, Flight, Greeting, OperationRow, Protocol, Step, Verified, options_of};
use crate::script::{Slot, ValueRef, Values};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
#[cfg(any(test, fuzzing))]
use tare_core::fault::Doing;
use tare_core::fault::Fault;
use tare_core::load::{LoadPlan, LoadSummary, LoadTask};

/// Who logs in, and how.
#[derive(Debug)]
pub(crate) struct Login {
    pub user: String,
    pub password: String,
    pub database: String,
    /// Over a socket of this machine, on which nobody else can read.
    pub private: bool,
    pub tls: Option<Tls>,
}

impl Login {
    fn new(options: &Options, endpoint: SocketAddr) -> Result<Self, Fault> {
        Ok(Login {
            user: options.user.clone(),
            password: options.password.clone(),
            database: options.database.clone(),
            private: options.socket.is_some(),
            tls: options.tls.as_ref().map(|tls| Tls::new(tls, endpoint, &[])).transpose()?,
        })
    }
}

/// What it takes to be let in.
#[derive(Clone, Copy)]
pub(crate) struct Admission<'a> {
    pub login: &'a Login,
    /// These are prepared when the server has let us in.
    pub statements: &'a [Statement],
    /// Where the server's words go when it does not.
    pub tallies: &'a Tallies,
}

/// What an operation works on, besides the session.
pub(crate) struct Around<'a> {
    pub program: &'a Program,
    pub tallies: &'a Tallies,
    pub values: &'a mut Values,
    pub draw: &'a mut Draw,
    pub out: &'a mut Vec<u8>,
}

/// What a database has of its own: how it is spoken to.
pub(crate) trait Database: Sync + Sized {
    /// The state of one connection.
    type Session: Send;
    /// A connection on which single statements are asked.
    type Control<'a>: Control<Counts = Self::Counts>;
    /// What the server itself counts.
    type Counts: Default;
    /// In what its scripts differ.
    const DIALECT: &'static Dialect;
    /// Where its server keeps who is let in, for who is not.
    const ADMISSION: &'static str;

    /// What is the same on all connections, for this program.
    fn new(program: &Program) -> Self;

    /// The state of a fresh connection.
    fn session(&self, program: &Program, tallies: &Arc<Tallies>) -> Self::Session;

    /// A connection stands: what the client says first, where it does.
    fn greet(&self, _session: &mut Self::Session, _login: &Login, _out: &mut Vec<u8>) {}

    /// Goes on with the greeting.
    ///
    /// # Errors
    /// When the server refuses, or does not speak the protocol.
    fn shake(
        &self,
        session: &mut Self::Session,
        admission: Admission<'_>,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Greeting, Failure>;

    /// Begins an operation.
    fn begin(&self, session: &mut Self::Session, operation: u16, around: Around<'_>);

    /// Takes the next bytes of an operation's answers.
    fn feed(&self, session: &mut Self::Session, bytes: &[u8], around: Around<'_>) -> Step;

    /// Bytes while nothing was asked.
    ///
    /// # Errors
    /// When they are more than notices: the server is ending.
    fn idle(session: &mut Self::Session, bytes: &[u8], tallies: &Tallies, out: &mut Vec<u8>) -> Result<(), Failure>;

    /// Goes on to ask single statements, when the greeting is over.
    fn control(session: Self::Session, link: &mut Link) -> Self::Control<'_>;
}

/// The protocol of a database, with its options.
pub(crate) struct Sql<D> {
    pub(super) options: Options,
    pub(super) program: Program,
    pub(super) login: Login,
    pub(super) tallies: Arc<Tallies>,
    pub(super) database: D,
}

/// Carries a plan out on a database.
///
/// # Errors
/// When the load cannot begin or go on; with the server's words where it gave any.
pub(crate) fn drive<D: Database>(plan: &LoadPlan, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault> {
    let sql = Sql::<D>::new(options_of(plan)?, plan.endpoint)?;
    let admitted = admitted(&sql, plan);
    admitted.and_then(|()| engine::drive(&sql, plan, emit)).map_err(|fault| sql.tallies.explain(fault))
}

/// The protocol with options that were written down, for fuzzing.
#[cfg(any(test, fuzzing))]
pub(in crate::protocol) fn made<D: Database>(options: serde_json::Value) -> Result<impl Protocol, Fault> {
    let options = serde_json::from_value(options).doing("read the options")?;
    Sql::<D>::new(options, SocketAddr::from(([127, 0, 0, 1], 80)))
}

/// Sees before a run whether the server lets the load in and takes its statements: a mistake in them is told at once,
/// and not after every connection has tried for a while.
fn admitted<D: Database>(sql: &Sql<D>, plan: &LoadPlan) -> Result<(), Fault> {
    if plan.task != LoadTask::Run {
        return Ok(());
    }
    Link::to(sql, plan.endpoint, plan.timeout)?.greet(sql).map(drop)
}

impl<D: Database> Sql<D> {
    /// # Errors
    /// When the options are not as they were written down, or a file they name cannot be read.
    fn new(options: Options, endpoint: SocketAddr) -> Result<Self, Fault> {
        let program = compile(&options, D::DIALECT)?;
        Ok(Sql {
            database: D::new(&program),
            login: Login::new(&options, endpoint)?,
            tallies: Arc::new(Tallies::new(options.operations.len())),
            options,
            program,
        })
    }
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
        user.get(variable, &self.program.feeds)
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

    /// A query of its own: the tables of the load may not be there yet.
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
