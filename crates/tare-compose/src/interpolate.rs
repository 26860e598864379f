//! Variables in texts: `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME:?message}`, `${NAME:+other}`; `$$` is a `$`.

/// Deeper nesting of defaults than anybody writes.
const DEPTH_MAX: usize = 16;

/// Gives the value of a variable, if it is set.
pub(crate) type Variables<'v> = dyn Fn(&str) -> Option<String> + 'v;

/// A text in which variables have been replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filled {
    /// The text.
    pub(crate) text: String,
    /// The variables that are not set and have no default: nothing stands in their place.
    pub(crate) unset: Vec<String>,
}

/// Why the variables of a text cannot be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unfilled {
    /// What is wrong with the text, or the message of a required variable that is not set.
    pub(crate) why: String,
    /// What to do.
    pub(crate) hint: String,
}

impl Unfilled {
    fn text(why: impl Into<String>) -> Unfilled {
        Unfilled { why: why.into(), hint: "write $$ for a $ that is meant as such".to_owned() }
    }
}

/// Replaces the variables in a text.
///
/// # Errors
/// What is wrong with it, or the message of a required variable that is not set.
pub(crate) fn fill(text: &str, variables: &Variables) -> Result<Filled, Unfilled> {
    let mut filled = Filled::default();
    fill_into(text, variables, DEPTH_MAX, &mut filled)?;
    Ok(filled)
}

fn fill_into(text: &str, variables: &Variables, depth: usize, filled: &mut Filled) -> Result<(), Unfilled> {
    if depth == 0 {
        return Err(Unfilled::text("defaults stand in each other too deeply here"));
    }
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        filled.text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            filled.text.push('$');
            rest = after;
        } else if let Some(inner) = rest.strip_prefix('{') {
            let end = closing(inner).ok_or_else(|| Unfilled::text("the '}' of a '${' is missing"))?;
            braced(&inner[..end], variables, depth, filled)?;
            rest = &inner[end + 1..];
        } else {
            let length = name_length(rest);
            if length == 0 {
                return Err(Unfilled::text("a '$' stands before something that is no variable's name"));
            }
            let name = &rest[..length];
            match variables(name) {
                Some(value) => filled.text.push_str(&value),
                None => filled.unset.push(name.to_owned()),
            }
            rest = &rest[length..];
        }
    }
    filled.text.push_str(rest);
    Ok(())
}

/// What stands between `${` and its `}`.
fn braced(inner: &str, variables: &Variables, depth: usize, filled: &mut Filled) -> Result<(), Unfilled> {
    let length = name_length(inner);
    let (name, rest) = inner.split_at(length);
    if name.is_empty() {
        return Err(Unfilled::text(format!("'${{{inner}}}' names no variable")));
    }
    let value = variables(name);
    let (colon, rest) = match rest.strip_prefix(':') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let counts = value.as_ref().is_some_and(|value| !colon || !value.is_empty());
    let mut operators = rest.chars();
    match (operators.next(), operators.as_str()) {
        (None, _) if !colon => match value {
            Some(value) => filled.text.push_str(&value),
            None => filled.unset.push(name.to_owned()),
        },
        (Some('-'), default) => match value.filter(|_| counts) {
            Some(value) => filled.text.push_str(&value),
            None => fill_into(default, variables, depth - 1, filled)?,
        },
        (Some('+'), other) if counts => fill_into(other, variables, depth - 1, filled)?,
        (Some('+'), _) => {}
        (Some('?'), message) => match value.filter(|_| counts) {
            Some(value) => filled.text.push_str(&value),
            None => {
                let mut told = Filled::default();
                fill_into(message, variables, depth - 1, &mut told)?;
                let state = if colon { "not set, or empty" } else { "not set" };
                let colon = if told.text.is_empty() { "" } else { ": " };
                let why = format!("the variable '{name}' is {state}{colon}{}", told.text);
                return Err(Unfilled { why, hint: format!("export {name}=..., and import again") });
            }
        },
        _ => {
            let why = format!("'${{{inner}}}' has no operator that is known: ':-', '-', ':?', '?', ':+', '+'");
            return Err(Unfilled::text(why));
        }
    }
    Ok(())
}

/// Where the `}` of an open `${` stands; defaults may have variables of their own.
fn closing(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut open) = (0, 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'$', b'$', ..] => at += 1,
            [b'$', b'{', ..] => {
                open += 1;
                at += 1;
            }
            [b'}', ..] if open == 0 => return Some(at),
            [b'}', ..] => open -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

/// How many bytes of the beginning are a variable's name.
fn name_length(text: &str) -> usize {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if begins { end } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(text: &str) -> Result<Filled, Unfilled> {
        let variables = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        fill(text, &variables)
    }

    fn text(of: &str) -> String {
        filled(of).unwrap().text
    }

    #[test]
    fn each_operator_means_what_the_specification_says() {
        let cases = [
            ("$A-${A}", "1-1"),
            ("$$A $${A}", "$A ${A}"),
            ("${A:-x}${EMPTY:-x}${NO:-x}", "1xx"),
            ("${A-x}${EMPTY-x}${NO-x}", "1x"),
            ("${A:+x}${EMPTY:+x}${NO:+x}", "x"),
            ("${A+x}${EMPTY+x}${NO+x}", "xx"),
            ("${A:?no}${EMPTY?no}", "1"),
            ("${NO:-${NO2:-${A}}}", "1"),
            ("${NO:-a$${b}", "a${b"),
            ("${NO:-}", ""),
            ("http://${NO:-h}:80/$A", "http://h:80/1"),
        ];
        for (given, wanted) in cases {
            assert_eq!(text(given), wanted, "{given}");
        }
        let unset = filled("a${NO}b$NO2").unwrap();
        assert_eq!((unset.text.as_str(), unset.unset.join(" ")), ("ab", "NO NO2".to_owned()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            ("${NO:?needed for $A}", "the variable 'NO' is not set, or empty: needed for 1"),
            ("${EMPTY:?}", "not set, or empty"),
            ("${A", "is missing"),
            ("$(date)", "no variable's name"),
            ("cost: 5$", "no variable's name"),
            ("${}", "names no variable"),
            ("${1}", "names no variable"),
            ("${A!x}", "no operator"),
            ("${A:}", "no operator"),
        ];
        for (given, wanted) in cases {
            let told = filled(given).unwrap_err().why;
            assert!(told.contains(wanted), "{given}: {told}");
        }
        let deep = format!("{}x{}", "${NO:-".repeat(40), "}".repeat(40));
        assert!(filled(&deep).unwrap_err().why.contains("too deeply"));
    }

    proptest! {
        #[test]
        fn any_text_is_filled_or_refused(text in "[$a-zA-Z{}:?+\\-_ é0-9]{0,60}") {
            let _ = filled(&text);
        }

        #[test]
        fn a_text_without_dollars_stays_as_it_is(given in "[^$]{0,60}") {
            prop_assert_eq!(text(&given), given);
        }

        #[test]
        fn doubled_dollars_are_the_text_itself(given in "\\PC{0,60}") {
            prop_assert_eq!(text(&given.replace('$', "$$")), given);
        }

        #[test]
        fn a_default_is_taken_as_if_it_stood_alone(default in "[a-z /:$A]{0,20}") {
            let alone = filled(&default);
            prop_assert_eq!(filled(&format!("${{NO:-{default}}}")), alone);
        }
    }
}
