//! The variables that tokens name: the one scanner of tokens, for the expressions of the attribute
//! and for bodies.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::{Block, Expr, Lit, LitStr, Stmt};

/// Macros whose value depends on no variable.
const CONSTANT_MACROS: [&str; 9] =
    ["column", "concat", "env", "file", "include_str", "line", "module_path", "option_env", "stringify"];

/// Methods that take their receiver by value, beside all that start with `into` and `unwrap`.
const CONSUMING: [&str; 9] =
    ["and_then", "build", "expect", "finish", "map", "map_or", "map_or_else", "ok", "ok_or"];

/// A place where tokens name a variable.
pub(crate) struct Variable<'a> {
    pub(crate) name: String,
    /// Among the arguments of a macro, or in its format string.
    in_macro: bool,
    /// Inside of parentheses, brackets or braces.
    is_nested: bool,
    before: &'a [TokenTree],
    behind: &'a [TokenTree],
}

impl Variable<'_> {
    /// True where the variable, or a field of it, is passed on by value. The name of a method says
    /// whether it takes its receiver by value.
    pub(crate) fn is_taken(&self) -> bool {
        if self.in_macro || is_punct(self.before.last(), "&") || is_word(self.before.last(), "mut") {
            return false;
        }
        let mut rest = self.behind;
        while let [TokenTree::Punct(dot), member, behind @ ..] = rest
            && dot.as_char() == '.'
            && matches!(member, TokenTree::Ident(_) | TokenTree::Literal(_))
        {
            if let [TokenTree::Group(_), ..] = behind {
                let method = member.to_string();
                let starts = |word| method.starts_with(word);
                return starts("into") || starts("unwrap") || CONSUMING.contains(&method.as_str());
            }
            rest = behind;
        }
        let starts = self.before.is_empty() || is_punct(self.before.last(), ",");
        // `a + "x"`, and not `a += "x"`.
        let is_added_to = is_punct(rest.first(), "+") && !is_punct(rest.get(1), "=");
        let ends = rest.is_empty() || is_punct(rest.first(), ",");
        starts && is_added_to || self.is_nested && ends
    }

    /// True where a value is assigned to the variable, or to a field of it.
    pub(crate) fn is_assigned(&self) -> bool {
        let mut rest = self.behind;
        while let [TokenTree::Punct(dot), TokenTree::Ident(_) | TokenTree::Literal(_), behind @ ..] = rest
            && dot.as_char() == '.'
        {
            rest = behind;
        }
        // `=`, and `+=` and its like; not `==`, `=>` and comparisons.
        match rest {
            [TokenTree::Punct(op), TokenTree::Punct(eq), ..] if eq.as_char() == '=' => {
                !"=<>!".contains(op.as_char())
            }
            [TokenTree::Punct(eq), TokenTree::Punct(next), ..] => {
                eq.as_char() == '=' && !"=>".contains(next.as_char())
            }
            [TokenTree::Punct(eq), ..] => eq.as_char() == '=',
            _ => false,
        }
    }
}

