//! Splits a stream into messages, in whatever pieces it comes.

use crate::operation::Failure;
use crate::protocol::REPLY_MAX;
use std::marker::PhantomData;

/// The longest message that is kept until it is complete, because its content is wanted; a longer one is refused: 1
/// MiB.
const KEPT_MAX: usize = 1 << 20;
/// This many bytes contain the kind and the length of a message.
pub(crate) const HEADER: usize = 5;

/// How a protocol frames its messages.
pub(crate) trait Framing {
    /// Where a message's content begins; at most [`HEADER`].
    const BODY: usize;

    /// The kind of the message that begins here, and its whole length, at least [`HEADER`].
    ///
    /// # Errors
    /// When it is not a message, or is too long.
    fn header(header: &[u8; HEADER]) -> Result<(u8, usize), Failure>;
}

#[derive(Debug)]
pub(crate) struct Reader<F> {
    // The beginning of a message whose content is wanted.
    partial: Vec<u8>,
    // Its kind and whole length, once it has a header.
    kind: u8,
    length: usize,
    // Whether `partial` was handed out and is to be cleared.
    handed_out: bool,
    // How many unwanted bytes are still to come.
    skip: usize,
    // Bytes since the last answer was complete.
    seen: u64,
    framing: PhantomData<F>,
}

impl<F> Default for Reader<F> {
    fn default() -> Self {
        Reader { partial: Vec::new(), kind: 0, length: 0, handed_out: false, skip: 0, seen: 0, framing: PhantomData }
    }
}

/// A message; its body is empty if it was not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    /// Its kind.
    pub kind: u8,
    /// Its content.
    pub body: &'a [u8],
}

impl<F: Framing> Reader<F> {
    /// The next message, with `bytes` advanced past it; none if more bytes are needed. `wanted` says whether the
    /// content of a kind is needed; other messages are returned as soon as their header has come.
    ///
    /// # Errors
    /// When this is not the protocol, or a message or an answer is too long.
    #[inline]
    pub(crate) fn next<'s, 'b: 's>(
        &'s mut self,
        bytes: &mut &'b [u8],
        wanted: impl Fn(u8) -> bool,
    ) -> Result<Option<Message<'s>>, Failure> {
        if self.handed_out {
            self.partial.clear();
            self.handed_out = false;
        }
        if self.skip > 0 {
            let skipped = self.skip.min(bytes.len());
            *bytes = &bytes[skipped..];
            self.skip -= skipped;
        }
        if self.partial.is_empty() {
            if bytes.len() < HEADER {
                self.partial.extend_from_slice(bytes);
                *bytes = &[];
                return Ok(None);
            }
            let header = bytes.first_chunk().expect("so many bytes are there");
            let (kind, length) = self.header(header)?;
            if !wanted(kind) {
                let taken = length.min(bytes.len());
                (*bytes, self.skip) = (&bytes[taken..], length - taken);
                return Ok(Some(Message { kind, body: &[] }));
            }
            check_kept(length)?;
            (self.kind, self.length) = (kind, length);
            if bytes.len() >= length {
                let (whole, rest) = bytes.split_at(length);
                *bytes = rest;
                return Ok(Some(Message { kind, body: &whole[F::BODY..] }));
            }
            self.partial.extend_from_slice(bytes);
            *bytes = &[];
            return Ok(None);
        }
        self.complete(bytes, wanted)
    }

    /// Continues a message of which a part was kept.
    fn complete(&mut self, bytes: &mut &[u8], wanted: impl Fn(u8) -> bool) -> Result<Option<Message<'_>>, Failure> {
        if self.partial.len() < HEADER {
            self.take(bytes, HEADER);
            if self.partial.len() < HEADER {
                return Ok(None);
            }
            let header = *self.partial.first_chunk().expect("so many bytes were asked for");
            let (kind, length) = self.header(&header)?;
            if !wanted(kind) {
                self.partial.clear();
                self.skip = length - HEADER;
                return Ok(Some(Message { kind, body: &[] }));
            }
            check_kept(length)?;
            (self.kind, self.length) = (kind, length);
        }
        self.take(bytes, self.length);
        if self.partial.len() < self.length {
            return Ok(None);
        }
        self.handed_out = true;
        Ok(Some(Message { kind: self.kind, body: &self.partial[F::BODY..] }))
    }

    /// Keeps bytes until there are `length` of them.
    fn take(&mut self, bytes: &mut &[u8], length: usize) {
        let taken = bytes.len().min(length - self.partial.len());
        self.partial.extend_from_slice(&bytes[..taken]);
        *bytes = &bytes[taken..];
    }

    /// Kind and whole length of the message that begins here.
    #[inline]
    fn header(&mut self, header: &[u8; HEADER]) -> Result<(u8, usize), Failure> {
        let (kind, length) = F::header(header)?;
        self.seen += length as u64;
        if self.seen > REPLY_MAX {
            return Err(Failure::TooLarge);
        }
        Ok((kind, length))
    }

    /// An answer is complete: the limit on length starts again for the next.
    #[inline]
    pub(crate) fn answered(&mut self) {
        self.seen = 0;
    }
}

fn check_kept(length: usize) -> Result<(), Failure> {
    if length > KEPT_MAX { Err(Failure::TooLarge) } else { Ok(()) }
}
