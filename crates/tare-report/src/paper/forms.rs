//! What was compared: the workload, its load, and the layers of each form.

use super::document::Piece;
use super::study::Study;
use crate::svg::{self, LayerStack, Plate};
use crate::words;
use tare_stats::Arm;

/// The chapter of a study.
pub(super) fn pieces(study: &Study<'_>) -> Vec<Piece> {
    let workload = &study.record.header.workload;
    let about = if workload.about.is_empty() { String::new() } else { format!(" ({})", workload.about) };
    let text = format!(
        "The workload is {}{about}, under this load: {}. In every form the same services run, on top of the form's layers.",
        workload.name,
        words::load(study.record)
    );
    let arms: Vec<&Arm> = study.analysis.forms().collect();
    let stacks: Vec<LayerStack> = arms.iter().filter_map(|arm| stack(study, arm)).collect();
    let caption = "The layers of each form, from the machine at the bottom to the services on top";
    let head = ["Form", "Layers", "A request's way", "Trials measured"];
    vec![
        Piece::Text(text),
        Piece::figure("forms", caption, svg::layers(&stacks)),
        Piece::table("The forms", &head, arms.iter().map(|arm| row(study, arm)).collect()),
    ]
}

fn stack(study: &Study<'_>, arm: &Arm) -> Option<LayerStack> {
    let header = &study.record.header;
    let look = study.looks.iter().find(|look| look.name == arm.name)?.clone();
    let form = header.study.forms.iter().find(|form| form.name == arm.form)?;
    let plate = |text: String, note: String| Plate { text, note };
    let kernel = header.environment.get("kernel").map(|kernel| format!("Linux {kernel}")).unwrap_or_default();
    let layers = form.layers.iter().map(|layer| {
        let copies = if layer.guests() > 1 { format!(" \u{d7} {}", layer.guests()) } else { String::new() };
        plate(format!("{}{copies}", layer.layer), String::new())
    });
    let services: Vec<&str> = header.workload.services.iter().map(|service| service.name.as_str()).collect();
    let machine = plate("machine".to_owned(), kernel);
    let top = plate(services.join(", "), String::new());
    Some(LayerStack { look, plates: [machine].into_iter().chain(layers).chain([top]).collect() })
}

fn row(study: &Study<'_>, arm: &Arm) -> Vec<String> {
    let measured = format!("{} of {}", arm.measured, arm.planned);
    vec![study.named(arm), arm.describe.clone(), arm.path.clone(), measured]
}
