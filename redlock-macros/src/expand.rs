//! The attribute and the function, to the function with the lock inside.

use std::{mem, slice};

use proc_macro2::{Delimiter, Group, Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Expr, Ident};

use crate::args::LockArgs;
use crate::boxed::{self, Future, ReturnedFuture};
use crate::captures::Captures;
use crate::checks;
use crate::errors::Errors;
use crate::global;
use crate::item::{self, LockedFn};
use crate::key::{self, Renderer};
use crate::output::{Output, ends, place, refuse_stream};
use crate::scope::Scope;
use crate::value::{Key, Length};

/// On any error the item stays as it is, so that nothing else goes red.
pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let attribute = args.clone();
    let args = LockArgs::parse(args, &mut errors);
    let function = errors.keep(syn::parse2::<LockedFn>(item.clone()));
    let output = function.as_ref().map(|function| Expansion::of(&attribute, &args, function, &mut errors));
    let Some(errors) = errors.finish() else {
        return output.unwrap_or_default();
    };
    let errors = errors.to_compile_error();
    match function {
        // In the place of an expression there is room for one.
        None if item::is_expression(&item) => errors,
        None => {
            let mut unchanged = item;
            unchanged.extend(errors);
            unchanged
        }
        Some(function) => {
            let function = without_lock(&args, &function);
            quote!(#function #errors)
        }
    }
}

