//! The key: a template and the names that the function binds, to tokens.

use proc_macro2::{Literal, Span, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::ext::IdentExt as _;
use syn::parse::Parser as _;
use syn::{Error, Ident, LitStr, Result};

use crate::errors::{Errors, list, nearest};
use crate::scope::Scope;
use crate::template::{self, Piece, Placeholder};

// Input:   "stock:{sku}"
//
// Output:  format_args!("stock:{sku}", sku = key.escape(&sku))
//
// The literal is the user's own token as long as each placeholder is one name: rustc then points inside it, at a name
// that does not exist and at a value that has no `Display`. A path of fields needs another name, thus another literal:
//
// Input:   "{self.tenant}:{req.id:04}"
//
// Output:  format_args!("{self_tenant}:{req_id:04}", self_tenant = key.escape(&self.tenant), …)
pub(crate) fn format_args(lit: &LitStr, key: &Ident, scope: &Scope, errors: &mut Errors) -> TokenStream {
    let text = lit.value();
    let Ok(pieces) = template::parse(&text) else {
        return TokenStream::new();
    };
    let values: Vec<&Placeholder<'_>> = pieces.iter().filter_map(Piece::value).collect();
    let rewrite = values.iter().any(|value| is_path(value));

    let mut output = String::new();
    let mut arguments = Vec::<(&[&str], String, TokenStream)>::new();
    for piece in &pieces {
        let value = match piece {
            Piece::Text(text) => {
                output.push_str(text);
                continue;
            }
            Piece::Value(value) => value,
        };
        let mut name = argument_name(value);
        if let Some((_, known, _)) = arguments.iter().find(|(path, ..)| *path == value.path) {
            name.clone_from(known);
        } else {
            let taken = |name: &str| {
                name == "self"
                    || values.iter().any(|value| value.path == [name])
                    || arguments.iter().any(|it| it.1 == name)
            };
            while is_path(value) && taken(&name) {
                name.push('_');
            }
            match scope.get(value.root(), lit.span()) {
                Some(root) => {
                    if let Some(argument) = errors.keep(argument(&name, &root, value, key, lit)) {
                        arguments.push((&value.path, name.clone(), argument));
                    }
                }
                None if scope.misses_a_pattern() && !is_constant(value.root()) => {
                    errors.at(lit, unknown(value, scope));
                }
                // A constant, or a name that rustc does not find either.
                None if !is_path(value) && (!rewrite || is_constant(value.root())) => {}
                None => errors.at(lit, unknown(value, scope)),
            }
        }
        output.push('{');
        output.push_str(&name);
        output.push_str(value.spec);
        output.push('}');
    }

    let lit = if rewrite {
        let mut literal = Literal::string(&output);
        literal.set_span(lit.span());
        TokenTree::from(literal)
    } else {
        TokenTree::from(lit.token())
    };
    let arguments = arguments.into_iter().map(|(.., argument)| argument);
    quote_spanned!(Span::mixed_site()=> ::core::format_args!(#lit #(, #arguments)*))
}

/// The whole key, if nothing is put into it.
pub(crate) fn constant(lit: &LitStr) -> Option<Literal> {
    let text = lit.value();
    let pieces = template::parse(&text).ok()?;
    if pieces.iter().any(|piece| piece.value().is_some()) {
        return None;
    }
    let mut literal = Literal::string(&text.replace("{{", "{").replace("}}", "}"));
    literal.set_span(lit.span());
    Some(literal)
}

/// `name = key.escape(&root.field)`, or the error if a field cannot be one.
fn argument(
    name: &str,
    root: &Ident,
    value: &Placeholder<'_>,
    key: &Ident,
    lit: &LitStr,
) -> Result<TokenStream> {
    let span = Span::mixed_site().located_at(lit.span());
    let name = if is_path(value) {
        Ident::new(name, span)
    } else {
        // The user's own token: `r#type` is the name `type`.
        root.clone()
    };
    let mut fields = TokenStream::new();
    for field in value.path.iter().skip(1) {
        let Some(field) = field_token(field, span) else {
            let message = format!("`{{{}}}`: `{field}` cannot be a field", value.name());
            return Err(Error::new(lit.span(), message));
        };
        fields.extend(quote_spanned!(span=> .#field));
    }
    let key = Ident::new(&key.to_string(), key.span().located_at(span));
    Ok(quote_spanned!(span=> #name = #key.escape(&#root #fields)))
}

/// What `format_args!` calls the value: for a path, its fields joined.
fn argument_name(value: &Placeholder<'_>) -> String {
    if !is_path(value) {
        return value.name();
    }
    value.path.join("_").replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

/// A field, also of a tuple.
fn field_token(field: &str, span: Span) -> Option<TokenTree> {
    if let Ok(index) = field.parse::<usize>() {
        let mut index = Literal::usize_unsuffixed(index);
        index.set_span(span);
        return Some(index.into());
    }
    let word = Ident::parse_any.parse_str(field).ok()?;
    if ["self", "Self", "super", "crate", "_"].contains(&field) {
        return None;
    }
    // A keyword, such as `type`, can be a field only as a raw identifier. syn does not count `gen` as one.
    Some(match syn::parse_str::<Ident>(field) {
        Ok(_) if field != "gen" => Ident::new(&word.to_string(), span).into(),
        _ => Ident::new_raw(field, span).into(),
    })
}

/// What cannot be the name of an argument of `format_args!`.
fn is_path(value: &Placeholder<'_>) -> bool {
    value.path.len() > 1 || value.root() == "self"
}

/// `TENANT`, which is not an argument but the user's own constant.
pub(crate) fn is_constant(name: &str) -> bool {
    !name.contains(char::is_lowercase)
}

fn unknown(value: &Placeholder<'_>, scope: &Scope) -> String {
    let (root, name) = (value.root(), value.name());
    if root == "self" {
        return format!("`{{{name}}}` needs `self`, which this function does not have");
    }
    if scope.misses_a_pattern() {
        return format!(
            "the attribute above has put the pattern of `{root}` out of reach: move `#[distributed_lock]` above it"
        );
    }
    let names = scope.names();
    let names = || names.iter().map(String::as_str);
    let problem = format!("unknown argument `{root}` in `{{{name}}}`");
    match nearest(root, names()) {
        Some(name) => format!("{problem}, did you mean `{name}`?"),
        None if names().next().is_none() => format!("{problem}: this function has none"),
        None => format!("{problem}, expected {}", list(names(), "or")),
    }
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;
    use syn::{Ident, LitStr, parse_quote};

    use super::{Errors, Scope, constant, format_args};

    fn errors(template: &str) -> Vec<String> {
        let mut errors = Errors::default();
        let scope = Scope::of(&parse_quote!(fn f(&self, order: Order, r#type: u8, größe: u8, a: A)));
        let (lit, key) = (LitStr::new(template, Span::call_site()), Ident::new("key", Span::call_site()));
        format_args(&lit, &key, &scope, &mut errors);
        let errors =
            errors.finish().map(|errors| errors.into_iter().map(|error| error.to_string()).collect());
        errors.unwrap_or_default()
    }

    #[test]
    fn names() {
        for (template, expected) in [
            ("{self}{order.id}{type}{größe.x}{order.type}{a.0.1}", ""),
            ("{unknown}", ""),
            ("{self.a}{TENANT}", ""),
            ("{self.a}{oder}", "unknown argument `oder` in `{oder}`, did you mean `order`?"),
            ("{oder.id}", "unknown argument `oder` in `{oder.id}`, did you mean `order`?"),
            ("{b.c}", "unknown argument `b` in `{b.c}`, did you mean `a`?"),
            ("{b2.c}", "unknown argument `b2` in `{b2.c}`, expected `self`, `order`, `type`, `größe` or `a`"),
            ("{a.self}", "`{a.self}`: `self` cannot be a field"),
            ("{a._}", "`{a._}`: `_` cannot be a field"),
            ("{a.1b}", "`{a.1b}`: `1b` cannot be a field"),
            ("{a.²}", "`{a.²}`: `²` cannot be a field"),
        ] {
            assert_eq!(errors(template).join("\n"), expected, "{template}");
        }
    }

    #[test]
    fn nothing_is_put_into_a_constant() {
        for (template, expected) in [
            ("nightly", Some("\"nightly\"")),
            ("{{a}}", Some("\"{a}\"")),
            ("{{{{}}}}", Some("\"{{}}\"")),
            ("a\"b", Some("\"a\\\"b\"")),
            ("{{{a}}}", None),
            ("{TENANT}", None),
            ("{", None),
        ] {
            let found =
                constant(&LitStr::new(template, Span::call_site())).map(|literal| literal.to_string());
            assert_eq!(found.as_deref(), expected, "{template}");
        }
    }

    #[test]
    fn nothing_panics() {
        let words =
            ["a", "self", "type", "0", "²", "_", "é", "1b", "größe", "Self", "crate", "99999999999999999999"];
        for a in words {
            for b in words {
                for c in words {
                    errors(&format!("{{{a}.{b}.{c}}}{{{a}.{b}}}{{{a}_{b}}}{{{a}}}"));
                }
            }
        }
    }
}
