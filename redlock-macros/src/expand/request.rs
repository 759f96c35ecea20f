//! The request for the lock: its keys, its manager and its options.

use proc_macro2::{Literal, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{Expr, Ident};

use crate::attribute::LockArgs;
use crate::attribute::keys::{Key, KeyKind, ListedKey};
use crate::attribute::length::Length;
use crate::attribute::permits::Permits;
use crate::attribute::rate::Rate;
use crate::attribute::value::{WhenLost, WhenMissed};
use crate::errors::Errors;
use crate::function::scope::Scope;
use crate::key::{self, Renderer};
use crate::spans::call_around;

#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) args: &'a LockArgs,
    pub(super) krate: &'a TokenStream,
    pub(super) scope: &'a Scope,
    /// The name of the annotated function.
    pub(super) function: &'a Ident,
    /// The variable that holds the request, and the one that holds the `KeyTemplate`.
    pub(super) lock: &'a Ident,
    pub(super) key: &'a Ident,
}

impl Request<'_> {
    // Output:  let lock = {
    //              let key = KeyTemplate::new();
    //              lock(
    //                  key.render(format_args!("stock:{sku}", sku = key.escape(&sku))),
    //                  &CallSite {
    //                      function: concat!(module_path!(), "::purchase"),
    //                      template: "stock:{sku}",
    //                      fenced: false,
    //                      options: &[ConstOption::Ttl(10_000)],
    //                  },
    //              )
    //          };
    //
    // Output:  let lock = {
    //              let key = KeyTemplate::new();
    //              lock_all([key.render(…), key.render(…)], &CallSite { … }).with_options().ttl(limit)
    //          };
    //
    // Output:  lock_all([LockKey::shared(key.render(…)), LockKey::exclusive(key.render(…))], &CallSite { … })
    pub(super) fn tokens(self, errors: &mut Errors) -> TokenStream {
        let Self { args, krate, lock, key, .. } = self;
        let span = Span::mixed_site();
        let (method, names) = match (&args.key, &args.keys) {
            (_, Some(keys)) => ("lock_all", self.list(keys, errors)),
            (Some(key), None) => ("lock", self.name("key", key, errors)),
            // Only after an error: the output is not used.
            (None, None) => ("lock", TokenStream::new()),
        };
        let (constants, calls) = self.options();
        let site = self.site(&constants);
        let mut request = if let Some(manager) = &args.manager {
            let method = Ident::new(&format!("{method}_with"), span);
            with_manager(
                manager,
                |manager| quote_spanned!(span=> #krate::__private::#method(#manager, #names, #site)),
            )
        } else {
            let method = Ident::new(method, span);
            quote_spanned!(span=> #krate::__private::#method(#names, #site))
        };
        if !calls.is_empty() || args.once.is_some() {
            request.extend(quote_spanned!(span=> .with_options() #calls));
        }
        let request = self.once(request, errors);
        if args
            .all_names()
            .any(|key| matches!(key, Key::Template(template) if key::constant(template).is_none()))
        {
            let template = quote_spanned!(span=> let #key = #krate::__private::KeyTemplate::new(););
            quote_spanned!(span=> let #lock = { #template #request };)
        } else {
            quote_spanned!(span=> let #lock = #request;)
        }
    }

    // Output:  once(lock(…).with_options(), Duration::from_millis(86_400_000)).fingerprint(key.render(…))
    //
    /// The request of a body that runs once.
    fn once(self, request: TokenStream, errors: &mut Errors) -> TokenStream {
        let Self { args, krate, .. } = self;
        let Some(once) = &args.once else { return request };
        let span = Span::mixed_site();
        let lasts = match &once.lasts {
            Some(Length::Millis(millis, _)) => {
                let millis = Literal::u64_unsuffixed(*millis);
                quote_spanned!(span=> ::core::time::Duration::from_millis(#millis))
            }
            Some(Length::Expr(lasts)) => lasts.to_token_stream(),
            // Only after an error.
            Some(Length::Forever) | None => TokenStream::new(),
        };
        let mut request = quote_spanned!(span=> #krate::__private::once(#request, #lasts));
        if let Some(fingerprint) = &once.fingerprint {
            let fingerprint = self.name("once_fingerprint", fingerprint, errors);
            request.extend(quote_spanned!(span=> .fingerprint(#fingerprint)));
        }
        for (method, ty, word) in [
            ("on_interrupted", "OnInterrupted", once.interrupted),
            ("on_undecodable", "OnUndecodable", once.undecodable),
        ] {
            if let Some(word) = word {
                let [method, ty, word] = [method, ty, word].map(|name| Ident::new(name, span));
                request.extend(quote_spanned!(span=> .#method(#krate::once::#ty::#word)));
            }
        }
        request
    }

    /// Several keys: strings, or `LockKey`s if not all of them are exclusive.
    fn list(self, keys: &[ListedKey], errors: &mut Errors) -> TokenStream {
        let Self { krate, .. } = self;
        let span = Span::mixed_site();
        let are_exclusive = keys.iter().all(|listed| matches!(listed.kind, KeyKind::Exclusive));
        let keys = keys.iter().map(|ListedKey { key, kind }| {
            let name = self.name("key", key, errors);
            match kind {
                KeyKind::Exclusive if are_exclusive => name,
                KeyKind::Exclusive => quote_spanned!(span=> #krate::LockKey::exclusive(#name)),
                KeyKind::Shared => quote_spanned!(span=> #krate::LockKey::shared(#name)),
                KeyKind::Permits { permits, take } => {
                    let take =
                        take.as_ref().map(Permits::tokens).map(|take| quote_spanned!(span=> .take(#take)));
                    let permits = permits.tokens();
                    quote_spanned!(span=> #krate::LockKey::permits(#name, #permits) #take)
                }
            }
        });
        let keys = keys.collect::<Vec<_>>();
        quote_spanned!(span=> [#(#keys),*])
    }

    /// One key, or the request that it stands for, as a `String`. `function` makes it of an expression.
    fn name(self, function: &str, name: &Key, errors: &mut Errors) -> TokenStream {
        let Self { krate, key, .. } = self;
        let span = Span::mixed_site();
        match name {
            Key::Template(template) => {
                if let Some(text) = key::constant(template) {
                    return quote_spanned!(span=> #krate::__private::key(#text));
                }
                key::render(template, Renderer { krate, key }, self.scope, errors)
            }
            Key::Broken => TokenStream::new(),
            Key::Expr(expr) => {
                let function = Ident::new(function, span);
                let path = quote_spanned!(span=> #krate::__private::#function);
                call_around(path, &TokenStream::new(), &borrow(expr))
            }
        }
    }

    // Output: &CallSite { function: concat!(module_path!(), "::purchase"), template: "stock:{sku}",
    // fenced: false, options: &[…] }
    fn site(self, constants: &[TokenStream]) -> TokenStream {
        let Self { args, krate, .. } = self;
        let span = Span::mixed_site();
        let function = format!("::{}", self.function.unraw());
        let template = template(&args.all_keys().collect::<Vec<_>>());
        let fenced = args.binding().is_some();
        quote_spanned! {span=>
            &#krate::__private::CallSite {
                function: ::core::concat!(::core::module_path!(), #function),
                template: #template,
                fenced: #fenced,
                options: &[#(#krate::__private::ConstOption::#constants),*],
            }
        }
    }

    // Output:  Ttl(10_000), WaitForever, Renew(false)
    //
    // Output:  .ttl(limit)
    //
    /// The options that are constants, and the calls that give the others.
    fn options(self) -> (Vec<TokenStream>, TokenStream) {
        let args = self.args;
        let span = Span::mixed_site();
        let (mut constants, mut calls) = (Vec::new(), TokenStream::new());
        let lengths = [
            ("ttl", "Ttl", &args.ttl),
            ("wait", "Wait", &args.wait),
            ("max_hold", "MaxHold", &args.max_hold),
            ("min_hold", "MinHold", &args.min_hold),
            ("tick", "Tick", &args.tick),
        ];
        for (method, constant, length) in lengths {
            match length {
                None => {}
                Some(Length::Millis(millis, _)) => {
                    let constant = Ident::new(constant, span);
                    let millis = Literal::u64_unsuffixed(*millis);
                    constants.push(quote_spanned!(span=> #constant(#millis)));
                }
                Some(Length::Forever) => constants.push(quote_spanned!(span=> WaitForever)),
                Some(Length::Expr(length)) => {
                    let method = Ident::new(method, span);
                    calls.extend(quote_spanned!(span=> .#method(#length)));
                }
            }
        }
        if args.on_busy.is_some() && args.wait.is_none() {
            // Whoever skips its turn must not wait for it, whatever the manager's default is.
            constants.push(quote_spanned!(span=> Wait(0)));
        }
        constants.extend(args.shared.as_ref().map(|_| quote_spanned!(span=> Shared)));
        match &args.permits {
            None => {}
            Some(Permits::Number(permits, _)) => {
                let permits = Literal::u32_unsuffixed(*permits);
                constants.push(quote_spanned!(span=> Permits(#permits)));
            }
            Some(Permits::Expr(permits)) => calls.extend(quote_spanned!(span=> .permits(#permits))),
        }
        match &args.take {
            None => {}
            Some(Permits::Number(take, _)) => {
                let take = Literal::u32_unsuffixed(*take);
                constants.push(quote_spanned!(span=> Take(#take)));
            }
            Some(Permits::Expr(take)) => calls.extend(quote_spanned!(span=> .take(#take))),
        }
        match &args.rate {
            None => {}
            Some(Rate::Starts(starts, millis, _)) => {
                let (starts, millis) = (Literal::u32_unsuffixed(*starts), Literal::u64_unsuffixed(*millis));
                constants.push(quote_spanned!(span=> Rate(#starts, #millis)));
            }
            Some(Rate::Expr(rate)) => calls.extend(quote_spanned!(span=> .rate_of(#rate))),
        }
        if let Some(at) = &args.tick_at {
            calls.extend(quote_spanned!(span=> .tick_at(#at)));
        }
        match args.tick_missed.as_ref().and_then(|missed| missed.value) {
            Some(WhenMissed::Skip) => constants.push(quote_spanned!(span=> TickSkip)),
            Some(WhenMissed::Retry) => constants.push(quote_spanned!(span=> TickRetry)),
            None => {}
        }
        constants.extend(args.renew.map(|renew| quote_spanned!(span=> Renew(#renew))));
        match args.on_lost.as_ref().and_then(|on_lost| on_lost.value) {
            Some(WhenLost::Finish) => constants.push(quote_spanned!(span=> Finish)),
            Some(WhenLost::Error) => constants.push(quote_spanned!(span=> Error)),
            Some(WhenLost::Cancel) => constants.push(quote_spanned!(span=> Cancel)),
            None => {}
        }
        let in_background = args.release.as_ref().map(|release| release.in_background);
        constants.extend(
            in_background.map(|in_background| quote_spanned!(span=> ReleaseInBackground(#in_background))),
        );
        constants.extend(args.reentrant.map(|reentrant| quote_spanned!(span=> Reentrant(#reentrant))));
        (constants, calls)
    }
}

/// The templates as they are written, with a `*` for a key that is an expression; empty if all are
/// expressions.
fn template(keys: &[&Key]) -> String {
    let text = |key: &&Key| match key {
        Key::Template(template) => template.text(),
        Key::Expr(_) | Key::Broken => "*".to_owned(),
    };
    if keys.iter().all(|key| matches!(key, Key::Expr(_))) {
        return String::new();
    }
    keys.iter().map(text).collect::<Vec<_>>().join(", ")
}

// Output:  lock_with(&self.locks, …)
//
// Output:  match &if … { &self.eu } else { &self.us } { manager => lock_with(manager, …) }
//
// In the place of an argument, rustc would expect a manager in each branch, and not a reference to
// one.
fn with_manager(manager: &Expr, call: impl FnOnce(TokenStream) -> TokenStream) -> TokenStream {
    let borrowed = borrow(manager);
    if !has_branches(manager) {
        return call(borrowed);
    }
    let name = Ident::new("__manager", Span::mixed_site());
    let call = call(name.to_token_stream());
    quote_spanned!(Span::mixed_site()=> match #borrowed { #name => #call })
}

/// True for an expression whose value is that of a block in it.
fn has_branches(expr: &Expr) -> bool {
    match expr {
        Expr::Group(group) => has_branches(&group.expr),
        Expr::Paren(paren) => has_branches(&paren.expr),
        Expr::Block(_) | Expr::Const(_) | Expr::If(_) | Expr::Loop(_) | Expr::Match(_) | Expr::Unsafe(_) => {
            true
        }
        _ => false,
    }
}

/// `&expr`, in parentheses if an operator in it binds less tightly than `&`.
fn borrow(expr: &Expr) -> TokenStream {
    let span = Span::mixed_site().located_at(expr.span());
    match expr {
        Expr::Binary(_) | Expr::Cast(_) | Expr::Range(_) | Expr::Assign(_) | Expr::Closure(_) => {
            quote_spanned!(span=> &(#expr))
        }
        _ => quote_spanned!(span=> &#expr),
    }
}
