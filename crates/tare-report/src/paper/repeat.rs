//! How to repeat it: the exact command of each run, and what made its record.

use super::document::Piece;
use super::study::Study;
use crate::words;

/// How the paper itself is made again.
pub(super) fn of_all() -> Vec<Piece> {
    let text = "This paper is made from the records alone, and the same records make the same paper. The versions of \
                kernels, engines and servers are in the chapter on the configuration.";
    vec![Piece::Text(text.to_owned()), Piece::Command("tare report RECORD... --format paper".to_owned())]
}

/// The chapter of a study.
pub(super) fn pieces(study: &Study<'_>) -> Vec<Piece> {
    let header = &study.record.header;
    let end = study.record.end.as_ref();
    let ended =
        end.map_or_else(|| "not ended".to_owned(), |end| format!("{}, {}", end.ended, words::how_ended(&end.how)));
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let rows = vec![
        row("Version of Tare", header.tare.clone()),
        row("Run", header.run.clone()),
        row("Started", header.started.clone()),
        row("Ended", ended),
        row("Seed, of the order of trials and all random choices of the load", header.seed.to_string()),
        row("Version of the record's format", header.schema.to_string()),
    ];
    vec![Piece::Command(header.command.clone()), Piece::table("The run", &["Fact", "Value"], rows)]
}
