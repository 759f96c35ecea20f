//! `key!`: a key outside of the attribute, by the same rules.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::spanned::Spanned as _;
use syn::{Error, Expr, Ident, LitStr, Path, Result, Token};

use crate::attribute::value;
use crate::errors::{Errors, compile_errors};
use crate::key::template::Template;
use crate::key::{self, Renderer, Rewritten};

/// The path of the crate, then what the user wrote between the parentheses.
struct ByHand {
    krate: Path,
    template: LitStr,
    arguments: Vec<(Option<Ident>, Expr)>,
}

// Input:   ::redlocked, "stock:{}-{order.id}", sku
//
// Output:  {
//              let key = KeyTemplate::new();
//              KeyTemplate::render(&key, format_args!("stock:{}-{order_id}", …(&sku), order_id = …(&order.id)), "-")
//          }
pub(crate) fn expand(tokens: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let parsed = parse.parse2(tokens);
    let rendered = errors.keep(parsed).map(|by_hand| by_hand.rendered(&mut errors)).unwrap_or_default();
    errors.finish().map_or(rendered, |errors| compile_errors(&errors))
}

fn parse(input: ParseStream) -> Result<ByHand> {
    let krate = input.call(Path::parse_mod_style)?;
    input.parse::<Token![,]>()?;
    let example = "expected a template such as `\"stock:{}\"`";
    if input.is_empty() {
        return Err(Error::new(Span::call_site(), example));
    }
    let template: Expr = input.parse()?;
    let Some(template) = value::string(&template)? else {
        return Err(Error::new_spanned(template, example));
    };
    let template = template.clone();
    let mut arguments = Vec::new();
    while !input.is_empty() {
        input.parse::<Token![,]>()?;
        if input.is_empty() {
            break;
        }
        let name = if input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==]) {
            let name = input.call(Ident::parse_any)?;
            input.parse::<Token![=]>()?;
            Some(name)
        } else {
            None
        };
        arguments.push((name, input.parse()?));
    }
    Ok(ByHand { krate, template, arguments })
}

impl ByHand {
    fn rendered(&self, errors: &mut Errors) -> TokenStream {
        let Self { krate, template: lit, arguments } = self;
        let Some(template) = Template::before_arguments(lit, errors) else {
            return TokenStream::new();
        };
        let names: Vec<String> =
            arguments.iter().filter_map(|(name, _)| Some(name.as_ref()?.unraw().to_string())).collect();
        let (krate, key) = (krate.to_token_stream(), Ident::new("__key", Span::mixed_site()));
        let renderer = Renderer { krate: &krate, key: &key };
        let mut rewritten = Rewritten::of(&template, &names, |value, name| {
            let is_given = names.iter().any(|given| given == value.root());
            if !key::is_path(value) && (is_position(value.root()) || is_given) {
                return None;
            }
            let root = errors.keep(key::variable(value.root(), lit))?;
            errors.keep(if key::is_path(value) {
                key::argument(name, &root, value, renderer.escape(), lit)
            } else {
                key::argument(name, &root, value, renderer.escape_variable(), lit)
            })
        });
        let given = arguments.iter().map(|(name, expr)| {
            let value = renderer.escape()(&quote!((#expr)), Span::mixed_site().located_at(expr.span()));
            match name {
                Some(name) => quote!(#name = #value),
                None => value,
            }
        });
        rewritten.arguments.splice(0..0, given);
        let text = renderer.render(&rewritten, &template.separators);
        quote_spanned!(Span::mixed_site()=> { let #key = #krate::__private::KeyTemplate::new(); #text })
    }
}

/// `{}` and `{0}`.
fn is_position(name: &str) -> bool {
    name.bytes().all(|c| c.is_ascii_digit())
}
