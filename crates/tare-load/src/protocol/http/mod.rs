//! HTTP/1.1 over persistent connections, plain or TLS: scripts of requests, with values captured between them.
//!
//! `options` reads what a workload says, and `program` compiles it into flat tables. During an operation `conversation`
//! goes from request to reply to request, `compose` writes requests, `frame` finds where replies begin and end,
//! `reading` examines them as they arrive, and `judging` decides. A single request without values is sent exactly as
//! prepared, and its reply is not kept: nothing is allocated for it.

mod asking;
mod carry;
mod compose;
mod conversation;
mod cookies;
mod date;
mod frame;
mod inflate;
mod judging;
mod options;
mod pointer;
mod program;
mod reading;
mod redirect;
mod state;
#[cfg(test)]
mod tests;

#[cfg(any(test, fuzzing))]
pub(crate) use asking::chew as chew_answer;

use super::tls::Tls;
use super::{ErasedProtocol, LoadProtocol, erased};
use crate::draw::Draw;
use crate::engine::{self, Emit};
use crate::operation::{Failure, Flight, Greeting, Ledger, Link, OperationRow, Protocol, Reply, Step, Verified};
use crate::script::{Slot, ValueRef, Values};
use frame::Frame;
use inflate::Decoders;
use options::{Options, Question};
use program::{Program, Script};
use state::{Cached, Memory, Session, Shared, User};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tare_core::config::{Node, Problems};
#[cfg(any(test, fuzzing))]
use tare_core::fault::Doing;
use tare_core::fault::Fault;
use tare_core::load::{LoadPlan, LoadSummary};

/// This protocol, for the list.
pub(super) const PROTOCOL: &dyn ErasedProtocol = erased::<Http>();

impl LoadProtocol for Http {
    type Options = Options;
    const NAME: &'static str = "http";
    const ABOUT: &'static str =
        "HTTP/1.1 over kept-alive connections, plain or TLS: requests or scripts of them; replies are checked";

    fn read(node: &Node, problems: &mut Problems) -> Option<Options> {
        options::read(node, problems)
    }

    fn operations(options: &Options) -> Vec<String> {
        options.operations.iter().map(|operation| operation.name.clone()).collect()
    }

    fn variables(options: &Options) -> Vec<String> {
        options.names().known().into_iter().map(str::to_owned).collect()
    }

    fn speaks_to(options: &Options) -> Vec<String> {
        let service = |question: &Question| question.service.split('.').next().unwrap_or_default().to_owned();
        options.verify.iter().map(service).collect()
    }

    fn drive(plan: &LoadPlan, options: Options, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault> {
        engine::drive(&Http::new(options, plan.endpoint)?, plan, emit)
    }
}

/// The protocol with its options.
struct Http {
    program: Program,
    tls: Option<Tls>,
    cookies: bool,
    body_max: usize,
    validators: Shared,
    decoders: Decoders,
    verify: Vec<Question>,
}

/// The protocol with options in their written form, for fuzzing.
#[cfg(any(test, fuzzing))]
pub(super) fn made(options: serde_json::Value) -> Result<impl Protocol, Fault> {
    let options = serde_json::from_value(options).doing("read the options")?;
    Http::new(options, SocketAddr::from(([127, 0, 0, 1], 80)))
}

impl Http {
    /// # Errors
    /// When the options are invalid, or a file they name cannot be read.
    fn new(options: Options, endpoint: SocketAddr) -> Result<Self, Fault> {
        let program = Program::new(&options, endpoint)
            .map_err(|why| Fault::new(format!("the plan's options are not those of protocol 'http': {why}")))?;
        let tls = options.tls.as_ref().map(|options| Tls::new(options, endpoint, &[b"http/1.1"])).transpose()?;
        let body_max = options.body_max as usize;
        Ok(Http {
            program,
            tls,
            cookies: options.cookies,
            body_max,
            validators: Shared::default(),
            decoders: Decoders::default(),
            verify: options.verify,
        })
    }

    /// A user's memory, created when there is something to remember.
    #[inline]
    fn memory<'u>(&self, user: &'u mut User) -> &'u mut Memory {
        let fresh =
            || Memory { jar: Default::default(), values: Values::new(&self.program.names), cached: Cached::default() };
        user.get_or_insert_with(|| Box::new(fresh()))
    }

    /// The facts known after a run.
    fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = self.tls.as_ref().map(Tls::facts).unwrap_or_default();
        if self.program.counting {
            for script in &self.program.scripts {
                let asks = &self.program.asks[script.first as usize..script.end as usize];
                let counts: Vec<_> = asks.iter().map(|ask| ask.counts.describe(&ask.name)).collect();
                facts.insert(format!("requests of {}", script.name), counts.join("; "));
            }
        }
        facts
    }

    /// Takes bytes of a TLS connection.
    fn take_secured(
        &self,
        session: &mut Session,
        user: &mut User,
        bytes: &[u8],
        draw: &mut Draw,
        out: &mut Vec<u8>,
    ) -> Step {
        let Some(mut channel) = session.channel.take() else { return Step::Broken(Failure::Tls) };
        let mut plain = channel.scratch();
        let mut step = Step::More;
        let read = channel.read(bytes, out, |piece| {
            // After the last reply, or before the next request has been sent, nothing was asked for.
            if matches!(step, Step::Done { .. } | Step::Reopen) || !plain.is_empty() {
                return Err(Failure::Garbage);
            }
            step = self.take(session, user, piece, draw, &mut plain);
            match step {
                Step::More | Step::Reopen => Ok(()),
                Step::Done { used, .. } if used == piece.len() => Ok(()),
                Step::Done { .. } => Err(Failure::Garbage),
                Step::Broken(failure) => Err(failure),
            }
        });
        if !plain.is_empty() && read.is_ok() {
            channel.write(&plain, out);
        }
        channel.give_back(plain);
        session.channel = Some(channel);
        match (read, step) {
            (Err(failure), _) => Step::Broken(failure),
            (Ok(ended), Step::Done { reply, last, .. }) => Step::Done { used: bytes.len(), reply, last: last || ended },
            (Ok(ended), step) => {
                session.ended = ended;
                step
            }
        }
    }
}

