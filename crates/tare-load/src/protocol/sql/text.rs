//! Statements with placeholders for parameters: `SELECT ... WHERE id = ${id}`.

/// How a server's dialect writes a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Places {
    /// `$1`, `$2` ...
    Numbered,
    /// `?`
    Marks,
}

/// A statement in the form that the server gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatementText {
    /// With the server's own placeholders.
    pub sql: String,
    /// The names, in the order of the placeholders.
    pub names: Vec<String>,
}

/// Parses a statement. Placeholders inside quotes, quoted names and comments are refused.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn parse(text: &str, places: Places) -> Result<StatementText, String> {
    let mut statement = StatementText { sql: String::with_capacity(text.len()), names: Vec::new() };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("this statement is empty".into());
    }
    while let Some(first) = rest.chars().next() {
        let quoted = quoted(rest, first)?;
        if !quoted.is_empty() {
            if quoted.contains("${") {
                return Err(format!("a parameter stands without quotes around it, not inside of {quoted}"));
            }
            statement.sql.push_str(quoted);
            rest = &rest[quoted.len()..];
        } else if let Some(after) = rest.strip_prefix("${") {
            let end = after.find('}').ok_or("a '}' is missing after '${'")?;
            statement.names.push(after[..end].trim().to_owned());
            match places {
                Places::Numbered => statement.sql.push_str(&format!("${}", statement.names.len())),
                Places::Marks => statement.sql.push('?'),
            }
            rest = &after[end + 1..];
        } else {
            let own = match places {
                Places::Numbered => first == '$' && rest[1..].starts_with(|c: char| c.is_ascii_digit()),
                Places::Marks => first == '?',
            };
            if own {
                return Err("a parameter is written as '${name}'".into());
            }
            statement.sql.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    if statement.names.len() > usize::from(u16::MAX) {
        return Err("a statement has at most 65535 parameters".into());
    }
    Ok(statement)
}

/// The quoted text or comment at the beginning; empty if there is none.
fn quoted(rest: &str, first: char) -> Result<&str, String> {
    let (from, end) = match first {
        '\'' | '"' | '`' => (1, &rest[..1]),
        '-' if rest.starts_with("--") => (2, "\n"),
        '/' if rest.starts_with("/*") => (2, "*/"),
        _ => return Ok(""),
    };
    match rest[from..].find(end) {
        Some(at) => Ok(&rest[..from + at + end.len()]),
        None if end == "\n" => Ok(rest),
        None => Err(format!("the closing {end} is missing")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_become_places() {
        let statement =
            parse(" SELECT '?', \"$1\" FROM t WHERE a = ${a} AND b > ${ b.c } -- ?\n", Places::Marks).unwrap();
        assert_eq!(statement.sql, "SELECT '?', \"$1\" FROM t WHERE a = ? AND b > ? -- ?");
        assert_eq!(statement.names, ["a", "b.c"]);
        assert_eq!(parse("VALUES (${a}, ${a})", Places::Numbered).unwrap().sql, "VALUES ($1, $2)");
        assert_eq!(parse("SELECT 'it''s' || $$x$$", Places::Numbered).unwrap().sql, "SELECT 'it''s' || $$x$$");
    }

    #[test]
    fn places_where_none_may_stand_are_mistakes() {
        let cases =
            [("x = '${a}'", "without quotes"), ("x = ${a", "missing"), ("x = 'a", "missing"), ("x = $1", "${name}")];
        for (text, message) in cases.into_iter().chain([(" ", "empty"), ("/* x", "missing")]) {
            assert!(parse(text, Places::Numbered).unwrap_err().contains(message), "{text}");
        }
        assert!(parse("x = ?", Places::Marks).unwrap_err().contains("${name}"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in r"[a'`é?$\{\}*/ -]{0,30}") {
            let _ = parse(&text, Places::Numbered);
            let _ = parse(&text, Places::Marks);
        }
    }
}
