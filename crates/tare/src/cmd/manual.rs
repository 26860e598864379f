//! `tare completions` and `tare man`: generated from the definition of the command line, so they are never out of date.

use crate::EXIT_OK;
use crate::cli::{CompletionsArgs, ManArgs};
use crate::terminal::print;
use anyhow::{Context, Result};
use clap::Command;

pub(crate) fn completions(args: &CompletionsArgs, mut line: Command) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut line, "tare", &mut script);
    print(&String::from_utf8(script).context("the completion script is not UTF-8")?);
    Ok(EXIT_OK)
}

pub(crate) fn man(args: &ManArgs, line: Command) -> Result<u8> {
    let doing = || format!("could not write the manual pages to {}", args.dir.display());
    std::fs::create_dir_all(&args.dir).with_context(doing)?;
    clap_mangen::generate_to(line, &args.dir).with_context(doing)?;
    print(&format!("wrote the manual pages to {}", args.dir.display()));
    Ok(EXIT_OK)
}
