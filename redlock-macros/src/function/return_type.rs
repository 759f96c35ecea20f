//! The return type: errors point at it, and the body is told of it.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{
    AngleBracketedGenericArguments, GenericArgument, Path, PathArguments, ReturnType, Signature, Token, Type,
    TypeInfer, TypeParamBound, TypePath,
};

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

    /// `R` of `Pin<Box<dyn Future<Output = R>>>` or `impl Future<Output = R>`; of an alias, only the place.
    pub(crate) fn of_future(sig: &Signature) -> Self {
        let whole = Self::of(sig);
        match &sig.output {
            ReturnType::Type(_, ty) => match future_output(ty) {
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
            ReturnType::Type(_, ty) => match &**ty {
                Type::Path(ty) => ty.path.segments.last().is_some_and(|segment| segment.ident == "Result"),
                Type::ImplTrait(_) | Type::Group(_) | Type::Paren(_) | Type::Macro(_) => false,
                _ => true,
            },
        }
    }

    fn of_type(ty: &Type) -> Self {
        let (first, last) = ends(ty);
        let never = matches!(ty, Type::Never(_));
        let ty = (!never).then(|| {
            let mut ty = ty.clone();
            erase_impl_trait(&mut ty);
            ty.into_token_stream()
        });
        Self { ty, never, first, last }
    }

    /// A `return` that never runs, at the top of the body: it fixes the type of all others, so that a mismatch is
    /// reported once, at the user's expression.
    pub(crate) fn edge(&self) -> TokenStream {
        let Some(ty) = &self.ty else {
            return TokenStream::new();
        };
        // With the user's own span, so that rustc's messages name the user's type and no macro.
        quote_spanned! {self.first=>
            if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<#ty> {
                return __unreachable_output;
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

/// True for a type that is a future by its spelling.
pub(crate) fn is_future(ty: &Type) -> bool {
    match ty {
        Type::Group(ty) => is_future(&ty.elem),
        Type::Paren(ty) => is_future(&ty.elem),
        Type::ImplTrait(ty) => is_future_bound(&ty.bounds),
        Type::TraitObject(ty) => is_future_bound(&ty.bounds),
        Type::Path(TypePath { path, .. }) => {
            path.segments.last().is_some_and(|segment| match segment.ident.to_string().as_str() {
                "BoxFuture" | "LocalBoxFuture" => true,
                "Pin" | "Box" => argument(path).is_some_and(is_future),
                _ => false,
            })
        }
        _ => false,
    }
}

/// True for a type that is a stream by its spelling, or a `Result` or an `Option` of one.
fn is_stream(ty: &Type) -> bool {
    let is_bound = |bounds: &Punctuated<TypeParamBound, Token![+]>| {
        bounds.iter().any(|bound| match bound {
            TypeParamBound::Trait(bound) => {
                bound.path.segments.last().is_some_and(|segment| segment.ident == "Stream")
            }
            _ => false,
        })
    };
    match ty {
        Type::Group(ty) => is_stream(&ty.elem),
        Type::Paren(ty) => is_stream(&ty.elem),
        Type::ImplTrait(ty) => is_bound(&ty.bounds),
        Type::TraitObject(ty) => is_bound(&ty.bounds),
        Type::Path(TypePath { path, .. }) => {
            path.segments.last().is_some_and(|segment| match segment.ident.to_string().as_str() {
                "BoxStream" | "LocalBoxStream" => true,
                "Pin" | "Box" | "Result" | "Option" => argument(path).is_some_and(is_stream),
                _ => false,
            })
        }
        _ => false,
    }
}

/// Refuses a function that returns a stream: the caller would read it after the lock was released.
pub(crate) fn refuse_stream(sig: &Signature, errors: &mut Errors) {
    if let ReturnType::Type(_, ty) = &sig.output
        && let output = future_output(ty).unwrap_or(ty)
        && is_stream(output)
    {
        errors.at(
            output,
            "the lock would be released before this stream is read: collect its items in the body, or acquire a guard \
             with `LockManager::lock` and keep it for as long as the stream is read",
        );
    }
}

fn is_future_bound(bounds: &Punctuated<TypeParamBound, Token![+]>) -> bool {
    bounds.iter().any(|bound| future_bound(bound).is_some())
}

/// The `Future<…>` of a bound.
fn future_bound(bound: &TypeParamBound) -> Option<&syn::PathSegment> {
    match bound {
        TypeParamBound::Trait(bound) => {
            bound.path.segments.last().filter(|segment| segment.ident == "Future")
        }
        _ => None,
    }
}

/// `R` of `Pin<Box<dyn Future<Output = R> + …>>`, and of `impl Future<Output = R> + …`.
fn future_output(ty: &Type) -> Option<&Type> {
    match ty {
        Type::Group(ty) => future_output(&ty.elem),
        Type::Paren(ty) => future_output(&ty.elem),
        Type::Path(ty) => future_output(argument(&ty.path)?),
        Type::ImplTrait(ty) => bound_output(&ty.bounds),
        Type::TraitObject(ty) => bound_output(&ty.bounds),
        _ => None,
    }
}

fn bound_output(bounds: &Punctuated<TypeParamBound, Token![+]>) -> Option<&Type> {
    let segment = bounds.iter().find_map(future_bound)?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::AssocType(output) if output.ident == "Output" => Some(&output.ty),
        _ => None,
    })
}

/// The first type argument of a path.
fn argument(path: &Path) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = &path.segments.last()?.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

// Input:   Result<impl Iterator<Item = u8>, Error>
//
// Output:  Result<_, Error>
fn erase_impl_trait(ty: &mut Type) {
    match ty {
        Type::ImplTrait(found) => {
            let underscore_token = Token![_](found.span());
            *ty = Type::Infer(TypeInfer { attrs: Vec::new(), underscore_token });
        }
        Type::Array(ty) => erase_impl_trait(&mut ty.elem),
        Type::Group(ty) => erase_impl_trait(&mut ty.elem),
        Type::Paren(ty) => erase_impl_trait(&mut ty.elem),
        Type::Ptr(ty) => erase_impl_trait(&mut ty.elem),
        Type::Reference(ty) => erase_impl_trait(&mut ty.elem),
        Type::Slice(ty) => erase_impl_trait(&mut ty.elem),
        Type::Tuple(ty) => ty.elems.iter_mut().for_each(erase_impl_trait),
        Type::TraitObject(ty) => ty.bounds.iter_mut().for_each(|bound| {
            if let TypeParamBound::Trait(bound) = bound {
                erase_in_path(&mut bound.path);
            }
        }),
        Type::Path(ty) => {
            if let Some(qself) = &mut ty.qself {
                erase_impl_trait(&mut qself.ty);
            }
            erase_in_path(&mut ty.path);
        }
        _ => {}
    }
}

fn erase_in_path(path: &mut Path) {
    for segment in &mut path.segments {
        let PathArguments::AngleBracketed(AngleBracketedGenericArguments { args, .. }) =
            &mut segment.arguments
        else {
            continue;
        };
        for argument in args {
            match argument {
                GenericArgument::Type(ty) => erase_impl_trait(ty),
                GenericArgument::AssocType(output) => erase_impl_trait(&mut output.ty),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use quote::ToTokens as _;
    use syn::parse_quote;

    use super::{erase_impl_trait, future_output, is_future, is_stream};

    #[test]
    fn impl_trait_is_erased_at_any_depth() {
        let types: [(syn::Type, syn::Type); 6] = [
            (parse_quote!(u8), parse_quote!(u8)),
            (parse_quote!(impl Copy + 'static), parse_quote!(_)),
            (parse_quote!(Result<impl Iterator<Item = u8>, E>), parse_quote!(Result<_, E>)),
            (parse_quote!(Vec<(u8, Option<impl Copy>)>), parse_quote!(Vec<(u8, Option<_>)>)),
            (parse_quote!(Box<dyn Iterator<Item = impl Copy>>), parse_quote!(Box<dyn Iterator<Item = _>>)),
            (parse_quote!(&'a [impl Copy; 2]), parse_quote!(&'a [_; 2])),
        ];
        for (mut ty, expected) in types {
            erase_impl_trait(&mut ty);
            assert_eq!(ty.to_token_stream().to_string(), expected.to_token_stream().to_string());
        }
    }

    #[test]
    fn streams_are_known_by_their_spelling() {
        let types: [(syn::Type, bool); 8] = [
            (parse_quote!(impl Stream<Item = u8> + Send), true),
            (parse_quote!(Result<impl futures::Stream<Item = u8>, E>), true),
            (parse_quote!(Option<Pin<Box<dyn Stream<Item = u8> + Send + 'a>>>), true),
            (parse_quote!(Result<BoxStream<'static, u8>, E>), true),
            (parse_quote!(LocalBoxStream<'a, u8>), true),
            (parse_quote!(Result<TcpStream, E>), false),
            (parse_quote!(Result<u8, Stream>), false),
            (parse_quote!(impl Iterator<Item = u8>), false),
        ];
        for (ty, expected) in types {
            assert_eq!(is_stream(&ty), expected, "{}", ty.to_token_stream());
        }
    }

    #[test]
    fn futures_are_known_by_their_spelling() {
        let types: [(syn::Type, bool, Option<&str>); 7] = [
            (parse_quote!(u8), false, None),
            (parse_quote!(Result<u8, E>), false, None),
            (parse_quote!(impl Future<Output = u8> + Send), true, Some("u8")),
            (parse_quote!(BoxFuture<'a, u8>), true, None),
            (parse_quote!(::core::pin::Pin<Box<dyn Future<Output = u8> + Send + 'a>>), true, Some("u8")),
            (parse_quote!(Pin<Box<Later>>), false, None),
            (parse_quote!(Box<dyn std::future::Future<Output = ()>>), true, Some("()")),
        ];
        for (ty, expected, output) in types {
            let text = ty.to_token_stream().to_string();
            assert_eq!(is_future(&ty), expected, "{text}");
            let found = future_output(&ty).map(|ty| ty.to_token_stream().to_string());
            assert_eq!(found.as_deref(), output, "{text}");
        }
    }
}
