//! The key: a template and the names that the function binds, to tokens.

use proc_macro2::{Literal, Span, TokenStream, TokenTree};
use quote::{format_ident, quote_spanned};
use syn::{Ident, LitStr};

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
pub(crate) fn format_args(
    lit: &LitStr,
    key: &Ident,
    scope: &Scope,
    errors: &mut Errors,
) -> TokenStream {
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
        let mut name = value.path.join("_");
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
                    let argument = argument(&name, &root, value, key, lit.span());
                    arguments.push((&value.path, name.clone(), argument));
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

/// `name = key.escape(&root.field)`.
fn argument(
    name: &str,
    root: &Ident,
    value: &Placeholder<'_>,
    key: &Ident,
    span: Span,
) -> TokenStream {
    let name = if is_path(value) {
        format_ident!("{name}", span = Span::mixed_site())
    } else {
        // The user's own token: `r#type` is the name `type`.
        root.clone()
    };
    let fields = value
        .path
        .iter()
        .skip(1)
        .map(|field| field_token(field, span));
    let key = Ident::new(&key.to_string(), key.span().located_at(span));
    quote_spanned!(Span::mixed_site().located_at(span)=> #name = #key.escape(&#root #(.#fields)*))
}

/// A field, also of a tuple.
fn field_token(field: &str, span: Span) -> TokenTree {
    if let Ok(index) = field.parse::<usize>() {
        let mut index = Literal::usize_unsuffixed(index);
        index.set_span(span);
        return index.into();
    }
    let span = Span::mixed_site().located_at(span);
    let field = field.strip_prefix("r#").unwrap_or(field);
    match syn::parse_str::<Ident>(field) {
        Ok(mut ident) => {
            ident.set_span(span);
            ident.into()
        }
        Err(_) => Ident::new_raw(field, span).into(),
    }
}

/// What cannot be the name of an argument of `format_args!`.
fn is_path(value: &Placeholder<'_>) -> bool {
    value.path.len() > 1 || value.root() == "self"
}

/// `TENANT`, which is not an argument but the user's own constant.
fn is_constant(name: &str) -> bool {
    !name.contains(char::is_lowercase)
}

fn unknown(value: &Placeholder<'_>, scope: &Scope) -> String {
    let (root, name) = (value.root(), value.name());
    if root == "self" {
        return format!("`{{{name}}}` needs `self`, which this function does not have");
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
