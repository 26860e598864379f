//! What a database has of its own, for the load and beside it; the rest is the same for all, see [`super::protocol`].

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

/// A connection on which single statements are asked.
pub(crate) trait Control: Ask {
    /// What the server itself counts.
    type Counts;

    /// Writes rows into a table, many at once.
    ///
    /// # Errors
    /// When the server refuses.
    fn write_rows(&mut self, table: &str, columns: &[&str], rows: &mut Rows) -> Result<(), Fault>;

    /// What the server has counted until now.
    ///
    /// # Errors
    /// When the server does not tell.
    fn counts(&mut self) -> Result<Self::Counts, Fault>;

    /// Compares what the server has counted since `before` with what the client did.
    ///
    /// # Errors
    /// When the server does not tell.
    fn compare(&mut self, before: &Self::Counts, ledger: &Ledger, tally: &Tally) -> Result<Verified, Fault>;

    /// The server's version, and those of its settings that decide its speed; by name, without a prefix.
    ///
    /// # Errors
    /// When the server does not tell.
    fn settings(&mut self) -> Result<BTreeMap<String, String>, Fault>;
}

/// What a database has of its own: how it is spoken to.
pub(crate) trait Database: Sync + Sized + 'static {
    /// The protocol's name in workload files.
    const NAME: &'static str;
    /// What it is, in a sentence.
    const ABOUT: &'static str;
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

impl<D: Database> Sql<D> {
    /// # Errors
    /// When the options are not as they were written down, or a file they name cannot be read.
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
