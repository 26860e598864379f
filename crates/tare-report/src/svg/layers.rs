//! Forms as stacks of plates: the machine at the bottom, a plate for each layer on it, the services on top.

use super::{Anchor, Canvas, Look, escape, shortened};

/// Stacks beside each other; further ones stand below.
const BESIDE: usize = 4;
const COLUMN: f64 = 152.0;
const GAP: f64 = 14.0;
const PLATE: f64 = 34.0;
/// Between two plates.
const SEAM: f64 = 3.0;
/// Room for a form's name below its stack.
const NAME: f64 = 24.0;
const MARGIN: f64 = 4.0;
/// Letters for which a plate has room, in the size of its text and in that of its note.
const LETTERS: usize = 21;
const NOTE_LETTERS: usize = 26;

/// A plate of a stack.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plate {
    /// What it is.
    pub(crate) text: String,
    /// What else is to be known of it; may be empty.
    pub(crate) note: String,
}

/// The stack of a form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LayerStack {
    /// The form's name, colour and hatching.
    pub(crate) look: Look,
    /// From the machine upwards; the last one holds the services and has the form's colour.
    pub(crate) plates: Vec<Plate>,
}

/// The stacks, beside and below each other.
pub(crate) fn layers(stacks: &[LayerStack]) -> String {
    let rows: Vec<&[LayerStack]> = stacks.chunks(BESIDE).collect();
    let heights: Vec<f64> = rows.iter().map(|row| height_of(row)).collect();
    let beside = stacks.len().clamp(1, BESIDE) as f64;
    let width = 2.0 * MARGIN + beside * (COLUMN + GAP) - GAP;
    let mut canvas = Canvas::new(width, 2.0 * MARGIN + heights.iter().sum::<f64>());
    let mut top = MARGIN;
    for (row, height) in rows.into_iter().zip(heights) {
        for (number, stack) in row.iter().enumerate() {
            let left = MARGIN + number as f64 * (COLUMN + GAP);
            draw(&mut canvas, stack, (left, top + height - NAME));
        }
        top += height;
    }
    canvas.finish("The layers of each form, from the machine at the bottom to the services on top")
}

fn height_of(row: &[LayerStack]) -> f64 {
    let plates = row.iter().map(|stack| stack.plates.len()).max().unwrap_or(0);
    plates as f64 * (PLATE + SEAM) + NAME
}

/// A stack whose lowest plate stands on `bottom`, its name below it.
fn draw(canvas: &mut Canvas, stack: &LayerStack, (left, bottom): (f64, f64)) {
    let middle = left + 0.5 * COLUMN;
    for (number, plate) in stack.plates.iter().enumerate() {
        let top = bottom - (number + 1) as f64 * (PLATE + SEAM) + SEAM;
        let holds_services = number + 1 == stack.plates.len();
        let class = if holds_services { format!("layer {}", stack.look.class()) } else { "layer".to_owned() };
        let hatching = if holds_services { stack.look.hatching() } else { String::new() };
        canvas.push(format_args!("<g><title>{} {}</title>", escape(&plate.text), escape(&plate.note)));
        canvas.rect((left, top), (COLUMN, PLATE), &class, &format!(" rx=\"3\"{hatching}"));
        let text = shortened(&plate.text, LETTERS);
        if plate.note.is_empty() {
            canvas.text(middle, top + 21.0, Anchor::Middle, "label plate", &text);
        } else {
            canvas.text(middle, top + 15.0, Anchor::Middle, "label plate", &text);
            canvas.text(middle, top + 28.0, Anchor::Middle, "tick", &shortened(&plate.note, NOTE_LETTERS));
        }
        canvas.push(format_args!("</g>"));
    }
    canvas.text(middle, bottom + 15.0, Anchor::Middle, "label", &shortened(&stack.look.label(), LETTERS + 4));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(name: &str, plates: &[&str]) -> LayerStack {
        let plate = |text: &&str| Plate { text: (*text).to_owned(), note: String::new() };
        let look = Look { name: name.to_owned(), colour: 2, hollow: false, hatched: true };
        LayerStack { look, plates: plates.iter().map(plate).collect() }
    }

    #[test]
    fn a_plate_for_each_layer_and_the_services_in_the_colour_of_the_form() {
        let stacks = [stack("plain", &["machine", "<web>"]), stack("boxed", &["machine", "box", "<web>"])];
        let drawing = layers(&stacks);
        assert_eq!(drawing.matches("<rect").count(), 5, "{drawing}");
        assert_eq!(drawing.matches("class=\"layer f2\"").count(), 2, "{drawing}");
        assert_eq!(drawing.matches("url(#hatch2)").count(), 2, "only the services are hatched: {drawing}");
        assert!(drawing.contains("boxed (EMULATED)") && drawing.contains("&lt;web&gt;"), "{drawing}");
        assert!(!drawing.contains("<web>"), "{drawing}");
    }

    #[test]
    fn many_stacks_stand_in_rows_and_none_at_all_is_a_drawing_too() {
        let many: Vec<LayerStack> =
            (0..9).map(|number| stack(&format!("form {number}"), &["machine", "web"])).collect();
        let drawing = layers(&many);
        assert_eq!(drawing.matches("<rect").count(), 18, "{drawing}");
        assert!(drawing.starts_with("<svg viewBox=\"0 0 658 302\""), "{drawing}");
        assert!(!layers(&[]).contains("NaN"));
    }
}
