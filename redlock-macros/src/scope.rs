//! The names that a key may use: the receiver, and whatever the patterns of the arguments bind.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::{Expr, FnArg, Ident, Pat, Signature};

/// The user's own identifiers, so that their hygiene is the user's.
#[derive(Default)]
pub(crate) struct Scope {
    receiver: Option<Ident>,
    names: Vec<Ident>,
    /// The name by which `self` goes inside the block that `#[async_trait]` writes.
    renamed: Option<Ident>,
}

impl Scope {
    pub(crate) fn of(sig: &Signature) -> Self {
        let mut scope = Self::default();
        for input in &sig.inputs {
            match input {
                FnArg::Receiver(receiver) => {
                    scope.receiver = Some(Ident::new("self", receiver.self_token.span));
                }
                FnArg::Typed(input) => scope.bind(&input.pat),
            }
        }
        scope
    }

    /// The token for `name`, shown at `span`; `None` if the function binds no such name.
    pub(crate) fn get(&self, name: &str, span: Span) -> Option<Ident> {
        let ident = if name == "self" {
            self.renamed.as_ref().or(self.receiver.as_ref())?
        } else {
            self.names.iter().rev().find(|ident| ident.unraw() == name)?
        };
        let mut ident = ident.clone();
        ident.set_span(ident.span().located_at(span));
        Some(ident)
    }

    /// The names as the user would write them in a key.
    pub(crate) fn names(&self) -> Vec<String> {
        let receiver = self.receiver.iter().map(|_| "self".to_owned());
        receiver.chain(self.names.iter().map(|ident| ident.unraw().to_string())).collect()
    }

    /// The arguments that a key could be made of; a name that starts with `_` says that nobody uses it.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = String> {
        self.names.iter().map(|ident| ident.unraw().to_string()).filter(|name| !name.starts_with('_'))
    }

    /// True for the name of an argument, or `self`.
    pub(crate) fn binds(&self, ident: &Ident) -> bool {
        self.names.contains(ident) || self.receiver.as_ref() == Some(ident)
    }

    /// True if `#[async_trait]` has put a pattern elsewhere, and nobody has found it.
    pub(crate) fn misses_a_pattern(&self) -> bool {
        self.names.iter().any(stands_for_a_pattern)
    }

    /// The name of an argument that something else stands for from here on, so that each is listed once.
    pub(crate) fn forget(&mut self, ident: &Ident) {
        self.names.retain(|name| name != ident);
    }

    /// From here on `self` goes by another name.
    pub(crate) fn rename_receiver(&mut self, ident: &Ident) {
        self.renamed = Some(ident.clone());
    }

    /// An expression of the user's, with the name that `self` has here.
    pub(crate) fn resolve(&self, expr: &Expr) -> TokenStream {
        match &self.renamed {
            Some(ident) => rename_self(expr.to_token_stream(), ident),
            None => expr.to_token_stream(),
        }
    }

    /// Adds every name that `pat` binds.
    pub(crate) fn bind(&mut self, pat: &Pat) {
        match pat {
            Pat::Ident(pat) => {
                self.names.push(pat.ident.clone());
                if let Some((_, pat)) = &pat.subpat {
                    self.bind(pat);
                }
            }
            Pat::Paren(pat) => self.bind(&pat.pat),
            Pat::Reference(pat) => self.bind(&pat.pat),
            Pat::Type(pat) => self.bind(&pat.pat),
            Pat::Slice(pat) => pat.elems.iter().for_each(|pat| self.bind(pat)),
            Pat::Tuple(pat) => pat.elems.iter().for_each(|pat| self.bind(pat)),
            Pat::TupleStruct(pat) => pat.elems.iter().for_each(|pat| self.bind(pat)),
            Pat::Struct(pat) => pat.fields.iter().for_each(|field| self.bind(&field.pat)),
            // Every case binds the same names.
            Pat::Or(pat) => pat.cases.iter().take(1).for_each(|pat| self.bind(pat)),
            _ => {}
        }
    }
}

/// `__arg1`, as `#[async_trait]` calls an argument whose pattern it has put into the body.
pub(crate) fn stands_for_a_pattern(ident: &Ident) -> bool {
    let name = ident.to_string();
    name.strip_prefix("__arg").is_some_and(|n| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()))
}

/// `tokens` with another name for `self`.
fn rename_self(tokens: TokenStream, ident: &Ident) -> TokenStream {
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Ident(word) if word == "self" => {
                let mut ident = ident.clone();
                ident.set_span(ident.span().located_at(word.span()));
                ident.into()
            }
            TokenTree::Group(group) => {
                let mut renamed = Group::new(group.delimiter(), rename_self(group.stream(), ident));
                renamed.set_span(group.span());
                renamed.into()
            }
            token => token,
        })
        .collect()
}
