//! Expressions over variables, such as `(row - 1) / 10 + 1`, of integers or decimals: parsed once, evaluated from a
//! flat list.

/// How deep an expression may nest; its stack has the same size.
const DEPTH_MAX: usize = 16;

/// One operation on a stack of numbers. `N` identifies a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation<N> {
    /// Pushes a number.
    Number(i64),
    /// Pushes the value of a name.
    Name(N),
    /// Replaces the top two by their sum.
    Add,
    /// Their difference.
    Subtract,
    /// Their product.
    Multiply,
    /// Their quotient, rounded towards zero.
    Divide,
    /// The remainder of their division, with the sign of the first.
    Remainder,
}

/// An expression as operations on a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expression<N>(Vec<Operation<N>>);

impl<N: Copy> Expression<N> {
    /// Parses an expression; `name` resolves names.
    ///
    /// # Errors
    /// What is wrong with the text, in words.
    pub(crate) fn parse(text: &str, mut name: impl FnMut(&str) -> Result<N, String>) -> Result<Self, String> {
        let mut parser =
            Parser { rest: text, name: &mut name, operations: Vec::new(), depth: 0, deepest: 0, nested: 0 };
        parser.sum()?;
        match parser.rest.trim_start().chars().next() {
            None => Ok(Expression(parser.operations)),
            Some(found) => Err(format!("'{found}' is not expected here")),
        }
    }

    /// The name, if the expression consists only of one.
    pub(crate) fn sole_name(&self) -> Option<N> {
        match self.0[..] {
            [Operation::Name(name)] => Some(name),
            _ => None,
        }
    }

    /// Its integer value; none if a name has no value or there is a division by zero. Numbers wrap around at 64 bits.
    #[inline]
    pub(crate) fn evaluate(&self, mut value: impl FnMut(N) -> Option<i64>) -> Option<i64> {
        let mut stack = [0_i64; DEPTH_MAX];
        let mut top = 0;
        for operation in &self.0 {
            let number = match *operation {
                Operation::Number(number) => number,
                Operation::Name(name) => value(name)?,
                binary => {
                    top -= 2;
                    let (left, right) = (stack[top], stack[top + 1]);
                    match binary {
                        Operation::Add => left.wrapping_add(right),
                        Operation::Subtract => left.wrapping_sub(right),
                        Operation::Multiply => left.wrapping_mul(right),
                        Operation::Divide if right != 0 => left.wrapping_div(right),
                        Operation::Remainder if right != 0 => left.wrapping_rem(right),
                        _ => return None,
                    }
                }
            };
            stack[top] = number;
            top += 1;
        }
        Some(stack[0])
    }

    /// Its value as a decimal; none if a name has no value or the result is not finite, as after a division by zero.
    pub(crate) fn evaluate_decimal(&self, mut value: impl FnMut(N) -> Option<f64>) -> Option<f64> {
        let mut stack = [0.0; DEPTH_MAX];
        let mut top = 0;
        for operation in &self.0 {
            let number = match *operation {
                Operation::Number(number) => number as f64,
                Operation::Name(name) => value(name)?,
                binary => {
                    top -= 2;
                    let (left, right) = (stack[top], stack[top + 1]);
                    match binary {
                        Operation::Add => left + right,
                        Operation::Subtract => left - right,
                        Operation::Multiply => left * right,
                        Operation::Divide => left / right,
                        _ => left % right,
                    }
                }
            };
            stack[top] = number;
            top += 1;
        }
        Some(stack[0]).filter(|number: &f64| number.is_finite())
    }
}

struct Parser<'a, N> {
    rest: &'a str,
    name: &'a mut dyn FnMut(&str) -> Result<N, String>,
    operations: Vec<Operation<N>>,
    depth: usize,
    deepest: usize,
    nested: usize,
}

