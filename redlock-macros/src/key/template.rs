//! Parses `"stock:{sku}"` into text and placeholders.
//!
//! Format specs and names are not checked here: rustc reports them better.

use syn::LitStr;

use crate::errors::Errors;

/// A template, parsed once.
pub(crate) struct Template {
    /// The user's own token.
    pub(crate) lit: LitStr,
    pub(crate) pieces: Vec<Piece>,
    /// What keeps the values apart, which each value escapes.
    pub(crate) separators: String,
}

impl Template {
    /// `None` if `lit` has mistakes, which are reported.
    pub(crate) fn of(lit: &LitStr, errors: &mut Errors) -> Option<Self> {
        Self::checked(lit, parse(&lit.value()), errors)
    }

    /// As `of`, for a template that arguments follow.
    pub(crate) fn before_arguments(lit: &LitStr, errors: &mut Errors) -> Option<Self> {
        Self::checked(lit, parse_before_arguments(&lit.value()), errors)
    }

    fn checked(lit: &LitStr, parsed: Result<Vec<Piece>, Vec<String>>, errors: &mut Errors) -> Option<Self> {
        match parsed.and_then(|pieces| Ok((separators(&pieces)?, pieces))) {
            Ok((separators, pieces)) => Some(Self { lit: lit.clone(), pieces, separators }),
            Err(mistakes) => {
                for mistake in mistakes {
                    errors.at(lit, mistake);
                }
                None
            }
        }
    }

    pub(crate) fn text(&self) -> String {
        self.lit.value()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Placeholder> {
        self.pieces.iter().filter_map(Piece::value)
    }
}

/// A part of a template, in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// As written: `{{` and `}}` stay doubled.
    Text(String),
    Value(Placeholder),
}

impl Piece {
    pub(crate) fn value(&self) -> Option<&Placeholder> {
        match self {
            Self::Text(_) => None,
            Self::Value(value) => Some(value),
        }
    }
}

/// `{self.tenant():04}`: the path is `self`, `tenant()`, the spec `:04`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placeholder {
    /// A name, then fields and calls of methods without arguments.
    pub(crate) path: Vec<String>,
    pub(crate) spec: String,
}

impl Placeholder {
    fn new(path: &[&str], spec: &str) -> Self {
        Self { path: path.iter().map(|step| (*step).to_owned()).collect(), spec: spec.to_owned() }
    }

    /// What stands between the braces, without the spec.
    pub(crate) fn name(&self) -> String {
        self.path.join(".")
    }

    /// True for a value that its `Display` writes.
    pub(crate) fn is_displayed(&self) -> bool {
        let (_, format) = split_fill(self.spec.strip_prefix(':').unwrap_or_default());
        !format.ends_with(|c: char| c == '?' || c.is_ascii_alphabetic())
    }

    /// As it is written in the template.
    pub(crate) fn written(&self) -> String {
        format!("{{{}{}}}", self.name(), self.spec)
    }

    /// The first name of the path; an empty path does not exist.
    pub(crate) fn root(&self) -> &str {
        self.path.first().map_or("", String::as_str)
    }
}

/// The limit of the runtime, in bytes.
const MAX_BYTES: usize = 1024;

/// The pieces of a template, or all its mistakes. Each placeholder must have a name.
pub(crate) fn parse(template: &str) -> Result<Vec<Piece>, Vec<String>> {
    parse_with(placeholder, template)
}

/// As `parse`, for a template that arguments follow: `{}` and `{0}` are placeholders too.
pub(crate) fn parse_before_arguments(template: &str) -> Result<Vec<Piece>, Vec<String>> {
    let placeholder = |inside: &str| match inside_parts(inside) {
        (name, spec) if name.bytes().all(|c| c.is_ascii_digit()) && check_format(inside, spec).is_ok() => {
            Ok(Placeholder::new(&[name], spec))
        }
        _ => placeholder(inside),
    };
    parse_with(placeholder, template)
}

