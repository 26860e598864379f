//! What a load process says.

use tare_core::fault::Fault;
use tare_core::load::{LoadLine, LoadSummary, SecondRow};

/// The lines that it printed before the last one, and the result, which is the last line and no other.
pub fn lines(printed: &[u8]) -> (Vec<LoadLine>, Result<LoadSummary, Fault>) {
    let lines = printed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut lines: Vec<LoadLine> =
        lines.map(|line| serde_json::from_slice(line).expect("it is a line of a load")).collect();
    let is_end = |line: &LoadLine| matches!(line, LoadLine::Done(_) | LoadLine::Failed(_));
    let end = match lines.pop() {
        Some(LoadLine::Done(summary)) => Ok(*summary),
        Some(LoadLine::Failed(fault)) => Err(fault),
        last => panic!("no last line, but {last:?}"),
    };
    assert!(!lines.iter().any(is_end), "a line after the last");
    (lines, end)
}

/// The lines of a load that has neither levels nor a tool inside the form: a row a second.
pub fn seconds(lines: Vec<LoadLine>) -> Vec<SecondRow> {
    let row = |line| match line {
        LoadLine::Second(row) => row,
        other => panic!("{other:?}"),
    };
    lines.into_iter().map(row).collect()
}
