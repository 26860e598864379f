//! What is found, as Markdown: printed as it comes, and kept for the file.

use crate::process::{CLIENT_CPU, SERVER_CPU};
use crate::toolbox::{NOT_PACKAGED, TOOLS};
use crate::workshop::Workshop;

/// Tables and remarks in the order in which they were made.
pub(crate) struct Report {
    text: String,
}

impl Report {
    /// Begins with what is compared, on what.
    pub(crate) fn new(shop: &Workshop) -> Report {
        let mut report = Report { text: String::new() };
        report.say("# Tare's load generator beside others\n\nMade by:");
        report.say(&format!("```sh\n{}\n```", shop.command()));
        report.say(&format!(
            "The server runs on CPU {SERVER_CPU} and the client on CPU {CLIENT_CPU}; they talk over loopback. \
             In each round every tool runs once, in an order drawn for that round. Figures are medians over \
             rounds. Ratios are formed within rounds and have 95 % confidence intervals (Student's t on \
             logs).\n\
             \n\
             - *CPU* is the user and system time of the whole client program per operation; for the floor, \
             that of its loop alone.\n\
             - *Least* is the lowest of that CPU time over all rounds.\n\
             - *Peak memory* is the program's resident set. Neither CPU time nor memory includes what the \
             kernel does for sockets outside the program's own time.\n\
             - *Floor* is a client in C on bare epoll that sends requests written beforehand and counts the \
             bytes of the replies; in a transaction it waits for the end of each reply \
             (`xtask/benchmark/floor.c`).\n\
             - *Floor, timed* is the same client with one clock reading per operation."
        ));
        report.say(&shop.machine());
        let versions = shop.versions();
        report.say(&format!("Versions: {}.", versions.join("; ")));
        let absent = TOOLS.iter().filter(|tool| tool.package.is_some() && shop.tools.program(tool).is_none());
        let absent: Vec<&str> = absent.map(|tool| tool.name).chain(NOT_PACKAGED.iter().copied()).collect();
        report.say(&format!("Not compared, because this Debian has no package for them: {}.", absent.join(", ")));
        report
    }

    /// Adds a paragraph.
    pub(crate) fn say(&mut self, paragraph: &str) {
        println!("{paragraph}\n");
        self.text.push_str(paragraph);
        self.text.push_str("\n\n");
    }

    /// Adds a heading.
    pub(crate) fn head(&mut self, title: &str) {
        self.say(&format!("## {title}"));
    }

    /// Adds a table.
    pub(crate) fn table(&mut self, heads: &[&str], rows: &[Vec<String>]) {
        let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
        self.say(&table(&heads, rows));
    }

    /// All of it, as a file.
    pub(crate) fn text(&self) -> String {
        format!("{}\n", self.text.trim_end())
    }

    /// What an older file becomes when only some comparisons were made again with `command`: they take the places of
    /// their older versions, each with the command that made it, and new ones follow what stands under their heading.
    pub(crate) fn merged_into(&self, older: &str, command: &str) -> String {
        let mut merged = sections(older);
        for mut section in sections(&self.text).into_iter().filter(|section| !section.heading.is_empty()) {
            let same = |other: &Section| other.heading == section.heading && other.case == section.case;
            if let Some(place) = merged.iter().position(same) {
                if section.has_table() {
                    section.text = format!("{}\n\nMade by `{command}`.", section.text);
                    merged[place] = section;
                }
                continue;
            }
            section.text = format!("{}\n\nMade by `{command}`.", section.text);
            let last = merged.iter().rposition(|other| other.heading == section.heading);
            merged.insert(last.map_or(merged.len(), |last| last + 1), section);
        }
        let texts: Vec<String> = merged.into_iter().map(|section| section.text).collect();
        format!("{}\n", texts.join("\n\n"))
    }
}

/// A part of the text that begins with a heading of its own.
struct Section {
    /// The group's heading; empty above the first.
    heading: String,
    /// The case's heading within the group; empty above the first.
    case: String,
    /// Heading and all.
    text: String,
}

impl Section {
    fn has_table(&self) -> bool {
        self.text.lines().any(|line| line.starts_with('|'))
    }
}

fn sections(text: &str) -> Vec<Section> {
    let mut sections = vec![Section { heading: String::new(), case: String::new(), text: String::new() }];
    for line in text.trim_end().lines() {
        let heading = sections[sections.len() - 1].heading.clone();
        if let Some(title) = line.strip_prefix("## ") {
            sections.push(Section { heading: title.to_owned(), case: String::new(), text: String::new() });
        } else if let Some(title) = line.strip_prefix("### ") {
            sections.push(Section { heading, case: title.to_owned(), text: String::new() });
        }
        let last = sections.len() - 1;
        sections[last].text.push_str(line);
        sections[last].text.push('\n');
    }
    sections.iter_mut().for_each(|section| section.text = section.text.trim_end().to_owned());
    sections.retain(|section| !section.text.is_empty());
    sections
}

/// What failed, short enough for a cell of a table.
pub(crate) fn brief(error: &anyhow::Error) -> String {
    let text: String = format!("failed: {error:#}").replace(['\n', '|'], " ");
    let (kept, left) = (text.chars().count().min(200), text.chars().count() > 200);
    let kept: String = text.chars().skip(text.chars().count() - kept).collect();
    if left { format!("failed: ... {kept}") } else { kept }
}

/// A Markdown table whose columns stand below each other in a terminal too.
fn table(heads: &[String], rows: &[Vec<String>]) -> String {
    let lines = || std::iter::once(heads).chain(rows.iter().map(Vec::as_slice));
    let width = |column: usize| lines().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..heads.len()).map(|column| width(column).unwrap_or(0).max(3)).collect();
    let show = |cells: &[String]| {
        let padded = widths.iter().zip(cells).map(|(width, cell)| format!(" {cell:<width$} |"));
        format!("|{}", padded.collect::<String>())
    };
    let rule: String = widths.iter().map(|width| format!("{}|", "-".repeat(width + 2))).collect();
    let mut text = vec![show(heads), format!("|{rule}")];
    text.extend(rows.iter().map(|row| show(row)));
    text.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let cell = |text: &str| text.to_owned();
        let text = table(&[cell("a"), cell("long head")], &[vec![cell("first"), cell("1")]]);
        assert_eq!(text, "| a     | long head |\n|-------|-----------|\n| first | 1         |");
    }

    #[test]
    fn what_is_made_again_takes_its_place() {
        let older = "# Title\n\n## One\n\nAbout.\n\n### A\n\n| a |\n\n### B\n\n| b |\n\n## Two\n\n| two |\n";
        let newer = Report { text: "# T\n\n## One\n\nAbout.\n\n### A\n\n| new |\n\n### C\n\n| c |\n\n".to_owned() };
        let wanted = "# Title\n\n## One\n\nAbout.\n\n### A\n\n| new |\n\nMade by `it`.\n\n### B\n\n| b |\n\n\
                      ### C\n\n| c |\n\nMade by `it`.\n\n## Two\n\n| two |\n";
        assert_eq!(newer.merged_into(older, "it"), wanted);
        assert_eq!(Report { text: "# T\n".to_owned() }.merged_into(older, "it"), older);
    }
}
