//! The arguments that an expression names, by its tokens and by the format strings in it.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::{Block, Expr, Lit, LitStr, Stmt};

/// Macros whose value depends on no variable.
const CONSTANT_MACROS: [&str; 9] =
    ["column", "concat", "env", "file", "include_str", "line", "module_path", "option_env", "stringify"];

/// The first variable in `tokens` that `known` accepts. In doubt, a name is a variable.
pub(crate) fn named(tokens: &TokenStream, known: &dyn Fn(&str) -> bool) -> Option<String> {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    (0..tokens.len()).find_map(|at| match &tokens[at] {
        TokenTree::Ident(ident) if !is_member(&tokens[..at]) && !calls_macro(&tokens[at + 1..]) => {
            let is_path = is_punct(tokens.get(at + 1), ":") && is_punct(tokens.get(at + 2), ":");
            Some(ident.unraw().to_string()).filter(|name| !is_path && known(name))
        }
        TokenTree::Group(group) => match called_macro(&tokens[..at]) {
            Some(name) if CONSTANT_MACROS.contains(&name.as_str()) => None,
            Some(_) => named(&group.stream(), known).or_else(|| named_in_text(&group.stream(), known)),
            None => named(&group.stream(), known),
        },
        _ => None,
    })
}

/// The first variable that a string directly among the arguments of a macro names, as in `format!("stock:{sku}")`.
fn named_in_text(arguments: &TokenStream, known: &dyn Fn(&str) -> bool) -> Option<String> {
    arguments.clone().into_iter().find_map(|token| match token {
        TokenTree::Literal(literal) => syn::parse_str::<LitStr>(&literal.to_string())
            .ok()
            .and_then(|lit| placeholder(&lit.value(), known)),
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            named_in_text(&group.stream(), known)
        }
        _ => None,
    })
}

/// The first known name between braces.
fn placeholder(text: &str, known: &dyn Fn(&str) -> bool) -> Option<String> {
    text.replace("{{", "").split('{').skip(1).find_map(|inside| {
        let end = inside.find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
        Some(inside[..end].to_owned()).filter(|name| known(name))
    })
}

/// A string that is the value of the expression, perhaps converted, and the first known name between its braces.
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
        _ => None,
    }
}

/// True behind a single `.`: a field or a method.
fn is_member(before: &[TokenTree]) -> bool {
    let [.., last] = before else { return false };
    let is_range = before.len() > 1 && is_punct(before.get(before.len() - 2), ".");
    is_punct(Some(last), ".") && !is_range
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

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn variables() {
        for (text, expected) in [
            ("a", Some("a")),
            ("&r#type", Some("type")),
            ("f(x, [a.b()])", Some("a")),
            ("x..a", Some("a")),
            ("x.a", None),
            ("x.a()", None),
            ("x::a", Some("a")),
            ("a::x", None),
            ("a!(x)", None),
            ("a != x", Some("a")),
            ("format!(\"{a}\")", Some("a")),
            ("format!(\"{x} {a:?}\")", Some("a")),
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
}
