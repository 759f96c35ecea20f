//! What the spelling of a type says of it. An alias says nothing, and only the compiler knows what
//! it stands for.

use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{GenericArgument, Ident, Path, PathArguments, PathSegment, Token, Type, TypeInfer, TypeParamBound};

/// A type, without the parentheses and invisible delimiters around it.
pub(crate) enum Shape<'a> {
    /// `impl A + b::C<D>`, or `dyn …`: the traits without their modules.
    Traits(Vec<&'a PathSegment>),
    /// `a::B<C>`: the name and the types behind it.
    Named(&'a Ident, Vec<Self>),
    Reference(Box<Self>),
    Tuple(Vec<Self>),
    Array(Box<Self>),
    Never,
    /// Pointers, also to functions, and what has no size.
    Bare,
    /// The call of a macro, or syntax that is newer than syn.
    Unknown,
}

/// Types without a destructor.
const NUMBERS: [&str; 16] = [
    "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64",
    "u128", "usize",
];

/// Types that have a `Display`, beside numbers.
const PRINTED: [&str; 7] = ["str", "String", "IpAddr", "Ipv4Addr", "Ipv6Addr", "SocketAddr", "Uuid"];

impl<'a> Shape<'a> {
    pub(crate) fn of(ty: &'a Type) -> Self {
        match ty {
            Type::Group(ty) => Self::of(&ty.elem),
            Type::Paren(ty) => Self::of(&ty.elem),
            Type::ImplTrait(ty) => Self::Traits(traits(&ty.bounds)),
            Type::TraitObject(ty) => Self::Traits(traits(&ty.bounds)),
            Type::Path(ty) => ty.path.segments.last().map_or(Self::Unknown, |last| {
                let types = generics(last).filter_map(|argument| match argument {
                    GenericArgument::Type(ty) => Some(Self::of(ty)),
                    _ => None,
                });
                Self::Named(&last.ident, types.collect())
            }),
            Type::Reference(ty) => Self::Reference(Self::of(&ty.elem).into()),
            Type::Tuple(ty) => Self::Tuple(ty.elems.iter().map(Self::of).collect()),
            Type::Array(ty) => Self::Array(Self::of(&ty.elem).into()),
            Type::Never(_) => Self::Never,
            Type::Ptr(_) | Type::FnPtr(_) | Type::Slice(_) => Self::Bare,
            _ => Self::Unknown,
        }
    }

    /// True for a future.
    pub(crate) fn is_future(&self) -> bool {
        self.inside(&["Pin", "Box"]).is(&["Future"], &["BoxFuture", "LocalBoxFuture"])
    }

    /// `R` of `Pin<Box<dyn Future<Output = R> + …>>`, and of `impl Future<Output = R> + …`.
    pub(crate) fn future_output(&self) -> Option<&'a Type> {
        let Self::Traits(traits) = self.inside(&["Pin", "Box"]) else { return None };
        let future: &'a PathSegment = traits.iter().find(|it| it.ident == "Future")?;
        generics(future).find_map(|argument| match argument {
            GenericArgument::AssocType(output) if output.ident == "Output" => Some(&output.ty),
            _ => None,
        })
    }

    /// True for a stream, and for a `Result` or an `Option` of one.
    pub(crate) fn is_stream(&self) -> bool {
        self.inside(&["Pin", "Box", "Result", "Option"]).is(&["Stream"], &["BoxStream", "LocalBoxStream"])
    }

    /// True for a type that cannot be a future.
    pub(crate) fn is_no_future(&self) -> bool {
        match self {
            Self::Named(name, _) => *name == "Result",
            Self::Traits(_) | Self::Unknown => false,
            _ => true,
        }
    }

    /// True for a type without a destructor.
    pub(crate) fn has_no_drop(&self) -> bool {
        match self {
            Self::Reference(_) | Self::Bare | Self::Never => true,
            Self::Array(element) => element.has_no_drop(),
            Self::Tuple(elements) => elements.iter().all(Self::has_no_drop),
            Self::Named(name, types) => types.is_empty() && is_one_of(name, &NUMBERS),
            Self::Traits(_) | Self::Unknown => false,
        }
    }

    /// True for a type that has a `Display`.
    pub(crate) fn has_display(&self) -> bool {
        match self {
            Self::Reference(inner) => inner.has_display(),
            Self::Named(name, types) if is_one_of(name, &["Arc", "Box", "Cow", "Rc"]) => {
                types.first().is_some_and(Self::has_display)
            }
            Self::Named(name, _) => is_one_of(name, &NUMBERS) || is_one_of(name, &PRINTED),
            _ => self.is(&["Display"], &[]),
        }
    }

    /// `T` of `Path<T>`, if there is one.
    pub(crate) fn only_argument(&self) -> Option<&Self> {
        match self {
            Self::Named(_, types) => types.first().filter(|_| types.len() == 1),
            _ => None,
        }
    }

    /// The first type behind a name that is one of `wrappers`, at any depth.
    fn inside(&self, wrappers: &[&str]) -> &Self {
        match self {
            Self::Named(name, types) if is_one_of(name, wrappers) => {
                types.first().map_or(self, |first| first.inside(wrappers))
            }
            _ => self,
        }
    }

    fn is(&self, traits: &[&str], names: &[&str]) -> bool {
        match self {
            Self::Traits(found) => found.iter().any(|it| is_one_of(&it.ident, traits)),
            Self::Named(name, _) => is_one_of(name, names),
            _ => false,
        }
    }
}

