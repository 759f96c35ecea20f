//! The annotated function. Its body is not parsed but copied, which keeps spans, the `dead_code`
//! lint and syntax that is newer than syn.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream, Parser as _};
use syn::{Attribute, Error, Expr, Ident, LitStr, Result, Signature, Token, Visibility, braced, token};

/// A function whose body is not parsed.
pub(crate) struct LockedFn {
    pub(crate) outer_attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) brace: token::Brace,
    pub(crate) inner_attrs: Vec<Attribute>,
    pub(crate) body: TokenStream,
}

impl Parse for LockedFn {
    fn parse(input: ParseStream) -> Result<Self> {
        let outer_attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        require_fn(input)?;
        let sig: Signature = input.parse()?;
        require_lockable(&sig)?;
        if input.peek(Token![;]) || input.is_empty() {
            return Err(Error::new(
                if input.is_empty() { sig.ident.span() } else { input.span() },
                "a function without a body cannot be locked: put `#[distributed_lock]` on its implementation, or on a \
                 function that calls it",
            ));
        }
        let content;
        Ok(Self {
            outer_attrs,
            vis,
            sig,
            brace: braced!(content in input),
            inner_attrs: content.call(Attribute::parse_inner)?,
            body: content.parse()?,
        })
    }
}

impl LockedFn {
    /// The function with another body, between the braces that the user wrote.
    pub(crate) fn with_body(&self, body: &TokenStream) -> TokenStream {
        let (outer_attrs, vis, sig) = (&self.outer_attrs, &self.vis, &self.sig);
        let mut output = TokenStream::new();
        for attr in outer_attrs {
            attr.to_tokens(&mut output);
        }
        vis.to_tokens(&mut output);
        sig.to_tokens(&mut output);
        self.brace.surround(&mut output, |output| {
            for attr in &self.inner_attrs {
                attr.to_tokens(output);
            }
            body.to_tokens(output);
        });
        output
    }
}

/// Refuses functions that can never be locked.
fn require_lockable(sig: &Signature) -> Result<()> {
    if let Some(constness) = &sig.constness {
        return Err(Error::new_spanned(
            constness,
            "a `const fn` cannot be locked: it may run at compile time, without a server",
        ));
    }
    if let Some(variadic) = &sig.variadic {
        return Err(Error::new_spanned(
            variadic,
            "a variadic function cannot be locked: call a function without `...` from it, and lock that",
        ));
    }
    Ok(())
}

/// Refuses everything that is not a function; the error names the item, at its keyword.
fn require_fn(input: ParseStream) -> Result<()> {
    let ahead = input.fork();
    while !ahead.peek(Token![fn]) {
        let qualifier = ahead.peek(Token![const])
            || ahead.peek(Token![async])
            || ahead.peek(Token![unsafe])
            || ahead.peek(Token![extern])
            || ahead.peek(LitStr);
        if !qualifier || ahead.call(skip).is_err() {
            let (what, span) = kind(input);
            return Err(Error::new(
                span,
                format!("`#[distributed_lock]` goes above a function, this is {what}"),
            ));
        }
    }
    Ok(())
}

fn skip(input: ParseStream) -> Result<()> {
    input.parse::<TokenTree>().map(drop)
}

/// The name of the item that stands in the place of a function, and its keyword.
fn kind(input: ParseStream) -> (&'static str, Span) {
    let ahead = input.fork();
    let mut span = input.span();
    let mut what = match expression(&ahead.fork()) {
        Some(Expr::Macro(_)) => "the call of a macro",
        Some(_) => "an expression: move it into a function",
        None => "something else",
    };
    while let Ok(word) = ahead.call(Ident::parse_any) {
        let found = match word.to_string().as_str() {
            "struct" => "a struct",
            "enum" => "an enum",
            "union" => "a union",
            "trait" => "a trait: put it above each method that takes the lock",
            "impl" => "an `impl`: put it above each method that takes the lock",
            "mod" => "a module: put it above each function that takes the lock",
            "use" => "a `use`",
            "type" => "a type alias",
            "static" => "a static",
            "let" => "a statement: move it into a function",
            "macro_rules" => "a macro",
            "const" => {
                what = "a constant";
                continue;
            }
            "extern" => {
                what = "an `extern` block";
                continue;
            }
            "unsafe" | "async" | "auto" | "default" => continue,
            _ => break,
        };
        (what, span) = (found, word.span());
        break;
    }
    (what, span)
}

