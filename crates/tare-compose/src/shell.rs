//! Splits a command that is written as one text into words, as a shell would, without expanding anything.

/// The words of a text: blanks divide, quotes hold together, a backslash takes the next character as it is.
///
/// # Errors
/// When a quote is not closed, or a backslash stands at the end.
pub(crate) fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or("a single quote is not closed")? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or("a double quote is not closed")? {
                        '"' => break,
                        '\\' => match chars.next().ok_or("a double quote is not closed")? {
                            c @ ('"' | '\\' | '$' | '`') => word.push(c),
                            '\n' => {}
                            c => word.extend(['\\', c]),
                        },
                        c => word.push(c),
                    }
                }
            }
            '\\' => match chars.next().ok_or("a backslash stands at the end")? {
                '\n' => {}
                c => word.get_or_insert_default().push(c),
            },
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let cases: [(&str, &[&str]); 6] = [
            ("redis-server --save ''", &["redis-server", "--save", ""]),
            ("sh -c 'echo \"a b\"'", &["sh", "-c", "echo \"a b\""]),
            ("a\"b c\"d \\ e", &["ab cd", " e"]),
            ("\"a\\\"b\\n\"", &["a\"b\\n"]),
            (" \n a \\\n b ", &["a", "b"]),
            ("", &[]),
        ];
        for (text, wanted) in cases {
            assert_eq!(split(text).unwrap(), wanted, "{text}");
        }
        for open in ["'a", "\"a", "\"a\\", "a\\"] {
            assert!(split(open).is_err(), "{open}");
        }
    }

    proptest! {
        #[test]
        fn quoted_words_come_back(words in proptest::collection::vec("[^']{0,12}", 0..6)) {
            let text: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
            prop_assert_eq!(split(&text.join(" ")).unwrap(), words);
        }

        #[test]
        fn any_text_is_split_or_refused(text in "[ab '\"\\\\\\n$]{0,40}") {
            let _ = split(&text);
        }
    }
}
