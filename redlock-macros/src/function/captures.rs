//! Moves the arguments into the body, so that they are dropped there, in the order of the plain
//! function and before the lock is released.
//!
//! A closure or `async` block captures only the fields that it names, in that order; the others
//! would stay outside.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::ext::IdentExt as _;
use syn::{Attribute, Expr, FnArg, Pat, ReceiverKind, Signature};

use super::scope::{bindings_in, is_condition};
use super::types::Shape;
use crate::attribute::LockArgs;
use crate::variables::{Variable, find};

/// The arguments that are bound outside of the body, in order.
#[derive(Default)]
pub(crate) struct Captures {
    bindings: Vec<Binding>,
}

struct Binding {
    ident: Ident,
    is_mut: bool,
    /// `x` in `Point { x, y }`.
    is_shorthand: bool,
    /// A variable before a returned future, which holds it only if it names it.
    is_local: bool,
    /// Those of the argument that say whether it is there, and what is reported of it.
    attrs: Vec<Attribute>,
}

/// What a body says of its captures.
#[derive(Default)]
pub(crate) struct Mentions {
    /// At the top of the body.
    pub(crate) first: TokenStream,
    /// On the statement that makes the body.
    pub(crate) attr: TokenStream,
}

impl Captures {
    pub(crate) fn of(sig: &Signature) -> Self {
        let mut captures = Self::default();
        for input in &sig.inputs {
            match input {
                FnArg::Receiver(receiver) if is_by_value(&receiver.kind) => captures.bindings.push(Binding {
                    ident: Ident::new("self", receiver.self_token.span),
                    is_mut: receiver.mutability.is_some(),
                    is_shorthand: false,
                    is_local: false,
                    attrs: Vec::new(),
                }),
                // What is expected of the argument itself is not met by another variable.
                FnArg::Typed(input) if input.attrs.iter().any(|attr| attr.path().is_ident("expect")) => {}
                FnArg::Typed(input) if !Shape::of(&input.ty).has_no_drop() => {
                    captures.bind(&input.pat, &input.attrs);
                }
                _ => {}
            }
        }
        captures
    }

    fn bind(&mut self, pat: &Pat, attrs: &[Attribute]) {
        let kept = ["cfg", "cfg_attr", "allow", "warn", "deny", "forbid"];
        let attrs: Vec<Attribute> =
            attrs.iter().filter(|attr| kept.iter().any(|name| attr.path().is_ident(name))).cloned().collect();
        for bound in bindings_in(pat) {
            self.bindings.push(Binding {
                ident: bound.pat.ident.clone(),
                is_mut: bound.pat.mutability.is_some(),
                is_shorthand: bound.is_shorthand,
                is_local: false,
                attrs: attrs.iter().chain(bound.conditions).cloned().collect(),
            });
        }
    }

    /// Adds what `pat` binds in the place of `argument`, which is one of `arguments`.
    pub(crate) fn rebind(&mut self, arguments: &Self, argument: &Ident, pat: &Pat) {
        if let Some(binding) = arguments.bindings.iter().find(|binding| binding.ident == *argument) {
            self.bind(pat, &binding.attrs);
        }
    }

    /// Adds what a `let` before the future binds.
    pub(crate) fn bind_local(&mut self, pat: &Pat) {
        let arguments = self.bindings.len();
        self.bind(pat, &[]);
        self.bindings.iter_mut().skip(arguments).for_each(|binding| binding.is_local = true);
    }

    /// True if `self` is one of them, and no reference.
    pub(crate) fn hold_the_receiver(&self) -> bool {
        self.bindings.iter().any(|binding| binding.ident == "self")
    }

