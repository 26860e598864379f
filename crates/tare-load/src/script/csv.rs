//! Comma-separated values (RFC 4180).

/// The rows of a text: fields between `separator`s, optionally in double quotes, in which `""` is a quote and line ends
/// are allowed. Empty lines are skipped. Each row comes with the number of the line on which it starts, from 1.
///
/// # Errors
/// What is wrong, and on which line.
pub(crate) fn parse_csv(text: &str, separator: char) -> Result<Vec<(usize, Vec<String>)>, String> {
    let mut reader = Reader { separator, line: 1, rows: Vec::new(), row: Vec::new(), began: 1 };
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    while !rest.is_empty() {
        rest = if rest.starts_with('"') { reader.quoted(rest)? } else { reader.plain(rest)? };
    }
    // A separator at the very end is followed by an empty field.
    if text.ends_with(separator) {
        reader.row.push(String::new());
    }
    reader.end_row();
    Ok(reader.rows)
}

struct Reader {
    separator: char,
    line: usize,
    rows: Vec<(usize, Vec<String>)>,
    row: Vec<String>,
    began: usize,
}

impl Reader {
    fn plain<'t>(&mut self, text: &'t str) -> Result<&'t str, String> {
        let end = text.find([self.separator, '\n', '"']).unwrap_or(text.len());
        if text[end..].starts_with('"') {
            return Err(format!("line {}: a quote in the middle of a field", self.line));
        }
        let field = &text[..end];
        let at_line_end = !text[end..].starts_with(self.separator);
        self.row.push(if at_line_end { field.trim_end_matches('\r') } else { field }.to_owned());
        Ok(self.after(&text[end..]))
    }

    fn quoted<'t>(&mut self, text: &'t str) -> Result<&'t str, String> {
        let mut field = String::new();
        let mut rest = &text[1..];
        loop {
            let Some(end) = rest.find('"') else {
                return Err(format!("line {}: a quoted field without an end", self.line));
            };
            field.push_str(&rest[..end]);
            rest = &rest[end + 1..];
            let Some(more) = rest.strip_prefix('"') else { break };
            field.push('"');
            rest = more;
        }
        let rest = rest.strip_prefix('\r').filter(|rest| rest.is_empty() || rest.starts_with('\n')).unwrap_or(rest);
        if !(rest.is_empty() || rest.starts_with([self.separator, '\n'])) {
            return Err(format!("line {}: something stands behind a quoted field", self.line));
        }
        self.line += field.matches('\n').count();
        self.row.push(field);
        Ok(self.after(rest))
    }

    /// Continues after a field.
    fn after<'t>(&mut self, rest: &'t str) -> &'t str {
        if let Some(rest) = rest.strip_prefix('\n') {
            self.line += 1;
            self.end_row();
            return rest;
        }
        rest.strip_prefix(self.separator).unwrap_or(rest)
    }

    fn end_row(&mut self) {
        let row = std::mem::take(&mut self.row);
        if !(row.is_empty() || row.len() == 1 && row[0].is_empty()) {
            self.rows.push((self.began, row));
        }
        self.began = self.line;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(text: &str) -> Vec<Vec<String>> {
        parse_csv(text, ',').unwrap().into_iter().map(|(_, row)| row).collect()
    }

    #[test]
    fn fields_are_as_written() {
        assert_eq!(fields("a,b\r\n1,\n\n\"x \"\"y\"\"\n,z\",3"), [["a", "b"], ["1", ""], ["x \"y\"\n,z", "3"]]);
        assert_eq!(fields("\u{feff}a,"), [["a", ""]]);
        assert_eq!(fields("").len() + fields("\n\r\n").len(), 0);
        assert_eq!(parse_csv("a;b", ';').unwrap()[0].1, ["a", "b"]);
        assert_eq!(parse_csv("a\n\"b\nc\"\nd", ',').unwrap().iter().map(|row| row.0).collect::<Vec<_>>(), [1, 2, 4]);
    }

    #[test]
    fn what_is_broken_is_named_with_its_line() {
        for (text, line) in [("a\nb\"c", 2), ("a\n\n\"b", 3), ("\"a\"b", 1), ("\"a\n\"\n\"b\" c", 3)] {
            let message = parse_csv(text, ',').unwrap_err();
            assert!(message.starts_with(&format!("line {line}:")), "{text:?}: {message}");
        }
    }

    proptest! {
        #[test]
        fn what_is_quoted_is_read_back(
            rows in prop::collection::vec(prop::collection::vec("[ab,\"\n\r;]{0,6}", 2..4), 0..6),
        ) {
            let quote = |field: &String| format!("\"{}\"", field.replace('"', "\"\""));
            let line = |row: &Vec<String>| row.iter().map(quote).collect::<Vec<_>>().join(",");
            let text = rows.iter().map(line).collect::<Vec<_>>().join("\r\n");
            prop_assert_eq!(fields(&text), rows);
        }

        #[test]
        fn no_text_is_too_strange(text in "[a,\"\r\n\u{feff}é]{0,20}") {
            let _ = parse_csv(&text, ',');
        }
    }
}
