//! The names that a key may use: the receiver, and all that the patterns of the arguments bind.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::{
    Attribute, FieldPat, FnArg, GenericArgument, Ident, Pat, PatIdent, PathArguments, Signature, Type,
    TypeParamBound,
};

/// The user's own identifiers, with their hygiene.
#[derive(Default)]
pub(crate) struct Scope {
    receiver: Option<Ident>,
    names: Vec<Ident>,
    /// Generic constants: not arguments, but they differ between calls.
    constants: Vec<Ident>,
    /// The arguments whose types have a `Display`, by their spelling.
    printed: Vec<Ident>,
    /// The arguments that only some builds have.
    conditional: Vec<Ident>,
}

impl Scope {
    pub(crate) fn of(sig: &Signature) -> Self {
        let mut scope = Self {
            constants: sig.generics.const_params().map(|constant| constant.ident.clone()).collect(),
            ..Self::default()
        };
        for input in &sig.inputs {
            match input {
                FnArg::Receiver(receiver) => {
                    scope.receiver = Some(Ident::new("self", receiver.self_token.span));
                }
                FnArg::Typed(input) => {
                    scope.bind(&input.pat);
                    printed(&input.pat, &input.ty, &mut scope.printed);
                    if input.attrs.iter().any(is_condition) {
                        scope.conditional.extend(names_in(&input.pat));
                    }
                }
            }
        }
        scope
    }

    /// The token for `name`, shown at `span`; `None` if the function binds no such name.
    pub(crate) fn get(&self, name: &str, span: Span) -> Option<Ident> {
        let ident = if name == "self" {
            self.receiver.as_ref()?
        } else {
            let mut found = self.names.iter().filter(|ident| ident.unraw() == name);
            let ident = found.next()?;
            if found.next().is_some() {
                // A macro wrote one, its caller the other. With the span of the template, rustc finds the right one.
                let mut ident = ident.clone();
                ident.set_span(span);
                return Some(ident);
            }
            ident
        };
        let mut ident = ident.clone();
        ident.set_span(ident.span().located_at(span));
        Some(ident)
    }

    /// True for a name whose value may differ between calls.
    pub(crate) fn varies(&self, name: &str) -> bool {
        let receiver = name == "self" && self.receiver.is_some();
        receiver || self.names.iter().chain(&self.constants).any(|ident| ident.unraw() == name)
    }

    /// The names as a key spells them.
    pub(crate) fn names(&self) -> Vec<String> {
        let receiver = self.receiver.iter().map(|_| "self".to_owned());
        receiver.chain(self.names.iter().map(|ident| ident.unraw().to_string())).collect()
    }

    /// The arguments that a key could name in every build. One that starts with `_` is meant to be unused.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = String> {
        let names = self.names.iter().filter(|ident| !self.conditional.contains(ident));
        names.map(|ident| ident.unraw().to_string()).filter(|name| !name.starts_with('_'))
    }

    /// True for an argument that has a `Display`, by the spelling of its type.
    pub(crate) fn prints(&self, name: &str) -> bool {
        self.printed.iter().any(|ident| ident.unraw() == name)
    }

    /// True for the name of an argument, or `self`.
    pub(crate) fn binds(&self, ident: &Ident) -> bool {
        self.names.contains(ident) || self.receiver.as_ref() == Some(ident)
    }

    /// True if an argument is the same variable as `ident`: spelled alike, and written by the same macro or by none.
    pub(crate) fn has_argument(&self, ident: &Ident) -> bool {
        // Only rustc compares hygiene, but it shows it: `#4 bytes(7..10)`.
        let hygiene = |ident: &Ident| {
            let shown = format!("{:?}", ident.span());
            shown.split(' ').next().filter(|it| it.starts_with('#')).map(str::to_owned)
        };
        self.names.iter().any(|name| name == ident && hygiene(name) == hygiene(ident))
    }

    /// True if `#[async_trait]` has moved a pattern into the body, and it was not found there.
    pub(crate) fn misses_a_pattern(&self) -> bool {
        self.names.iter().any(stands_for_a_pattern)
    }

    /// Removes the name of an argument that is bound again by another, so that each is listed once.
    pub(crate) fn forget(&mut self, ident: &Ident) {
        self.names.retain(|name| name != ident);
    }

    /// Adds every name that `pat` binds.
    pub(crate) fn bind(&mut self, pat: &Pat) {
        self.names.extend(names_in(pat));
    }
}

/// Every name that `pat` binds, in order.
pub(crate) fn names_in(pat: &Pat) -> Vec<Ident> {
    bindings_in(pat).into_iter().map(|(pat, _)| pat.ident.clone()).collect()
}

