//! The names that a key may use: the receiver, and all that the patterns of the arguments bind.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::{Attribute, FieldPat, FnArg, Ident, Pat, PatIdent, Signature};

use super::types::Shape;

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
                    printed(&input.pat, &Shape::of(&input.ty), &mut scope.printed);
                    let is_conditional = input.attrs.iter().any(is_condition);
                    let bound = bindings_in(&input.pat).into_iter();
                    let conditional = bound.filter(|it| is_conditional || !it.conditions.is_empty());
                    scope.conditional.extend(conditional.map(|it| it.pat.ident.clone()));
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
                // A macro wrote one, its caller the other. With the span of the template, rustc
                // finds the right one.
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

    /// The arguments that a key could name in every build. One that starts with `_` is meant to be
    /// unused.
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

    /// True if an argument is the same variable as `ident`: spelled alike, and written by the same
    /// macro or by none.
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
fn names_in(pat: &Pat) -> impl Iterator<Item = Ident> {
    bindings_in(pat).into_iter().map(|bound| bound.pat.ident.clone())
}

/// A variable that a pattern binds.
pub(crate) struct Bound<'a> {
    pub(crate) pat: &'a PatIdent,
    /// It is the `x` of `Point { x, .. }`.
    pub(crate) is_shorthand: bool,
    /// Those of the fields that it is in: `#[cfg(…)]`.
    pub(crate) conditions: Vec<&'a Attribute>,
}

/// Every binding in `pat`, in order.
pub(crate) fn bindings_in(pat: &Pat) -> Vec<Bound<'_>> {
    fn all<'a>(pats: impl IntoIterator<Item = &'a Pat>) -> Vec<Bound<'a>> {
        pats.into_iter().flat_map(bindings_in).collect()
    }
    fn in_field(field: &FieldPat) -> impl Iterator<Item = Bound<'_>> {
        bindings_in(&field.pat).into_iter().map(|mut bound| {
            bound.is_shorthand = field.colon_token.is_none();
            bound.conditions.extend(field.attrs.iter().filter(|attr| is_condition(attr)));
            bound
        })
    }
    match pat {
        Pat::Ident(pat) => {
            let inner = pat.subpat.iter().flat_map(|(_, pat)| bindings_in(pat));
            let bound = Bound { pat, is_shorthand: false, conditions: Vec::new() };
            std::iter::once(bound).chain(inner).collect()
        }
        Pat::Paren(pat) => bindings_in(&pat.pat),
        Pat::Reference(pat) => bindings_in(&pat.pat),
        Pat::Type(pat) => bindings_in(&pat.pat),
        Pat::Slice(pat) => all(&pat.elems),
        Pat::Tuple(pat) => all(&pat.elems),
        Pat::TupleStruct(pat) => all(&pat.elems),
        Pat::Struct(pat) => pat.fields.iter().flat_map(in_field).collect(),
        // All cases bind the same names.
        Pat::Or(pat) => all(pat.cases.iter().take(1)),
        _ => Vec::new(),
    }
}

/// Adds the names in `pat` whose types have a `Display`, by their spelling.
fn printed(pat: &Pat, shape: &Shape<'_>, names: &mut Vec<Ident>) {
    match (pat, shape) {
        (Pat::Ident(pat), shape) if shape.has_display() => names.push(pat.ident.clone()),
        (Pat::Reference(pat), Shape::Reference(inner)) => printed(&pat.pat, inner, names),
        (Pat::Tuple(pat), Shape::Tuple(shapes)) => {
            pat.elems.iter().zip(shapes).for_each(|(pat, shape)| printed(pat, shape, names));
        }
        // `Path(id): Path<u64>`.
        (Pat::TupleStruct(pat), shape) if pat.elems.len() == 1 => {
            if let (Some(pat), Some(shape)) = (pat.elems.first(), shape.only_argument()) {
                printed(pat, shape, names);
            }
        }
        _ => {}
    }
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

/// True for `__arg1`: `#[async_trait]` names an argument so when it moves the pattern into the
/// body.
pub(crate) fn stands_for_a_pattern(ident: &Ident) -> bool {
    let name = ident.to_string();
    name.strip_prefix("__arg").is_some_and(|n| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()))
}
