//! Text in lines: whatever is shown on a terminal is wrapped here.

/// Columns where nothing is known of a terminal, and in files.
pub const USUAL_WIDTH: usize = 80;

/// A blank at which no line is broken. It comes out as any other.
const NO_BREAK: char = '\u{a0}';

/// `text` for [`paragraph`], not to be broken: a figure with its interval, a command that is copied.
pub fn whole(text: &str) -> String {
    text.chars().map(|c| if c == ' ' { NO_BREAK } else { c }).collect()
}

/// Records hold what services and users wrote: no escape sequence of theirs reaches the terminal.
pub(crate) fn clean(text: &str) -> String {
    let printable = |c: char| if c == '\n' || c == '\t' { ' ' } else { c };
    text.chars().map(printable).filter(|c| !c.is_control()).collect()
}

/// Lines of at most `width` columns, counted with their margins, which are not in them: `indent` before the first line,
/// `hanging` before the others. A word that fits into no line stays whole, since paths are there to be copied.
pub(crate) fn wrap(text: &str, width: usize, indent: usize, hanging: usize) -> Vec<String> {
    let text = clean(text);
    let mut lines = vec![String::new()];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let length = word.chars().count();
        let margin = if lines.len() == 1 { indent } else { hanging };
        let line = lines.last_mut().expect("there is always a line");
        let used = line.chars().count();
        let fits = margin + used + usize::from(used > 0) + length <= width;
        // Behind a label a line may begin at once, even with a word that is no better off in the next one.
        if fits || (used == 0 && (hanging >= margin || hanging + length > width)) {
            if used > 0 {
                line.push(' ');
            }
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.into_iter().map(|line| line.replace(NO_BREAK, " ")).collect()
}

/// `text` behind `label`, in lines of at most `width` columns; all but the first are indented by `hanging`. Each ends
/// with a line feed.
pub fn paragraph(label: &str, hanging: usize, text: &str, width: usize) -> String {
    let label = clean(label);
    let mut paragraph = String::new();
    for (number, line) in wrap(text, width, label.chars().count(), hanging).iter().enumerate() {
        let margin = if number == 0 { label.clone() } else { " ".repeat(hanging) };
        paragraph.push_str((margin + line).trim_end());
        paragraph.push('\n');
    }
    paragraph
}

/// Every line of `text` for itself, wrapped under its own indentation where it is longer than `width` columns.
pub fn flow(text: &str, width: usize) -> String {
    let flowed = text.lines().map(|line| {
        let line = clean(line);
        let indent = line.chars().take_while(|c| *c == ' ').count();
        let fits = line.chars().count() <= width;
        if fits { line.replace(NO_BREAK, " ") + "\n" } else { paragraph(&" ".repeat(indent), indent + 2, &line, width) }
    });
    flowed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_within_the_width_and_nothing_is_lost() {
        let text = "one two three four five six seven eight nine ten eleven twelve thirteen";
        for (indent, hanging) in [(2, 4), (4, 2), (0, 0)] {
            let lines = wrap(text, 20, indent, hanging);
            for (number, line) in lines.iter().enumerate() {
                assert!(line.chars().count() + if number == 0 { indent } else { hanging } <= 20, "{line}");
            }
            assert_eq!(lines.join(" "), text);
        }
    }

    #[test]
    fn what_is_longer_than_a_line_stays_whole() {
        let path = "/a/path/that/is/longer/than/a/line";
        assert_eq!(wrap(&format!("see {path} there"), 20, 0, 2), ["see", path, "there"]);
        assert_eq!(paragraph("record ", 2, path, 20), format!("record {path}\n"), "nothing is won by another line");
        assert_eq!(paragraph("a label so long ", 2, "eight be", 20), "a label so long\n  eight be\n");
        let figure = whole("0.87 [0.85, 0.89]");
        assert_eq!(wrap(&format!("container {figure}"), 20, 0, 2), ["container", "0.87 [0.85, 0.89]"]);
    }

    #[test]
    fn lines_flow_under_their_own_indentation() {
        let text = "error: it is broken and that is bad\n  to do: mend what is broken\n\nkept   as it is";
        let wanted = "error: it is broken\n  and that is bad\n  to do: mend what\n    is broken\n\nkept   as it is\n";
        assert_eq!(flow(text, 20), wanted);
    }

    #[test]
    fn escape_sequences_of_a_record_do_not_reach_the_terminal() {
        assert_eq!(clean("a\x1b[31mb\nc"), "a[31mb c");
        assert_eq!(flow("a\x1b[31mb\nc", 80), "a[31mb\nc\n");
    }
}
