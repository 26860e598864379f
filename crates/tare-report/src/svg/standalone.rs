//! Drawings as files of their own: what a page would give them, its style and hatchings, they carry with them.

use super::{PANEL_WIDTH, hatches};
use std::fmt::Write;

/// Around a drawing, since some of it may lie at the very edge.
const PAD: f64 = 8.0;

/// The style of drawings, in the light colours.
const STYLE: &str = include_str!("../../assets/drawing.css");

/// The font of a page, which a file of its own has none of.
const FONT: &str = "svg{font-family:system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,sans-serif}";

/// A drawing of this crate as the content of an SVG file: on white, since it may be shown on any ground.
pub(crate) fn standalone(drawing: &str) -> String {
    let (width, height, rest) = sized(drawing).unwrap_or((PANEL_WIDTH, PANEL_WIDTH, "></svg>"));
    let (tag, body) = rest.split_once('>').unwrap_or_default();
    let (width, height) = (width + 2.0 * PAD, height + 2.0 * PAD);
    let size = format!("width=\"{width:.0}\" height=\"{height:.0}\"");
    let mut file = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" {size} viewBox=\"-{PAD:.0} -{PAD:.0} {width:.0} {height:.0}\"{tag}>"
    );
    // No `<` and no `&` is in the styles, which is all that XML asks of them.
    let _ = write!(file, "<style>{FONT}\n{STYLE}</style>");
    if body.contains("url(#hatch") {
        file.push_str(&hatches());
    }
    let _ = write!(file, "<rect x=\"-{PAD:.0}\" y=\"-{PAD:.0}\" {size} class=\"ground\"/>{body}");
    file.push('\n');
    file.chars().map(|c| if is_of_xml(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// The width and height of a drawing, and what follows them.
fn sized(drawing: &str) -> Option<(f64, f64, &str)> {
    let (_, rest) = drawing.split_once("viewBox=\"0 0 ")?;
    let (size, rest) = rest.split_once('"')?;
    let (width, height) = size.split_once(' ')?;
    Some((width.parse().ok()?, height.parse().ok()?, rest))
}

/// Whether XML 1.0 allows it: a name in a record may hold what would make the whole file unreadable.
fn is_of_xml(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r') || (c >= ' ' && !matches!(c, '\u{fffe}' | '\u{ffff}'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::{Anchor, Canvas};

    #[test]
    fn a_file_has_its_style_and_only_the_hatchings_that_it_needs() {
        let mut canvas = Canvas::new(100.0, 50.0);
        canvas.text(1.0, 2.0, Anchor::Start, "label", "a\u{0}b\u{1b}c <d>");
        let file = standalone(&canvas.finish("what > it < shows"));
        let begin =
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"116\" height=\"66\" viewBox=\"-8 -8 116 66\" role=";
        assert!(file.starts_with(begin) && file.ends_with("</svg>\n"), "{file}");
        assert!(file.contains("aria-label=\"what &gt; it &lt; shows\"><style>"), "{file}");
        assert!(file.contains("a\u{fffd}b\u{fffd}c &lt;d&gt;</text>") && !file.contains("<pattern"), "{file}");
        let mut canvas = Canvas::new(100.0, 50.0);
        canvas.circle((1.0, 1.0), 5.0, "f1 fill", " style=\"fill:url(#hatch1)\"");
        assert!(standalone(&canvas.finish("hatched")).contains("<pattern id=\"hatch1\""));
    }

    #[test]
    fn the_style_of_drawings_is_text_for_xml() {
        assert!(![FONT, STYLE].iter().any(|style| style.contains(['<', '&'])));
    }
}
