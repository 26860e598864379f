//! From the server's first packet to prepared statements.

use super::auth::Plugin;
use super::wire::{self, Reader, can, number, take, terminated};
use crate::operation::{Failure, Greeting};
use crate::protocol::sql::{Login, Message, Statement, Tallies};

/// utf8mb4_general_ci, which every server has.
const CHARSET: u8 = 45;
/// The longest packet we announce that we may send: 16 MiB.
const SEND_MAX: u32 = 1 << 24;

/// How far the greeting has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Hello,
    /// What we send next is held back until the connection is secured.
    Secure(Plugin),
    Proof(Plugin),
    /// The next statement's prepare is to be answered; or this many packets of descriptions are still to come.
    Prepare,
    Describe(u32),
    Ready,
}

/// The server's first packet.
struct Hello {
    able: u32,
    salt: Vec<u8>,
    plugin: Plugin,
}

impl Hello {
    fn read(body: &[u8]) -> Option<Self> {
        let mut rest = body.get(1..)?;
        terminated(&mut rest)?;
        number(&mut rest, 4)?;
        let mut salt = take(&mut rest, 8)?.to_vec();
        take(&mut rest, 1)?;
        let low = number(&mut rest, 2)?;
        take(&mut rest, 3)?;
        let able = (number(&mut rest, 2)? << 16 | low) as u32;
        let length = number(&mut rest, 1)? as usize;
        take(&mut rest, 10)?;
        salt.extend_from_slice(take(&mut rest, length.saturating_sub(8).max(13))?);
        let plugin = terminated(&mut rest).and_then(Plugin::named).unwrap_or(Plugin::Native);
        (able & can::PROTOCOL_41 != 0).then_some(Hello { able, salt, plugin })
    }
}

/// The greeting of one connection.
#[derive(Debug)]
pub(super) struct Shake {
    stage: Stage,
    // The sequence number of the next packet.
    sequence: u8,
    held_back: Vec<u8>,
    // The ids of the statements on this connection.
    prepared: Vec<u32>,
    deprecate_eof: bool,
}

impl Shake {
    pub(super) fn new() -> Self {
        Shake { stage: Stage::Hello, sequence: 0, held_back: Vec::new(), prepared: Vec::new(), deprecate_eof: false }
    }

    /// The ids that the server gave the statements.
    pub(super) fn prepared(&self) -> &[u32] {
        &self.prepared
    }

    /// Whether rows end in an OK packet instead of an EOF packet.
    pub(super) fn deprecate_eof(&self) -> bool {
        self.deprecate_eof
    }

