//! What is specific to a database, for the load and everything else; the rest is the same for all, see
//! [`super::protocol`].

use super::checks::Ask;
use super::dialect::Dialect;
use super::program::{Program, Statement, compile};
use super::rows::Rows;
use super::spec::Options;
use super::tally::{Tallies, Tally};
use crate::draw::Draw;
use crate::operation::{Failure, Greeting, Ledger, Link, Step, Verified};
use crate::protocol::tls::Tls;
use crate::script::Values;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tare_core::fault::Fault;

/// Who logs in, and how.
#[derive(Debug)]
pub(crate) struct Login {
    pub user: String,
    pub password: String,
    pub database: String,
    /// Whether the connection is a socket on this machine, so that no network carries it.
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

/// What is needed to be let in.
#[derive(Clone, Copy)]
pub(crate) struct Admission<'a> {
    pub login: &'a Login,
    /// Statements to prepare once the server has let us in.
    pub statements: &'a [Statement],
    /// Where the server's message goes if it does not.
    pub tallies: &'a Tallies,
}

/// What an operation works on, in addition to the session.
pub(crate) struct Around<'a> {
    pub program: &'a Program,
    pub tallies: &'a Tallies,
    pub values: &'a mut Values,
    pub draw: &'a mut Draw,
    pub out: &'a mut Vec<u8>,
}

/// A connection for single statements.
pub(crate) trait Control: Ask {
    /// What the server itself counts.
    type Counts;

    /// Writes rows to a table, many at once.
    ///
    /// # Errors
    /// When the server refuses.
    fn write_rows(&mut self, table: &str, columns: &[&str], rows: &mut Rows) -> Result<(), Fault>;

    /// The server's counts up to now.
    ///
    /// # Errors
    /// When the server does not report them.
    fn counts(&mut self) -> Result<Self::Counts, Fault>;

    /// Compares the server's counts since `before` with what the client did.
    ///
    /// # Errors
    /// When the server does not report them.
    fn compare(&mut self, before: &Self::Counts, ledger: &Ledger, tally: &Tally) -> Result<Verified, Fault>;

    /// The server's version and the settings that determine its speed, by name, without a prefix.
    ///
    /// # Errors
    /// When the server does not report them.
    fn settings(&mut self) -> Result<BTreeMap<String, String>, Fault>;
}

/// What is specific to a database: its wire protocol.
pub(crate) trait Database: Sync + Sized + 'static {
    /// The protocol's name in workload files.
    const NAME: &'static str;
    /// What it is, in a sentence.
    const ABOUT: &'static str;
    /// The state of one connection.
    type Session: Send;
    /// A connection for single statements.
    type Control<'a>: Control<Counts = Self::Counts>;
    /// What the server itself counts.
    type Counts: Default;
    /// What is specific to its scripts.
    const DIALECT: &'static Dialect;
    /// Where the server configures who is let in, for the message to a user who is not.
    const ADMISSION: &'static str;

    /// What all connections share, for this program.
    fn new(program: &Program) -> Self;

    /// The state of a fresh connection.
    fn session(&self, program: &Program, tallies: &Arc<Tallies>) -> Self::Session;

    /// A connection is established: appends the client's first message, if it has one.
    fn greet(&self, _session: &mut Self::Session, _login: &Login, _out: &mut Vec<u8>) {}

    /// Continues the greeting.
    ///
    /// # Errors
    /// When the server refuses, or does not use the protocol.
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

    /// Takes bytes that come while nothing is in flight.
    ///
    /// # Errors
    /// When they are more than notices: the server is closing.
    fn idle(session: &mut Self::Session, bytes: &[u8], tallies: &Tallies, out: &mut Vec<u8>) -> Result<(), Failure>;

    /// Continues with single statements once the greeting is over.
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

impl<D: Database> Sql<D> {
    /// # Errors
    /// When the options are invalid, or a file they name cannot be read.
    pub(super) fn new(options: Options, endpoint: SocketAddr) -> Result<Self, Fault> {
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