    // Output:  let _ = &quantity; let _ = &order;
    //
    // The last argument comes first, because captures are dropped in the order of their names.
    //
    // Left out: what an option takes by value, of which the body uses the rest or nothing; and what
    // only `on_busy` or `on_error` uses, which run outside.
    pub(crate) fn mentions(&self, args: &LockArgs, body: &TokenStream) -> Mentions {
        let settings = args.settings();
        let fallback: TokenStream =
            args.on_busy.iter().chain(&args.on_error).map(Expr::to_token_stream).collect();
        let mut mentions = Mentions::default();
        for binding in self.bindings.iter().rev() {
            let name = binding.ident.unraw().to_string();
            let is = |variable: &Variable<'_>| variable.name == name;
            let used = find(body, &is).map(|(_, span)| span);
            let is_taken = |tokens: &TokenStream| {
                find(tokens, &|variable| is(variable) && variable.is_taken()).is_some()
            };
            let is_named = settings.iter().any(|tokens| find(tokens, &is).is_some()) || args.names(&name);
            let is_outside =
                used.is_none() && (find(&fallback, &is).is_some() || binding.is_local && !is_named);
            if is_outside || settings.iter().any(is_taken) {
                continue;
            }
            // At the first use in the body: rustc reports the move there.
            mentions.first.extend(binding.mention(used.unwrap_or_else(|| binding.ident.span())));
            if binding.is_mut && find(body, &|variable| is(variable) && variable.is_assigned()).is_some() {
                // rustc does not count that a destructor reads what is assigned to a captured
                // variable.
                mentions.attr = quote_spanned!(Span::mixed_site()=> #[allow(unused_assignments)]);
            }
            if used.is_none() && !is_named && name != "self" && !name.starts_with('_') {
                mentions.first.extend(binding.unused());
            }
        }
        mentions
    }
}

impl Binding {
    /// `let _ = &quantity;`
    fn mention(&self, at: Span) -> TokenStream {
        let mut ident = self.ident.clone();
        ident.set_span(ident.span().located_at(at));
        let cfg = self.cfg();
        let span = Span::mixed_site();
        let allow = ident
            .to_string()
            .starts_with('_')
            .then(|| quote_spanned!(span=> #[allow(clippy::used_underscore_binding)]));
        quote_spanned!(span=> #(#cfg)* #allow let _ = &#ident;)
    }

    /// `let _ = |quantity: ()| ();`: a variable that rustc reports as the argument that it is
    /// spelled like.
    fn unused(&self) -> TokenStream {
        let Self { ident, attrs, is_shorthand, .. } = self;
        let span = Span::mixed_site();
        let cfg = self.cfg();
        if *is_shorthand {
            // rustc's advice for a field is another one.
            quote_spanned! {span=>
                #(#cfg)* {
                    struct __Unused { #ident: () }
                    let _ = |#(#attrs)* __Unused { #ident }: __Unused| ();
                }
            }
        } else {
            quote_spanned!(span=> #(#cfg)* let _ = |#(#attrs)* #ident: ()| ();)
        }
    }

    /// The conditions of the argument, for a statement.
    fn cfg(&self) -> impl Iterator<Item = &Attribute> {
        self.attrs.iter().filter(|attr| is_condition(attr))
    }
}

fn is_by_value(receiver: &ReceiverKind) -> bool {
    match receiver {
        ReceiverKind::Value => true,
        ReceiverKind::Typed(_, ty) => !Shape::of(ty).has_no_drop(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proc_macro2::TokenStream;
    use syn::Signature;

    use super::{Captures, Mentions};
    use crate::attribute::LockArgs;
    use crate::errors::Errors;

    fn mentions(args: &str, sig: &str, body: &str) -> Mentions {
        let parse = |text: &str| text.parse::<TokenStream>().unwrap_or_default();
        let sig: syn::Result<Signature> = syn::parse_str(sig);
        assert!(sig.is_ok(), "{:?}", sig.err());
        let captures = sig.map(|sig| Captures::of(&sig)).unwrap_or_default();
        let args = LockArgs::parse(parse(args), &mut Errors::default());
        captures.mentions(&args, &parse(body))
    }

    fn text(tokens: &TokenStream) -> String {
        tokens.to_string().replace(' ', "")
    }

    #[test]
    fn arguments_move_in_from_the_last_to_the_first() {
        for (sig, body, expected) in [
            ("fn f(a: A, b: B)", "a.x(b)", "let_=&b;let_=&a;"),
            ("fn f((a, _): (A, B), P { c, .. }: P)", "a + c", "let_=&c;let_=&a;"),
            ("fn f(self, a: A)", "a.x()", "let_=&a;let_=&self;"),
            ("fn f(self: Arc<Self>)", "", "let_=&self;"),
            ("fn f(&self, a: &A, b: u32, c: *const C)", "self.x(a, b, c)", ""),
            ("fn f(_a: A, _: B)", "", "#[allow(clippy::used_underscore_binding)]let_=&_a;"),
            ("fn f(r#type: A)", "println!(\"{type:?}\")", "let_=&r#type;"),
            ("fn f(#[expect(unused)] a: A)", "", ""),
            ("fn f(#[cfg(x)] #[serde] a: A)", "a", "#[cfg(x)]let_=&a;"),
        ] {
            assert_eq!(text(&mentions("key = \"k\"", sig, body).first), expected, "{sig} {{ {body} }}");
        }
    }

    #[test]
    fn rustc_hears_of_an_argument_that_is_not_used() {
        for (sig, body, expected) in [
            ("fn f(a: A)", "", "let_=&a;let_=|a:()|();"),
            ("fn f(a: A)", "b.a", "let_=&a;let_=|a:()|();"),
            ("fn f(a: A)", "let a = b; a", "let_=&a;let_=|a:()|();"),
            ("fn f(a: A)", "println!(\"{ab} {{a\")", "let_=&a;let_=|a:()|();"),
            ("fn f(#[cfg(x)] a: A)", "", "#[cfg(x)]let_=&a;#[cfg(x)]let_=|#[cfg(x)]a:()|();"),
            ("fn f((a, b): P)", "b", "let_=&b;let_=&a;let_=|a:()|();"),
            (
                "fn f(P { a, b: c }: P)",
                "c",
                "let_=&c;let_=&a;{struct__Unused{a:()}let_=|__Unused{a}:__Unused|();}",
            ),
        ] {
            assert_eq!(text(&mentions("key = \"k\"", sig, body).first), expected, "{sig} {{ {body} }}");
        }
    }

    #[test]
    fn what_is_assigned_before_its_destructor_runs_is_no_mistake() {
        for (sig, body, expected) in [
            ("fn f(mut self)", "self.open = false;", true),
            ("fn f(mut a: A)", "a.open = false;", true),
            ("fn f(mut a: A)", "a.push(1)", false),
            ("fn f(mut a: A)", "if a.open == x {}", false),
        ] {
            assert_eq!(!mentions("key = \"k\"", sig, body).attr.is_empty(), expected, "{sig} {{ {body} }}");
        }
    }

    #[test]
    fn what_only_the_attribute_uses_moves_in_unless_it_is_used_outside() {
        for (args, expected) in [
            ("key = \"{a}\"", "let_=&a;"),
            ("key = key_of(&a)", "let_=&a;"),
            ("key = a.name()", "let_=&a;"),
            ("key = a.into_key()", ""),
            ("key = key_of(a.name)", ""),
            ("keys = [\"{x}\", a.into_key()]", ""),
            ("key = \"{x}\", manager = find(a)", ""),
            ("key = \"{a}\", on_busy = a", ""),
            ("key = \"{a}\", on_error = |_| a", ""),
            ("key = \"k\"", "let_=&a;let_=|a:()|();"),
        ] {
            assert_eq!(text(&mentions(args, "fn f(a: A)", "").first), expected, "{args}");
        }
    }
}