/// True if there may be an item among the statements, such as a `use` that shadows the return type:
/// such statements need a scope of their own. Also true for every list with a `;`.
pub(crate) fn may_hold_items(stmts: &TokenStream) -> bool {
    let is = |word: &Ident, items: &[&str]| items.iter().any(|item| word == item);
    let mut before = None;
    stmts.clone().into_iter().any(|token| {
        let found = match (&before, &token) {
            (_, TokenTree::Punct(punct)) => punct.as_char() == ';',
            (_, TokenTree::Ident(word)) if is(word, &["impl", "macro_rules"]) => true,
            (Some(TokenTree::Ident(word)), TokenTree::Ident(_)) => {
                is(word, &["enum", "fn", "mod", "struct", "trait", "union"])
            }
            _ => false,
        };
        before = Some(token);
        found
    })
}

/// True for an expression or a statement, beside which no item can be written.
pub(crate) fn is_expression(item: &TokenStream) -> bool {
    let parser = |input: ParseStream| {
        let is_expression =
            matches!(expression(&input.fork()), Some(expr) if !matches!(expr, Expr::Macro(_)));
        input.parse::<TokenStream>().map(|_| is_expression)
    };
    parser.parse2(item.clone()).unwrap_or_default()
}

fn expression(input: ParseStream) -> Option<Expr> {
    let expr = input.parse().ok()?;
    input.parse::<Option<Token![;]>>().ok()?;
    (input.is_empty() && !matches!(expr, Expr::Let(_))).then_some(expr)
}

#[cfg(test)]
mod tests {
    use super::{LockedFn, TokenStream, is_expression, may_hold_items};

    fn parse(text: &str) -> Result<LockedFn, String> {
        syn::parse_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn functions() {
        for text in [
            "fn f() {}",
            "async fn f() {}",
            "pub(in a::b) async unsafe extern \"C\" fn f<'a, T: A<B = C>, const N: usize>(&'a mut self, (a, b): T) -> R where T: 'a {}",
            "#[a] #[b(c)] extern fn f(#[d] mut a: A) { #![e] this is not @ syntax that anyone knows }",
            "fn f(self: Arc<Self>) -> impl for<'a> Fn(&'a A) -> B + use<'b> {}",
        ] {
            let parsed = parse(text);
            assert!(parsed.is_ok(), "{text}: {:?}", parsed.err());
            let Ok(function) = parsed else { return };
            let output = function.with_body(&function.body).to_string();
            assert_eq!(output.replace(' ', ""), text.replace(' ', ""));
        }
    }

    #[test]
    fn items_are_no_expressions() {
        for (text, expected) in [
            ("a.b()", true),
            ("a.b();", true),
            ("|a| b", true),
            ("let a = b;", false),
            ("a! { b }", false),
            ("struct A;", false),
            ("const fn f() {}", false),
            ("", false),
        ] {
            let tokens: Result<TokenStream, _> = text.parse();
            assert_eq!(tokens.map(|item| is_expression(&item)).ok(), Some(expected), "{text}");
        }
    }

    #[test]
    fn items_among_the_statements() {
        for (text, expected) in [
            ("use a::*; b", true),
            ("type A = B; c", true),
            ("enum A { B } Ok(A::B)", true),
            ("async fn a() {} a()", true),
            ("impl<A> B for C {} D", true),
            ("a(); b", true),
            ("a(b; c)", false),
            ("match a { b => { c; } }", false),
            ("union.a()", false),
            ("", false),
        ] {
            let tokens: Result<TokenStream, _> = text.parse();
            assert_eq!(tokens.map(|stmts| may_hold_items(&stmts)).ok(), Some(expected), "{text}");
        }
    }

    #[test]
    fn everything_else() {
        for (text, hint) in [
            ("struct A;", "this is a struct"),
            ("pub enum A {}", "this is an enum"),
            ("union A { a: u8 }", "this is a union"),
            ("unsafe trait A {}", "this is a trait"),
            ("unsafe impl A for B {}", "this is an `impl`"),
            ("pub mod a;", "this is a module"),
            ("use a::b;", "this is a `use`"),
            ("type A = B;", "this is a type alias"),
            ("static A: B = C;", "this is a static"),
            ("const A: B = C;", "this is a constant"),
            ("extern \"C\" {}", "this is an `extern` block"),
            ("extern crate a;", "this is an `extern` block"),
            ("macro_rules! a { () => {} }", "this is a macro"),
            ("let a = b;", "this is a statement"),
            ("a.b()", "this is an expression"),
            ("a.b();", "this is an expression"),
            ("|a| b", "this is an expression"),
            ("async { a.await }", "this is an expression"),
            ("a! { b }", "this is the call of a macro"),
            ("default fn f() {}", "this is something else"),
            ("", "this is something else"),
            ("const fn f() {}", "a `const fn` cannot be locked"),
            ("unsafe extern \"C\" fn f(a: A, ...) {}", "a variadic function cannot be locked"),
            ("async fn f(&self);", "without a body cannot be locked"),
        ] {
            let error = parse(text).err().unwrap_or_default();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