/// Every binding in `pat`, in order, and whether it is the `x` of `Point { x, .. }`.
pub(crate) fn bindings_in(pat: &Pat) -> Vec<(&PatIdent, bool)> {
    fn all<'a>(pats: impl IntoIterator<Item = &'a Pat>) -> Vec<(&'a PatIdent, bool)> {
        pats.into_iter().flat_map(bindings_in).collect()
    }
    match pat {
        Pat::Ident(pat) => {
            let inner = pat.subpat.as_ref().map(|(_, pat)| bindings_in(pat));
            [(pat, false)].into_iter().chain(inner.into_iter().flatten()).collect()
        }
        Pat::Paren(pat) => bindings_in(&pat.pat),
        Pat::Reference(pat) => bindings_in(&pat.pat),
        Pat::Type(pat) => bindings_in(&pat.pat),
        Pat::Slice(pat) => all(&pat.elems),
        Pat::Tuple(pat) => all(&pat.elems),
        Pat::TupleStruct(pat) => all(&pat.elems),
        Pat::Struct(pat) => {
            let of = |field: &'_ FieldPat| field.colon_token.is_none();
            let fields = pat.fields.iter();
            fields
                .flat_map(|field| bindings_in(&field.pat).into_iter().map(move |(pat, _)| (pat, of(field))))
                .collect()
        }
        // All cases bind the same names.
        Pat::Or(pat) => all(pat.cases.iter().take(1)),
        _ => Vec::new(),
    }
}

/// Adds the names in `pat` whose types have a `Display`, by their spelling.
fn printed(pat: &Pat, ty: &Type, names: &mut Vec<Ident>) {
    match (pat, ty) {
        (_, Type::Group(ty)) => printed(pat, &ty.elem, names),
        (Pat::Ident(pat), ty) if has_display(ty) => names.push(pat.ident.clone()),
        (Pat::Reference(pat), Type::Reference(ty)) => printed(&pat.pat, &ty.elem, names),
        (Pat::Tuple(pat), Type::Tuple(ty)) => {
            pat.elems.iter().zip(&ty.elems).for_each(|(pat, ty)| printed(pat, ty, names));
        }
        // `Path(id): Path<u64>`.
        (Pat::TupleStruct(pat), ty) if pat.elems.len() == 1 => {
            if let (Some(pat), Some(ty)) = (pat.elems.first(), only_argument(ty)) {
                printed(pat, ty, names);
            }
        }
        _ => {}
    }
}

fn has_display(ty: &Type) -> bool {
    const PRINTED: [&str; 23] = [
        "bool",
        "char",
        "f32",
        "f64",
        "i8",
        "i16",
        "i32",
        "i64",
        "i128",
        "isize",
        "u8",
        "u16",
        "u32",
        "u64",
        "u128",
        "usize",
        "str",
        "String",
        "IpAddr",
        "Ipv4Addr",
        "Ipv6Addr",
        "SocketAddr",
        "Uuid",
    ];
    match ty {
        Type::Reference(ty) => has_display(&ty.elem),
        Type::Group(ty) => has_display(&ty.elem),
        Type::Paren(ty) => has_display(&ty.elem),
        Type::ImplTrait(ty) => ty.bounds.iter().any(|bound| {
            matches!(bound, TypeParamBound::Trait(bound)
                if bound.path.segments.last().is_some_and(|name| name.ident == "Display"))
        }),
        Type::Path(path) => path.path.segments.last().is_some_and(|name| {
            let name = name.ident.to_string();
            PRINTED.contains(&name.as_str())
                || ["Arc", "Box", "Cow", "Rc"].contains(&name.as_str())
                    && only_argument(ty).is_some_and(has_display)
        }),
        _ => false,
    }
}

/// `T` of `Path<T>`.
fn only_argument(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else {
        return None;
    };
    let mut types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    types.next().filter(|_| types.next().is_none())
}

/// True for `#[cfg(…)]`, and for a `#[cfg_attr(…)]` that may be one.
pub(crate) fn is_condition(attr: &Attribute) -> bool {
    fn has_cfg(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(word) => word == "cfg",
            TokenTree::Group(group) => has_cfg(group.stream()),
            _ => false,
        })
    }
    attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr") && has_cfg(attr.meta.to_token_stream())
}

/// True for `__arg1`: `#[async_trait]` names an argument so when it moves the pattern into the body.
pub(crate) fn stands_for_a_pattern(ident: &Ident) -> bool {
    let name = ident.to_string();
    name.strip_prefix("__arg").is_some_and(|n| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()))
}