impl Protocol for Http {
    type Session = Session;
    type User = User;
    type Before = ();
    const PIPELINES: bool = false;

    fn operations(&self) -> Vec<OperationRow> {
        let scripts = self.program.scripts.iter();
        let row = |script: &Script| {
            let Script { name, weight, lingers, .. } = script;
            OperationRow { name: name.clone(), weight: *weight, lingers: *lingers }
        };
        scripts.map(row).collect()
    }

    fn session(&self) -> Session {
        Session::default()
    }

    fn user(&self, _number: u64) -> User {
        None
    }

    fn variable(&self, name: &str) -> Option<Slot> {
        self.program.names.slot(name)
    }

    fn value<'u>(&'u self, user: &'u User, variable: Slot) -> ValueRef<'u> {
        user.as_ref().map_or(ValueRef::Unset, |memory| memory.values.get(variable, self.program.feeds.texts()))
    }

    /// With cookies and values, but without the cache: a companion's requests are not those of a page.
    fn accompany(&self, user: &User) -> User {
        let copy = |memory: &Memory| Memory {
            jar: memory.jar.clone(),
            values: memory.values.clone(),
            cached: Cached::default(),
        };
        user.as_deref().map(|memory| Box::new(copy(memory)))
    }

    fn tell(&self, from: &User, to: &mut User, values: &[(Slot, Slot)]) {
        let Some(from) = from else { return };
        let to = self.memory(to);
        values.iter().for_each(|(user, own)| to.values.copy(*user, &from.values, *own));
    }

    fn greet(&self, session: &mut Session, out: &mut Vec<u8>) -> Greeting {
        // The session may belong to an operation that continues.
        (session.frame, session.ended) = (Frame::default(), false);
        let Some(tls) = &self.tls else { return Greeting::Ready };
        session.channel.insert(tls.open()).greet(out);
        Greeting::Wait
    }

    fn shake(&self, session: &mut Session, bytes: &[u8], out: &mut Vec<u8>) -> Result<Greeting, Failure> {
        let (Some(tls), Some(channel)) = (&self.tls, &mut session.channel) else { return Err(Failure::Garbage) };
        Ok(if channel.shake(tls, bytes, out)? { Greeting::Ready } else { Greeting::Wait })
    }

    #[inline]
    fn begin(&self, session: &mut Session, user: &mut User, operation: u16, draw: &mut Draw, out: &mut Vec<u8>) -> u64 {
        match session.channel.take() {
            None => self.open(session, user, operation, draw, out),
            Some(mut channel) => {
                let mut plain = channel.scratch();
                self.open(session, user, operation, draw, &mut plain);
                channel.write(&plain, out);
                channel.give_back(plain);
                session.channel = Some(channel);
            }
        }
        0
    }

    #[inline]
    fn feed(
        &self,
        session: &mut Session,
        user: &mut User,
        _flight: &Flight,
        bytes: &[u8],
        draw: &mut Draw,
        out: &mut Vec<u8>,
    ) -> Step {
        if session.channel.is_none() {
            return self.take(session, user, bytes, draw, out);
        }
        self.take_secured(session, user, bytes, draw, out)
    }

    fn idle(&self, session: &mut Session, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
        let Some(channel) = &mut session.channel else { return Err(Failure::Garbage) };
        // Tickets, or the end of TLS, which the end of the connection follows.
        channel.read(bytes, out, |_| Err(Failure::Garbage)).map(|_| ())
    }

    fn closed(&self, session: &mut Session, user: &mut User, _flight: &Flight) -> Option<Reply> {
        self.close(session, user)
    }

    fn goes_on(&self, session: &Session) -> bool {
        !session.left.is_empty()
    }

    fn resume(&self, session: &mut Session, out: &mut Vec<u8>) {
        let left = std::mem::take(&mut session.left);
        match &mut session.channel {
            Some(channel) => channel.write(&left, out),
            None => out.extend_from_slice(&left),
        }
    }

    /// Carries out the first operation, because later ones may need what it captures.
    fn ready(&self, link: &mut Link, seed: u64) -> Result<(), Fault> {
        let tried = link
            .greet(self)
            .and_then(|mut session| link.operate(self, &mut session, &mut self.user(0), 0, &mut Draw::new(seed, 0)));
        let facts = self.tls.as_ref().map(Tls::facts).unwrap_or_default();
        tried.map_err(|mut fault| {
            facts.values().for_each(|ends| fault.message.push_str(&format!(" (TLS: {ends})")));
            fault
        })
    }

    fn populate(&self, _plan: &LoadPlan) -> Result<Verified, Fault> {
        Ok(Verified::default())
    }

    fn before(&self, _plan: &LoadPlan) -> Result<(), Fault> {
        Ok(())
    }

    fn verify(&self, plan: &LoadPlan, _before: &(), _ledger: &Ledger) -> Result<Verified, Fault> {
        let endpoints = |question: &Question| plan.services.get(&question.service).map_or(&[][..], Vec::as_slice);
        let checks = self.verify.iter().map(|question| asking::ask(question, endpoints(question))).collect();
        Ok(Verified { checks, facts: self.facts() })
    }
}
