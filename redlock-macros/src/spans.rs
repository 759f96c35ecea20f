//! Spans: where the compiler's messages point.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};

/// `tokens`, with spans from `first` to `last`: one span over several tokens cannot be made, but
/// rustc joins the two.
pub(crate) fn place(tokens: TokenStream, first: Span, last: Span) -> TokenStream {
    let mut tokens: Vec<TokenTree> = tokens.into_iter().collect();
    // rustc reports a call at the path that is called.
    let name = tokens.iter().rposition(|token| matches!(token, TokenTree::Ident(_))).unwrap_or_default();
    for (i, token) in tokens.iter_mut().enumerate() {
        let at = if i < name { first } else { last };
        if let TokenTree::Group(group) = token {
            let inside = place(group.stream(), at, at);
            *token = Group::new(group.delimiter(), inside).into();
        }
        token.set_span(token.span().located_at(at));
    }
    tokens.into_iter().collect()
}

/// The spans of the first and the last token.
pub(crate) fn ends(tokens: &impl ToTokens) -> (Span, Span) {
    let mut tokens = tokens.to_token_stream().into_iter();
    let first = tokens.next().map_or_else(Span::call_site, |token| token.span());
    (first, tokens.last().map_or(first, |token| token.span()))
}

/// `path(first, argument)`, with the spans of the user's argument.
pub(crate) fn call_around(path: TokenStream, first: &TokenStream, argument: &TokenStream) -> TokenStream {
    let (start, end) = ends(argument);
    let mut call = place(path, start, start);
    let mut arguments = Group::new(Delimiter::Parenthesis, quote!(#first #argument));
    arguments.set_span(Span::mixed_site().located_at(end));
    arguments.to_tokens(&mut call);
    call
}
