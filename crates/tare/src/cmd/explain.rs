//! `tare explain`: finds out what each part of a form costs. It turns a study into one of the ladder to that form, and
//! runs that like any other.

use crate::catalog::Tables;
use crate::cli::RunArgs;
use crate::mistake::Mistake;
use crate::run;
use anyhow::Result;
use clap::Args;
use tare_core::study::Study;

const HELP: &str = "\
Of the options above, --form names the one form to explain, by default the first one after the baseline. A ladder leads \
to it from the baseline in rungs, each with one more feature than the one before: the steps that turn a plain process \
into a container, or the best guest into this one. All rungs run interleaved, in blocks. The report says what each rung \
costs in its place, the largest costs first, and whether the product of all rungs agrees with the whole form. `ladder: \
FORM` in a study does the same.

What a rung costs may depend on the rungs below it. --orders also measures each feature in two other places, if the \
layers allow it: first, with as few other features as it needs, and last, as the whole form compared with the whole form \
without it. The report then gives each feature's share as a range over its places, and how much more it costs last than \
first. --dry-run says how long that takes.

Exit codes: those of `tare run`.

Examples:
  tare explain canonical --form container
  tare explain loopback --form published --repeat 10 --measure 5s
  tare explain canonical --form container --orders --dry-run";

/// See `Verb::Explain`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct ExplainArgs {
    /// Also measure each feature in other places, if the layers allow it: first, and last
    #[arg(long)]
    orders: bool,
    #[command(flatten)]
    run: RunArgs,
}

pub(crate) fn explain(args: &ExplainArgs) -> Result<u8> {
    let typed = &args.run;
    let (mut study, workload) = run::read_whole(typed, "explain")?;
    climb(&mut study, &typed.forms)?;
    if args.orders {
        study.turn(&Tables).map_err(refused)?;
    }
    let rest = RunArgs { forms: Vec::new(), ..typed.clone() };
    run::start(&rest, study, workload, Some(command(args)))
}

fn refused((message, hint): (String, String)) -> Mistake {
    Mistake::new(format!("{message}\n  to do: {hint}"))
}

/// Turns the study into one of the ladder to the form that was typed.
fn climb(study: &mut Study, forms: &[String]) -> Result<()> {
    if forms.len() > 1 {
        let text = format!("`tare explain` takes one form at a time; --form names {}", forms.join(", "));
        return Err(Mistake::new(text).into());
    }
    match (forms.first(), &study.ladder) {
        (None, Some(_)) => {}
        (Some(form), Some(ladder)) if *form == ladder.to => {}
        (Some(_), Some(ladder)) => {
            let text = format!("study '{}' already climbs to '{}'\n  to do: omit --form", study.name, ladder.to);
            return Err(Mistake::new(text).into());
        }
        (form, None) => {
            let usual = study.forms.iter().find(|form| form.name != study.baseline).map(|form| form.name.clone());
            let Some(to) = form.cloned().or(usual) else {
                let text = format!("study '{}' has no form but its baseline: there is nothing to explain", study.name);
                return Err(Mistake::new(text).into());
            };
            study.climb(&to, &Tables).map_err(refused)?;
            study.question = format!("What does each part of {to} cost {}?", study.workload);
            study.name = format!("{}-explain", study.name);
        }
    }
    Ok(())
}

/// The command that repeats the run, without the number of blocks and the seed, which callers add.
fn command(args: &ExplainArgs) -> String {
    let orders = if args.orders { " --orders" } else { "" };
    format!("tare explain {}{}{orders}", args.run.study, args.run.typed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;
    use std::path::Path;

    fn study(more: &str) -> Study {
        let text = format!(
            "study: s\nworkload: redis\nload: {{closed: {{}}}}\n\
             forms: {{plain: [], boxed: [container: {{}}], hosted: [container: {{network: host}}]}}\n{more}\n"
        );
        let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
        files::only_part(files::read_suite_text(&text, "s", Some(&workloads)).unwrap(), "explain").unwrap().0
    }

    fn climbed(more: &str, forms: &[&str]) -> Result<Vec<String>, String> {
        let mut study = study(more);
        let forms: Vec<String> = forms.iter().map(|form| (*form).to_owned()).collect();
        climb(&mut study, &forms).map_err(|error| error.to_string())?;
        Ok(study.forms.into_iter().map(|form| form.name).collect())
    }

    #[test]
    fn features_are_tried_in_the_places_that_the_layers_allow() {
        let mut boxed = study("");
        climb(&mut boxed, &[]).unwrap();
        boxed.turn(&Tables).unwrap();
        let turned = boxed.ladder.unwrap().turned;
        let told: Vec<(&str, Option<&str>)> =
            turned.iter().map(|turned| (turned.form.as_str(), turned.against.as_deref())).collect();
        let wanted = [
            ("boxed.namespaces-first", Some("boxed.group")),
            ("boxed.no-namespaces", None),
            ("boxed.root-first", Some("boxed.group")),
            ("boxed.no-confined", None),
            ("boxed.bridge-first", Some("boxed.engine")),
        ];
        assert_eq!(told, wanted);
    }

    #[test]
    fn the_form_that_was_typed_or_the_first_one_is_explained() {
        let rungs = ["group", "limits", "namespaces", "root", "engine", "confined", "bridge"];
        let rungs = rungs.map(|rung| format!("boxed.{rung}"));
        let boxed: Vec<String> = [vec!["plain".to_owned()], rungs.to_vec(), vec!["boxed".to_owned()]].concat();
        assert_eq!(climbed("", &[]).unwrap(), boxed);
        assert_eq!(climbed("ladder: boxed", &[]).unwrap(), boxed);
        assert_eq!(climbed("ladder: boxed", &["boxed"]).unwrap(), boxed);
        let hosted = climbed("", &["hosted"]).unwrap();
        let rungs = ["group", "limits", "namespaces", "root", "engine"].map(|rung| format!("hosted.{rung}"));
        assert_eq!(hosted, [vec!["plain".to_owned()], rungs.to_vec(), vec!["hosted".to_owned()]].concat());
        assert!(climbed("", &["nothing"]).unwrap_err().contains("its forms: plain, boxed, hosted"));
        assert!(climbed("", &["boxed", "hosted"]).unwrap_err().contains("one form at a time"));
        assert!(climbed("ladder: boxed", &["hosted"]).unwrap_err().contains("already climbs to 'boxed'"));
        assert!(climbed("", &["plain"]).unwrap_err().contains("has no layer"));
    }
}
