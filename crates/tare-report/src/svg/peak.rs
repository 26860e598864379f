//! The pass probability of a window over the load: a panel for each arm, from the windows of all its searches.

use super::scale::{Scale, tick_text};
use super::{Anchor, Canvas, Look, PANEL_WIDTH};
use tare_core::peak::{PeakOutcome, PeakPhase, PeakWindow};
use tare_stats::peak::pass_curve;

const HEIGHT: f64 = 220.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 40.0;
/// Where windows stand that passed, and that did not.
const RUG: (f64, f64) = (-9.0, 6.0);
/// Levels farther than this from the curve's middle, and outside of what the searches came to, are left out: a
/// staircase that was lost passed there.
const WIDE: f64 = 1.25;

/// The curve of one arm; none when nothing was judged.
pub(crate) fn peak(look: &Look, searches: &[&PeakOutcome]) -> Option<String> {
    let judged = |window: &&PeakWindow| matches!(window.phase, PeakPhase::Staircase | PeakPhase::Probe);
    let windows: Vec<PeakWindow> = searches.iter().flat_map(|s| &s.windows).filter(judged).cloned().collect();
    let curve = pass_curve(&windows);
    let middle = curve.get(curve.len() / 2)?.level;
    let peaks: Vec<f64> = searches.iter().filter_map(|search| search.peak).collect();
    let least = peaks.iter().copied().fold(middle / WIDE, f64::min);
    let most = peaks.iter().copied().fold(middle * WIDE, f64::max);
    let near: Vec<&PeakWindow> = windows.iter().filter(|window| (least..=most).contains(&window.level)).collect();
    let levels = || near.iter().map(|window| window.level).chain(peaks.iter().copied());
    let (low, high) = (levels().reduce(f64::min)? / 1.01, levels().reduce(f64::max)? * 1.01);
    let x = Scale::log(low, high, LEFT, PANEL_WIDTH - RIGHT);
    let y = Scale::linear(0.0, 1.0, HEIGHT - BOTTOM, TOP);
    let mut canvas = Canvas::new(PANEL_WIDTH, HEIGHT);
    for share in [0.0, 0.5, 1.0] {
        canvas.line((LEFT, y.place(share)), (PANEL_WIDTH - RIGHT, y.place(share)), "grid");
        let text = format!("{:.0} %", 100.0 * share);
        canvas.text(LEFT - 6.0, y.place(share) + 4.0, Anchor::End, "tick", &text);
    }
    for tick in x.ticks(5) {
        canvas.text(x.place(tick), HEIGHT - BOTTOM + 22.0, Anchor::Middle, "tick", &tick_text(tick));
    }
    for window in near {
        let (place, height) = (x.place(window.level), if window.passed { TOP } else { HEIGHT - BOTTOM });
        let end = if window.passed { RUG.0 } else { RUG.1 };
        canvas.line((place, height), (place, height + end), &format!("{} stroke thin", look.class()));
    }
    let inside = |level: f64| (low..=high).contains(&level);
    let points: Vec<_> = curve.iter().filter(|point| inside(point.level)).collect();
    for point in &points {
        let place = x.place(point.level);
        canvas.line((place, y.place(point.low)), (place, y.place(point.high)), &format!("{} stroke", look.class()));
    }
    let line: Vec<(f64, f64)> = points.iter().map(|point| (x.place(point.level), y.place(point.rate))).collect();
    canvas.polyline(&line, &format!("{} stroke line", look.class()));
    for found in peaks {
        canvas.line((x.place(found), y.place(0.0)), (x.place(found), y.place(1.0)), "one");
        canvas.circle((x.place(found), y.place(0.5)), 3.4, &look.filled(), &look.hatching());
    }
    let unit = searches.first().map_or("", |search| search.unit.as_str());
    canvas.text((LEFT + PANEL_WIDTH - RIGHT) / 2.0, HEIGHT - 4.0, Anchor::Middle, "axis", &format!("load, {unit}"));
    Some(canvas.finish(&format!("Share of windows that kept the QoS over the load: {}", look.label())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::peak::{Count, PeakEnding, PeakRules};

    /// A search that stood around its peak, in windows of which every other one kept the QoS.
    fn search(peak: f64) -> PeakOutcome {
        let window = |number: u32| PeakWindow {
            phase: PeakPhase::Staircase,
            level: peak * (0.98 + 0.01 * f64::from(number % 5)),
            at_s: f64::from(number),
            counts: vec![Count { of: 100.0, over: f64::from(number % 2) * 9.0 }],
            score: if number.is_multiple_of(2) { -1.0 } else { 4.0 },
            passed: number.is_multiple_of(2),
            used: true,
        };
        PeakOutcome {
            ending: PeakEnding::Found,
            rules: PeakRules::Staircase,
            unit: "users".into(),
            criteria: Vec::new(),
            peak: Some(peak),
            low: None,
            high: None,
            slope: None,
            binding: None,
            curve: Vec::new(),
            load_s: 60.0,
            notes: Vec::new(),
            warnings: Vec::new(),
            windows: (0..30).map(window).collect(),
        }
    }

    #[test]
    fn what_each_search_came_to_is_shown_however_far_apart_they_are() {
        let look = Look { name: "native".into(), colour: 0, hollow: false, hatched: false };
        let searches = [125.0, 157.0, 214.0, 270.0].map(search);
        let markup = peak(&look, &searches.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(markup.matches("<circle").count(), 4, "{markup}");
    }
}
