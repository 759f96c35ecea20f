//! The return type: errors point at it, and the generated code declares it for the body.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::{ReturnType, Signature, Type};

use super::types::{Shape, erase_impl_trait};
use crate::errors::Errors;
use crate::spans::{ends, place};

/// What the function returns, or what its future resolves to.
pub(crate) struct Output {
    /// With `_` for each `impl Trait`; `None` for `!`, and for a type behind an alias.
    ty: Option<TokenStream>,
    never: bool,
    /// Where an error about the type points.
    first: Span,
    last: Span,
}

impl Output {
    pub(crate) fn of(sig: &Signature) -> Self {
        match &sig.output {
            ReturnType::Type(_, ty) => Self::of_type(ty),
            ReturnType::Default => {
                let span = sig.ident.span();
                Self { ty: Some(quote_spanned!(span=> ())), never: false, first: span, last: span }
            }
        }
    }

    /// `R` of `Pin<Box<dyn Future<Output = R>>>` or `impl Future<Output = R>`; of an alias, only
    /// the place.
    pub(crate) fn of_future(sig: &Signature) -> Self {
        let whole = Self::of(sig);
        match &sig.output {
            ReturnType::Type(_, ty) => match Shape::of(ty).future_output() {
                Some(output) => Self::of_type(output),
                None => Self { ty: None, ..whole },
            },
            ReturnType::Default => whole,
        }
    }

    /// True for a type that cannot be a future, by its spelling.
    pub(crate) fn is_plain(sig: &Signature) -> bool {
        match &sig.output {
            ReturnType::Default => true,
            ReturnType::Type(_, ty) => Shape::of(ty).is_no_future(),
        }
    }

    fn of_type(ty: &Type) -> Self {
        let (first, last) = ends(ty);
        let never = matches!(Shape::of(ty), Shape::Never);
        let ty = (!never).then(|| {
            let mut ty = ty.clone();
            erase_impl_trait(&mut ty);
            ty.into_token_stream()
        });
        Self { ty, never, first, last }
    }

    /// A `return` that never runs, at the top of the body: it fixes the type of all others, so that
    /// a mismatch is reported once, at the user's expression.
    pub(crate) fn edge(&self, krate: &TokenStream) -> TokenStream {
        let Some(ty) = &self.ty else {
            return TokenStream::new();
        };
        let path = quote_spanned!(Span::mixed_site()=> #krate::__private::NoOutput);
        // With the user's own span, so that rustc's messages name the user's type and no macro. Not
        // so the root of the path: in the user's edition there may be no `::core`. Not a value of
        // that type, which would take room on the stack in debug builds.
        let option = quote_spanned!(Span::mixed_site().located_at(self.first)=> ::core::option::Option);
        quote_spanned! {self.first=>
            if let #option::Some(__unreachable_output) = #option::None::<#path<#ty>> {
                return __unreachable_output.output();
            }
        }
    }

    /// `::<R>`, if it is known.
    pub(crate) fn turbofish(&self) -> Option<TokenStream> {
        self.ty.as_ref().map(|ty| quote_spanned!(Span::mixed_site()=> ::<#ty>))
    }

    /// False for `!`.
    pub(crate) fn returns(&self) -> bool {
        !self.never
    }

    /// `call`, with spans that make rustc underline the return type.
    pub(crate) fn underline(&self, call: TokenStream) -> TokenStream {
        place(call, self.first, self.last)
    }

    /// `tokens`, with the span of the start of the return type.
    pub(crate) fn point(&self, tokens: TokenStream) -> TokenStream {
        place(tokens, self.first, self.first)
    }
}

/// Refuses a function that returns a stream: the caller would read it after the lock was released.
pub(crate) fn refuse_stream(sig: &Signature, errors: &mut Errors) {
    if let ReturnType::Type(_, ty) = &sig.output
        && let output = Shape::of(ty).future_output().unwrap_or(ty)
        && Shape::of(output).is_stream()
    {
        errors.at(
            output,
            "the lock would be released before this stream is read: collect its items in the body, or acquire a guard \
             with `LockManager::lock` and keep it for as long as the stream is read",
        );
    }
}
