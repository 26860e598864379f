//! One self-contained page: no font and no image from elsewhere, and no script but one of ours where flame graphs are.
//! Everything that comes from the record is escaped: by the template engine in the page, by [`crate::svg`] in the
//! drawings.

mod charts;
mod costs;
mod profile;
mod response;
mod tables;

pub(crate) use costs::costs;
pub(crate) use profile::SCRIPT_DIGEST;
pub(crate) use response::{levels_line, response};
pub(crate) use tables::form_facts;

use crate::headlines::headlines;
use crate::svg::{self, Look};
use crate::words::Headline;
use crate::{Style, brief, words};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Value, context};
use serde_json::json;
use tare_core::fault::Fault;
use tare_core::record::Record;
use tare_stats::Analysis;

/// The style of reports: colours, drawings, tables; light, dark and printed.
pub const STYLE: &str = concat!(include_str!("../../assets/drawing.css"), include_str!("../../assets/report.css"));

/// Renders the page.
pub(crate) fn render(record: &Record, analysis: &Analysis, _: &Style) -> Result<String, Fault> {
    let header = &record.header;
    let looks = looks(record, analysis);
    let columns = tables::trial_columns(record, analysis);
    let headline = |line: Headline| json!({ "sentence": line.sentence, "rest": line.rest });
    let aloud = |(said, line): (String, Headline)| json!({ "sentence": said, "rest": line.line() });
    let lines = headlines(analysis).into_iter();
    let headlines: Vec<serde_json::Value> = if brief::is_enough(record, analysis) {
        brief::sentences(analysis).zip(lines).map(aloud).collect()
    } else {
        lines.map(headline).collect()
    };
    let mut headlines = headlines.into_iter();
    let page = context! {
        style => safe(STYLE.to_owned()),
        title => plain(format!("{}: {}", header.study.name, header.workload.name)),
        study => plain(&header.study.name),
        question => plain(&header.study.question),
        headline => plain(headlines.next()),
        headlines => plain(headlines.collect::<Vec<_>>()),
        warnings => plain(crate::warnings::all(analysis)),
        baseline => plain(&analysis.baseline),
        control => plain(&analysis.control),
        workload => plain(&header.workload.name),
        about => plain(&header.workload.about),
        load => plain(words::load(record)),
        design => plain(words::design(record)),
        machine => plain(words::machine(record)),
        run => plain(&header.run),
        started => plain(&header.started),
        tare => plain(&header.tare),
        seed => plain(header.seed.to_string()),
        command => plain(&header.command),
        end => plain(record.end.as_ref().map_or("not ended", |end| words::how_ended(&end.how))),
        hatches => safe(svg::hatches()),
        response => response(analysis, &looks, &[]),
        costs => costs(analysis),
        charts => charts::charts(record, analysis, &looks),
        ratios => plain(tables::ratios(analysis, &looks)),
        missing_verdicts => plain(tables::missing_verdicts(analysis)),
        metric_titles => plain(words::compared(analysis).map(|metric| &metric.title).collect::<Vec<_>>()),
        floors => plain(tables::floors(analysis)),
        ruler => plain(crate::ruler::line(analysis).map(|(line, _)| line)),
        missed_aim => plain(words::missed_aim(analysis)),
        methods => plain(tables::methods(analysis)),
        ladder => charts::ladder(analysis),
        explanations => plain(crate::finding::rows(analysis)),
        not_counted => plain(crate::finding::not_counted(record)),
        advice => charts::advice(analysis),
        contrasts => plain(crate::contrast::tables(analysis)),
        profiles => profile::panels(record, analysis),
        script => script(record),
        script_digest => profile::SCRIPT_DIGEST,
        scale_out => plain(crate::scale_out::lines(analysis)),
        instances => plain(crate::scale_out::instances(record, analysis)),
        bits => plain(tables::bits(analysis)),
        resources => plain(&analysis.resources),
        arms => plain(tables::arms(record, analysis, &looks)),
        trial_columns => plain(columns.iter().map(|column| &column.title).collect::<Vec<_>>()),
        trials => plain(tables::trials(record, &columns)),
        cpu => plain(crate::account::lines(record, analysis)),
        cpu_bars => crate::account::bars(analysis).map(safe),
        failed => plain(crate::failures::lines(analysis).into_iter().map(|(text, _)| text).collect::<Vec<_>>()),
        apparatus => plain(words::apparatus(record, analysis)),
        probed => plain(crate::probe_cost::by_form(analysis)),
        environment => plain(header.environment.iter().collect::<Vec<_>>()),
        placement => plain(header.placement.iter().collect::<Vec<_>>()),
        bundles => plain(header.bundles.iter().collect::<Vec<_>>()),
    };
    rendered(include_str!("../../assets/report.html"), page)
}

/// The script of flame graphs, where there are any.
fn script(record: &Record) -> Option<Value> {
    (!record.profiles.is_empty()).then(|| safe(profile::SCRIPT.trim_end().to_owned()))
}

/// Fills a template of a page; what several pages have is included by its name.
pub(crate) fn rendered(template: &str, page: Value) -> Result<String, Fault> {
    let mut engine = Environment::new();
    engine.set_auto_escape_callback(|_| AutoEscape::Html);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    engine.set_syntax(syntax.map_err(|error| Fault::from_error("set the template engine up", &error))?);
    let broken = |error| Fault::from_error("read the page's template", &error);
    const SHARED: [(&str, &str); 5] = [
        ("costs", include_str!("../../assets/costs.html")),
        ("environment", include_str!("../../assets/environment.html")),
        ("foot", include_str!("../../assets/foot.html")),
        ("head", include_str!("../../assets/head.html")),
        ("response", include_str!("../../assets/response.html")),
    ];
    for (name, template) in SHARED {
        engine.add_template(name, template).map_err(broken)?;
    }
    let template = engine.template_from_str(template).map_err(broken)?;
    template.render(page).map_err(|error| Fault::from_error("render the page", &error))
}

/// Markup that was made here, not taken from the record.
pub(crate) fn safe(markup: String) -> Value {
    Value::from_safe_string(markup)
}

/// Data of the record, to be escaped wherever it is shown.
pub(crate) fn plain<T: serde::Serialize>(data: T) -> Value {
    Value::from(Serde(data))
}

/// How each arm is drawn: the baseline in the first colour, forms in the order of the study.
pub(crate) fn looks(record: &Record, analysis: &Analysis) -> Vec<Look> {
    let others = record.header.study.forms.iter().filter(|form| form.name != analysis.baseline);
    let others: Vec<&str> = others.map(|form| form.name.as_str()).collect();
    looks_beside(&others, analysis)
}

/// The same, where `others` are the forms beside the baseline in the order that gives them their colours.
pub(crate) fn looks_beside(others: &[&str], analysis: &Analysis) -> Vec<Look> {
    let look = |arm: &tare_stats::Arm| Look {
        name: arm.name.clone(),
        colour: others.iter().position(|form| *form == arm.form).map_or(0, |place| place + 1),
        hollow: arm.control,
        hatched: arm.emulated.is_some(),
    };
    analysis.arms.iter().map(look).collect()
}
