//! `tare explain`: which part of a form costs what. A study is made one of the ladder to that form, and run as any.

use crate::catalog::Tables;
use crate::cli::RunArgs;
use crate::mistake::Mistake;
use crate::{files, run};
use anyhow::Result;
use clap::Args;
use tare_core::study::Study;

const HELP: &str = "\
Of the options above, --form names the one form that is explained; else it is the first one besides the baseline. It is \
climbed to in rungs, each with one feature more than the one before: first the baseline, then what makes a plain process a \
container, or what a guest loses against the best guest. All rungs run interleaved, in blocks. The report says what each \
rung costs where it stands, those that matter first, and whether the whole comes out the same again. `ladder: FORM` in a \
study asks for the same.

What a rung costs may depend on what stands below it. --orders adds forms in which a feature stands elsewhere, where the \
layers can have it there: first, with as few others as it needs, and last, as the whole form without it. The report then \
gives each feature's share as a range over its places, and by how much it costs more last than first. --dry-run says what \
that takes.

Exit codes: as of `tare run`.

Examples:
  tare explain canonical --form container
  tare explain loopback --form published --repeat 10 --measure 5s
  tare explain canonical --form container --orders --dry-run";

/// See `Verb::Explain`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct ExplainArgs {
    /// Each feature in other places too, as far as it can be had there: first, and last
    #[arg(long)]
    orders: bool,
    #[command(flatten)]
    run: RunArgs,
}

pub(crate) fn explain(args: &ExplainArgs) -> Result<u8> {
    let typed = &args.run;
    let read = files::read_to_run(typed)?;
    let (mut study, workload) = files::only_part(read, "explain")?;
    if let Some(part) = typed.parts.first() {
        return Err(Mistake::new(format!("study '{}' has no part '{part}': it has no parts at all", study.name)).into());
    }
    run::check_times(typed, &study)?;
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

/// Makes the study one of the ladder to the form that was typed.
fn climb(study: &mut Study, forms: &[String]) -> Result<()> {
    if forms.len() > 1 {
        let text = format!("one form is explained at a time, and --form names {}", forms.join(", "));
        return Err(Mistake::new(text).into());
    }
    match (forms.first(), &study.ladder) {
        (None, Some(_)) => {}
        (Some(form), Some(ladder)) if *form == ladder.to => {}
        (Some(_), Some(ladder)) => {
            let text = format!("study '{}' climbs to '{}' already\n  to do: leave --form away", study.name, ladder.to);
            return Err(Mistake::new(text).into());
        }
        (form, None) => {
            let usual = study.forms.iter().find(|form| form.name != study.baseline).map(|form| form.name.clone());
            let Some(to) = form.cloned().or(usual) else {
                let text =
                    format!("study '{}' has no form besides its baseline: there is nothing to explain", study.name);
                return Err(Mistake::new(text).into());
            };
            study.climb(&to, &Tables).map_err(refused)?;
            study.question = format!("What does each part of {to} cost {}?", study.workload);
            study.name = format!("{}-explain", study.name);
        }
    }
    Ok(())
}

/// The command that repeats it; how many blocks and the seed are added by who knows them.
fn command(args: &ExplainArgs) -> String {
    let orders = if args.orders { " --orders" } else { "" };
    format!("tare explain {}{}{orders}", args.run.study, args.run.typed())
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn features_stand_elsewhere_where_the_layers_can_have_them_there() {
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
    fn the_first_form_or_the_one_that_was_typed_is_explained() {
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
        assert!(climbed("", &["boxed", "hosted"]).unwrap_err().contains("one form is explained at a time"));
        assert!(climbed("ladder: boxed", &["hosted"]).unwrap_err().contains("climbs to 'boxed' already"));
        assert!(climbed("", &["plain"]).unwrap_err().contains("has no layer"));
    }
}
