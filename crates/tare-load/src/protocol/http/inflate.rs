//! Compressed bodies, decoded as they arrive: gzip (RFC 1952) and zlib's format (RFC 1950), which HTTP calls deflate.
//! The decoder is kept for the next reply; a body that grows without end is abandoned.

use super::super::REPLY_MAX;
use crate::operation::Failure;
use flate2::{Crc, Decompress, FlushDecompress, Status};
use std::sync::{Mutex, PoisonError};

/// The most decoded bytes passed on at once: 16 KiB.
const PIECE: usize = 16 * 1024;

const HEADER_SUM: u8 = 2;
const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;

/// How a body is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    /// Not encoded.
    Identity,
    /// gzip.
    Gzip,
    /// zlib.
    Deflate,
    /// In an unsupported coding.
    Unknown,
}

impl Coding {
    /// The coding that a Content-Encoding states.
    pub(super) fn of(value: &[u8]) -> Coding {
        let value = value.trim_ascii();
        let is = |name: &[u8]| value.eq_ignore_ascii_case(name);
        match () {
            () if value.is_empty() || is(b"identity") => Coding::Identity,
            () if is(b"gzip") || is(b"x-gzip") => Coding::Gzip,
            () if is(b"deflate") => Coding::Deflate,
            () => Coding::Unknown,
        }
    }
}

/// The position in a gzip member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The ten bytes that always come first.
    Fixed(u8),
    ExtraLength(u8, u16),
    Extra(u16),
    Name,
    Comment,
    HeaderSum(u8),
    Data,
    /// Checksum and length.
    Trailer(u8),
    /// After a member: there may be another.
    Between,
}

/// Decoders that are not in use. Each takes 60 KB, so a connection has one only while a body arrives.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "they are handed out in their boxes")]
pub(super) struct Decoders(Mutex<Vec<Box<Inflate>>>);

/// The most that are kept; more bodies are rarely in progress at one time.
const DECODERS_MAX: usize = 64;

impl Decoders {
    /// A decoder for one body in this coding.
    pub(super) fn take(&self, coding: Coding) -> Box<Inflate> {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match spare {
            Some(mut inflate) => {
                inflate.restart(coding);
                inflate
            }
            None => Box::new(Inflate::new(coding)),
        }
    }

    /// Takes a decoder back.
    pub(super) fn give_back(&self, inflate: Box<Inflate>) {
        let mut spares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spares.len() < DECODERS_MAX {
            spares.push(inflate);
        }
    }
}

/// A decoder.
pub(super) struct Inflate {
    raw: Decompress,
    gzip: bool,
    place: Place,
    flags: u8,
    sum: Crc,
    trailer: u64,
    decoded: u64,
    piece: Box<[u8]>,
}

impl Inflate {
    /// A decoder for one body in this coding.
    pub(super) fn new(coding: Coding) -> Inflate {
        let mut inflate = Inflate {
            raw: Decompress::new(false),
            gzip: true,
            place: Place::Fixed(0),
            flags: 0,
            sum: Crc::new(),
            trailer: 0,
            decoded: 0,
            piece: vec![0; PIECE].into_boxed_slice(),
        };
        inflate.restart(coding);
        inflate
    }

    /// Resets it for another body.
    pub(super) fn restart(&mut self, coding: Coding) {
        self.gzip = coding == Coding::Gzip;
        self.place = if self.gzip { Place::Fixed(0) } else { Place::Data };
        (self.flags, self.trailer, self.decoded) = (0, 0, 0);
        self.raw.reset(!self.gzip);
        self.sum.reset();
    }

    /// Whether what was fed so far is a whole body, or nothing.
    pub(super) fn is_whole(&self) -> bool {
        let untouched = matches!(self.place, Place::Fixed(0) | Place::Data) && self.raw.total_in() == 0;
        self.place == Place::Between || (untouched && !(self.gzip && self.place == Place::Data))
    }

