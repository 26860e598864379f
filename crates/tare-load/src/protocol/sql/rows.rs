//! Generated rows, for a data set. The same options give the same rows, whatever the seed of a run.

use super::source::Source;
use super::spec::{Options, SourceSpec};
use crate::draw::Draw;
use crate::script::{Feeds, Names, Slot, Values};
use tare_core::fault::Fault;

/// The rows of one table.
pub(crate) struct Rows {
    columns: Vec<Source>,
    feeds: Feeds,
    values: Values,
    row: Slot,
    draw: Draw,
    made: u64,
    count: u64,
    text: Vec<u8>,
}

impl Rows {
    /// The rows of step number `step` of making the data set.
    ///
    /// # Errors
    /// When the options were not checked.
    pub(crate) fn new(
        options: &Options,
        step: usize,
        count: u64,
        columns: &[(String, SourceSpec)],
    ) -> Result<Self, Fault> {
        let mut names = Names::new(&options.feeds);
        let compiled = names.declare("row").and_then(|row| {
            let columns: Result<Vec<_>, _> =
                columns.iter().map(|(_, source)| Source::compile(source, &names)).collect();
            columns.map(|columns| (row, columns))
        });
        let (row, columns) = compiled.map_err(|message| Fault::new(format!("cannot make rows: {message}")))?;
        let (feeds, values) = (Feeds::new(&options.feeds), Values::new(&names));
        let draw = Draw::new(0x7461_7265, step as u64);
        Ok(Rows { columns, feeds, values, row, draw, made: 0, count, text: Vec::new() })
    }

    /// Makes the next row: passes each column's number and value, with none for NULL, to `column`. Returns `false` if
    /// there are no more.
    pub(crate) fn next(&mut self, mut column: impl FnMut(usize, Option<&[u8]>)) -> bool {
        if self.made == self.count {
            return false;
        }
        self.made += 1;
        self.values.set_number(self.row, self.made as i64);
        for (number, source) in self.columns.iter().enumerate() {
            self.text.clear();
            let found = source.write(&self.feeds, &mut self.draw, &mut self.values, &mut self.text);
            column(number, found.then_some(self.text.as_slice()));
        }
        true
    }
}
