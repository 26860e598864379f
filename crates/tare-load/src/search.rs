//! Finding a text in a stream that comes in pieces, without keeping the stream.

/// A text to look for: Knuth, Morris and Pratt's automaton.
#[derive(Debug, Clone)]
pub(crate) struct Needle {
    text: Vec<u8>,
    // For each length of a matched prefix, the length of its longest proper suffix that is a prefix again.
    fallback: Vec<usize>,
}

impl Needle {
    /// A needle; the empty one is found at once.
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
        Needle { text: text.to_vec(), fallback }
    }

    /// Goes on searching in `bytes`; `matched` is the state between pieces, 0 at the start. When the needle ends in
    /// these bytes: how many of them were looked at. The state then stays "found" until it is set to 0.
    pub(crate) fn find(&self, matched: &mut usize, bytes: &[u8]) -> Option<usize> {
        if *matched == self.text.len() {
            return Some(0);
        }
        for (at, byte) in bytes.iter().enumerate() {
            while *matched > 0 && self.text[*matched] != *byte {
                *matched = self.fallback[*matched];
            }
            *matched += usize::from(self.text[*matched] == *byte);
            if *matched == self.text.len() {
                return Some(at + 1);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_find_what_the_whole_holds(text in "[ab]{0,40}", needle in "[ab]{1,6}", cut in 0..40usize) {
            let expected = text.find(&needle).map(|at| at + needle.len());
            let (left, right) = text.as_bytes().split_at(cut.min(text.len()));
            let needle = Needle::new(needle.as_bytes());
            let mut matched = 0;
            let found = needle
                .find(&mut matched, left)
                .or_else(|| needle.find(&mut matched, right).map(|at| at + left.len()));
            prop_assert_eq!(found, expected);
        }
    }
}