fn is_one_of(name: &Ident, names: &[&str]) -> bool {
    names.iter().any(|it| name == it)
}

fn traits(bounds: &Punctuated<TypeParamBound, Token![+]>) -> Vec<&PathSegment> {
    let names = bounds.iter().filter_map(|bound| match bound {
        TypeParamBound::Trait(bound) => bound.path.segments.last(),
        _ => None,
    });
    names.collect()
}

fn generics(segment: &PathSegment) -> impl Iterator<Item = &GenericArgument> {
    let arguments = match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
        _ => None,
    };
    arguments.into_iter().flatten()
}

// Input:   Result<impl Iterator<Item = u8>, Error>
//
// Output:  Result<_, Error>
pub(crate) fn erase_impl_trait(ty: &mut Type) {
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
        let PathArguments::AngleBracketed(arguments) = &mut segment.arguments else { continue };
        for argument in &mut arguments.args {
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
    use syn::{Type, parse_quote};

    use super::{Shape, erase_impl_trait};

    #[test]
    fn impl_trait_is_erased_at_any_depth() {
        let types: [(Type, Type); 6] = [
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

    /// Holds for each of the types that are listed, and for no other one.
    fn only<'a>(known: &'a [Type], others: &'a [Type], is: impl Fn(&Shape<'a>) -> bool) {
        for (types, expected) in [(known, true), (others, false)] {
            for ty in types {
                assert_eq!(is(&Shape::of(ty)), expected, "{}", ty.to_token_stream());
            }
        }
    }

    #[test]
    fn streams() {
        let streams: [Type; 6] = [
            parse_quote!(impl Stream<Item = u8> + Send),
            parse_quote!((impl Stream<Item = u8>)),
            parse_quote!(Result<impl futures::Stream<Item = u8>, E>),
            parse_quote!(Option<Pin<Box<dyn Stream<Item = u8> + Send + 'a>>>),
            parse_quote!(Result<BoxStream<'static, u8>, E>),
            parse_quote!(LocalBoxStream<'a, u8>),
        ];
        let others: [Type; 4] = [
            parse_quote!(Result<TcpStream, E>),
            parse_quote!(Result<u8, Stream>),
            parse_quote!(impl Iterator<Item = u8>),
            parse_quote!(Vec<BoxStream<'static, u8>>),
        ];
        only(&streams, &others, Shape::is_stream);
    }

    #[test]
    fn futures() {
        let types: [(Type, bool, Option<&str>); 9] = [
            (parse_quote!(u8), false, None),
            (parse_quote!(Result<u8, E>), false, None),
            (parse_quote!(impl Future<Output = u8> + Send), true, Some("u8")),
            (parse_quote!(impl Send + for<'a> Future<Output = &'a u8>), true, Some("& 'a u8")),
            (parse_quote!(BoxFuture<'a, u8>), true, None),
            (parse_quote!(::core::pin::Pin<Box<dyn Future<Output = u8> + Send + 'a>>), true, Some("u8")),
            (parse_quote!(Pin<Box<Later>>), false, None),
            (parse_quote!(Result<Pin<Box<dyn Future<Output = u8>>>, E>), false, None),
            (parse_quote!(Box<dyn std::future::Future<Output = ()>>), true, Some("()")),
        ];
        for (ty, expected, output) in types {
            let text = ty.to_token_stream().to_string();
            let shape = Shape::of(&ty);
            assert_eq!(shape.is_future(), expected, "{text}");
            let found = shape.future_output().map(|ty| ty.to_token_stream().to_string());
            assert_eq!(found.as_deref(), output, "{text}");
        }
    }

    #[test]
    fn what_is_no_future() {
        let known: [Type; 6] = [
            parse_quote!(std::io::Result<u8>),
            parse_quote!((Later, u8)),
            parse_quote!(&'a Later),
            parse_quote!([Later; 2]),
            parse_quote!(fn() -> Later),
            parse_quote!(!),
        ];
        let others: [Type; 5] = [
            parse_quote!(Later),
            parse_quote!((Later)),
            parse_quote!(impl Copy),
            parse_quote!(later!(u8)),
            parse_quote!(Self::Future),
        ];
        only(&known, &others, Shape::is_no_future);
    }

    #[test]
    fn what_has_no_destructor() {
        let known: [Type; 7] = [
            parse_quote!(&mut A),
            parse_quote!(*const A),
            parse_quote!(u8),
            parse_quote!((u8)),
            parse_quote!([(u8, &A); 2]),
            parse_quote!(fn(A) -> B),
            parse_quote!(()),
        ];
        let others: [Type; 5] = [
            parse_quote!(A),
            parse_quote!((u8, A)),
            parse_quote!([A; 2]),
            parse_quote!(impl Copy),
            parse_quote!(Option<u8>),
        ];
        only(&known, &others, Shape::has_no_drop);
    }

    #[test]
    fn what_has_a_display() {
        let known: [Type; 6] = [
            parse_quote!(u8),
            parse_quote!(&&Arc<str>),
            parse_quote!(Cow<'_, str>),
            parse_quote!(std::string::String),
            parse_quote!(impl Copy + std::fmt::Display),
            parse_quote!(uuid::Uuid),
        ];
        let others: [Type; 4] =
            [parse_quote!(Option<u8>), parse_quote!(Arc<A>), parse_quote!((u8, u8)), parse_quote!(impl Copy)];
        only(&known, &others, Shape::has_display);
    }
}
