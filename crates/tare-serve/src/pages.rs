//! Pages, filled in. The template engine escapes whatever is not markup made here.

use crate::answer::{Answer, page};
use crate::query::encoded;
use hyper::StatusCode;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Value, context};
use tare_core::fault::{Doing, Fault};

/// The templates. Pages extend the first.
const TEMPLATES: [(&str, &str); 16] = [
    ("frame", include_str!("../assets/frame.html")),
    ("runs", include_str!("../assets/runs.html")),
    ("list", include_str!("../assets/list.html")),
    ("now", include_str!("../assets/now.html")),
    ("so-far", include_str!("../assets/so_far.html")),
    ("compare", include_str!("../assets/compare.html")),
    ("history", include_str!("../assets/history.html")),
    ("timeline", include_str!("../assets/timeline.html")),
    ("trial", include_str!("../assets/trial.html")),
    ("notes", include_str!("../assets/notes.html")),
    ("delete", include_str!("../assets/delete.html")),
    ("of-run", include_str!("../assets/of_run.html")),
    ("new", include_str!("../assets/new.html")),
    ("new-study", include_str!("../assets/new_study.html")),
    ("new-choices", include_str!("../assets/new_choices.html")),
    ("problem", include_str!("../assets/problem.html")),
];

/// The files that pages load: name, kind, content.
pub(crate) const ASSETS: [(&str, &str, &str); 6] = [
    ("report.css", "text/css; charset=utf-8", tare_report::STYLE),
    ("bar.css", "text/css; charset=utf-8", BAR_STYLE),
    ("serve.css", "text/css; charset=utf-8", include_str!("../assets/serve.css")),
    ("runs.js", "text/javascript; charset=utf-8", include_str!("../assets/runs.js")),
    ("now.js", "text/javascript; charset=utf-8", include_str!("../assets/now.js")),
    ("compare.js", "text/javascript; charset=utf-8", include_str!("../assets/compare.js")),
];

/// The style of the bar above each page, reports included.
pub(crate) const BAR_STYLE: &str = include_str!("../assets/bar.css");

/// The pages' places in the bar: address and name.
const PLACES: [(&str, &str); 4] = [("/", "Runs"), ("/now", "Now"), ("/compare", "Compare"), ("/history", "History")];

/// The page that starts runs. Bars have it only where runs may be started.
const STARTS_RUNS: (&str, &str) = ("/new", "New run");

/// The engine with all templates.
#[derive(Debug)]
pub(crate) struct Pages(Environment<'static>);

impl Pages {
    /// Whose addresses begin with `base`, which needs no escaping.
    ///
    /// # Errors
    /// When a template is broken.
    pub(crate) fn new(base: &str) -> Result<Pages, Fault> {
        let mut engine = Environment::new();
        engine.set_auto_escape_callback(|_| AutoEscape::Html);
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        engine.set_syntax(syntax.doing("set the template engine up")?);
        engine.add_global("base", safe(base.to_owned()));
        engine.add_filter("address", |name: String| encoded(&name));
        engine.add_filter("ended", |how: String| tare_report::how_ended(&how).to_owned());
        for (name, template) in TEMPLATES {
            engine.add_template(name, template).doing("read a page's template")?;
        }
        Ok(Pages(engine))
    }

    /// From now on, the bar has the page that starts runs, too.
    pub(crate) fn allow_runs(&mut self) {
        self.0.add_global("starts_runs", true);
    }

    /// A filled-in template.
    ///
    /// # Errors
    /// When it cannot be filled in with this.
    pub(crate) fn fill(&self, template: &str, content: Value) -> Result<String, Fault> {
        let template = self.0.get_template(template).doing("find the page's template")?;
        template.render(content).doing("render the page")
    }

    /// A page that says what went wrong, and what to do.
    pub(crate) fn problem(&self, status: StatusCode, title: &str, fault: &Fault) -> Answer {
        let content = context! {
            title => plain(title), bar => bar(""), message => plain(sentence(&fault.message)),
            remedy => plain(sentence(&fault.remedy)),
        };
        let html = self.fill("problem", content);
        page(status, html.unwrap_or_else(|_| "This page cannot be shown.".to_owned()))
    }
}

/// What a Fault says, as a sentence. It begins with a capital letter, unless it begins with a name or a path: those
/// stay as they are.
pub(crate) fn sentence(text: &str) -> String {
    let Some(first) = text.chars().next() else { return String::new() };
    let word = text.split_whitespace().next().unwrap_or_default().trim_end_matches([',', ';']);
    let is_word = word.chars().all(|letter| letter.is_ascii_lowercase());
    let begin = if is_word { first.to_ascii_uppercase() } else { first };
    let end = if text.ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{begin}{}{end}", &text[first.len_utf8()..])
}

/// The bar's links: address, name, and whether this is the page.
pub(crate) fn bar(here: &str) -> Value {
    let links = PLACES.map(|(address, name)| (address, name, address == here));
    plain(links)
}

/// The bar as markup, for pages that others render. `starts_runs` is whether runs may be started here.
pub(crate) fn bar_markup(base: &str, starts_runs: bool) -> String {
    let link = |(address, name): (&str, &str)| format!("<a href=\"{base}{address}\">{name}</a>");
    let mut links: Vec<String> = PLACES.map(link).into();
    links.extend(starts_runs.then(|| link(STARTS_RUNS)));
    format!("<nav class=\"bar\" aria-label=\"Tare\"><b>Tare</b> {}</nav>", links.join(" "))
}

/// Data of the record, to be escaped wherever it is shown.
pub(crate) fn plain<T: serde::Serialize>(data: T) -> Value {
    Value::from(Serde(data))
}

/// Markup that was made here or by `tare-report`, which has escaped what is the record's.
pub(crate) fn safe(markup: String) -> Value {
    Value::from_safe_string(markup)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_in_sentences_and_escaped() {
        let fault = Fault::new("<script>alert(1)</script> is gone").remedy("restore it");
        let pages = Pages::new("/key").unwrap();
        let content = context! { title => "t", bar => bar("/"), message => plain(sentence(&fault.message)) };
        let html = pages.fill("problem", content).unwrap();
        assert!(html.contains("&lt;script&gt;alert(1)") && !html.contains("<script>alert"), "{html}");
        assert!(html.contains("href=\"/key/assets/serve.css\""), "{html}");
        assert!(!html.contains("New run"), "{html}");
        for starts_runs in [false, true] {
            let bar = bar_markup("/key", starts_runs);
            assert!(bar.contains("href=\"/key/now\"") && bar.contains("href=\"/key/new\"") == starts_runs, "{bar}");
        }
        let mut pages = pages;
        pages.allow_runs();
        let html = pages.fill("problem", context! { title => "t", bar => bar("/") }).unwrap();
        assert!(html.contains("<a href=\"/key/new\">New run</a>"), "{html}");
        assert_eq!(sentence("restore it"), "Restore it.");
        for name in ["good/record.json is gone.", "'good' is gone.", "good.2: it is gone.", "\u{e4}b is gone."] {
            assert_eq!(sentence(name), name);
        }
    }
}
