//! `tare advise`: finds out which variants of a form win back what it costs. It turns a study into one of that form and
//! its variants, and runs that like any other.

use crate::catalog::Tables;
use crate::cli::RunArgs;
use crate::mistake::Mistake;
use crate::run;
use anyhow::Result;
use clap::Args;
use std::path::{Path, PathBuf};
use tare_core::study::Study;
use tare_core::workload::Workload;

const HELP: &str = "\
Of the options above, --form names the one form to vary, by default the first one after the baseline. Each variant does \
one thing differently that may win back what the form costs: the host's network instead of a bridge, a volume instead of \
a layer that is written to, huge pages, bound CPUs, no quota, and whatever else its layers offer. The baseline, the form \
and all variants run interleaved, in blocks. The report says what each variant wins back, how much of the way to the \
baseline that is, and what it gives up. `advise: FORM` in a study does the same.

Exit codes: those of `tare run`.

Examples:
  tare advise canonical --form container
  tare advise loopback --form published --try host-network --try bridge
  tare advise loopback --form published --findings records/20261122-191015-loopback";

/// See `Verb::Advise`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct AdviseArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Try only this variant; may be repeated
    #[arg(long = "try", value_name = "VARIANT")]
    tried: Vec<String>,
    /// Try only the variants that the findings of this record suggest for the form
    #[arg(long, value_name = "RECORD", conflicts_with = "tried")]
    findings: Option<PathBuf>,
}

pub(crate) fn advise(args: &AdviseArgs) -> Result<u8> {
    let typed = &args.run;
    let (mut study, workload) = run::read_whole(typed, "advise")?;
    let tried = match &args.findings {
        Some(path) => suggested(&study, &workload, &typed.forms, path)?,
        None => args.tried.clone(),
    };
    vary(&mut study, &workload, &typed.forms, &tried)?;
    let rest = RunArgs { forms: Vec::new(), ..typed.clone() };
    run::start(&rest, study, workload, Some(command(args)))
}

/// The variants of the form that a record's findings name, beginning with the costliest finding.
fn suggested(study: &Study, workload: &Workload, forms: &[String], record: &Path) -> Result<Vec<String>> {
    let mut all = study.clone();
    vary(&mut all, workload, forms, &[])?;
    let Some(advice) = all.advice else { return Ok(Vec::new()) };
    let analysis = tare_stats::analyse(&tare_runner::read_record(record)?);
    let of_form = analysis.explanations.iter().filter(|explanation| explanation.slower == advice.of);
    let mut named: Vec<String> = Vec::new();
    for name in of_form.flat_map(|explanation| &explanation.findings).flat_map(|finding| &finding.variants) {
        if !named.contains(name) && advice.variants.iter().any(|variant| variant.name == *name) {
            named.push(name.clone());
        }
    }
    if named.is_empty() {
        let text = format!(
            "no finding of {} suggests a variant of '{}'\n  to do: omit --findings to try all variants",
            record.display(),
            advice.of
        );
        return Err(Mistake::new(text).into());
    }
    Ok(named)
}

/// Turns the study into one of variants of the form that was typed.
fn vary(study: &mut Study, workload: &Workload, forms: &[String], tried: &[String]) -> Result<()> {
    if forms.len() > 1 {
        let text = format!("`tare advise` takes one form at a time; --form names {}", forms.join(", "));
        return Err(Mistake::new(text).into());
    }
    if let Some(advice) = &study.advice {
        if forms.first().is_none_or(|form| *form == advice.of) && tried.is_empty() {
            return Ok(());
        }
        let text = format!("study '{}' already varies '{}'\n  to do: omit --form and --try", study.name, advice.of);
        return Err(Mistake::new(text).into());
    }
    let usual = study.forms.iter().find(|form| form.name != study.baseline).map(|form| form.name.clone());
    let Some(of) = forms.first().cloned().or(usual) else {
        let text = format!(
            "study '{}' has no form but its baseline\n  to do: name the baseline with --form to vary it",
            study.name
        );
        return Err(Mistake::new(text).into());
    };
    let refused = |(message, hint): (String, String)| Mistake::new(format!("{message}\n  to do: {hint}"));
    study.advise(&of, tried, workload, &Tables).map_err(refused)?;
    study.question = format!("What would win back what {of} costs {}?", study.workload);
    study.name = format!("{}-advise", study.name);
    Ok(())
}

/// The command that repeats the run, without the number of blocks and the seed, which callers add.
fn command(args: &AdviseArgs) -> String {
    let tried: String = args.tried.iter().map(|name| format!(" --try {name}")).collect();
    let findings = args.findings.as_ref().map_or_else(String::new, |path| format!(" --findings {}", path.display()));
    format!("tare advise {}{}{tried}{findings}", args.run.study, args.run.typed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;

    fn varied(more: &str, forms: &[&str], tried: &[&str]) -> Result<Vec<String>, String> {
        let text = format!(
            "study: s\nworkload: redis\nload: {{closed: {{}}}}\n\
             forms: {{plain: [], guest: [vm: {{pin: false}}], boxed: [container: {{network: host}}]}}\n{more}\n"
        );
        let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
        let read = files::read_suite_text(&text, "s", Some(&workloads)).unwrap();
        let (mut study, workload) = files::only_part(read, "advise").unwrap();
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        vary(&mut study, &workload, &texts(forms), &texts(tried)).map_err(|error| error.to_string())?;
        Ok(study.forms.into_iter().map(|form| form.name).collect())
    }

    #[test]
    fn the_form_that_was_typed_or_the_first_one_is_varied() {
        let guest = varied("", &[], &[]).unwrap();
        assert_eq!(guest[..4], ["plain", "guest", "guest.huge-pages", "guest.pin"]);
        assert_eq!(varied("advise: guest", &["guest"], &[]).unwrap(), guest);
        assert_eq!(varied("", &["boxed"], &["no-seccomp"]).unwrap(), ["plain", "boxed", "boxed.no-seccomp"]);
        assert_eq!(varied("resources: {cpu_quota: 0.5}", &["plain"], &[]).unwrap(), ["plain", "plain.no-quota"]);
        assert!(varied("", &["boxed"], &["host-network"]).unwrap_err().contains("its variants: no-limits, no-seccomp"));
        assert!(varied("", &["boxed", "guest"], &[]).unwrap_err().contains("one form at a time"));
        assert!(varied("advise: guest", &["boxed"], &[]).unwrap_err().contains("already varies 'guest'"));
    }
}
