//! A paper as one page for printing, its drawings inside. The template engine escapes all of its texts.

use super::document::{Document, Piece};
use crate::html::{plain, rendered, safe};
use crate::svg::hatches;
use minijinja::{Value, context};
use tare_core::fault::Fault;

/// The styles of the page: its drawings', in light colours only, then its own.
const STYLE: &str = concat!(include_str!("../../assets/drawing.css"), include_str!("../../assets/paper.css"));

/// The whole page.
pub(super) fn written(document: &Document) -> Result<String, Fault> {
    let chapters = document.chapters.iter().map(|chapter| {
        let pieces: Vec<Value> = chapter.pieces.iter().map(piece).collect();
        context! { title => chapter.title, pieces => pieces }
    });
    let chapters: Vec<Value> = chapters.collect();
    let page = context! {
        style => safe(STYLE.to_owned()),
        hatches => safe(hatches()),
        title => plain(&document.title),
        summary => plain(&document.summary),
        chapters => chapters,
    };
    rendered(include_str!("../../assets/paper.html"), page)
}

fn piece(piece: &Piece) -> Value {
    match piece {
        Piece::Heading(text) => context! { kind => "heading", text => plain(text) },
        Piece::Text(text) => context! { kind => "text", text => plain(text) },
        Piece::List(items) => context! { kind => "list", items => plain(items) },
        Piece::Command(text) => context! { kind => "command", text => plain(text) },
        Piece::Table(table) => context! {
            kind => "table",
            number => table.number,
            caption => plain(&table.caption),
            head => plain(&table.head),
            rows => plain(&table.rows),
        },
        Piece::Figure(figure) => context! {
            kind => "figure",
            of => figure.kind,
            number => figure.number,
            caption => plain(&figure.caption),
            drawing => safe(figure.drawing.clone()),
        },
    }
}