fn parse_with(
    placeholder: impl Fn(&str) -> Result<Placeholder, String>,
    template: &str,
) -> Result<Vec<Piece>, Vec<String>> {
    let (mut pieces, mut errors) = (Vec::new(), Vec::new());
    let (mut rest, mut text_end) = (template, 0);
    if template.is_empty() {
        return Err(vec!["the key is empty: say what is locked, such as `\"order:{id}\"`".to_owned()]);
    }
    if template.contains(char::is_control) {
        errors.push("a key cannot contain control characters such as line breaks".to_owned());
    }
    while let Some(at) = rest[text_end..].find(['{', '}']).map(|at| at + text_end) {
        let (brace, after) = rest[at..].split_at(1);
        if after.starts_with(brace) {
            text_end = at + 2;
            continue;
        }
        push_text(&mut pieces, &rest[..at]);
        text_end = 0;
        if brace == "}" {
            errors.push("unmatched `}` in the key: write `}}` for a brace in the text".to_owned());
            rest = after;
            continue;
        }
        let end = after.find(['{', '}']).unwrap_or(after.len());
        let (inside, tail) = after.split_at(end);
        match tail.chars().next() {
            Some('}') if rest[..at].ends_with('$') => {
                errors.push(format!("a placeholder has no `$`: write `{{{inside}}}`"));
            }
            Some('}') => match placeholder(inside) {
                Ok(value) => pieces.push(Piece::Value(value)),
                Err(error) => errors.push(error),
            },
            Some(_) => errors.push(format!(
                "`{{` inside the placeholder `{{{inside}`: close it first, or write `{{{{` for a brace in the text"
            )),
            None if inside.is_empty() => errors.push(
                "`{` opens a placeholder: name an argument, such as `{id}`, or write `{{` for a brace in the text"
                    .to_owned(),
            ),
            None => errors.push(format!("the placeholder `{{{inside}` is not closed: write `{{{inside}}}`")),
        }
        rest = after_placeholder(tail);
    }
    push_text(&mut pieces, rest);
    let bytes: usize =
        pieces.iter().map(|piece| if let Piece::Text(text) = piece { text.len() } else { 0 }).sum();
    if bytes > MAX_BYTES {
        errors.push(format!(
            "the key is too long: {bytes} bytes without its placeholders, the limit is {MAX_BYTES}"
        ));
    }
    if errors.is_empty() { Ok(pieces) } else { Err(errors) }
}

/// The text after the brace that closes the placeholder. Nested braces are skipped, so that one
/// mistake is one error.
fn after_placeholder(tail: &str) -> &str {
    let mut depth = 1_usize;
    for (at, c) in tail.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &tail[at + 1..];
        }
    }
    ""
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
}

/// The name and the spec of a placeholder.
fn inside_parts(inside: &str) -> (&str, &str) {
    inside.split_at(inside.find(':').unwrap_or(inside.len()))
}

