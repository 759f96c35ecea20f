//! Moves the arguments into the body, so that they are dropped there, in the order of the plain function and before the
//! lock is released.
//!
//! A closure or `async` block captures only the fields that it names, in that order; the others would stay outside.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::ext::IdentExt as _;
use syn::{FnArg, Pat, ReceiverKind, Signature, Type};

use super::scope::names_in;

/// The arguments that are bound outside of the body, in order.
#[derive(Default)]
pub(crate) struct Captures {
    bindings: Vec<Ident>,
}

impl Captures {
    pub(crate) fn of(sig: &Signature) -> Self {
        let mut captures = Self::default();
        for input in &sig.inputs {
            match input {
                FnArg::Receiver(receiver) if is_by_value(&receiver.kind) => {
                    captures.bindings.push(Ident::new("self", receiver.self_token.span));
                }
                FnArg::Typed(input) if !has_no_drop(&input.ty) => {
                    captures.bindings.extend(names_in(&input.pat));
                }
                _ => {}
            }
        }
        captures
    }

    /// Adds what `pat` binds in the place of `argument`, which is one of `arguments`.
    pub(crate) fn rebind(&mut self, arguments: &Self, argument: &Ident, pat: &Pat) {
        if arguments.bindings.contains(argument) {
            self.bindings.extend(names_in(pat));
        }
    }

    /// True if `self` is one of them, and no reference.
    pub(crate) fn hold_the_receiver(&self) -> bool {
        self.bindings.iter().any(|binding| binding == "self")
    }

    // Output:  let _ = (&quantity, &order);
    //
    // At the top of the body. The last argument comes first, because captures are dropped in the order of their names.
    //
    // Left out: an argument that the function never uses, which rustc's lint must see, unless its name starts with `_`;
    // and one that only `on_busy` or `on_error` uses, which run outside.
    pub(crate) fn name_all(
        &self,
        attribute: &TokenStream,
        fallback: &TokenStream,
        body: &TokenStream,
    ) -> TokenStream {
        // At the first use in the body: rustc reports the move there.
        let moved = |binding: &Ident| {
            let name = binding.unraw().to_string();
            let unused = || {
                let moves = name == "self" || name.starts_with('_') || occurrence(&name, attribute).is_some();
                (moves && occurrence(&name, fallback).is_none()).then(|| binding.span())
            };
            let at = occurrence(&name, body).or_else(unused)?;
            let mut binding = binding.clone();
            binding.set_span(binding.span().located_at(at));
            Some(binding)
        };
        let names: Vec<Ident> = self.bindings.iter().rev().filter_map(moved).collect();
        let span = Span::mixed_site();
        let allow = names
            .iter()
            .any(|name| name.to_string().starts_with('_'))
            .then(|| quote_spanned!(span=> #[allow(clippy::used_underscore_binding)]));
        match names.as_slice() {
            [] => TokenStream::new(),
            [name] => quote_spanned!(span=> #allow let _ = &#name;),
            names => quote_spanned!(span=> #allow let _ = (#(&#names),*);),
        }
    }
}

fn is_by_value(receiver: &ReceiverKind) -> bool {
    match receiver {
        ReceiverKind::Value => true,
        ReceiverKind::Typed(_, ty) => !has_no_drop(ty),
        _ => false,
    }
}

/// True for references, numbers and compounds of them: types without a destructor, by their spelling.
fn has_no_drop(ty: &Type) -> bool {
    const PRIMITIVES: [&str; 17] = [
        "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64",
        "u128", "usize", "str",
    ];
    match ty {
        Type::Reference(_) | Type::Ptr(_) => true,
        Type::Array(ty) => has_no_drop(&ty.elem),
        Type::Group(ty) => has_no_drop(&ty.elem),
        Type::Tuple(ty) => ty.elems.iter().all(has_no_drop),
        Type::Path(ty) => ty.path.get_ident().is_some_and(|name| PRIMITIVES.iter().any(|it| name == it)),
        _ => false,
    }
}

/// The first place of `name` among `tokens`, or between braces in a string.
fn occurrence(name: &str, tokens: &TokenStream) -> Option<Span> {
    tokens.clone().into_iter().find_map(|token| {
        let found = match &token {
            TokenTree::Ident(ident) => ident.unraw() == name,
            TokenTree::Group(group) => return occurrence(name, &group.stream()),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                text.match_indices('{').any(|(at, _)| {
                    text[at + 1..]
                        .strip_prefix(name)
                        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
                })
            }
            TokenTree::Punct(_) => false,
        };
        found.then(|| token.span())
    })
}

#[cfg(test)]
mod tests {
    use proc_macro2::TokenStream;
    use syn::Signature;

    use super::Captures;

    fn named(args: &str, sig: &str, body: &str) -> String {
        let parse = |text: &str| text.parse::<TokenStream>().unwrap_or_default();
        let sig: syn::Result<Signature> = syn::parse_str(sig);
        assert!(sig.is_ok(), "{:?}", sig.err());
        let captures = sig.map(|sig| Captures::of(&sig)).unwrap_or_default();
        let fallback = args.split_once(", ").map(|(_, fallback)| fallback).unwrap_or_default();
        captures.name_all(&parse(args), &parse(fallback), &parse(body)).to_string().replace(' ', "")
    }

    #[test]
    fn arguments_move_in_from_the_last_to_the_first() {
        for (sig, body, expected) in [
            ("fn f(a: A, b: B)", "a.x(b)", "let_=(&b,&a);"),
            ("fn f((a, _): (A, B), P { c, .. }: P)", "a + c", "let_=(&c,&a);"),
            ("fn f(self, a: A)", "a.x()", "let_=(&a,&self);"),
            ("fn f(self: Arc<Self>)", "", "let_=&self;"),
            ("fn f(&self, a: &A, b: u32, c: *const C)", "self.x(a, b, c)", ""),
            ("fn f(_a: A, _: B)", "", "#[allow(clippy::used_underscore_binding)]let_=&_a;"),
            ("fn f(a: A, b: B)", "b", "let_=&b;"),
            ("fn f(r#type: A)", "println!(\"{type:?}\")", "let_=&r#type;"),
            ("fn f(a: A, ab: B)", "println!(\"{ab} {{a\")", "let_=(&ab,&a);"),
            ("fn f(a: A)", "println!(\"a {ab}\")", ""),
        ] {
            assert_eq!(named("key = \"k\"", sig, body), expected, "{sig} {{ {body} }}");
        }
    }

    #[test]
    fn what_only_the_attribute_uses_moves_in_unless_it_is_used_after_the_body() {
        for (args, expected) in [
            ("key = \"{a}\"", "let_=&a;"),
            ("key = key_of(&a)", "let_=&a;"),
            ("key = \"{a}\", on_busy = a", ""),
            ("key = \"{a}\", on_error = |_| a", ""),
            ("key = \"k\"", ""),
        ] {
            assert_eq!(named(args, "fn f(a: A)", ""), expected, "{args}");
            assert_eq!(named(args, "fn f(a: A)", "a"), "let_=&a;", "{args}");
        }
    }
}