/// The first variable in `tokens` that `wanted` accepts. In doubt, a name is a variable.
pub(crate) fn find(tokens: &TokenStream, wanted: &dyn Fn(&Variable<'_>) -> bool) -> Option<(String, Span)> {
    find_in(tokens, &Place::default(), wanted)
}

/// The first variable in `tokens` whose name `known` accepts.
pub(crate) fn named(tokens: &TokenStream, known: &dyn Fn(&str) -> bool) -> Option<String> {
    find(tokens, &|variable| known(&variable.name)).map(|(name, _)| name)
}

/// Where tokens stand.
#[derive(Clone, Default)]
struct Place {
    in_macro: bool,
    is_nested: bool,
    /// What a `let` before them binds: other variables.
    locals: Vec<String>,
}

fn find_in(
    tokens: &TokenStream,
    place: &Place,
    wanted: &dyn Fn(&Variable<'_>) -> bool,
) -> Option<(String, Span)> {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut place = place.clone();
    let mut pattern_ends = 0;
    let mut bound = Vec::new();
    (0..tokens.len()).find_map(|at| {
        let (before, behind) = (&tokens[..at], &tokens[at + 1..]);
        if starts_let(before, &tokens[at]) {
            let pattern = behind.split(|token| {
                is_punct(Some(token), "=") || is_punct(Some(token), ":") || is_punct(Some(token), ";")
            });
            let pattern = pattern.into_iter().next().unwrap_or_default();
            pattern_ends = at + 1 + pattern.len();
            bound.extend(words_in(pattern.iter().cloned().collect()));
        }
        if is_punct(Some(&tokens[at]), ";") {
            place.locals.append(&mut bound);
        }
        if at < pattern_ends {
            return None;
        }
        let (in_macro, is_nested) = (place.in_macro, place.is_nested);
        match &tokens[at] {
            TokenTree::Ident(_)
                if is_member(before) || calls_macro(behind) || is_label(before, behind, in_macro) =>
            {
                None
            }
            TokenTree::Ident(ident) if place.locals.iter().any(|local| ident.unraw() == local) => None,
            TokenTree::Ident(ident) => {
                let (name, span) = (ident.unraw().to_string(), ident.span());
                let variable = Variable { name, in_macro, is_nested, before, behind };
                wanted(&variable).then_some((variable.name, span))
            }
            TokenTree::Group(group) => {
                let inside = group.stream();
                let is_nested = is_nested || group.delimiter() != Delimiter::None;
                match called_macro(before) {
                    Some(name) if CONSTANT_MACROS.contains(&name.as_str()) => None,
                    Some(_) => {
                        let place = Place { in_macro: true, is_nested, ..place.clone() };
                        let is_local = |name: &str| place.locals.iter().any(|local| local == name);
                        find_in(&inside, &place, wanted).or_else(|| {
                            find_in_text(&inside, &|variable| !is_local(&variable.name) && wanted(variable))
                        })
                    }
                    None => find_in(&inside, &Place { is_nested, ..place.clone() }, wanted),
                }
            }
            _ => None,
        }
    })
}

/// The first variable that a string directly among the arguments of a macro names, as in
/// `format!("stock:{sku}")`.
fn find_in_text(arguments: &TokenStream, wanted: &dyn Fn(&Variable<'_>) -> bool) -> Option<(String, Span)> {
    arguments.clone().into_iter().find_map(|token| match token {
        TokenTree::Literal(literal) => {
            let span = literal.span();
            let text = syn::parse_str::<LitStr>(&literal.to_string()).ok()?.value();
            let is_wanted = |name: &str| {
                let name = name.to_owned();
                wanted(&Variable { name, in_macro: true, is_nested: true, before: &[], behind: &[] })
            };
            placeholder(&text, &is_wanted).map(|name| (name, span))
        }
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            find_in_text(&group.stream(), wanted)
        }
        _ => None,
    })
}

/// The first known name between braces, also of a width or a precision, as `n` in `{id:n$}`.
fn placeholder(text: &str, known: &dyn Fn(&str) -> bool) -> Option<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.replace("{{", "").split('{').skip(1).find_map(|inside| {
        let inside = inside.split('}').next()?;
        let (name, spec) = inside.split_once(':').unwrap_or((inside, ""));
        let name = name.split(|c| !is_part(c)).next()?;
        let counts = spec.split('$').filter_map(|part| part.split(|c| !is_part(c)).next_back());
        [name].into_iter().chain(counts).find(|name| known(name)).map(str::to_owned)
    })
}

/// A string that is the value of the expression, perhaps converted, and the first known name
/// between its braces.
pub(crate) fn text_that_looks_like_a_template<'a>(
    expr: &'a Expr,
    known: &dyn Fn(&str) -> bool,
) -> Option<(&'a LitStr, String)> {
    let of = |expr| text_that_looks_like_a_template(expr, known);
    let of_block = |block: &'a Block| match block.stmts.last() {
        Some(Stmt::Expr(expr, None)) => of(expr),
        _ => None,
    };
    match expr {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Str(lit) => placeholder(&lit.value(), known).map(|name| (lit, name)),
            _ => None,
        },
        Expr::Group(group) => of(&group.expr),
        Expr::Paren(paren) => of(&paren.expr),
        Expr::Reference(reference) => of(&reference.expr),
        Expr::Block(block) => of_block(&block.block),
        Expr::If(branches) => of_block(&branches.then_branch)
            .or_else(|| branches.else_branch.as_ref().and_then(|(_, branch)| of(branch))),
        Expr::Match(branches) => branches.arms.iter().find_map(|arm| of(&arm.body)),
        Expr::MethodCall(call) if call.args.is_empty() => of(&call.receiver),
        Expr::Binary(sum) => of(&sum.left).or_else(|| of(&sum.right)),
        _ => None,
    }
}

/// True for the `let` of a statement. That of an `if` binds for its block alone.
fn starts_let(before: &[TokenTree], token: &TokenTree) -> bool {
    let is_start = match before.last() {
        None => true,
        Some(TokenTree::Punct(punct)) => punct.as_char() == ';',
        Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Brace,
        Some(_) => false,
    };
    is_start && is_word(Some(token), "let")
}

/// Every word, at any depth.
fn words_in(tokens: TokenStream) -> Vec<String> {
    let words = |token| match token {
        TokenTree::Ident(word) => vec![word.unraw().to_string()],
        TokenTree::Group(group) => words_in(group.stream()),
        _ => Vec::new(),
    };
    tokens.into_iter().flat_map(words).collect()
}