/// The inside of `{…}`.
fn placeholder(inside: &str) -> Result<Placeholder, String> {
    let (name, spec) = inside_parts(inside);
    check_format(inside, spec)?;
    if name.trim().is_empty() {
        return Err(format!("`{{{inside}}}` names no argument: write its name, such as `{{id}}`"));
    }
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!(
            "`{{{inside}}}` is a position: write the name of the argument, such as `{{id}}`"
        ));
    }
    let is_word = |c: char| c.is_alphanumeric() || "_.()".contains(c);
    let closed: Vec<&str> = name.split('.').map(str::trim).collect();
    if name.contains(' ') && closed.iter().all(|step| step.chars().all(is_word)) {
        return Err(format!("`{{{inside}}}` has a space in it: write `{{{}{spec}}}`", closed.join(".")));
    }
    let within = name.strip_prefix('(').and_then(|name| name.strip_suffix(')'));
    if let Some(within) = within.filter(|within| within.chars().all(|c| is_word(c) && c != '(')) {
        return Err(format!("`{{{inside}}}` has parentheses around it: write `{{{within}{spec}}}`"));
    }
    if let Some(unraw) = name.strip_prefix("r#") {
        return Err(format!("`{{{inside}}}` has an `r#`: write `{{{unraw}{spec}}}`"));
    }
    let path: Vec<&str> = name.split('.').collect();
    let called = |step: &&str| step.ends_with("()");
    if path.first().is_some_and(called) {
        return Err(format!("`{{{inside}}}` calls a function: {}", by_hand(name, spec)));
    }
    if name.contains('?') {
        return Err(format!("`{{{inside}}}`: a placeholder has no `?`: {}", by_hand(name, spec)));
    }
    let mut names = path.iter().flat_map(|step| step.strip_suffix("()").unwrap_or(step).chars());
    if let Some(odd) = names.find(|c| !(c.is_alphanumeric() || *c == '_')) {
        return Err(match odd {
            '(' | ')' => format!("`{{{inside}}}` is a call with arguments: {}", by_hand(name, spec)),
            '[' | ']' => format!("`{{{inside}}}` is an index: {}", by_hand(name, spec)),
            _ => format!("`{{{inside}}}` is not a name or a path of fields: {}", by_hand(name, spec)),
        });
    }
    if path.iter().any(|step| step.is_empty() || *step == "()") {
        return Err(format!("`{{{inside}}}` is not a path of fields: write one such as `{{order.id}}`"));
    }
    Ok(Placeholder::new(&path, spec))
}

/// The fill character with its alignment, and the rest of a format spec.
fn split_fill(spec: &str) -> (&str, &str) {
    let aligned = spec.chars().nth(1).is_some_and(|c| matches!(c, '<' | '^' | '>'));
    let end = spec.char_indices().nth(2).map_or(spec.len(), |(at, _)| at);
    spec.split_at(if aligned { end } else { 0 })
}

/// Refuses specs that a key cannot have.
fn check_format(inside: &str, spec: &str) -> Result<(), String> {
    let (fill, format) = split_fill(spec.strip_prefix(':').unwrap_or_default());
    if fill.is_empty() && format.starts_with(':') {
        return Err(format!("`{{{inside}}}` is a path: {}", by_hand(inside, "")));
    }
    if format.ends_with('p') {
        return Err(format!("`{{{inside}}}` is an address, which differs from machine to machine"));
    }
    if format.contains('$') || format.contains(".*") {
        let formatted = format!("format!(\"{{{inside}}}\")");
        return Err(format!("`{{{inside}}}` takes its width from an argument: {}", by_hand(&formatted, "")));
    }
    Ok(())
}

/// The advice for an expression that a template cannot hold.
fn by_hand(expr: &str, spec: &str) -> String {
    format!("write `{{{spec}}}` for it, as in `key = redlocked::key!(\"...:{{{spec}}}\", {expr})`")
}

/// The characters that keep the values of a template apart, except for those that every key escapes;
/// or an error for values that nothing keeps apart.
///
/// A constant counts as any other value: its name does not tell it from a variable.
///
/// An escaped value holds none of them, so the first of them after a value ends it. Letters, digits
/// and `%` cannot be separators, because escapes are made of them.
fn separators(pieces: &[Piece]) -> Result<String, Vec<String>> {
    let (mut separators, mut errors) = (String::new(), Vec::new());
    let (mut last, mut between): (Option<&Placeholder>, String) = (None, String::new());
    for piece in pieces {
        match piece {
            Piece::Text(text) => between.push_str(text),
            Piece::Value(value) => {
                between.retain(|c| !c.is_alphanumeric() && c != '%');
                if let Some(last) = last.replace(value) {
                    if between.is_empty() {
                        let (last, value) = (last.written(), value.written());
                        errors.push(format!(
                            "nothing keeps `{last}` and `{value}` apart, so other arguments could give the same key: \
                             write `{last}:{value}`, or put other punctuation between"
                        ));
                    }
                    let new = |c: &char| !ESCAPED.contains(c);
                    for c in between.chars().filter(new) {
                        if !separators.contains(c) {
                            separators.push(c);
                        }
                    }
                }
                between.clear();
            }
        }
    }
    if errors.is_empty() { Ok(separators) } else { Err(errors) }
}

