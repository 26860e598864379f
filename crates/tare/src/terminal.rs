//! Prints to standard output and to standard error, in lines that fit a terminal.

use crate::mistake::Mistake;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use tare_core::config::Problem;
use tare_core::fault::Fault;
use tare_report::{USUAL_WIDTH, flow, paragraph};

/// Raised when something could not be printed.
static UNPRINTED: AtomicBool = AtomicBool::new(false);

/// Prints to standard output. A closed pipe (`| head`) is no error; any other failure, such as a full disk, makes the
/// command end with an error once it is done: see [`all_was_printed`].
pub(crate) fn print(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout();
    let written = writeln!(out, "{}", text.trim_end_matches('\n')).and_then(|()| out.flush());
    if let Err(error) = written
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        note(&format!("error: could not print the result: {error}"));
        UNPRINTED.store(true, Ordering::Relaxed);
    }
}

/// Whether all output could be printed.
pub(crate) fn all_was_printed() -> bool {
    !UNPRINTED.load(Ordering::Relaxed)
}

/// Prints sentences to standard output, wrapped to the terminal.
pub(crate) fn tell(text: &str) {
    print(&flow(text, columns(std::io::stdout())));
}

/// Prints sentences to standard error, wrapped to the terminal.
pub(crate) fn note(text: &str) {
    print_aside(&flow(text, columns(std::io::stderr())));
}

/// Prints an error to standard error.
pub(crate) fn complain(error: &anyhow::Error) {
    print_aside(&show_error(error, columns(std::io::stderr())));
}

/// Prints to standard error, whose reader may have gone away too.
fn print_aside(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{}", text.trim_end_matches('\n'));
}

/// The width of text on this stream: that of the terminal, up to 120 columns, or the usual one if it is no terminal.
pub(crate) fn columns(stream: impl AsFd) -> usize {
    match rustix::termios::tcgetwinsize(stream) {
        // A terminal may not know its size.
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col).clamp(60, 120),
        _ => USUAL_WIDTH,
    }
}

/// An error for people, wrapped to `width` columns: what is wrong, what to do, and the log that shows why.
pub(crate) fn show_error(error: &anyhow::Error, width: usize) -> String {
    match error.downcast_ref::<Mistake>() {
        Some(Mistake::InFiles(problems)) => return show_problems(problems, width),
        Some(Mistake::Typed(message)) => return flow(&format!("error: {message}"), width),
        None => {}
    }
    let Some(fault) = error.downcast_ref::<Fault>() else { return flow(&format!("error: {error:#}"), width) };
    let mut text = flow(&format!("error: {}", fault.message), width);
    if !fault.remedy.is_empty() {
        text += &paragraph("  to do: ", 4, &fault.remedy, width);
    }
    if !fault.log.is_empty() {
        // Lines of a log are not Tare's own and are never wrapped.
        let lines: Vec<&str> = fault.log.lines().collect();
        let last = lines.len().saturating_sub(15);
        text.push_str(&format!("  log:\n    {}\n", lines[last..].join("\n    ")));
    }
    text
}

/// All mistakes. Lines quoted from files are not wrapped.
fn show_problems(problems: &[Problem], width: usize) -> String {
    let mut text = String::new();
    for problem in problems {
        let gutter = problem.place.line.to_string().len();
        // Leaves room for what `Problem` prints in front: `error: ` and ` = hint: `.
        let fitted = |label: usize, hanging: usize, text: &str| {
            let behind = paragraph(&" ".repeat(label), hanging, text, width);
            behind.trim().to_owned()
        };
        let (message, hint) = (fitted(7, 2, &problem.message), fitted(gutter + 9, gutter + 3, &problem.hint));
        text += &format!("{}\n\n", Problem { message, hint, ..problem.clone() });
    }
    let count = problems.len();
    let mistakes = if count == 1 { "1 mistake".to_owned() } else { format!("{count} mistakes") };
    text + &format!("{mistakes}; nothing was started\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::config::{Place, Problems};

    #[test]
    fn an_error_fits_a_terminal_and_quoted_lines_are_not_wrapped() {
        let line = format!("load: {{closed: {{connections: {}}}}}", "9".repeat(90));
        let mut problems = Problems::new("study.yaml", &line);
        let message = "there are many words in this message, so many that they do not fit beside each other";
        problems.add(Place { line: 1, column: 8, width: 6 }, message, message);
        let text = show_error(&Mistake::in_files(problems.into_vec()).into(), 80);
        let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert_eq!(wide, [format!("1 | {line}")], "{text}");
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(&format!("error: {message} -->")), "{text}");
        assert!(flat.contains(&format!("= hint: {message} 1 mistake;")), "{text}");
        let log = "a line of others ".repeat(9);
        let fault = Fault::new(message.repeat(2)).remedy(message).with_log(log.trim());
        let text = show_error(&fault.into(), 80);
        let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert_eq!(wide, [format!("    {}", log.trim())], "{text}");
        let typed = Mistake::new(format!("{message}\n  to do: {message}")).into();
        assert!(show_error(&typed, 80).lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn a_nested_error_has_one_prefix() {
        let folder = tempfile::tempdir().unwrap();
        let workloads = folder.path().join("workloads");
        tare_testkit::files::write(&workloads.join("toy/workload.yaml"), &[0xff_u8]);
        let study = "study: s\nworkload: toy\nload: {closed: {}}\nforms: {native: []}\n";
        let error = crate::files::read_suite_text(study, "s", Some(&workloads)).unwrap_err();
        let text = show_error(&error, 80);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.starts_with("error: cannot read this workload: cannot read "), "{text}");
        assert!(text.contains("UTF-8"), "{text}");
    }
}
