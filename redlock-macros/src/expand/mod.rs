//! Writes the function with the lock inside, from the attribute and the function.

mod request;

use std::mem;

use proc_macro2::{Delimiter, Group, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Attribute, Expr, Ident};

use self::request::Request;
use crate::attribute::LockArgs;
use crate::attribute::value::WhenMissed;
use crate::checks::{conflicts, constant_key, features, hand_over, spawned, transaction};
use crate::errors::{Errors, compile_errors};
use crate::facade;
use crate::function::captures::{Captures, Mentions};
use crate::function::item::{self, LockedFn};
use crate::function::return_type::{Output, refuse_stream};
use crate::function::returned_future::{self, Future, ReturnedFuture};
use crate::function::scope::Scope;
use crate::spans::{call_around, place};

/// On any error the item stays as it is, so that its other uses still compile.
pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = LockArgs::parse(args, &mut errors);
    features::refuse_once(&args, features::HAS_ONCE, &mut errors);
    conflicts::between_options(&args, &mut errors);
    let function = errors.keep(syn::parse2::<LockedFn>(item.clone()));
    let output = function.as_ref().map(|function| Expansion::of(&args, function, &mut errors));
    let Some(errors) = errors.finish() else {
        return output.unwrap_or_default();
    };
    let errors = compile_errors(&errors);
    match function {
        // Where an expression stands, only one can be written.
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

/// The function as it is, with its guard bound and its arguments counted as used: no follow-up
/// errors.
fn without_lock(args: &LockArgs, function: &LockedFn) -> TokenStream {
    let span = Span::mixed_site();
    let guard = args.binding().filter(|guard| !Scope::of(&function.sig).binds(guard)).map(|guard| {
        let krate = facade::path(args.krate.as_ref()).ok();
        let ty = krate.map(|krate| {
            if args.ticket.is_some() || hand_over::gives_a_guard_away(args, function) {
                quote_spanned!(span=> : #krate::HandOver<'_>)
            } else {
                quote_spanned!(span=> : &#krate::LockGuard)
            }
        });
        quote_spanned!(span=> let #guard #ty = ::core::option::Option::None.unwrap();)
    });
    let body = &function.body;
    let function = function.with_body(&quote!(#guard #body));
    quote_spanned!(span=> #[allow(unused_variables)] #function)
}

/// True for `#[allow(unused_variables)]`.
fn allows_unused_variables(attr: &Attribute) -> bool {
    let mut is_there = false;
    // An attribute that cannot be read is rustc's to report.
    let _ = attr.path().is_ident("allow").then(|| {
        attr.parse_nested_meta(|lint| {
            is_there |= lint.path.is_ident("unused_variables");
            Ok(())
        })
    });
    is_there
}

/// What all parts of the output need.
struct Expansion<'a> {
    args: &'a LockArgs,
    krate: TokenStream,
    scope: Scope,
    captures: Captures,
    output: Output,
    /// Its name.
    function: Ident,
    /// Hygiene keeps these names apart from the user's variables; the underscores, from constants
    /// and statics.
    lock: Ident,
    key: Ident,
    body: Ident,
    error: Ident,
    value: Ident,
}

impl<'a> Expansion<'a> {
    fn of(args: &'a LockArgs, function: &LockedFn, errors: &mut Errors) -> TokenStream {
        let mut scope = Scope::of(&function.sig);
        let mut future = match function.sig.asyncness {
            Some(_) => None,
            None => ReturnedFuture::of(function, &mut scope, errors),
        };
        let name = |name| Ident::new(name, Span::mixed_site());
        let expansion = Self {
            args,
            krate: errors.keep(facade::path(args.krate.as_ref())).unwrap_or_default(),
            scope,
            captures: future
                .as_mut()
                .map_or_else(|| Captures::of(&function.sig), |future| mem::take(&mut future.captures)),
            output: if future.is_some() {
                Output::of_future(&function.sig)
            } else {
                Output::of(&function.sig)
            },
            function: function.sig.ident.clone(),
            lock: name("__lock"),
            key: name("__key"),
            body: name("__body"),
            error: name("__error"),
            value: name("__output"),
        };
        refuse_stream(&function.sig, errors);
        transaction::refuse_lent(args, function, errors);
        hand_over::refuse_of_a_guard(args, function, errors);
        hand_over::refuse_downgrade(args, function, errors);
        spawned::refuse_borrows(args, &function.sig, errors);
        expansion.refuse_shadow(errors);
        conflicts::with_the_return_type(args, &function.sig, errors);
        let body = match future {
            Some(future) => expansion.future(&future, errors),
            None if function.sig.asyncness.is_some() => expansion.asynchronous(function, errors),
            None => {
                if !returned_future::refuse_future(&function.sig, errors) {
                    conflicts::with_a_sync_body(args, errors);
                    hand_over::refuse_await(args, function, errors);
                }
                expansion.blocking(function, errors)
            }
        };
        let allows_unused = function.outer_attrs.iter().any(allows_unused_variables);
        let function = function.with_body(&body);
        if allows_unused {
            // What rustc says of a variable that is captured and not used is another lint.
            return quote_spanned!(Span::mixed_site()=> #[allow(unused_assignments)] #function);
        }
        function
    }

    /// A guard spelled like an argument would hide it from the body.
    fn refuse_shadow(&self, errors: &mut Errors) {
        if let Some(guard) = self.args.binding()
            && self.scope.has_argument(guard)
        {
            let other = if guard == "lock" { "held" } else { "lock" };
            let option = if self.args.ticket.is_some() { "ticket" } else { "guard" };
            errors.at(
                guard,
                format!(
                    "`{guard}` is an argument of this function, which the {option} would hide from the body: give the {option} \
                     another name, such as `{option} = {other}`"
                ),
            );
        }
    }

    fn request(&self, errors: &mut Errors) -> TokenStream {
        let Self { args, krate, scope, function, lock, key, .. } = self;
        constant_key::check(args, scope, errors);
        Request { args, krate, scope, function, lock, key }.tokens(errors)
    }

    // Input:   async fn purchase(sku: &str) -> Result<Receipt, Error> { … }
    //
    // Output:  async fn purchase(sku: &str) -> Result<Receipt, Error> {
    //              match run(call(move || {
    //                  let lock = …;
    //                  let body = async move { … };
    //                  (lock, body)
    //              })).await { … }
    //          }
    //
    // The body's future is made before the lock is awaited: it then holds the arguments, which are
    // not stored twice. A closure makes it, because rustc would store what the key borrows once
    // more, in the future of the function.
    fn asynchronous(&self, function: &LockedFn, errors: &mut Errors) -> TokenStream {
        let lock = self.request(errors);
        self.run(function.brace.span.join(), &lock, &function.body)
    }

    // Input:   fn purchase(sku: &str) -> Result<Receipt, Error> { … }
    //
    // Output:  fn purchase(sku: &str) -> Result<Receipt, Error> {
    //              let lock = call(|| { let lock = …; lock });
    //              match run_blocking(lock, move |_: &LockGuard| { … }) { … }
    //          }
    fn blocking(&self, function: &LockedFn, errors: &mut Errors) -> TokenStream {
        let Self { krate, lock: lock_name, .. } = self;
        let lock = self.request(errors);
        let lock = if self.args.needs_the_function() {
            lock
        } else {
            quote_spanned!(Span::mixed_site()=> let #lock_name = #krate::__private::call(|| { #lock #lock_name });)
        };
        let span = function.brace.span.join();
        let held = Ident::new("__held", Span::mixed_site());
        let bind = self.args.ticket.as_ref().map(|ticket| self.hand_over(ticket, &held.to_token_stream()));
        let (attr, body) = self.body(span, &bind.unwrap_or_default(), &function.body);
        let guard = match (&self.args.ticket, &self.args.guard) {
            (Some(_), _) => held.to_token_stream(),
            (None, Some(guard)) => guard.to_token_stream(),
            (None, None) => quote_spanned!(Span::mixed_site()=> _),
        };
        // The type is written, so that no lint reports an endless loop.
        let never = (!self.output.returns()).then(|| quote_spanned!(Span::mixed_site()=> -> !));
        let parameter = quote_spanned!(Span::mixed_site()=> #guard: &#krate::LockGuard);
        let closure = quote_spanned!(span=> move |#parameter| #never #body);
        let closure = self.fail_tick_on_err("fail_tick_on_err_blocking", quote!(#attr #closure));
        let run = Ident::new(
            if self.args.once.is_some() { "run_once_blocking" } else { "run_blocking" },
            Span::mixed_site(),
        );
        let call = quote_spanned! {Span::mixed_site()=>
            #krate::__private::#run(#lock_name, #closure)
        };
        let outcome = self.outcome(&call, !Output::is_plain(&function.sig));
        quote!(#lock #outcome)
    }

    // Input: fn purchase<'a>(&'a self, sku: &'a str) -> Pin<Box<dyn Future<Output = R> + Send +
    // 'a>> {
    //              Box::pin(async move { let __self = self; … })
    //          }
    //
    // Output: fn purchase<'a>(&'a self, sku: &'a str) -> Pin<Box<dyn Future<Output = R> + Send +
    // 'a>> {
    //              Box::pin(async move {
    //                  match run(call(move || {
    //                      let lock = …;
    //                      let body = async move { let __self = self; … };
    //                      (lock, body)
    //                  })).await { … }
    //              })
    //          }
    fn future(&self, returned: &ReturnedFuture, errors: &mut Errors) -> TokenStream {
        let lock = self.request(errors);
        let argument = match &returned.future {
            Future::Block { block, rebound, rest } => {
                let span = block.block.brace_token.span.join();
                let run = self.run(span, &lock, &quote!(#(#rest)*));
                let mut tokens = block.async_token.to_token_stream();
                // Without `move`, the block in it would move what this one borrows.
                tokens.extend(quote_spanned!(block.async_token.span=> move));
                theirs(span, quote!(#(#rebound)* #run)).to_tokens(&mut tokens);
                tokens
            }
            Future::Call(call) => {
                if let Some(guard) = &self.args.guard {
                    errors.at(
                        guard,
                        "`guard` cannot be bound inside this body: update `async-trait` to 0.1.44 or later",
                    );
                }
                let body_name = &self.body;
                let future = self.fail_tick_on_err("fail_tick_on_err", call.to_token_stream());
                let body = quote_spanned!(Span::mixed_site()=> let #body_name = #future;);
                let run = self.awaited(&lock, &body, false);
                let block = theirs(call.span(), run);
                quote_spanned!(Span::mixed_site()=> async move #block)
            }
        };
        let ReturnedFuture { items, boxed, .. } = returned;
        let argument = quote!(#argument #boxed);
        let Some((pin, paren)) = &returned.pin else {
            return quote!(#(#items)* #argument);
        };
        let mut call = pin.to_token_stream();
        paren.surround(&mut call, |tokens| argument.to_tokens(tokens));
        quote!(#(#items)* #call)
    }

    /// Awaits the body under the lock.
    fn run(&self, brace: Span, lock: &TokenStream, stmts: &TokenStream) -> TokenStream {
        let Self { krate, body: body_name, .. } = self;
        let span = Span::mixed_site();
        let (attr, future) = match self.args.binding() {
            None => {
                let (attr, body) = self.body(brace, &TokenStream::new(), stmts);
                (attr, self.fail_tick_on_err("fail_tick_on_err", quote_spanned!(brace=> async move #body)))
            }
            Some(name) => {
                // The parameter has the same name, so that rustc names the user's guard where it
                // outlives the body.
                let mut guard = name.clone();
                guard.set_span(span.located_at(name.span()));
                let at = span.located_at(name.span());
                let bind = if self.args.ticket.is_some() {
                    self.hand_over(name, &quote!(&#guard))
                } else {
                    quote_spanned!(at=> let #name: &#krate::LockGuard = &#guard;)
                };
                let (attr, body) = self.body(brace, &bind, stmts);
                let future =
                    self.fail_tick_on_err("fail_tick_on_err", quote_spanned!(brace=> async move #body));
                let closure =
                    quote_spanned!(span=> move |#guard: #krate::__private::Arc<#krate::LockGuard>| #future);
                (attr, closure)
            }
        };
        self.awaited(
            lock,
            &quote_spanned!(span=> #attr let #body_name = #future;),
            self.args.binding().is_some(),
        )
    }

    // Output:  fail_tick_on_err(async move { … }, |output| TickOutcome::of(output).has_failed())
    /// With `tick_missed = "retry"`, a body whose value is an `Err` leaves its tick to others. Whether
    /// the value is a `Result` is for the compiler to say: an alias can hide it from this crate.
    fn fail_tick_on_err(&self, function: &str, body: TokenStream) -> TokenStream {
        let is_retried =
            self.args.tick_missed.as_ref().and_then(|missed| missed.value) == Some(WhenMissed::Retry);
        if !is_retried || !self.output.returns() {
            return body;
        }
        let Self { krate, value, .. } = self;
        let span = Span::mixed_site();
        let function = Ident::new(function, span);
        quote_spanned! {span=>
            #krate::__private::#function(#body, |#value| {
                use #krate::__private::IsNoResult as _;
                #krate::__private::TickOutcome::of(#value).has_failed()
            })
        }
    }

    // Output:  let lock: HandOver<'_> = HandOver::of(&lock);
    /// The option to give the lock away, under the user's name.
    fn hand_over(&self, name: &Ident, guard: &TokenStream) -> TokenStream {
        let krate = &self.krate;
        let at = Span::mixed_site().located_at(name.span());
        quote_spanned!(at=> let #name: #krate::HandOver<'_> = #krate::HandOver::of(#guard);)
    }

    /// The outcome of the body that `body` binds, with `lock`.
    fn awaited(&self, lock: &TokenStream, body: &TokenStream, guarded: bool) -> TokenStream {
        let Self { krate, lock: lock_name, body: body_name, .. } = self;
        let span = Span::mixed_site();
        let in_background = self.args.is_released_in_background();
        let run = match (self.args.once.is_some(), guarded) {
            (false, false) if in_background => "run_in_background",
            (false, false) => "run",
            (false, true) if in_background => "run_with_guard_in_background",
            (false, true) => "run_with_guard",
            (true, false) => "run_once",
            (true, true) => "run_once_with_guard",
        };
        let run = if let Some(word) = self.args.spawn() {
            // rustc points at the word where a body cannot be spawned.
            let run = if guarded { "spawn_with_guard" } else { "spawn" };
            let run = Ident::new(run, span.located_at(word.span()));
            quote_spanned!(span=> #krate::once::OnceRequest::#run)
        } else {
            let run = Ident::new(run, span);
            quote_spanned!(span=> #krate::__private::#run)
        };
        let locked = quote_spanned! {span=>
            {
                #lock
                #body
                (#lock_name, #body_name)
            }
        };
        // A lint reports an endless loop in a closure whose type does not say so.
        let locked = if self.args.needs_the_function() || !self.output.returns() {
            locked
        } else {
            quote_spanned!(span=> #krate::__private::call(move || #locked))
        };
        self.outcome(&quote_spanned!(span=> #run(#locked).await), false)
    }

    /// The user's statements at the place of their braces: rustc takes names, lints and the edition
    /// from there. Before them stands the attribute for the statement that makes the body.
    fn body(&self, brace: Span, bind: &TokenStream, stmts: &TokenStream) -> (TokenStream, Group) {
        let Mentions { first, attr } = self.captures.mentions(self.args, stmts);
        let edge = self.output.edge(&self.krate);
        let stmts = if item::may_hold_items(stmts) {
            theirs(brace, stmts.clone()).into_token_stream()
        } else {
            // A lint reports braces around a single expression.
            stmts.clone()
        };
        (attr, theirs(brace, quote!(#first #bind #edge #stmts)))
    }

    /// The value of the body, or of `on_busy` or `on_error` if the lock was not acquired, or was
    /// lost.
    fn outcome(&self, call: &TokenStream, probe: bool) -> TokenStream {
        let Self { args, krate, error, value, .. } = self;
        let span = Span::mixed_site();
        let probe = probe.then(|| self.probe());
        // Each arm returns by itself, so that a type error names the return type and not the other
        // arms. A body of type `!` has no `return`: it would be unreachable, and there is a lint
        // for that.
        let exit = self.output.returns().then(|| quote_spanned!(span=> return));
        let returned = self.output.point(value.to_token_stream());
        let ok = if let Some(probe) = &probe {
            quote_spanned!(span=> { #probe #exit #returned })
        } else {
            quote_spanned!(span=> #exit #returned)
        };
        let busy = args.on_busy.as_ref().map(|expr| {
            let expr = match expr {
                // A lint reports `return ()`.
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

    /// Lets the compiler refuse a value that is a future, which would run without the lock: an
    /// alias can hide its type from this crate, but not from the compiler.
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

/// A block with the span of the user's tokens: an attribute below this one may give its own
/// variables that hygiene, as `#[tracing::instrument(err)]` does.
fn theirs(span: Span, stmts: TokenStream) -> Group {
    let mut block = Group::new(Delimiter::Brace, stmts);
    block.set_span(span);
    block
}