/// The characters that the runtime escapes in every value. It also escapes control characters,
/// which no template holds.
const ESCAPED: [char; 4] = [':', '{', '}', '%'];

#[cfg(test)]
mod tests {
    use super::{Piece, Placeholder, parse, parse_before_arguments, separators};

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    fn value(path: &[&str], spec: &str) -> Piece {
        Piece::Value(Placeholder::new(path, spec))
    }

    #[test]
    fn templates() {
        for (template, pieces) in [
            ("nightly", vec![text("nightly")]),
            ("{id}", vec![value(&["id"], "")]),
            ("stock:{sku}", vec![text("stock:"), value(&["sku"], "")]),
            ("{a}{b}", vec![value(&["a"], ""), value(&["b"], "")]),
            ("{a}-{b}.", vec![value(&["a"], ""), text("-"), value(&["b"], ""), text(".")]),
            ("{n:04}", vec![value(&["n"], ":04")]),
            ("{n:?}", vec![value(&["n"], ":?")]),
            ("{n:>+8.3e}", vec![value(&["n"], ":>+8.3e")]),
            ("{n::>8}", vec![value(&["n"], "::>8")]),
            ("{self}", vec![value(&["self"], "")]),
            ("{self.a.b:x}", vec![value(&["self", "a", "b"], ":x")]),
            ("{pair.0}", vec![value(&["pair", "0"], "")]),
            ("{a.b().c:04}", vec![value(&["a", "b()", "c"], ":04")]),
            ("{{}}", vec![text("{{}}")]),
            ("{{{id}}}", vec![text("{{"), value(&["id"], ""), text("}}")]),
            ("a{{b}}c{id}", vec![text("a{{b}}c"), value(&["id"], "")]),
            ("für:{größe}", vec![text("für:"), value(&["größe"], "")]),
            ("{n:*>8}", vec![value(&["n"], ":*>8")]),
            ("{n:$^p<8}", vec![value(&["n"], ":$^p<8")]),
        ] {
            assert_eq!(parse(template), Ok(pieces), "{template:?}");
        }
    }

    #[test]
    fn mistakes() {
        for (template, hint) in [
            ("", "the key is empty"),
            ("a:{}", "names no argument"),
            ("a:{:04}", "names no argument"),
            ("a:{ }", "names no argument"),
            ("a:{0}", "is a position"),
            ("a:{ id }", "write `{id}`"),
            ("a:{id :04}", "write `{id:04}`"),
            ("a:{b .c. d()}", "write `{b.c.d()}`"),
            ("a:{(b.c):04}", "has parentheses around it: write `{b.c:04}`"),
            ("a:{id", "the placeholder `{id` is not closed: write `{id}`"),
            ("a:{", "opens a placeholder: name an argument"),
            ("a:${id}", "has no `$`: write `{id}`"),
            ("a:id}", "unmatched `}`"),
            ("a:{{id}", "unmatched `}`"),
            ("a:{x{y}}", "inside the placeholder"),
            ("a:{a..b}", "is not a path of fields"),
            ("a:{.b}", "is not a path of fields"),
            ("a:{a.}", "is not a path of fields"),
            (
                "a:{f(x)}",
                "is a call with arguments: write `{}` for it, as in `key = redlocked::key!(\"...:{}\", f(x))`",
            ),
            ("a:{f()}", "calls a function: write `{}` for it"),
            (
                "a:{a.b().c(1):04}",
                "write `{:04}` for it, as in `key = redlocked::key!(\"...:{:04}\", a.b().c(1))`",
            ),
            ("a:{a.()}", "is not a path of fields"),
            ("a:{a.b()()}", "is a call with arguments"),
            ("a:{a.b)}", "is a call with arguments"),
            ("a:{a[0]}", "is an index"),
            (
                "a:{a.get()?}",
                "a placeholder has no `?`: write `{}` for it, as in `key = redlocked::key!(\"...:{}\", a.get()?)`",
            ),
            ("a:{a::B}", "is a path"),
            ("a:{Self::KIND}", "is a path"),
            ("a:{a+b}", "is not a name"),
            ("a:{*a}", "is not a name"),
            ("a:{&a}", "is not a name"),
            ("a:{a-b}", "is not a name"),
            ("a:{n:w$}", "takes its width from an argument"),
            ("a:{n:.*}", "takes its width from an argument"),
            ("a:{n:p}", "is an address"),
            ("a:{n:#>p}", "is an address"),
            ("a:{r#type}", "write `{type}`"),
            ("a\n:{n}", "control characters"),
        ] {
            let errors = parse(template).err().unwrap_or_default();
            assert_eq!(errors.len(), 1, "{template:?}: {errors:?}");
            assert!(errors[0].contains(hint), "{template:?}: {errors:?}");
        }
        assert!(parse(&"x".repeat(1024)).is_ok());
        assert!(parse(&"x".repeat(1025)).is_err());
    }

