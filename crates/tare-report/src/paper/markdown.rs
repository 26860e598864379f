//! A paper as Markdown, with its drawings in files beside it. Whatever a record holds is text there: neither markup nor
//! the end of a cell, a line or a fence.

use super::document::{Document, Piece, Table};
use crate::comparison::cell;
use std::fmt::Write;

/// The whole text.
pub(super) fn written(document: &Document) -> String {
    let mut text = format!("# {}\n\n", prose(&document.title));
    for sentence in &document.summary {
        let _ = writeln!(text, "- {}", prose(sentence));
    }
    for (number, chapter) in (1..).zip(&document.chapters) {
        let _ = writeln!(text, "\n## {number}. {}", chapter.title);
        for piece in &chapter.pieces {
            text.push('\n');
            write_piece(&mut text, piece);
        }
    }
    text
}

fn write_piece(text: &mut String, piece: &Piece) {
    let _ = match piece {
        Piece::Heading(heading) => writeln!(text, "### {}", prose(heading)),
        Piece::Text(paragraph) => writeln!(text, "{}", prose(paragraph)),
        Piece::List(items) => items.iter().try_for_each(|item| writeln!(text, "- {}", prose(item))),
        Piece::Table(table) => write_table(text, table),
        Piece::Figure(figure) => {
            let caption = format!("Figure {}. {}", figure.number, prose(&figure.caption));
            writeln!(text, "![{caption}]({})\n\n*{caption}*", figure.file())
        }
        Piece::Command(command) => {
            let (fence, command) = (fence(command), lines_only(command));
            writeln!(text, "{fence}sh\n{command}\n{fence}")
        }
    };
}

fn write_table(text: &mut String, table: &Table) -> std::fmt::Result {
    let line = |cells: &[String]| cells.iter().map(|cell| prose(cell)).collect::<Vec<_>>().join(" | ");
    writeln!(text, "*Table {}. {}*\n", table.number, prose(&table.caption))?;
    writeln!(text, "| {} |", line(&table.head))?;
    writeln!(text, "|{}", "---|".repeat(table.head.len()))?;
    table.rows.iter().try_for_each(|row| writeln!(text, "| {} |", line(row)))
}

/// Text in one line that is no markup, wherever it stands: no link of its own either, which some readers of Markdown
/// make of addresses, nor a formula.
fn prose(text: &str) -> String {
    let text = cell(text).replace('~', "\\~").replace('$', "&#36;").replace('>', "&gt;");
    let text = text.replace("://", ":&#47;/").replace("www.", "www&#46;");
    let text = text.trim();
    let ends = |rest: &str| rest.is_empty() || rest.starts_with(' ');
    let is_bullet = text.strip_prefix('+').is_some_and(ends);
    let is_line = text.strip_prefix('-').is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
    if is_bullet || is_line || text.starts_with('=') {
        return format!("\\{text}");
    }
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &text[..text.len() - rest.len()];
    let is_item = !digits.is_empty() && rest.strip_prefix(['.', ')']).is_some_and(ends);
    if is_item { format!("{digits}\\{rest}") } else { text.to_owned() }
}

/// Backticks that no row of them in the text closes.
fn fence(text: &str) -> String {
    let longest = text.split(|c: char| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

/// The text without control characters, line feeds excepted.
fn lines_only(text: &str) -> String {
    text.chars().filter(|c| *c == '\n' || !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_record_is_neither_a_list_nor_a_heading_nor_a_link() {
        for (text, wanted) in [
            ("- item", "\\- item"),
            ("=== \n", "\\==="),
            ("12. item", "12\\. item"),
            ("3) item", "3\\) item"),
            ("0.87 times", "0.87 times"),
            ("+9.3 to", "+9.3 to"),
            ("+ item", "\\+ item"),
            ("-3 %", "-3 %"),
            ("---", "\\---"),
            ("see https://a.b or www.c.d", "see https:&#47;/a.b or www&#46;c.d"),
            ("    code", "code"),
            ("> said ~~so~~ $x$", "&gt; said \\~\\~so\\~\\~ &#36;x&#36;"),
            ("<img src=x>\n# title", "&lt;img src=x&gt; \\# title"),
        ] {
            assert_eq!(prose(text), wanted);
        }
    }

    #[test]
    fn a_command_cannot_close_its_fence() {
        let mut text = String::new();
        write_piece(&mut text, &Piece::Command("tare run\n```\n<b>\u{1b}".to_owned()));
        assert_eq!(text, "````sh\ntare run\n```\n<b>\n````\n");
    }
}