/// The function as it is, with what the attribute would have used, and what it would have bound.
fn without_lock(args: &LockArgs, function: &LockedFn) -> TokenStream {
    let span = Span::mixed_site();
    let guard = args.guard.as_ref().filter(|guard| !Scope::of(&function.sig).binds(guard)).map(|guard| {
        let krate = crate_path(args);
        quote_spanned!(span=> let #guard: &#krate::LockGuard = ::core::option::Option::None.unwrap();)
    });
    let body = &function.body;
    let function = function.with_body(&quote!(#guard #body));
    quote_spanned!(span=> #[allow(unused_variables)] #function)
}

fn crate_path(args: &LockArgs) -> TokenStream {
    args.krate
        .as_ref()
        .map_or_else(|| quote_spanned!(Span::mixed_site()=> ::redlocked), ToTokens::to_token_stream)
}

/// What all the pieces of the output need.
struct Expansion<'a> {
    /// As it was written, and as it was understood.
    attribute: &'a TokenStream,
    args: &'a LockArgs,
    krate: TokenStream,
    scope: Scope,
    captures: Captures,
    output: Output,
    /// Our names cannot meet the user's arguments; the underscores are for constants and statics, which they could meet.
    lock: Ident,
    key: Ident,
    body: Ident,
    error: Ident,
    value: Ident,
}

impl<'a> Expansion<'a> {
    fn of(
        attribute: &'a TokenStream,
        args: &'a LockArgs,
        function: &LockedFn,
        errors: &mut Errors,
    ) -> TokenStream {
        let mut scope = Scope::of(&function.sig);
        let mut future = match function.sig.asyncness {
            Some(_) => None,
            None => ReturnedFuture::of(function, &mut scope, errors),
        };
        let name = |name| Ident::new(name, Span::mixed_site());
        let expansion = Self {
            attribute,
            args,
            krate: crate_path(args),
            scope,
            captures: future
                .as_mut()
                .map_or_else(|| Captures::of(&function.sig), |future| mem::take(&mut future.captures)),
            output: if future.is_some() {
                Output::of_future(&function.sig)
            } else {
                Output::of(&function.sig)
            },
            lock: name("__lock"),
            key: name("__key"),
            body: name("__body"),
            error: name("__error"),
            value: name("__output"),
        };
        refuse_stream(&function.sig, errors);
        let body = match future {
            Some(future) => expansion.future(&future, errors),
            None if function.sig.asyncness.is_some() => expansion.asynchronous(function, errors),
            None => {
                if !boxed::refuse_future(&function.sig, errors) {
                    checks::blocking(args, errors);
                }
                expansion.blocking(function, errors)
            }
        };
        function.with_body(&body)
    }

    // Input:   async fn purchase(sku: &str) -> Result<Receipt, Error> { … }
    //
    // Output:  async fn purchase(sku: &str) -> Result<Receipt, Error> {
    //              let lock = …;
    //              let body = async move { … };
    //              match run(lock, body).await { … }
    //          }
    //
    // The body's future is made before the lock is awaited: so it holds the arguments, and they are not stored twice.
    fn asynchronous(&self, function: &LockedFn, errors: &mut Errors) -> TokenStream {
        let lock = self.lock(errors);
        let run = self.run(function.brace.span.join(), &function.body);
        quote!(#lock #run)
    }

    // Input:   fn purchase(sku: &str) -> Result<Receipt, Error> { … }
    //
    // Output:  fn purchase(sku: &str) -> Result<Receipt, Error> {
    //              let lock = …;
    //              match run_blocking(lock, move |_: &LockGuard| { … }) { … }
    //          }
    fn blocking(&self, function: &LockedFn, errors: &mut Errors) -> TokenStream {
        let Self { krate, lock: lock_name, .. } = self;
        let lock = self.lock(errors);
        let span = function.brace.span.join();
        let body = self.body(span, &TokenStream::new(), &function.body);
        let guard = self
            .args
            .guard
            .as_ref()
            .map_or_else(|| quote_spanned!(Span::mixed_site()=> _), ToTokens::to_token_stream);
        // Said here, so that no lint takes an endless loop for a mistake.
        let never = (!self.output.returns()).then(|| quote_spanned!(Span::mixed_site()=> -> !));
        let parameter = quote_spanned!(Span::mixed_site()=> #guard: &#krate::LockGuard);
        let closure = quote_spanned!(span=> move |#parameter| #never #body);
        let call = quote_spanned! {Span::mixed_site()=>
            #krate::__private::run_blocking(#lock_name, #closure)
        };
        let outcome = self.outcome(&call, !Output::is_plain(&function.sig));
        quote!(#lock #outcome)
    }

    // Input:   fn purchase<'a>(&'a self, sku: &'a str) -> Pin<Box<dyn Future<Output = R> + Send + 'a>> {
    //              Box::pin(async move { let __self = self; … })
    //          }
    //
    // Output:  fn purchase<'a>(&'a self, sku: &'a str) -> Pin<Box<dyn Future<Output = R> + Send + 'a>> {
    //              Box::pin(async move {
    //                  let __self = self;
    //                  let lock = …;
    //                  let body = async move { … };
    //                  match run(lock, body).await { … }
    //              })
    //          }
    fn future(&self, returned: &ReturnedFuture, errors: &mut Errors) -> TokenStream {
        let lock = self.lock(errors);
        let argument = match &returned.future {
            Future::Block { block, rebound, rest } => {
                let span = block.block.brace_token.span.join();
                let run = self.run(span, &quote!(#(#rest)*));
                let mut tokens = block.async_token.to_token_stream();
                block.capture.to_tokens(&mut tokens);
                theirs(span, quote!(#(#rebound)* #lock #run)).to_tokens(&mut tokens);
                tokens
            }
            Future::Call(call) => {
                if let Some(guard) = &self.args.guard {
                    errors.at(
                        guard,
                        "`guard` cannot be bound inside this body: update `async-trait` to 0.1.44 or later",
                    );
                }
                let (krate, lock_name) = (&self.krate, &self.lock);
                let run =
                    quote_spanned!(Span::mixed_site()=> #krate::__private::run(#lock_name, #call).await);
                let run = self.outcome(&run, false);
                let block = theirs(call.span(), quote!(#lock #run));
                quote_spanned!(Span::mixed_site()=> async move #block)
            }
        };
        let items = &returned.items;
        let Some((pin, paren)) = &returned.pin else {
            return quote!(#(#items)* #argument);
        };
        let mut call = pin.to_token_stream();
        paren.surround(&mut call, |tokens| argument.to_tokens(tokens));
        quote!(#(#items)* #call)
    }

    // Output:  let lock = {
    //              let key = KeyTemplate::new();
    //              lock(key.render(format_args!("stock:{sku}", sku = key.escape(&sku)))).ttl(Duration::from_millis(10_000))
    //          };
    //
    // Output:  let lock = {
    //              let key = KeyTemplate::new();
    //              lock_all([key.render(…), key.render(…)]).ttl(Duration::from_millis(10_000))
    //          };
    fn lock(&self, errors: &mut Errors) -> TokenStream {
        let Self { args, krate, lock, key, .. } = self;
        let span = Span::mixed_site();
        global::check(args, &self.scope, errors);
        let guard = checks::guard(args, &self.scope);
        let (method, names, keys) = match (&args.key, &args.keys) {
            (_, Some(keys)) => {
                let names = keys.iter().map(|key| self.name(key, errors)).collect::<Vec<_>>();
                ("lock_all", quote_spanned!(span=> [#(#names),*]), keys.as_slice())
            }
            (Some(key), None) => ("lock", self.name(key, errors), slice::from_ref(key)),
            // There was an error, and nothing of this is used.
            (None, None) => ("lock", TokenStream::new(), [].as_slice()),
        };
        let method = Ident::new(method, span);
        let mut request = if let Some(manager) = &args.manager {
            let manager = borrow(manager);
            quote_spanned!(span=> #krate::LockManager::#method(#manager, #names))
        } else {
            quote_spanned!(span=> #krate::__private::#method(#names))
        };
        request.extend(self.options());
        if keys.iter().any(|key| matches!(key, Key::Template(lit) if key::constant(lit).is_none())) {
            let template = quote_spanned!(span=> let #key = #krate::__private::KeyTemplate::new(););
            quote_spanned!(span=> #guard let #lock = { #template #request };)
        } else {
            quote_spanned!(span=> #guard let #lock = #request;)
        }
    }

    /// One key, as a `String`.
    fn name(&self, key: &Key, errors: &mut Errors) -> TokenStream {
        let Self { krate, key: template, .. } = self;
        let span = Span::mixed_site();
        match key {
            Key::Template(lit) => {
                if let Some(text) = key::constant(lit) {
                    return quote_spanned!(span=> #krate::__private::key(#text));
                }
                key::render(lit, Renderer { krate, key: template }, &self.scope, errors)
            }
            Key::Expr(expr) => {
                let path = quote_spanned!(span=> #krate::__private::key);
                call_around(path, &TokenStream::new(), &borrow(expr))
            }
        }
    }

    // Output:  .ttl(Duration::from_millis(10_000)).wait_forever().renew(false)
    fn options(&self) -> TokenStream {
        let Self { args, krate, .. } = self;
        let span = Span::mixed_site();
        let mut calls = TokenStream::new();
        let lengths = [
            ("ttl", &args.ttl),
            ("wait", &args.wait),
            ("max_hold", &args.max_hold),
            ("min_hold", &args.min_hold),
        ];
        for (name, length) in lengths {
            let method = Ident::new(name, span);
            calls.extend(match length {
                None => continue,
                Some(Length::Forever) => quote_spanned!(span=> .wait_forever()),
                Some(length) => {
                    let length = duration(length);
                    quote_spanned!(span=> .#method(#length))
                }
            });
        }
        if let Some(renew) = args.renew {
            calls.extend(quote_spanned!(span=> .renew(#renew)));
        }
        if args.on_lost.as_ref().is_some_and(|on_lost| on_lost.finish) {
            calls.extend(quote_spanned!(span=> .on_lost(#krate::OnLost::Finish)));
        }
        if let Some(reentrant) = args.reentrant {
            calls.extend(quote_spanned!(span=> .reentrant(#reentrant)));
        }
        calls
    }

    /// Awaits the body under the lock.
    fn run(&self, brace: Span, stmts: &TokenStream) -> TokenStream {
        let Self { krate, lock, body: body_name, .. } = self;
        let span = Span::mixed_site();
        let (future, run) = match &self.args.guard {
            None => {
                let body = self.body(brace, &TokenStream::new(), stmts);
                (quote_spanned!(brace=> async move #body), "run")
            }
            Some(name) => {
                // By the same name, so that rustc speaks of the user's guard where it outlives the body.
                let mut guard = name.clone();
                guard.set_span(span.located_at(name.span()));
                let at = span.located_at(name.span());
                let bind = quote_spanned!(at=> let #name: &#krate::LockGuard = &#guard;);
                let body = self.body(brace, &bind, stmts);
                let future = quote_spanned!(brace=> async move #body);
                let closure =
                    quote_spanned!(span=> move |#guard: ::std::sync::Arc<#krate::LockGuard>| #future);
                (closure, "run_with_guard")
            }
        };
        let run = Ident::new(run, span);
        let call = quote_spanned!(span=> #krate::__private::#run(#lock, #body_name).await);
        let outcome = self.outcome(&call, false);
        quote_spanned!(span=> let #body_name = #future; #outcome)
    }

    /// The user's statements at the place of their braces: rustc takes names, lints and the edition from there.
    fn body(&self, brace: Span, first: &TokenStream, stmts: &TokenStream) -> Group {
        let edge = self.output.edge();
        let captures = self.captures.name_all(self.attribute, self.args, stmts);
        let stmts = if item::may_hold_items(stmts) {
            theirs(brace, stmts.clone()).into_token_stream()
        } else {
            // Braces around one expression would be superfluous, and there is a lint for that.
            stmts.clone()
        };
        theirs(brace, quote!(#captures #first #edge #stmts))
    }

    /// The value of the body, or what stands for a lock that was not acquired or not kept.
    fn outcome(&self, call: &TokenStream, probe: bool) -> TokenStream {
        let Self { args, krate, error, value, .. } = self;
        let span = Span::mixed_site();
        let probe = probe.then(|| self.probe());
        // Each arm returns by itself, so that an error in one is about the return type, not about the other arms. But
        // after what never returns a `return` would be unreachable, which a user may have forbidden.
        let exit = self.output.returns().then(|| quote_spanned!(span=> return));
        let returned = self.output.point(value.to_token_stream());
        let ok = if let Some(probe) = &probe {
            quote_spanned!(span=> { #probe #exit #returned })
        } else {
            quote_spanned!(span=> #exit #returned)
        };
        let busy = args.on_busy.as_ref().map(|expr| {
            let expr = match expr {
                // There is a lint for `return ()`.
                Expr::Tuple(unit) if unit.elems.is_empty() && exit.is_some() => {
                    place(quote_spanned!(span=> return), expr.span(), expr.span())
                }
                expr => quote_spanned!(span=> #exit #expr),
            };
            quote_spanned! {span=>
                ::core::result::Result::Err(#error) if #krate::LockError::is_busy(&#error) => #expr,
            }
        });
        let failed = match &args.on_error {
            Some(handler) => {
                let output = self.output.turbofish();
                let path = quote_spanned!(span=> #krate::__private::on_error #output);
                call_around(path, &quote_spanned!(span=> #error, ), &handler.to_token_stream())
            }
            None => {
                self.output.underline(quote_spanned!(span=> #krate::FromLockError::from_lock_error(#error)))
            }
        };
        quote_spanned! {span=>
            match #call {
                ::core::result::Result::Ok(#value) => #ok,
                #busy
                ::core::result::Result::Err(#error) => #exit #failed,
            }
        }
    }

    /// Refuses a value that is a future, which would run without the lock: an alias can hide it from us, but not from
    /// the compiler.
    fn probe(&self) -> TokenStream {
        let Self { krate, value, .. } = self;
        let span = Span::mixed_site();
        let probe = quote_spanned!(span=> #krate::__private::SyncReturn::of(&#value).__redlock_probe());
        let probe = self.output.point(probe);
        quote_spanned! {span=>
            use #krate::__private::{ReturnsFuture as _, ReturnsValue as _};
            #probe;
        }
    }
}

/// A block with the hygiene of what stood there: an attribute below us may take that for its own variables, as
/// `#[tracing::instrument(err)]` does.
fn theirs(span: Span, stmts: TokenStream) -> Group {
    let mut block = Group::new(Delimiter::Brace, stmts);
    block.set_span(span);
    block
}

/// `&expr`, whatever binds tighter than `&`.
fn borrow(expr: &Expr) -> TokenStream {
    let span = Span::mixed_site().located_at(expr.span());
    match expr {
        Expr::Binary(_) | Expr::Cast(_) | Expr::Range(_) | Expr::Assign(_) | Expr::Closure(_) => {
            quote_spanned!(span=> &(#expr))
        }
        _ => quote_spanned!(span=> &#expr),
    }
}

fn duration(length: &Length) -> TokenStream {
    let span = Span::mixed_site();
    match length {
        Length::Millis(millis, _) => {
            let millis = Literal::u64_unsuffixed(*millis);
            quote_spanned!(span=> ::core::time::Duration::from_millis(#millis))
        }
        Length::Forever => quote_spanned!(span=> ::core::time::Duration::MAX),
        Length::Expr(expr) => expr.to_token_stream(),
    }
}

/// `path(first, argument)`, placed around the user's argument.
fn call_around(path: TokenStream, first: &TokenStream, argument: &TokenStream) -> TokenStream {
    let (start, end) = ends(argument);
    let mut call = place(path, start, start);
    let mut arguments = Group::new(Delimiter::Parenthesis, quote!(#first #argument));
    arguments.set_span(Span::mixed_site().located_at(end));
    arguments.to_tokens(&mut call);
    call
}
