//! Finds a text in a stream that comes in pieces, without keeping the stream.

use memchr::memmem::Finder;

/// A text to look for. Within a piece it is found by `memmem`; across pieces by the automaton of Knuth, Morris and
/// Pratt, which then processes no more than a needle's length of each piece.
#[derive(Debug, Clone)]
pub(crate) struct Needle {
    finder: Box<Finder<'static>>,
    // For each length of a matched prefix: the length of its longest proper suffix that is also a prefix.
    fallback: Vec<usize>,
}

impl Needle {
    /// A needle; an empty one is found at once.
    pub(crate) fn new(text: &[u8]) -> Self {
        let mut fallback = vec![0; text.len() + 1];
        let mut matched = 0;
        for at in 1..text.len() {
            while matched > 0 && text[at] != text[matched] {
                matched = fallback[matched];
            }
            matched += usize::from(text[at] == text[matched]);
            fallback[at + 1] = matched;
        }
        Needle { finder: Box::new(Finder::new(text).into_owned()), fallback }
    }

    /// Continues the search in `bytes`; `matched` is the state between pieces, 0 at the start. If the needle ends in
    /// these bytes, returns how many of them were examined. The state then stays "found" until it is set to 0.
    #[inline]
    pub(crate) fn find(&self, matched: &mut usize, bytes: &[u8]) -> Option<usize> {
        let length = self.finder.needle().len();
        if *matched == length {
            return Some(0);
        }
        // A match begun in an earlier piece: it is decided once none of the matched bytes are from that piece.
        let mut at = 0;
        while *matched > at && at < bytes.len() {
            self.step(matched, bytes[at]);
            at += 1;
            if *matched == length {
                return Some(at);
            }
        }
        if at == bytes.len() {
            return None;
        }
        // The automaton has matched the last `matched` bytes before `at`, all of this piece.
        let from = at - *matched;
        if let Some(found) = self.finder.find(&bytes[from..]) {
            *matched = length;
            return Some(from + found + length);
        }
        // The prefix of the needle with which the piece ends.
        let tail = bytes.len().saturating_sub(length - 1).max(from);
        *matched = 0;
        bytes[tail..].iter().for_each(|byte| self.step(matched, *byte));
        None
    }

    /// Whether the state is "found".
    #[inline]
    pub(crate) fn is_found(&self, matched: usize) -> bool {
        matched == self.finder.needle().len()
    }

    #[inline]
    fn step(&self, matched: &mut usize, byte: u8) {
        let text = self.finder.needle();
        while *matched > 0 && text[*matched] != byte {
            *matched = self.fallback[*matched];
        }
        *matched += usize::from(text[*matched] == byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_find_what_the_whole_holds(
            text in "[ab]{0,40}",
            needle in "[ab]{1,6}",
            cuts in prop::collection::vec(0..40usize, 0..8),
        ) {
            let expected = text.find(&needle).map(|at| at + needle.len());
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).chain([0, text.len()]).collect();
            cuts.sort_unstable();
            let needle = Needle::new(needle.as_bytes());
            let mut matched = 0;
            let mut found = None;
            for pair in cuts.windows(2) {
                let piece = &text.as_bytes()[pair[0]..pair[1]];
                found = found.or_else(|| needle.find(&mut matched, piece).map(|at| at + pair[0]));
            }
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn the_empty_needle_is_everywhere() {
        assert_eq!(Needle::new(b"").find(&mut 0, b"abc"), Some(0));
    }
}
