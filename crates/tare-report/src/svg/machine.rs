//! A machine as boxes in boxes, in the manner of lstopo: packages, NUMA nodes, last-level caches, cores, CPUs.

use super::{Anchor, Canvas, PANEL_WIDTH};
use crate::topology::{Part, outline};
use tare_core::topology::Topology;
use tare_core::units::CpuSet;

const MARGIN: f64 = 2.0;
const PAD: f64 = 8.0;
/// Room for a part's title above what is in it.
const TITLE: f64 = 18.0;
const GAP: f64 = 6.0;
/// A CPU's box.
const CPU: (f64, f64) = (30.0, 20.0);

/// Which CPUs serve what: a name, and the class of its colour.
pub(crate) struct Use<'a> {
    /// The CPUs.
    pub(crate) cpus: &'a CpuSet,
    /// The class that sets the colour.
    pub(crate) class: &'a str,
}

/// Draws the machine; the first of `uses` that has a CPU colours it.
pub(crate) fn machine(topology: &Topology, uses: &[Use<'_>]) -> Option<String> {
    let parts = outline(topology);
    if parts.is_empty() {
        return None;
    }
    let width = PANEL_WIDTH - 2.0 * MARGIN;
    let height: f64 = parts.iter().map(|part| height_of(part, width) + GAP).sum::<f64>() - GAP + 2.0 * MARGIN;
    let mut canvas = Canvas::new(PANEL_WIDTH, height);
    let mut y = MARGIN;
    for part in &parts {
        draw(&mut canvas, part, (MARGIN, y), width, uses);
        y += height_of(part, width) + GAP;
    }
    let cpus = topology.cpus.len();
    Some(canvas.finish(&format!("The machine's {cpus} CPUs by package, NUMA node, last-level cache and core")))
}

/// Cores lie beside each other, as many as fit; other parts below each other.
fn height_of(part: &Part, width: f64) -> f64 {
    if cores(part) {
        let rows = part.inner.len().div_ceil(in_a_row(part, width));
        return TITLE + PAD + rows as f64 * (core_height(part) + GAP) - GAP + PAD;
    }
    let inner: f64 = part.inner.iter().map(|inner| height_of(inner, width - 2.0 * PAD) + GAP).sum();
    TITLE + PAD + inner - GAP + PAD
}

fn cores(part: &Part) -> bool {
    part.inner.iter().all(|inner| inner.inner.is_empty())
}

fn in_a_row(part: &Part, width: f64) -> usize {
    let fit = ((width - 2.0 * PAD + GAP) / (CPU.0 + GAP)).floor() as usize;
    fit.clamp(1, part.inner.len().max(1))
}

/// All cores of a part are as high as the one with the most CPUs.
fn core_height(part: &Part) -> f64 {
    let most = part.inner.iter().map(|core| core.cpus.len()).max().unwrap_or(1);
    most as f64 * CPU.1
}

fn draw(canvas: &mut Canvas, part: &Part, (x, y): (f64, f64), width: f64, uses: &[Use<'_>]) {
    canvas.rect((x, y), (width, height_of(part, width)), "box", "");
    canvas.text(x + PAD, y + TITLE - 3.0, Anchor::Start, "tick", &part.title);
    let top = y + TITLE + PAD;
    if !cores(part) {
        let mut y = top;
        for inner in &part.inner {
            draw(canvas, inner, (x + PAD, y), width - 2.0 * PAD, uses);
            y += height_of(inner, width - 2.0 * PAD) + GAP;
        }
        return;
    }
    let row = in_a_row(part, width);
    for (number, core) in part.inner.iter().enumerate() {
        let left = x + PAD + (number % row) as f64 * (CPU.0 + GAP);
        let top = top + (number / row) as f64 * (core_height(part) + GAP);
        for (thread, cpu) in core.cpus.cpus().iter().enumerate() {
            let place = (left, top + thread as f64 * CPU.1);
            let class = uses.iter().find(|of| of.cpus.cpus().contains(cpu)).map_or("", |of| of.class);
            canvas.rect(place, CPU, &format!("cpu {class}"), "");
            canvas.text(left + CPU.0 / 2.0, place.1 + 14.0, Anchor::Middle, "tick", &cpu.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::machine as sample;

    #[test]
    fn every_cpu_has_a_box_and_those_in_use_their_colour() {
        let generator = CpuSet::new([5, 11]);
        let markup = machine(&sample(), &[Use { cpus: &generator, class: "f1" }]).unwrap();
        assert_eq!(markup.matches("class=\"cpu ").count(), 12, "{markup}");
        assert_eq!(markup.matches("class=\"cpu f1\"").count(), 2, "{markup}");
        assert!(markup.contains("NUMA node 1, L3 16 MiB"), "{markup}");
        assert!(machine(&Topology::default(), &[]).is_none());
    }
}
