//! A paper before it is written down. All of its texts are plain: each way of writing escapes whatever it writes.

/// A paper.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Document {
    pub(super) title: String,
    /// What was found, a sentence each.
    pub(super) summary: Vec<String>,
    pub(super) chapters: Vec<Chapter>,
}

/// A chapter.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chapter {
    pub(super) title: &'static str,
    pub(super) pieces: Vec<Piece>,
}

/// A piece of a chapter.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    /// A heading below the chapter's.
    Heading(String),
    Text(String),
    List(Vec<String>),
    Table(Table),
    Figure(Figure),
    /// What is to be typed.
    Command(String),
}

/// A table; its number is 0 until the document is numbered.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    pub(super) number: usize,
    pub(super) caption: String,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// A drawing; its number is 0 until the document is numbered.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    pub(super) number: usize,
    /// What kind of drawing it is: a word for its file, never from a record.
    pub(super) kind: &'static str,
    pub(super) caption: String,
    /// As it stands in a page.
    pub(super) drawing: String,
}

impl Figure {
    /// The file that holds it, beside the paper.
    pub(super) fn file(&self) -> String {
        format!("{}/{:02}-{}.svg", super::FIGURES, self.number, self.kind)
    }
}

impl Piece {
    /// A table under these titles.
    pub(super) fn table(caption: impl Into<String>, head: &[&str], rows: Vec<Vec<String>>) -> Piece {
        let head = head.iter().map(|title| (*title).to_owned()).collect();
        Piece::Table(Table { number: 0, caption: caption.into(), head, rows })
    }

    /// A drawing.
    pub(super) fn figure(kind: &'static str, caption: impl Into<String>, drawing: String) -> Piece {
        Piece::Figure(Figure { number: 0, kind, caption: caption.into(), drawing })
    }
}

impl Document {
    /// Numbers the figures and the tables, each kind from 1.
    pub(super) fn number(&mut self) {
        let (mut figures, mut tables) = (0, 0);
        for piece in self.chapters.iter_mut().flat_map(|chapter| &mut chapter.pieces) {
            match piece {
                Piece::Figure(figure) => {
                    figures += 1;
                    figure.number = figures;
                }
                Piece::Table(table) => {
                    tables += 1;
                    table.number = tables;
                }
                Piece::Heading(_) | Piece::Text(_) | Piece::List(_) | Piece::Command(_) => {}
            }
        }
    }

    /// Its drawings, in their order.
    pub(super) fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.chapters.iter().flat_map(|chapter| &chapter.pieces).filter_map(|piece| match piece {
            Piece::Figure(figure) => Some(figure),
            _ => None,
        })
    }
}
