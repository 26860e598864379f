//! Where a variable's value comes from, compiled.

use super::spec::SourceSpec;
use crate::draw::Draw;
use crate::script::{Escape, Expression, FeedId, Feeds, Names, Slot, Template, ValueRef, Values, write_number};

/// A source. Its feeds are drawn anew each time it is used.
#[derive(Debug)]
pub(crate) struct Source {
    feeds: Box<[FeedId]>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Variable(Slot),
    Number(Expression<Slot>),
    Text(Template),
}

impl Source {
    /// Compiles a source.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn compile(spec: &SourceSpec, names: &Names) -> Result<Self, String> {
        match spec {
            SourceSpec::Expression(text) => {
                let (expression, feeds) = expression(text, names)?;
                let kind = expression.sole_name().map_or(Kind::Number(expression), Kind::Variable);
                Ok(Source { feeds, kind })
            }
            SourceSpec::Text(text) => {
                let template = Template::compile(text, names)?;
                Ok(Source { feeds: template.feeds().into(), kind: Kind::Text(template) })
            }
        }
    }

    /// A source of numbers without feeds.
    pub(super) fn number(expression: Expression<Slot>) -> Self {
        Source { feeds: [].into(), kind: Kind::Number(expression) }
    }

    /// Sets a variable to the next value.
    #[inline]
    pub(crate) fn set(&self, slot: Slot, feeds: &Feeds, draw: &mut Draw, values: &mut Values) {
        feeds.draw(&self.feeds, draw, values);
        match &self.kind {
            Kind::Variable(from) => {
                if let ValueRef::Number(number) = values.get(*from, feeds.texts()) {
                    return values.set_number(slot, number);
                }
                let mut text = values.take_text(slot);
                let ValueRef::Text(found) = values.get(*from, feeds.texts()) else { return values.unset(slot) };
                text.extend_from_slice(found);
                values.put_text(slot, text);
            }
            Kind::Number(expression) => match expression.evaluate(|name| number(values.get(name, feeds.texts()))) {
                Some(number) => values.set_number(slot, number),
                None => values.unset(slot),
            },
            Kind::Text(template) => {
                let mut text = values.take_text(slot);
                template.write(values, feeds, Escape::None, &mut text);
                values.put_text(slot, text);
            }
        }
    }

    /// Appends the next value as text; returns `false` if there is none.
    pub(crate) fn write(&self, feeds: &Feeds, draw: &mut Draw, values: &mut Values, out: &mut Vec<u8>) -> bool {
        feeds.draw(&self.feeds, draw, values);
        match &self.kind {
            Kind::Variable(slot) => return write_value(values.get(*slot, feeds.texts()), out),
            Kind::Number(expression) => match expression.evaluate(|name| number(values.get(name, feeds.texts()))) {
                Some(number) => write_number(number, 0, out),
                None => return false,
            },
            Kind::Text(template) => {
                template.write(values, feeds, Escape::None, out);
            }
        }
        true
    }
}

/// Compiles an expression; returns it with the feeds it draws from.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn expression(text: &str, names: &Names) -> Result<(Expression<Slot>, Box<[FeedId]>), String> {
    let mut feeds = Vec::new();
    let expression = Expression::parse(text, |name| {
        feeds.extend(names.feed(name));
        names.slot(name).ok_or_else(|| format!("there is no variable or feed '{name}'"))
    })?;
    feeds.sort_unstable();
    feeds.dedup();
    Ok((expression, feeds.into()))
}

/// A value as a number, even if it is a text that reads as one.
#[inline]
pub(super) fn number(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Number(number) => Some(number),
        ValueRef::Text(text) => std::str::from_utf8(text).ok()?.trim().parse().ok(),
        ValueRef::Unset => None,
    }
}

/// Appends a value as text; returns `false` if there is none.
#[inline]
pub(crate) fn write_value(value: ValueRef<'_>, out: &mut Vec<u8>) -> bool {
    match value {
        ValueRef::Number(number) => write_number(number, 0, out),
        ValueRef::Text(text) => out.extend_from_slice(text),
        ValueRef::Unset => return false,
    }
    true
}