    /// Decodes `bytes` and passes their content to `to`.
    ///
    /// # Errors
    /// [`Failure::Coding`] if they are not encoded as declared, [`Failure::TooLarge`] if their content is too long.
    pub(super) fn feed(&mut self, mut bytes: &[u8], to: &mut impl FnMut(&[u8])) -> Result<(), Failure> {
        // If the output buffer was filled, the bytes taken so far may have more content.
        let mut filled = false;
        while !bytes.is_empty() || (filled && self.place == Place::Data) {
            let used = match self.place {
                Place::Data => {
                    let (used, held) = self.data(bytes, filled, to)?;
                    filled = held == self.piece.len();
                    used
                }
                _ => self.frame(bytes[0])?,
            };
            bytes = &bytes[used..];
        }
        Ok(())
    }

    /// Returns how many bytes were taken and how many they decoded to. After a call that `filled` the buffer there may
    /// be no more output.
    fn data(&mut self, bytes: &[u8], filled: bool, to: &mut impl FnMut(&[u8])) -> Result<(usize, usize), Failure> {
        let (before_in, before_out) = (self.raw.total_in(), self.raw.total_out());
        let status = self.raw.decompress(bytes, &mut self.piece, FlushDecompress::None).map_err(|_| Failure::Coding)?;
        let used = (self.raw.total_in() - before_in) as usize;
        let held = &self.piece[..(self.raw.total_out() - before_out) as usize];
        self.decoded += held.len() as u64;
        if self.decoded > REPLY_MAX {
            return Err(Failure::TooLarge);
        }
        if self.gzip {
            self.sum.update(held);
        }
        to(held);
        match status {
            Status::StreamEnd => self.place = if self.gzip { Place::Trailer(0) } else { Place::Between },
            Status::Ok | Status::BufError if used == 0 && held.is_empty() && !filled => return Err(Failure::Coding),
            Status::Ok | Status::BufError => {}
        }
        Ok((used, held.len()))
    }

    /// Takes one byte of the framing around the data.
    fn frame(&mut self, byte: u8) -> Result<usize, Failure> {
        self.place = match self.place {
            Place::Fixed(at) => match (at, byte) {
                (0, 0x1f) | (1, 0x8b) | (2, 8) | (4..=8, _) => Place::Fixed(at + 1),
                (3, flags) => {
                    self.flags = flags;
                    Place::Fixed(4)
                }
                (9, _) if self.flags & EXTRA != 0 => Place::ExtraLength(0, 0),
                (9, _) => self.behind_extra(),
                _ => return Err(Failure::Coding),
            },
            Place::ExtraLength(0, _) => Place::ExtraLength(1, u16::from(byte)),
            Place::ExtraLength(_, low) => match low + (u16::from(byte) << 8) {
                0 => self.behind_extra(),
                length => Place::Extra(length),
            },
            Place::Extra(1) => self.behind_extra(),
            Place::Extra(left) => Place::Extra(left - 1),
            Place::Name if byte == 0 => self.behind_name(),
            Place::Comment if byte == 0 => self.behind_comment(),
            Place::HeaderSum(0) => Place::HeaderSum(1),
            Place::HeaderSum(_) => Place::Data,
            Place::Trailer(at) => {
                self.trailer |= u64::from(byte) << (8 * at);
                if at == 7 { self.end_of_member()? } else { Place::Trailer(at + 1) }
            }
            // Only gzip allows another member.
            Place::Between if self.gzip && byte == 0x1f => {
                self.raw.reset(false);
                Place::Fixed(1)
            }
            Place::Between => return Err(Failure::Coding),
            Place::Name | Place::Comment | Place::Data => self.place,
        };
        Ok(1)
    }

    fn behind_extra(&self) -> Place {
        if self.flags & NAME != 0 { Place::Name } else { self.behind_name() }
    }

    fn behind_name(&self) -> Place {
        if self.flags & COMMENT != 0 { Place::Comment } else { self.behind_comment() }
    }

    fn behind_comment(&self) -> Place {
        if self.flags & HEADER_SUM != 0 { Place::HeaderSum(0) } else { Place::Data }
    }

