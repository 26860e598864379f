//! `tare run`: runs a study.

use crate::cli::RunArgs;
use crate::mistake::Mistake;
use crate::{files, run, suite};
use anyhow::Result;

pub(crate) fn run(args: &RunArgs) -> Result<u8> {
    let suite = files::read_to_run(args)?;
    if suite.is_divided() {
        return suite::run(args, suite);
    }
    if let Some(text) = files::no_such_part(&suite.name, &args.parts) {
        return Err(Mistake::new(text).into());
    }
    let (study, workload) = files::only_part(suite, "run")?;
    run::check_times(args, &study)?;
    run::start(args, study, workload, None)
}