impl<N> Parser<'_, N> {
    fn sum(&mut self) -> Result<(), String> {
        self.product()?;
        while let Some(sign) = self.take(&['+', '-']) {
            self.product()?;
            self.binary(if sign == '+' { Operation::Add } else { Operation::Subtract });
        }
        Ok(())
    }

    fn product(&mut self) -> Result<(), String> {
        self.factor()?;
        while let Some(sign) = self.take(&['*', '/', '%']) {
            self.factor()?;
            self.binary(match sign {
                '*' => Operation::Multiply,
                '/' => Operation::Divide,
                _ => Operation::Remainder,
            });
        }
        Ok(())
    }

    fn factor(&mut self) -> Result<(), String> {
        self.nested += 1;
        if self.nested > DEPTH_MAX {
            return Err("this expression is nested too deeply".into());
        }
        if self.take(&['-']).is_some() {
            self.push(Operation::Number(0))?;
            self.factor()?;
            self.binary(Operation::Subtract);
        } else if self.take(&['(']).is_some() {
            self.sum()?;
            self.take(&[')']).ok_or("a ')' is missing")?;
        } else {
            self.leaf()?;
        }
        self.nested -= 1;
        Ok(())
    }

    fn leaf(&mut self) -> Result<(), String> {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !is_word(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match word.chars().next() {
            None => Err(match self.rest.chars().next() {
                Some(found) => format!("a number or a name is wanted, not '{found}'"),
                None => "a number or a name is missing at the end".into(),
            }),
            Some(first) if first.is_ascii_digit() => {
                let number = word.replace('_', "").parse().map_err(|_| format!("'{word}' is no whole number"))?;
                self.push(Operation::Number(number))
            }
            Some(_) => {
                let name = (self.name)(word)?;
                self.push(Operation::Name(name))
            }
        }
    }

    fn push(&mut self, operation: Operation<N>) -> Result<(), String> {
        self.operations.push(operation);
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        if self.deepest > DEPTH_MAX { Err("this expression is nested too deeply".into()) } else { Ok(()) }
    }

    fn binary(&mut self, operation: Operation<N>) {
        self.operations.push(operation);
        self.depth -= 1;
    }

    fn take(&mut self, signs: &[char]) -> Option<char> {
        self.rest = self.rest.trim_start();
        let sign = self.rest.chars().next().filter(|sign| signs.contains(sign))?;
        self.rest = &self.rest[1..];
        Some(sign)
    }
}

/// Whether a name may contain this character.
pub(crate) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> Result<Option<i64>, String> {
        let parsed = Expression::parse(text, |name| match name {
            "a" => Ok(7),
            "nothing" => Ok(-1),
            other => Err(format!("there is no '{other}'")),
        })?;
        Ok(parsed.evaluate(|name| (name >= 0).then_some(name)))
    }

    #[test]
    fn arithmetic_is_as_usual() {
        let cases = [("1 + 2*3", 7), ("(1+2)*3", 9), ("10 - 3 - 2", 5), ("-a % 4", -3), ("--a", 7), ("1_000/3", 333)];
        for (text, expected) in cases {
            assert_eq!(value(text), Ok(Some(expected)), "{text}");
        }
        assert_eq!(value("1 / (a - 7)"), Ok(None));
        assert_eq!(value("9223372036854775807 + 1"), Ok(Some(i64::MIN)));
        assert_eq!(value("(0-9223372036854775807-1) / (0-1)"), Ok(Some(i64::MIN)));
        assert_eq!(value("nothing + 1"), Ok(None));
        let decimal = |text: &str| Expression::parse(text, |_| Ok(0)).unwrap().evaluate_decimal(|_: i32| Some(12.5));
        assert_eq!(
            (decimal("a * (100 + 2) / 100"), decimal("-a + 1"), decimal("a / 0")),
            (Some(12.75), Some(-11.5), None)
        );
    }

    #[test]
    fn what_is_no_expression_is_said_to_be_none() {
        let cases = [("", "missing"), ("1 +", "missing"), ("(1", "')'"), ("1 2", "not expected"), ("b", "no 'b'")];
        for (text, message) in cases.into_iter().chain([("1x", "whole number"), ("é", "not 'é'"), ("1é", "'é'")]) {
            assert!(value(text).unwrap_err().contains(message), "{text}: {:?}", value(text));
        }
        assert!(value(&"(".repeat(10_000)).unwrap_err().contains("nested"));
        assert!(value(&"-".repeat(10_000)).unwrap_err().contains("nested"));
        assert_eq!(value(&["1"; 1000].join("+")), Ok(Some(1000)));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a0-9+*/%() .é-]{0,40}") {
            let _ = value(&text);
        }
    }
}