    /// Continues the greeting. `statements` are prepared once the server has let us in.
    ///
    /// # Errors
    /// When the server refuses, or does not use the protocol; its message goes to `tallies`.
    pub(super) fn feed(
        &mut self,
        reader: &mut Reader,
        login: &Login,
        statements: &[Statement],
        tallies: &Tallies,
        mut bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Greeting, Failure> {
        while let Some(Message { kind, body }) = reader.next(&mut bytes, |_| true)? {
            self.sequence = self.sequence.wrapping_add(1);
            match (self.stage, kind) {
                (_, 0xff) => {
                    let text = wire::error(body).1;
                    tallies.note(|| match (self.stage, statements.get(self.prepared.len())) {
                        (Stage::Prepare, Some(statement)) => format!("{text}, in: {}", statement.sql),
                        _ => text,
                    });
                    return Err(Failure::ErrorReply);
                }
                (Stage::Hello, 10) => self.hello(body, login, tallies, out)?,
                (Stage::Proof(_), 0xfe) => self.switch(body, login, tallies, out)?,
                (Stage::Proof(plugin), 1) => self.more(plugin, body, login, tallies, out)?,
                (Stage::Proof(_), 0) => self.prepare(statements, out),
                (Stage::Prepare, 0) => {
                    let packets = self.described(body, &statements[self.prepared.len()]).map_err(|text| {
                        tallies.note(|| text);
                        Failure::WrongReply
                    })?;
                    self.stage = Stage::Describe(packets);
                    if packets == 0 {
                        self.prepare(statements, out);
                    }
                }
                (Stage::Describe(left), _) => {
                    self.stage = Stage::Describe(left - 1);
                    if left == 1 {
                        self.prepare(statements, out);
                    }
                }
                _ => return Err(Failure::Garbage),
            }
            if self.stage == Stage::Ready {
                reader.answered();
                return Ok(Greeting::Ready);
            }
        }
        Ok(Greeting::Wait)
    }

    /// Answers the server's first packet with our login and the proof for the plugin it prefers.
    fn hello(&mut self, body: &[u8], login: &Login, tallies: &Tallies, out: &mut Vec<u8>) -> Result<(), Failure> {
        let Hello { able, salt, plugin } = Hello::read(body).ok_or(Failure::Garbage)?;
        let flags = can::WANTED & able | can::LONG_PASSWORD;
        self.deprecate_eof = flags & can::DEPRECATE_EOF != 0;
        let proof = plugin.proof(&login.password, &salt);
        let head = |flags: u32, out: &mut Vec<u8>| {
            out.extend_from_slice(&flags.to_le_bytes());
            out.extend_from_slice(&SEND_MAX.to_le_bytes());
            out.push(CHARSET);
            out.extend_from_slice(&[0; 23]);
        };
        let rest = |out: &mut Vec<u8>| {
            out.extend_from_slice(login.user.as_bytes());
            out.extend_from_slice(&[0, proof.len() as u8]);
            out.extend_from_slice(&proof);
            out.extend_from_slice(login.database.as_bytes());
            out.push(0);
            out.extend_from_slice(plugin.name().as_bytes());
            out.push(0);
        };
        if login.tls.is_none() {
            self.say(out, |out| {
                head(flags, out);
                rest(out);
            });
            self.stage = Stage::Proof(plugin);
            return Ok(());
        }
        if able & can::SSL == 0 {
            tallies.note(|| "the server does not speak TLS".into());
            return Err(Failure::Tls);
        }
        self.say(out, |out| head(flags | can::SSL, out));
        head(flags | can::SSL, &mut self.held_back);
        rest(&mut self.held_back);
        self.stage = Stage::Secure(plugin);
        Ok(())
    }

    /// Whether the connection is to be secured now.
    pub(super) fn wants_tls(&self) -> bool {
        matches!(self.stage, Stage::Secure(_))
    }

    /// The connection is secured: sends what was held back.
    pub(super) fn secured(&mut self, out: &mut Vec<u8>) {
        if let Stage::Secure(plugin) = self.stage {
            let held_back = std::mem::take(&mut self.held_back);
            self.say(out, |out| out.extend_from_slice(&held_back));
            self.stage = Stage::Proof(plugin);
        }
    }

    fn say(&mut self, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
        wire::packet(out, self.sequence, body);
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// The server wants another plugin.
    fn switch(&mut self, body: &[u8], login: &Login, tallies: &Tallies, out: &mut Vec<u8>) -> Result<(), Failure> {
        let mut rest = body.get(1..).unwrap_or_default();
        let name = terminated(&mut rest).ok_or(Failure::Garbage)?;
        let Some(plugin) = Plugin::named(name) else {
            let name = String::from_utf8_lossy(name);
            tallies.note(|| format!("the server wants authentication by '{name}', which is not supported"));
            return Err(Failure::ErrorReply);
        };
        let proof = plugin.proof(&login.password, rest);
        self.say(out, |out| out.extend_from_slice(&proof));
        self.stage = Stage::Proof(plugin);
        Ok(())
    }

    /// The server has seen the password before, or wants it sent.
    fn more(
        &mut self,
        plugin: Plugin,
        body: &[u8],
        login: &Login,
        tallies: &Tallies,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        const SEEN: u8 = 3;
        const SHOW: u8 = 4;
        match (plugin, body) {
            (Plugin::CachingSha2, [_, SEEN]) => Ok(()),
            (Plugin::CachingSha2, [_, SHOW]) if login.private || login.tls.is_some() => {
                self.say(out, |out| {
                    out.extend_from_slice(login.password.as_bytes());
                    out.push(0);
                });
                Ok(())
            }
            (Plugin::CachingSha2, [_, SHOW]) => {
                tallies.note(|| {
                    "the server wants the password in clear, which goes over a UNIX socket or TLS only: \
                     log in that way once, or use mysql_native_password"
                        .into()
                });
                Err(Failure::ErrorReply)
            }
            _ => Err(Failure::Garbage),
        }
    }

    /// Prepares the next statement, or finishes. Statements that begin and end transactions are sent as text, because
    /// not every server can prepare them.
    fn prepare(&mut self, statements: &[Statement], out: &mut Vec<u8>) {
        while let Some(statement) = statements.get(self.prepared.len()) {
            if !statement.control {
                wire::command(out, wire::PREPARE, &statement.sql);
                self.stage = Stage::Prepare;
                return;
            }
            self.prepared.push(0);
        }
        self.stage = Stage::Ready;
    }

    /// Stores the id of a prepared statement; returns how many packets describe it.
    fn described(&mut self, body: &[u8], statement: &Statement) -> Result<u32, String> {
        let mut rest = body.get(1..).unwrap_or_default();
        let mut next = |bytes| number(&mut rest, bytes).ok_or("a prepared statement is cut short".to_owned());
        let (name, columns, parameters) = (next(4)? as u32, next(2)? as u32, next(2)? as usize);
        if parameters != statement.parameters {
            let wanted = statement.parameters;
            return Err(format!("the server sees {parameters} parameters and not {wanted} in: {}", statement.sql));
        }
        self.prepared.push(name);
        let ends = if self.deprecate_eof { 0 } else { u32::from(columns > 0) + u32::from(parameters > 0) };
        Ok(columns + parameters as u32 + ends)
    }
}
