//! Papers as the program writes them.

use crate::cli::{one_line, said_in};
use crate::records::write_record;
use crate::sample;

#[test]
fn a_paper_is_a_folder_and_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for run in ["one", "two"] {
        let mut record = sample::record();
        run.clone_into(&mut record.header.run);
        write_record(&at(run), &record);
    }
    let says = |code: i32, args: &[&str]| {
        let (found, text) = said_in(folder.path(), args);
        assert_eq!(found, Some(code), "{args:?}: {text}");
        text
    };
    let written = says(0, &["report", "one", "two", "--format", "paper", "--out", "new/out"]);
    let paths: Vec<&str> = written.lines().collect();
    assert_eq!(paths[..2], ["new/out/paper.md", "new/out/paper.html"]);
    assert!(paths.len() > 3 && paths[2..].iter().all(|path| path.starts_with("new/out/figures/")), "{written}");
    assert!(paths.iter().all(|path| at(path).metadata().unwrap().len() > 99), "{written}");
    let paper = std::fs::read_to_string(at("new/out/paper.md")).unwrap();
    assert!(paper.contains("run one") && paper.contains("run two"), "{paper}");
    let told = one_line(&says(2, &["report", "one", "--format", "paper", "--out", "new/out"]));
    assert!(told.contains("is not empty") && told.contains("to do: name a new or an empty folder"), "{told}");
    assert_eq!(std::fs::read_to_string(at("new/out/paper.md")).unwrap(), paper);
    std::fs::write(at("mine"), "mine").unwrap();
    says(2, &["report", "one", "--format", "paper", "--out", "mine"]);
    assert_eq!(std::fs::read_to_string(at("mine")).unwrap(), "mine");
    std::fs::create_dir(at("paper")).unwrap();
    says(0, &["report", "one", "--format", "paper"]);
    assert!(at("paper/paper.html").is_file());
    let told = one_line(&says(2, &["report", "one", "two"]));
    assert!(told.contains("renders one record, and 2 are named") && told.contains("--format paper"), "{told}");
}