/// True behind a single `.`: a field or a method.
fn is_member(before: &[TokenTree]) -> bool {
    let [.., last] = before else { return false };
    let is_range = before.len() > 1 && is_punct(before.get(before.len() - 2), ".");
    is_punct(Some(last), ".") && !is_range
}

/// True for the name before `::` or `:`, and behind `::` or `'`. In the arguments of a macro, a `:`
/// says nothing.
fn is_label(before: &[TokenTree], behind: &[TokenTree], in_macro: bool) -> bool {
    let is_path = is_punct(behind.first(), ":") && is_punct(behind.get(1), ":");
    let is_in_path =
        matches!(before, [.., first, second] if is_punct(Some(first), ":") && is_punct(Some(second), ":"));
    let is_lifetime = is_punct(before.last(), "'");
    is_path || is_in_path || is_lifetime || !in_macro && is_punct(behind.first(), ":")
}

/// True for `!(…)`, and not for `!=`.
fn calls_macro(behind: &[TokenTree]) -> bool {
    matches!(behind, [TokenTree::Punct(bang), TokenTree::Group(_), ..] if bang.as_char() == '!')
}

/// The name of the macro whose arguments come next.
fn called_macro(before: &[TokenTree]) -> Option<String> {
    match before {
        [.., TokenTree::Ident(name), TokenTree::Punct(bang)] if bang.as_char() == '!' => {
            Some(name.to_string())
        }
        _ => None,
    }
}

fn is_punct(token: Option<&TokenTree>, text: &str) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if text.starts_with(punct.as_char()))
}

fn is_word(token: Option<&TokenTree>, text: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(word)) if word == text)
}

#[cfg(test)]
mod tests {
    use super::{find, named};

    #[test]
    fn variables() {
        for (text, expected) in [
            ("a", Some("a")),
            ("&r#type", Some("type")),
            ("f(x, [a.b()])", Some("a")),
            ("x..a", Some("a")),
            ("x.a", None),
            ("x.a()", None),
            ("x::a", None),
            ("a::x", None),
            ("a!(x)", None),
            ("a != x", Some("a")),
            ("X { a }", Some("a")),
            ("X { a: x }", None),
            ("X { x: a }", Some("a")),
            ("x::<'a>()", None),
            ("let a = x; a", None),
            ("let a = a.x(); x", Some("a")),
            ("let (x, mut a): X = x; { x(a) }", None),
            ("let a = x; format!(\"{a}\")", None),
            ("if let Some(a) = x {} x; f(a)", Some("a")),
            ("{ let a = x; } a", Some("a")),
            ("x!(a: x)", Some("a")),
            ("format!(\"{a}\")", Some("a")),
            ("format!(\"{x} {a:?}\")", Some("a")),
            ("format!(\"{x:a$}\")", Some("a")),
            ("format!(\"{x:.a$}\")", Some("a")),
            ("format!(\"{a.b} {{{type}}}\", x)", Some("a")),
            ("format!(\"{{a}} {ab}\")", None),
            ("x!(r#\"{a}\"#)", Some("a")),
            ("x!((\"{a}\"))", None),
            ("f(\"{a}\")", None),
            ("concat!(\"{a}\")", None),
            ("stringify!(a)", None),
        ] {
            let tokens = text.parse().unwrap_or_default();
            let found = named(&tokens, &|name| ["a", "type"].contains(&name));
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_taken() {
        for (text, expected) in [
            ("a", false),
            ("a.b", false),
            ("f(a)", true),
            ("f(x, a.b)", true),
            ("f(&a.b)", false),
            ("f(&mut a)", false),
            ("[a, x]", true),
            ("a.into_key()", true),
            ("a.b.unwrap()", true),
            ("a.b().unwrap()", false),
            ("a.name()", false),
            ("f(a.name())", false),
            ("f(a + x)", true),
            ("a.b + x + y", true),
            ("x + a", false),
            ("*a + x", false),
            ("a += x", false),
            ("a.name() + x", false),
            ("format!(\"{}\", a)", false),
        ] {
            let tokens = text.parse().unwrap_or_default();
            let found = find(&tokens, &|variable| variable.name == "a" && variable.is_taken());
            assert_eq!(found.is_some(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_assigned() {
        for (text, expected) in [
            ("a = x;", true),
            ("a.b.0 = x;", true),
            ("a += x;", true),
            ("a.b |= x", true),
            ("a == x", false),
            ("a.b <= x", false),
            ("a >= x", false),
            ("a != x", false),
            ("a => x", false),
            ("a + x", false),
            ("x = a", false),
            ("a.b() = x", false),
        ] {
            let tokens = text.parse().unwrap_or_default();
            let found = find(&tokens, &|variable| variable.name == "a" && variable.is_assigned());
            assert_eq!(found.is_some(), expected, "{text}");
        }
    }
}
