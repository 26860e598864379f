//! Papers: what is in them, in which order, and that no record gets into their markup.

use crate::html::{assert_balanced, hostile};
use crate::sample;

use sample::{record, scratch};
use tare_core::record::{Record, SCHEMA, SuiteHeader};
use tare_report::{Paper, PaperFile};
use tare_stats::analyse;

/// The files of a paper of these records.
fn files(records: &[Record]) -> Vec<PaperFile> {
    let mut paper = Paper::default();
    records.iter().for_each(|record| paper.add(record, &analyse(record)));
    paper.files().expect("the sample can be written up")
}

fn file<'a>(files: &'a [PaperFile], name: &str) -> &'a str {
    &files.iter().find(|file| file.name == name).expect("the paper has the file").content
}

/// The sample as another run.
fn run(name: &str) -> Record {
    let mut record = record();
    name.clone_into(&mut record.header.run);
    record
}

/// The lines that Markdown does not take as they are: all but commands.
fn outside_of_fences(text: &str) -> Vec<&str> {
    let (mut fence, mut told) = (None, Vec::new());
    for line in text.lines() {
        match fence {
            Some(end) if line == end => fence = None,
            Some(_) => {}
            None if line.starts_with("```") => fence = Some(line.trim_end_matches("sh")),
            None => told.push(line),
        }
    }
    told
}

#[test]
fn the_sample_as_a_paper() {
    let files = files(&[record()]);
    let text = file(&files, "paper.md");
    insta::assert_snapshot!("paper", text);
    for written in &files {
        let path = scratch().join("paper").join(&written.name);
        std::fs::create_dir_all(path.parent().expect("it has a folder")).expect("the scratch folder can be written to");
        std::fs::write(path, &written.content).expect("the scratch folder can be written to");
    }
    let chapters: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let wanted = [
        "1. Question",
        "2. Forms and load",
        "3. Configuration",
        "4. Results",
        "5. What was learned",
        "6. Limits",
        "7. To repeat it",
    ];
    assert_eq!(chapters, wanted);
    assert!(text.contains("```sh\ntare run studies/canonical.yaml --seed 7\n```"), "{text}");
}

#[test]
fn every_figure_of_a_result_has_its_interval_or_says_that_it_has_none() {
    for record in [record(), sample::asked::ladder(), sample::asked::advice(), sample::stepped::stepped()] {
        let files = files(&[record]);
        let text = file(&files, "paper.md");
        let from = text.find("## 4. Results").expect("there are results");
        let to = text.find("## 5. What").expect("the next chapter follows");
        let rows = text[from..to].lines().filter(|line| line.starts_with("| ") && line.contains(" | "));
        // The first cell is a form or a level, the last one of a metric's table its verdict.
        for row in rows.clone() {
            for cell in row.trim_matches(['|', ' ']).split(" | ").skip(1).take(3) {
                let is_figure =
                    cell.trim_start_matches(['+', '-', '<', '=', '&']).starts_with(|c: char| c.is_ascii_digit());
                let is_whole = cell.contains("\\[") || cell.contains("no interval");
                assert!(!is_figure || is_whole, "{cell} in: {row}");
            }
        }
        assert!(rows.count() > 3, "{text}");
    }
}

#[test]
fn every_drawing_is_a_file_of_its_own_and_in_the_page() {
    let files = files(&[record()]);
    let (text, page) = (file(&files, "paper.md"), file(&files, "paper.html"));
    let drawings: Vec<&PaperFile> = files.iter().filter(|file| file.name.ends_with(".svg")).collect();
    assert_eq!(drawings.len(), text.matches("](figures/").count());
    assert_eq!(drawings.len(), page.matches("<figcaption>").count());
    for drawing in drawings {
        assert!(text.contains(&format!("]({})", drawing.name)), "{} is not shown", drawing.name);
        assert!(drawing.content.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{}", drawing.name);
        assert_balanced(&drawing.content);
    }
    assert_balanced(page);
    for forbidden in ["<script", "<link", "<img", "@import", "http:", "https:"] {
        assert!(!page.contains(forbidden), "{forbidden} is in the page");
    }
    assert!(page.contains("@media print") && page.contains("@page{size:A4"), "it is there to be printed");
}

#[test]
fn a_ladder_and_advice_are_what_was_learned() {
    let files_of = [files(&[sample::asked::ladder()]), files(&[sample::asked::advice()])];
    let [ladder, advice] = files_of.each_ref().map(|files| file(files, "paper.md"));
    for wanted in ["network namespace, veth and bridge", "all of them, measured independently", "-rungs.svg)"] {
        assert!(ladder.contains(wanted), "{wanted} is missing:\n{ladder}");
    }
    for wanted in ["Variants of container that change one thing each", "isolation of the network"] {
        assert!(advice.contains(wanted), "{wanted} is missing:\n{advice}");
    }
    // Such shares have no interval.
    assert!(!advice.contains("% back") && !ladder.contains("of the difference in"), "{advice}");
}

#[test]
fn runs_of_one_study_stand_beside_each_other() {
    let mut other = run("b");
    other.header.environment.insert("kernel".into(), "6.12.9-amd64".into());
    let files = files(&[run("a"), other, run("c")]);
    let text = file(&files, "paper.md");
    for wanted in [
        "### The runs of canonical beside each other",
        "| environment kernel | 6.1.0-28-amd64 | 6.12.9-amd64 | 6.1.0-28-amd64 |",
        "| kernel | 6.1.0-28-amd64 (canonical, run a; canonical, run c); 6.12.9-amd64 (canonical, run b) |",
        "The same as for canonical, run a.",
    ] {
        assert!(text.contains(wanted), "{wanted} is missing:\n{text}");
    }
    assert_eq!(text.matches("What does each form cost one Redis server?").count(), 2, "as title and once as question");
}

#[test]
fn a_study_of_parts_names_those_that_were_not_begun() {
    let header = SuiteHeader {
        schema: SCHEMA,
        tare: "0.1.0".into(),
        study: "subsystems".into(),
        question: "Which part of the machine pays?".into(),
        preset: None,
        started: "2026-03-05T10:14:02Z".into(),
        command: "tare run subsystems".into(),
        parts: vec!["solve".into()],
    };
    let mut paper = Paper::default();
    paper.add_suite(&header, &[]);
    let files = paper.files().expect("nothing can be written up too");
    assert!(file(&files, "paper.md").contains("part solve of subsystems was not begun"));
}

#[test]
fn whatever_a_record_holds_is_text() {
    let evil = "</svg></style><script>alert(1)</script>\n# evil\n| x | y |\n![x](http://e.vil) `y` **z**\u{0}\u{1b}[1m <img src=x>";
    let files = files(&[hostile(evil), hostile(evil)]);
    for written in &files {
        let told = outside_of_fences(&written.content).join("\n");
        assert!(!told.contains("<script") && !told.contains("<img"), "{}", written.name);
        if written.name.ends_with(".svg") {
            assert!(!written.content.contains(['\u{0}', '\u{1b}']), "{} is no XML", written.name);
            assert_balanced(&written.content);
        }
    }
    // A bracket with a backslash before it ends no link.
    let told = outside_of_fences(file(&files, "paper.md")).join("\n").replace("\\]", "");
    for markup in ["<", "](http", "://", "\n# evil", "\n| x | y |"] {
        assert!(!told.contains(markup), "{markup} in the text:\n{told}");
    }
    assert_balanced(file(&files, "paper.html"));
}
