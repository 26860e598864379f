//! Phrases that have to be read twice, or that no engineer uses. They were in the project once and must not come back.

use super::Finding;
use super::tree::{File, Tree};

/// Phrases in lower case, each with what to write instead.
const REFUSED: &[(&str, &str)] = &[
    ("a thousand million", "the number in digits"),
    ("asks for half as long", "'takes half the time'"),
    ("gone on with", "'resumed' or 'continued'"),
    ("has to do with while", "'state of'"),
    ("in its stead", "'instead'"),
    ("in the one and", "'in one and'"),
    ("instead of what the study says", "'overriding the study'"),
    ("is known as folklore", "'is folklore'"),
    ("leave it away", "'omit it'"),
    ("lest", "'so that ... not'"),
    ("may be given several times", "'may be repeated'"),
    ("needs not", "'does not need'"),
    ("of these they are", "'known:' and the list"),
    ("slices cut no steps", "'alternating excludes stepped loads'"),
    ("takes root to", "'needs root to'"),
    ("thereof", "'of it'"),
    ("unless it is said", "'by default'"),
    ("what is spoken", "'the protocol'"),
    ("what there is not", "'something unknown'"),
    ("when nothing is said", "'by default'"),
    ("which there is not", "'unknown'"),
];

/// This file quotes them.
const OWN: &str = "xtask/src/tidy/phrases.rs";

/// Documents, doc comments and messages have none of these phrases, not even across the end of a line.
pub(super) fn refused_phrases(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path != OWN) {
        for passage in passages(file) {
            let words = words(&passage);
            for (phrase, instead) in REFUSED {
                for line in places(&words, phrase) {
                    let advice = format!("'{phrase}' has to be read twice; write {instead}");
                    findings.push(Finding::new(&file.path, line, "refused-phrase", advice));
                }
            }
        }
    }
    findings
}

/// Lines that are read as one text, each with its number, from 1.
type Passage = Vec<(usize, String)>;

/// The texts of a file that people read: all of a document, and the doc comments and quoted texts of code. Test code is
/// left out.
fn passages(file: &File) -> Vec<Passage> {
    let Some(source) = &file.source else {
        let lines = file.text.lines().enumerate().map(|(at, line)| (at + 1, line.to_owned()));
        return if file.path.ends_with(".md") { vec![lines.collect()] } else { Vec::new() };
    };
    let mut passages = Vec::new();
    let mut comment = Passage::new();
    for (at, line) in source.product() {
        // The scan has removed the `//` in front.
        match line.comment.strip_prefix(['/', '!']) {
            Some(text) => comment.push((at, text.to_owned())),
            None => passages.push(std::mem::take(&mut comment)),
        }
        passages.extend(line.texts.iter().map(|text| vec![(at, text.clone())]));
    }
    passages.push(comment);
    passages
}

/// The words of a passage in lower case, each with the number of its line.
fn words(passage: &[(usize, String)]) -> Vec<(usize, String)> {
    let of_line = |(at, line): &(usize, String)| {
        line.split_whitespace().map(|word| (*at, word.to_lowercase())).collect::<Vec<_>>()
    };
    passage.iter().flat_map(of_line).collect()
}

/// The lines on which a phrase begins. Punctuation may surround it, but not be inside it.
fn places(words: &[(usize, String)], phrase: &str) -> Vec<usize> {
    let wanted: Vec<&str> = phrase.split(' ').collect();
    let last = wanted.len() - 1;
    let is_edge = |c: char| !c.is_alphanumeric();
    let is_phrase = |window: &[(usize, String)]| {
        window.iter().zip(&wanted).enumerate().all(|(at, ((_, word), wanted))| {
            let word = if at == 0 { word.trim_start_matches(is_edge) } else { word.as_str() };
            let word = if at == last { word.trim_end_matches(is_edge) } else { word };
            word == *wanted
        })
    };
    words.windows(wanted.len()).filter(|window| is_phrase(window)).map(|window| window[0].0).collect()
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn refused_phrases_are_found_in_documents_doc_comments_and_messages() {
        let document = "# Title\n\nTo run all, leave it\naway.\n";
        let told = found(refused_phrases, &[("docs/a.md", document)]);
        assert_eq!(told, ["docs/a.md:3: refused-phrase: 'leave it away' has to be read twice; write 'omit it'"]);
        let comment = "/// An option (may be given several\n/// times).\nfn f() {}\n";
        assert_eq!(found(refused_phrases, &[("crates/a/src/a.rs", comment)]).len(), 1);
        let message = "fn f() {\n    g(\"omit it, or leave it \\\n       away\", \"it Needs not\");\n}\n";
        let told = found(refused_phrases, &[("crates/a/src/a.rs", message)]);
        let places: Vec<&str> = told.iter().filter_map(|finding| finding.split(": ").next()).collect();
        assert_eq!(places, ["crates/a/src/a.rs:2", "crates/a/src/a.rs:3"]);
    }

    #[test]
    fn other_words_plain_comments_and_tests_may_have_them() {
        let good = "The lesser needs: not this. In the one, and only there. Leave it. Away.\n";
        assert_eq!(found(refused_phrases, &[("docs/a.md", good), ("a.yaml", "leave it away\n")]), [""; 0]);
        let code = "// leave it away\nfn f() {}\n/// Leave it.\nfn g() {}\n/// Away.\n\
                    #[cfg(test)]\nmod tests {\n    const A: &str = \"leave it away\";\n}\n";
        assert_eq!(found(refused_phrases, &[("crates/a/src/a.rs", code)]), [""; 0]);
    }
}