    fn end_of_member(&mut self) -> Result<Place, Failure> {
        if self.trailer != u64::from(self.sum.sum()) | u64::from(self.sum.amount()) << 32 {
            return Err(Failure::Coding);
        }
        self.trailer = 0;
        self.sum.reset();
        Ok(Place::Between)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::{GzEncoder, ZlibEncoder};
    use flate2::{Compression, GzBuilder};
    use proptest::prelude::*;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn decode(inflate: &mut Inflate, pieces: &[&[u8]]) -> Result<Vec<u8>, Failure> {
        let mut held = Vec::new();
        for piece in pieces {
            inflate.feed(piece, &mut |bytes| held.extend_from_slice(bytes))?;
        }
        Ok(held)
    }

    #[test]
    fn all_codings_are_told_apart() {
        let named = ["gzip", "X-GZIP", "deflate", "identity", "", "br"].map(|name| Coding::of(name.as_bytes()));
        let (gzip, identity) = (Coding::Gzip, Coding::Identity);
        assert_eq!(named, [gzip, gzip, Coding::Deflate, identity, identity, Coding::Unknown]);
    }

    #[test]
    fn headers_with_everything_are_read() {
        let mut encoder =
            GzBuilder::new().extra("more").filename("a.txt").comment("b").write(Vec::new(), Compression::fast());
        encoder.write_all(b"held").unwrap();
        let text = encoder.finish().unwrap();
        let mut inflate = Inflate::new(Coding::Gzip);
        assert_eq!(decode(&mut inflate, &[&text]).unwrap(), b"held");
        assert!(inflate.is_whole());
        inflate.restart(Coding::Gzip);
        assert_eq!(decode(&mut inflate, &[&gzip(b"one"), &gzip(b"two")]).unwrap(), b"onetwo");
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(b"zlib").unwrap();
        inflate.restart(Coding::Deflate);
        assert_eq!(decode(&mut inflate, &[&encoder.finish().unwrap()]).unwrap(), b"zlib");
        assert!(inflate.is_whole());
    }

    #[test]
    fn long_bodies_are_whole_in_one_piece_and_in_many() {
        let deflate = |text: &[u8]| {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        };
        let mut draw = crate::draw::Draw::new(1, 1);
        for length in [PIECE, 20 * 1024, 100 * 1024, 2 * 16 * PIECE] {
            let random: Vec<u8> = (0..length).map(|_| draw.below(256) as u8).collect();
            for text in [vec![7; length], random] {
                for (coding, coded) in [(Coding::Gzip, gzip(&text)), (Coding::Deflate, deflate(&text))] {
                    for piece in [coded.len(), 1, 1000, PIECE] {
                        let mut inflate = Inflate::new(coding);
                        let pieces: Vec<&[u8]> = coded.chunks(piece).collect();
                        assert!(decode(&mut inflate, &pieces).as_ref() == Ok(&text), "{coding:?} {length} {piece}");
                        assert!(inflate.is_whole(), "{coding:?} {length} {piece}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_broken_or_endless_is_given_up() {
        let good = gzip(b"a text that is checked");
        for at in [0, 1, 2, good.len() - 1, good.len() - 6] {
            let mut bad = good.clone();
            bad[at] ^= 0x55;
            assert_eq!(decode(&mut Inflate::new(Coding::Gzip), &[&bad]), Err(Failure::Coding), "{at}");
        }
        let mut cut = Inflate::new(Coding::Gzip);
        assert!(decode(&mut cut, &[&good[..good.len() - 3]]).is_ok() && !cut.is_whole());
        let bomb = gzip(&vec![0; REPLY_MAX as usize + 1]);
        let given_up = Inflate::new(Coding::Gzip).feed(&bomb, &mut |_| ());
        assert_eq!(given_up, Err(Failure::TooLarge));
    }

    proptest! {
        #[test]
        fn every_split_gives_the_same(
            text in prop::collection::vec(0..4u8, 0..40_000),
            cut in any::<prop::sample::Index>(),
        ) {
            let coded = gzip(&text);
            let (left, right) = coded.split_at(cut.index(coded.len()));
            let mut inflate = Inflate::new(Coding::Gzip);
            prop_assert_eq!(decode(&mut inflate, &[left, right]).unwrap(), text);
            prop_assert!(inflate.is_whole());
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), head in 0..12usize) {
            let text = [&gzip(b"abc")[..head], bytes.as_slice()].concat();
            let _ = decode(&mut Inflate::new(Coding::Gzip), &[&text]);
            let _ = decode(&mut Inflate::new(Coding::Deflate), &[&bytes]);
        }
    }
}
