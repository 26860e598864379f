//! The layer between a conversation and its socket: plain, or TLS.

use crate::operation::{Failure, Greeting, Link, Step};
use crate::protocol::tls::{Channel, Tls};
use tare_core::fault::Fault;

/// The TLS layer of a connection, if it has one.
#[derive(Default)]
pub(crate) struct Veil(Option<Stage>);

enum Stage {
    Shaking(Box<Channel>),
    Up(Box<Channel>),
}

impl Veil {
    /// Begins to secure the connection: appends the first bytes of the handshake.
    pub(crate) fn raise(&mut self, tls: &Tls, out: &mut Vec<u8>) {
        let mut channel = Box::new(tls.open());
        channel.greet(out);
        self.0 = Some(Stage::Shaking(channel));
    }

    /// Whether securing the connection has not begun.
    pub(crate) fn is_clear(&self) -> bool {
        self.0.is_none()
    }

    /// Whether what is sent is encrypted.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.0, Some(Stage::Up(_)))
    }

    /// Continues a greeting. `inner` gets the plain bytes, and an empty slice when the handshake has just ended; what
    /// it writes is encrypted.
    ///
    /// # Errors
    /// When the handshake or `inner` fails.
    pub(crate) fn shake(
        &mut self,
        tls: Option<&Tls>,
        bytes: &[u8],
        out: &mut Vec<u8>,
        mut inner: impl FnMut(&[u8], bool, &mut Vec<u8>) -> Result<Greeting, Failure>,
    ) -> Result<Greeting, Failure> {
        match (self.0.take(), tls) {
            (None, _) => inner(bytes, false, out),
            (Some(Stage::Shaking(mut channel)), Some(tls)) => {
                if !channel.shake(tls, bytes, out)? {
                    self.0 = Some(Stage::Shaking(channel));
                    return Ok(Greeting::Wait);
                }
                let mut plain = channel.scratch();
                let greeting = inner(&[], true, &mut plain);
                seal(&mut channel, plain, out);
                self.0 = Some(Stage::Up(channel));
                greeting
            }
            (Some(Stage::Up(mut channel)), _) => {
                let mut plain = channel.scratch();
                let mut greeting = Ok(Greeting::Wait);
                let ended = channel.read(bytes, out, |piece| {
                    greeting = inner(piece, true, &mut plain);
                    greeting.map(drop)
                });
                seal(&mut channel, plain, out);
                self.0 = Some(Stage::Up(channel));
                if ended? && greeting == Ok(Greeting::Wait) {
                    return Err(Failure::Closed);
                }
                greeting
            }
            (Some(Stage::Shaking(_)), None) => unreachable!("a handshake is begun with what it is made of"),
        }
    }

    /// Lets `inner` write, and encrypts that.
    #[inline]
    pub(crate) fn write<T>(&mut self, out: &mut Vec<u8>, inner: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let Some(Stage::Up(channel)) = &mut self.0 else { return inner(out) };
        let mut plain = channel.scratch();
        let result = inner(&mut plain);
        seal(channel, plain, out);
        result
    }

    /// Passes the bytes received to `inner`, which may write; nothing may follow the end of an answer.
    #[inline]
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        mut inner: impl FnMut(&[u8], &mut Vec<u8>) -> Step,
    ) -> Step {
        let Some(Stage::Up(channel)) = &mut self.0 else { return inner(bytes, out) };
        let mut plain = channel.scratch();
        let mut step = Step::More;
        let result = channel.read(bytes, out, |piece| {
            // Nothing was asked that could be answered after the end of an answer.
            step = if step == Step::More { inner(piece, &mut plain) } else { Step::Broken(Failure::Garbage) };
            match step {
                Step::Done { used, .. } if used < piece.len() => Err(Failure::Garbage),
                Step::Broken(failure) => Err(failure),
                _ => Ok(()),
            }
        });
        seal(channel, plain, out);
        match (result, step) {
            (Err(failure), _) => Step::Broken(failure),
            (Ok(true), Step::More) => Step::Broken(Failure::Closed),
            (Ok(ended), Step::Done { reply, .. }) => Step::Done { used: bytes.len(), reply, last: ended },
            (Ok(_), step) => step,
        }
    }

    /// Passes bytes that came while nothing was in flight to `inner`.
    ///
    /// # Errors
    /// When `inner` fails, or the connection is over.
    pub(crate) fn idle(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        inner: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut inner = inner;
        match &mut self.0 {
            Some(Stage::Up(channel)) => match channel.read(bytes, out, inner)? {
                true => Err(Failure::Closed),
                false => Ok(()),
            },
            _ => inner(bytes),
        }
    }
}

fn seal(channel: &mut Channel, plain: Vec<u8>, out: &mut Vec<u8>) {
    if !plain.is_empty() {
        channel.write(&plain, out);
    }
    channel.give_back(plain);
}

/// A connection off the measured path, with its TLS layer.
pub(crate) struct Pipe<'a> {
    link: &'a mut Link,
    veil: Veil,
    // Decrypted and not taken yet.
    left: Vec<u8>,
}

impl<'a> Pipe<'a> {
    /// For a connection whose greeting is over.
    pub(crate) fn new(link: &'a mut Link, veil: Veil) -> Self {
        Pipe { link, veil, left: Vec::new() }
    }

    /// Sends `bytes`.
    ///
    /// # Errors
    /// When the connection fails.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if !self.veil.is_up() {
            return self.link.send(bytes);
        }
        let mut out = Vec::new();
        self.veil.write(&mut out, |plain| plain.extend_from_slice(bytes));
        self.link.send(&out)
    }

    /// Like [`Link::receive`].
    ///
    /// # Errors
    /// When nothing comes in time, the peer closes, or `take` returns a fault.
    pub(crate) fn receive<T>(
        &mut self,
        mut take: impl FnMut(&[u8]) -> Result<(usize, Option<T>), Fault>,
    ) -> Result<T, Fault> {
        if !self.veil.is_up() {
            return self.link.receive(take);
        }
        let deadline = self.link.deadline();
        loop {
            if !self.left.is_empty() {
                let (used, result) = take(&self.left)?;
                self.left.drain(..used);
                if let Some(result) = result {
                    return Ok(result);
                }
            }
            let (Pipe { link, veil, left }, mut out) = (&mut *self, Vec::new());
            let unsealed = link.receive_until(deadline, |bytes| {
                let unsealed = veil.idle(bytes, &mut out, |piece| {
                    left.extend_from_slice(piece);
                    Ok(())
                });
                Ok((bytes.len(), Some(unsealed)))
            })?;
            unsealed.map_err(|failure| Fault::new(format!("the secured connection ended: {}", failure.name())))?;
            if !out.is_empty() {
                self.link.send(&out)?;
            }
        }
    }
}
