//! Feeds: where the values of variables come from.

use super::distribution::Numbers;
use super::spec::{FeedId, FeedSpecs, Order, Per, Source};
use super::values::{Fixed, Names, Slot, Texts, Values};
use crate::draw::Draw;
use std::sync::atomic::{AtomicU64, Ordering};

/// A feed, ready for drawing.
#[derive(Debug)]
struct Feed {
    well: Well,
    // The first of its slots.
    slot: u16,
    per: Per,
}

#[derive(Debug)]
enum Well {
    Number(Numbers),
    Sequence { from: i64, count: u64, step: u64, next: AtomicU64 },
    Csv { cells: Vec<Fixed>, width: usize, rows: u64, order: Order, next: AtomicU64 },
    Choice { sums: Vec<u64>, words: Vec<Fixed> },
    Text { letters: Vec<u8>, from: u32, spread: u64 },
    Pattern(Vec<u8>),
}

/// All feeds of a protocol, ready for drawing and shared by all workers.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    feeds: Vec<Feed>,
    texts: Texts,
}

impl Feeds {
    /// Compiles feeds that were checked when they were read.
    pub(crate) fn new(specs: &FeedSpecs) -> Self {
        let mut feeds = Feeds::default();
        let mut slot = 0;
        for spec in specs.values() {
            let well = feeds.well(&spec.source);
            feeds.feeds.push(Feed { well, slot, per: spec.per });
            slot += spec.columns().map_or(1, |columns| columns.len() as u16);
        }
        debug_assert_eq!(usize::from(slot), Names::new(specs).len(), "slots and names agree");
        feeds
    }

    fn well(&mut self, source: &Source) -> Well {
        match source {
            Source::Number(spread) => Well::Number(Numbers::new(spread)),
            Source::Sequence { from, to, step } => {
                Well::Sequence { from: *from, count: from.abs_diff(*to) / step + 1, step: *step, next: 0.into() }
            }
            Source::Csv { columns, rows, order } => {
                let cells = rows.iter().flatten().map(|cell| self.texts.keep(cell)).collect();
                Well::Csv { cells, width: columns.len(), rows: rows.len() as u64, order: *order, next: 0.into() }
            }
            Source::Choice(words) => {
                let sums = words.iter().scan(0, |sum, (_, weight)| {
                    *sum += weight;
                    Some(*sum)
                });
                let words = words.iter().map(|(word, _)| self.texts.keep(word));
                Well::Choice { sums: sums.collect(), words: words.collect() }
            }
            Source::Text { letters, from, to } => {
                Well::Text { letters: letters.clone().into_bytes(), from: *from, spread: u64::from(to - from) + 1 }
            }
            Source::Pattern(pattern) => Well::Pattern(pattern.clone().into_bytes()),
        }
    }

    /// The texts shared by all users.
    #[inline]
    pub(crate) fn texts(&self) -> &Texts {
        &self.texts
    }

    /// Draws each of these feeds into the variables it fills, unless the user keeps an earlier value.
    #[inline]
    pub(crate) fn draw(&self, feeds: &[FeedId], draw: &mut Draw, values: &mut Values) {
        for feed in feeds {
            self.draw_one(*feed, draw, values);
        }
    }