    #[test]
    fn positions() {
        for (template, pieces) in [
            ("{}", vec![value(&[""], "")]),
            ("a:{0:04}", vec![text("a:"), value(&["0"], ":04")]),
            ("{a.b()}:{:?}", vec![value(&["a", "b()"], ""), text(":"), value(&[""], ":?")]),
        ] {
            assert_eq!(parse_before_arguments(template), Ok(pieces), "{template:?}");
        }
        for template in ["{0.a}", "{0 }", "{:p}", "{:.*}", "{0:w$}"] {
            assert!(parse_before_arguments(template).is_err(), "{template:?}");
        }
    }

    #[test]
    fn separators_of_values() {
        for (template, found) in [
            ("a-b", Ok("")),
            ("a-{b}-c", Ok("")),
            ("{a}:{b}", Ok("")),
            ("{a}}}{b}", Ok("")),
            ("{a}-{b}", Ok("-")),
            ("x.{a}-{b}/{c} {d}-{a}_x", Ok("-/ ")),
            ("{a}, {b}", Ok(", ")),
            ("{a}x:y-z{b}", Ok("-")),
            ("{a}→{b}", Ok("→")),
            ("{a:->5}_{b}", Ok("_")),
            ("{a}{b}", Err("nothing keeps `{a}` and `{b}` apart")),
            ("{a.b:02}{c}", Err("write `{a.b:02}:{c}`")),
            ("{A}{b}", Err("write `{A}:{b}`")),
            ("{a}x{b}", Err("write `{a}:{b}`")),
            ("{a}0é日{b}", Err("write `{a}:{b}`")),
            ("{a}%{b}", Err("write `{a}:{b}`")),
        ] {
            let pieces = parse(template).unwrap_or_default();
            let separators = separators(&pieces);
            let as_expected = match (&separators, found) {
                (Ok(separators), Ok(found)) => separators == found,
                (Err(errors), Err(hint)) => errors.join("").contains(hint),
                _ => false,
            };
            assert!(as_expected, "{template}: {separators:?}");
        }
    }

    #[test]
    fn all_mistakes_at_once() {
        let errors = parse("{}:{0}:{f(x)}:{id").err().unwrap_or_default();
        assert_eq!(errors.len(), 4, "{errors:?}");
    }

    #[test]
    fn nothing_panics() {
        let pieces = ["{", "}", "{{", "}}", "a", ".", ":", "é", "0", "$", " "];
        for a in pieces {
            for b in pieces {
                for c in pieces {
                    for d in pieces {
                        let _ = parse(&format!("{a}{b}{c}{d}"));
                    }
                }
            }
        }
    }
}
