//! Writes the key, from a template and the names that the function binds.

pub(crate) mod template;

use proc_macro2::{Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote_spanned};
use syn::ext::IdentExt as _;
use syn::parse::Parser as _;
use syn::{Error, Ident, LitStr, Result};

use self::template::{Piece, Placeholder, Template};
use crate::errors::{Errors, list, nearest};
use crate::function::scope::Scope;
use crate::spans::place;

/// The path of the crate, and the variable that holds the `KeyTemplate`.
#[derive(Clone, Copy)]
pub(crate) struct Renderer<'a> {
    pub(crate) krate: &'a TokenStream,
    pub(crate) key: &'a Ident,
}

impl Renderer<'_> {
    // Functions, not methods: a trait of the user could have methods of the same names for every
    // type.
    //
    // Output:  KeyTemplate::render(&key, format_args!("stock:{sku}", sku = …), "")
    pub(crate) fn render(self, template: &Rewritten, separators: &str) -> TokenStream {
        let (Self { krate, key }, Rewritten { literal, arguments }) = (self, template);
        quote_spanned! {Span::mixed_site()=>
            #krate::__private::KeyTemplate::render(
                &#key, ::core::format_args!(#literal #(, #arguments)*), #separators
            )
        }
    }

    // Output:  KeyTemplate::escape(&key, &sku)
    pub(crate) fn escape(self) -> impl Fn(&TokenStream, Span) -> TokenStream {
        move |value, span| self.call("escape", &quote_spanned!(span=> &#value), span)
    }

    // Output:  KeyTemplate::escape_variable(&key, &sku, || { let _ = &sku; })
    //
    // A closure tells a constant from a variable, which it captures: a name tells nothing.
    pub(crate) fn escape_variable(self) -> impl Fn(&TokenStream, Span) -> TokenStream {
        move |value, span| {
            let arguments = quote_spanned!(span=> &#value, || { let _ = &#value; });
            self.call("escape_variable", &arguments, span)
        }
    }

    fn call(self, function: &str, arguments: &TokenStream, span: Span) -> TokenStream {
        let (krate, function) = (self.krate, Ident::new(function, span));
        let path = quote_spanned!(span=> #krate::__private::KeyTemplate::#function);
        let path = place(path, span, span);
        let key = Ident::new(&self.key.to_string(), self.key.span().located_at(span));
        quote_spanned!(span=> #path(&#key, #arguments))
    }
}

/// A template as `format_args!` takes it, and the arguments that it names.
pub(crate) struct Rewritten {
    literal: TokenTree,
    pub(crate) arguments: Vec<TokenStream>,
}

impl Rewritten {
    // As long as each placeholder is one name, the literal is the user's own token: rustc then
    // points into it, at a name that does not exist or a value without `Display`. A path of fields
    // needs a name of its own, so the literal changes:
    //
    // Input:   "{self.tenant}:{req.id():04}"
    //
    // Output:  "{self_tenant}:{req_id:04}", and an `argument` for each of the two
    pub(crate) fn of(
        template: &Template,
        reserved: &[String],
        mut argument: impl FnMut(&Placeholder, &str) -> Option<TokenStream>,
    ) -> Self {
        let mut output = String::new();
        let mut named = Vec::<(&[String], String)>::new();
        let mut arguments = Vec::new();
        for piece in &template.pieces {
            let value = match piece {
                Piece::Text(text) => {
                    output.push_str(text);
                    continue;
                }
                Piece::Value(value) => value,
            };
            let mut name = argument_name(value);
            if let Some((_, known)) = named.iter().find(|(path, _)| *path == value.path) {
                name.clone_from(known);
            } else {
                let taken = |name: &String| {
                    name == "self"
                        || template.values().any(|value| value.path == [name.as_str()])
                        || named.iter().any(|(_, known)| known == name)
                        || reserved.contains(name)
                };
                while is_path(value) && taken(&name) {
                    name.push('_');
                }
                if let Some(tokens) = argument(value, &name) {
                    arguments.push(tokens);
                    named.push((&value.path, name.clone()));
                }
            }
            output.extend(["{", &name, &value.spec, "}"]);
        }
        let lit = &template.lit;
        let literal = if template.values().any(is_path) {
            let mut literal = Literal::string(&output);
            literal.set_span(lit.span());
            literal.into()
        } else {
            TokenTree::from(lit.token())
        };
        Self { literal, arguments }
    }
}

/// A template of the attribute, rendered.
pub(crate) fn render(
    template: &Template,
    renderer: Renderer<'_>,
    scope: &Scope,
    errors: &mut Errors,
) -> TokenStream {
    let lit = &template.lit;
    let has_paths = template.values().any(is_path);
    let mut checks = Vec::new();
    let rewritten = Rewritten::of(template, &[], |value, name| {
        let root = match scope.get(value.root(), lit.span()) {
            Some(root) => Ok(root),
            None if is_constant(value.root())
                || scope.varies(value.root())
                || !has_paths && errors.is_empty() && !scope.misses_a_pattern() =>
            {
                // A constant, which is taken as it is, or a name that does not exist: rustc reports
                // it, in the literal.
                if !is_path(value) {
                    return None;
                }
                variable(value.root(), lit)
            }
            None => Err(Error::new(lit.span(), unknown(value, scope))),
        };
        errors.keep(root.and_then(|root| {
            let mut uses = template.values().filter(|other| other.path == value.path);
            // In the user's own literal, rustc points at the placeholder.
            if !has_paths || scope.prints(&value.name()) || !uses.all(Placeholder::is_displayed) {
                return argument(name, &root, value, renderer.escape(), lit);
            }
            let (item, function) = printed(checks.len(), value);
            checks.push(item);
            let escape = renderer.escape();
            let escape = |path: &TokenStream, span| {
                let function = Ident::new(&function, span);
                escape(&quote_spanned!(span=> *#function(&&#path)), span)
            };
            argument(name, &root, value, escape, lit)
        }))
    });
    let call = renderer.render(&rewritten, &template.separators);
    if checks.is_empty() {
        return call;
    }
    quote_spanned!(Span::mixed_site()=> { #(#checks)* #call })
}

// Output: #[diagnostic::on_unimplemented(message = "`{user.org}` cannot be written into a key", …)]
//          trait __Printed0: Display {}
//          impl<T: Display + ?Sized> __Printed0 for T {}
//          fn __printed0<'a, T: __Printed0 + ?Sized>(value: &'a &'a T) -> &'a dyn Display { value }
//
/// Lets rustc name the placeholder whose value has no `Display`. Beside it stands the name of the
/// function.
fn printed(number: usize, value: &Placeholder) -> (TokenStream, String) {
    let name = value.name();
    let message = format!("`{{{{{name}}}}}` cannot be written into a key");
    let label = "`{Self}` has no `Display`";
    let note = format!(
        "write `{{{{{name}:?}}}}` for its `Debug`, as of an `Option`, or name what of it is meant, such as `{{{{{name}.id}}}}`"
    );
    let function = format!("__printed{number}");
    let (in_trait, in_fn) = (
        Ident::new(&format!("__Printed{number}"), Span::mixed_site()),
        Ident::new(&function, Span::mixed_site()),
    );
    let item = quote_spanned! {Span::mixed_site()=>
        #[diagnostic::on_unimplemented(message = #message, label = #label, note = #note)]
        trait #in_trait: ::core::fmt::Display {}
        #[diagnostic::do_not_recommend]
        impl<T: ::core::fmt::Display + ?::core::marker::Sized> #in_trait for T {}
        fn #in_fn<'a, T: #in_trait + ?::core::marker::Sized>(value: &'a &'a T) -> &'a dyn ::core::fmt::Display {
            value
        }
    };
    (item, function)
}

/// The whole key, if it has no placeholder.
pub(crate) fn constant(template: &Template) -> Option<Literal> {
    if template.values().next().is_some() {
        return None;
    }
    let mut literal = Literal::string(&template.text().replace("{{", "{").replace("}}", "}"));
    literal.set_span(template.lit.span());
    Some(literal)
}

/// `name = escape(&root.field)`, or the error if a field cannot be one.
pub(crate) fn argument(
    name: &str,
    root: &Ident,
    value: &Placeholder,
    escape: impl Fn(&TokenStream, Span) -> TokenStream,
    lit: &LitStr,
) -> Result<TokenStream> {
    let span = Span::mixed_site().located_at(lit.span());
    let name = if is_path(value) {
        Ident::new(name, span)
    } else {
        // The user's own token: `format_args!` takes `r#type` for the name `type`.
        root.clone()
    };
    let mut path = root.to_token_stream();
    for step in value.path.iter().skip(1) {
        let (field, call) = match step.strip_suffix("()") {
            Some(method) => (method, Some(quote_spanned!(span=> ()))),
            None => (step.as_str(), None),
        };
        let is_index = |field: &TokenTree| matches!(field, TokenTree::Literal(_));
        let token = field_token(field, span).filter(|field| call.is_none() || !is_index(field));
        let Some(field) = token else {
            let kind = if call.is_some() { "method" } else { "field" };
            let message = format!("`{{{}}}`: `{field}` cannot be a {kind}", value.name());
            return Err(Error::new(lit.span(), message));
        };
        path.extend(quote_spanned!(span=> .#field #call));
    }
    let value = escape(&path, span);
    Ok(quote_spanned!(span=> #name = #value))
}

/// What `format_args!` calls the value: for a path, its fields joined.
fn argument_name(value: &Placeholder) -> String {
    if !is_path(value) {
        return value.name();
    }
    value.path.join("_").replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

/// The variable `name` with the hygiene of the template.
pub(crate) fn variable(name: &str, lit: &LitStr) -> Result<Ident> {
    match field_token(name, lit.span()) {
        Some(TokenTree::Ident(ident)) => Ok(ident),
        _ if name == "self" => Ok(Ident::new(name, lit.span())),
        _ => Err(Error::new(lit.span(), format!("`{name}` cannot be a variable"))),
    }
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
    // A field named like a keyword, such as `type`, is a raw identifier. syn does not count `gen`
    // as a keyword.
    Some(match syn::parse_str::<Ident>(field) {
        Ok(_) if field != "gen" => Ident::new(&word.to_string(), span).into(),
        _ => Ident::new_raw(field, span).into(),
    })
}

/// True for a path, which cannot be the name of an argument of `format_args!`.
pub(crate) fn is_path(value: &Placeholder) -> bool {
    value.path.len() > 1 || value.root() == "self"
}

/// True for `TENANT`, which may be a constant. It may be a variable too: only a name that is no
/// argument is certain.
pub(crate) fn is_constant(name: &str) -> bool {
    !name.contains(char::is_lowercase)
}

fn unknown(value: &Placeholder, scope: &Scope) -> String {
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
    use proc_macro2::{Span, TokenStream};
    use syn::{Ident, LitStr, parse_quote};

    use super::{Errors, Renderer, Scope, Template, constant, render};

    fn errors(template: &str) -> Vec<String> {
        let mut errors = Errors::default();
        let scope = Scope::of(&parse_quote!(fn f(&self, order: Order, r#type: u8, größe: u8, a: A)));
        let (lit, key) = (LitStr::new(template, Span::call_site()), Ident::new("key", Span::call_site()));
        if let Some(template) = Template::of(&lit, &mut errors) {
            render(&template, Renderer { krate: &TokenStream::new(), key: &key }, &scope, &mut errors);
        }
        let errors =
            errors.finish().map(|errors| errors.into_iter().map(|error| error.to_string()).collect());
        errors.unwrap_or_default()
    }

    #[test]
    fn names() {
        for (template, expected) in [
            ("{self}:{order.id}:{type}:{größe.x}:{order.type}:{a.0.1}:{a.b().c().0}", ""),
            ("{unknown}", ""),
            ("{self.a}:{TENANT}:{TENANT.id}", ""),
            ("{self.a}:{oder}", "unknown argument `oder` in `{oder}`, did you mean `order`?"),
            ("{oder.id}", "unknown argument `oder` in `{oder.id}`, did you mean `order`?"),
            ("{b.c}", "unknown argument `b` in `{b.c}`, did you mean `a`?"),
            ("{b2.c}", "unknown argument `b2` in `{b2.c}`, expected `self`, `order`, `type`, `größe` or `a`"),
            ("{a.self}", "`{a.self}`: `self` cannot be a field"),
            ("{a.0()}", "`{a.0()}`: `0` cannot be a method"),
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
            let template_of =
                |text| Template::of(&LitStr::new(text, Span::call_site()), &mut Errors::default());
            let found = template_of(template).as_ref().and_then(constant).map(|literal| literal.to_string());
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
                    errors(&format!("{{{a}.{b}.{c}}}{{{a}.{b}()}}:{{{a}_{b}}}-{{{a}}}"));
                }
            }
        }
    }
}