    /// Draws one feed into the variables it fills, unless the user keeps an earlier value.
    pub(crate) fn draw_one(&self, feed: FeedId, draw: &mut Draw, values: &mut Values) {
        let Feed { well, slot, per } = &self.feeds[usize::from(feed.0)];
        let slot = Slot(*slot);
        if *per == Per::User && values.is_set(slot) {
            return;
        }
        match well {
            Well::Number(numbers) => values.set_number(slot, numbers.draw(draw)),
            Well::Sequence { from, count, step, next } => {
                let at = next.fetch_add(1, Ordering::Relaxed) % count;
                values.set_number(slot, from + (at * step) as i64);
            }
            Well::Csv { cells, width, rows, order, next } => {
                let row = match order {
                    Order::Random => draw.below(*rows),
                    Order::InTurn => next.fetch_add(1, Ordering::Relaxed) % rows,
                };
                let cells = &cells[row as usize * width..][..*width];
                for (column, (at, length)) in cells.iter().enumerate() {
                    values.set_fixed(Slot(slot.0 + column as u16), *at, *length);
                }
            }
            Well::Choice { sums, words } => {
                let at = draw.below(sums[sums.len() - 1]);
                let (at, length) = words[sums.partition_point(|sum| *sum <= at)];
                values.set_fixed(slot, at, length);
            }
            Well::Text { letters, from, spread } => {
                let length = u64::from(*from) + draw.below(*spread);
                let text = values.text_mut(slot);
                text.extend((0..length).map(|_| letters[draw.below(letters.len() as u64) as usize]));
            }
            Well::Pattern(pattern) => values.text_mut(slot).extend(pattern.iter().map(|byte| match byte {
                b'#' => b'0' + draw.below(10) as u8,
                b'@' => b'a' + draw.below(26) as u8,
                other => *other,
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::FeedSpec;
    use super::super::values::ValueRef;
    use super::*;
    use crate::script::spread::assert_follows;

    /// Feeds, and functions that draw one by name and show its values.
    struct Rig {
        names: Names,
        feeds: Feeds,
        values: Values,
        draw: Draw,
    }

    impl Rig {
        fn new(specs: &FeedSpecs) -> Self {
            let names = Names::new(specs);
            let values = Values::new(&names);
            Rig { feeds: Feeds::new(specs), values, names, draw: Draw::new(3, 0) }
        }

        fn drawn(&mut self, name: &str) -> String {
            let feed = self.names.feed(name).unwrap();
            self.feeds.draw_one(feed, &mut self.draw, &mut self.values);
            self.shown(name)
        }

        fn shown(&self, name: &str) -> String {
            match self.values.get(self.names.slot(name).unwrap(), self.feeds.texts()) {
                ValueRef::Unset => "-".into(),
                ValueRef::Number(number) => number.to_string(),
                ValueRef::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
            }
        }
    }

    fn specs(feeds: &[(&str, Source, Per)]) -> FeedSpecs {
        feeds
            .iter()
            .map(|(name, source, per)| ((*name).into(), FeedSpec { source: source.clone(), per: *per }))
            .collect()
    }

    fn table(order: Order) -> Source {
        let rows = [["ann", "1"], ["bob", "2"], ["cy", "3"]];
        let rows = rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect();
        Source::Csv { columns: vec!["name".into(), "id".into()], rows, order }
    }

    #[test]
    fn a_sequence_gives_each_number_once_and_begins_again() {
        let mut rig = Rig::new(&specs(&[("n", Source::Sequence { from: -2, to: 5, step: 3 }, Per::Operation)]));
        let drawn: Vec<_> = (0..5).map(|_| rig.drawn("n")).collect();
        assert_eq!(drawn, ["-2", "1", "4", "-2", "1"]);
    }

    #[test]
    fn the_columns_of_a_row_belong_together() {
        let feeds = [("u", table(Order::InTurn), Per::Operation), ("v", table(Order::Random), Per::Operation)];
        let mut rig = Rig::new(&specs(&feeds));
        let in_turn: Vec<_> = (0..4).map(|_| format!("{}{}", rig.drawn("u.name"), rig.shown("u.id"))).collect();
        assert_eq!(in_turn, ["ann1", "bob2", "cy3", "ann1"]);
        let mut counts = [0; 3];
        for _ in 0..30_000 {
            let name = rig.drawn("v.name");
            let id: usize = rig.shown("v.id").parse().unwrap();
            assert_eq!(name, ["ann", "bob", "cy"][id - 1]);
            counts[id - 1] += 1;
        }
        assert_follows(&counts, &[1.0 / 3.0; 3]);
    }

    #[test]
    fn what_a_user_keeps_is_drawn_once() {
        let wide = Source::Sequence { from: 1, to: 1000, step: 1 };
        let mut rig = Rig::new(&specs(&[("a", wide.clone(), Per::User), ("b", wide, Per::Operation)]));
        let drawn = |rig: &mut Rig| (rig.drawn("a"), rig.drawn("b"));
        assert_eq!(drawn(&mut rig), ("1".into(), "1".into()));
        assert_eq!(drawn(&mut rig), ("1".into(), "2".into()));
    }

    #[test]
    fn words_follow_their_weights() {
        let words = [("x", 5), ("y", 0), ("z", 1), ("w", 4)].map(|(word, weight)| (word.to_owned(), weight)).to_vec();
        let mut rig = Rig::new(&specs(&[("c", Source::Choice(words), Per::Operation)]));
        let mut counts = [0; 3];
        for _ in 0..50_000 {
            let drawn = rig.drawn("c");
            counts[["x", "z", "w"].iter().position(|word| *word == drawn).expect("a weight above 0")] += 1;
        }
        assert_follows(&counts, &[0.5, 0.1, 0.4]);
    }

    #[test]
    fn texts_have_their_length_their_letters_and_their_pattern() {
        let text = Source::Text { letters: "abc".into(), from: 2, to: 5 };
        let pattern = Source::Pattern("##-@x".into());
        let mut rig = Rig::new(&specs(&[("t", text, Per::Operation), ("p", pattern, Per::Operation)]));
        let (mut lengths, mut letters, mut digits) = ([0; 4], [0; 3], [0; 10]);
        for _ in 0..20_000 {
            let drawn = rig.drawn("t");
            lengths[drawn.len() - 2] += 1;
            drawn.bytes().for_each(|letter| letters[usize::from(letter - b'a')] += 1);
            let drawn = rig.drawn("p");
            let bytes = drawn.as_bytes();
            assert!(bytes[2] == b'-' && bytes[3].is_ascii_lowercase() && bytes[4] == b'x' && bytes.len() == 5);
            bytes[..2].iter().for_each(|digit| digits[usize::from(digit - b'0')] += 1);
        }
        assert_follows(&lengths, &[0.25; 4]);
        assert_follows(&letters, &[1.0 / 3.0; 3]);
        assert_follows(&digits, &[0.1; 10]);
    }

    #[test]
    fn the_same_seed_gives_the_same_values() {
        let feeds =
            [("t", Source::Pattern("@@@@####".into()), Per::Operation), ("u", table(Order::Random), Per::Operation)];
        let drawn = || {
            let mut rig = Rig::new(&specs(&feeds));
            (0..50).map(|_| rig.drawn("t") + &rig.drawn("u.id")).collect::<Vec<_>>()
        };
        assert_eq!(drawn(), drawn());
    }
}
