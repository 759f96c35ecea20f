//! Functions that are not `async` but return a future, boxed or not, as `#[async_trait]` writes
//! them. A lock around such a function would be released before the future runs, so the lock goes
//! into the future.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;
use syn::parse::Parser as _;
use syn::{
    Block, Expr, ExprAsync, ExprCall, ExprMethodCall, Ident, Item, Local, Pat, ReturnType, Signature, Stmt,
    token,
};

use super::captures::Captures;
use super::item::LockedFn;
use super::scope::{Scope, stands_for_a_pattern};
use super::types::Shape;
use crate::errors::Errors;

/// A body that is `Box::pin(…)` or `async move { … }` as a whole.
pub(crate) struct ReturnedFuture {
    /// `use` and inner functions, which run nothing, and `let inner = self.inner.clone();`.
    pub(crate) items: Vec<Stmt>,
    /// `Box::pin`, if it is there.
    pub(crate) pin: Option<(Expr, token::Paren)>,
    /// `.boxed()`, if it is there.
    pub(crate) boxed: TokenStream,
    pub(crate) future: Future,
    /// The arguments that are bound again outside of the body. Others move as they do without the
    /// attribute: once, into the block.
    pub(crate) captures: Captures,
}

pub(crate) enum Future {
    /// `async move { … }`.
    Block {
        block: ExprAsync,
        /// Arguments that are bound again: the key needs them before the body does.
        rebound: Vec<Stmt>,
        rest: Vec<Stmt>,
    },
    /// A call of an inner `async fn` in `Box::pin`, as `#[async_trait]` before 0.1.44 writes it.
    Call(Expr),
}

impl ReturnedFuture {
    /// `None` if the function does not have that shape.
    pub(crate) fn of(function: &LockedFn, scope: &mut Scope, errors: &mut Errors) -> Option<Self> {
        if !ends_with_future(&function.body) {
            return None;
        }
        let mut items = Block::parse_within.parse2(function.body.clone()).ok()?;
        let Some(Stmt::Expr(last, None)) = items.pop() else {
            return None;
        };
        let (pin, future) = match last {
            Expr::Call(ExprCall { func, paren_token, args, attrs })
                if attrs.is_empty() && args.len() == 1 && is_box_pin(&func) =>
            {
                (Some((*func, paren_token)), args.into_iter().next()?)
            }
            last => (None, last),
        };
        let (future, boxed) = match future {
            Expr::MethodCall(call) if call.args.is_empty() && is_boxed(&call.method) => {
                let ExprMethodCall { receiver, dot_token, method, turbofish, .. } = call;
                (*receiver, quote!(#dot_token #method #turbofish ()))
            }
            future => (future, TokenStream::new()),
        };
        let mut captures = Captures::default();
        let future = match future {
            Expr::Async(mut block) => {
                let mut rebound = std::mem::take(&mut block.block.stmts);
                let rest = split_off_body(&mut rebound, &function.sig, scope, &mut captures);
                Future::Block { block, rebound, rest }
            }
            call @ Expr::Call(_) if pin.is_some() && calls_async_fn(&call, &items) => Future::Call(call),
            _ => return None,
        };
        for stmt in &items {
            match stmt {
                Stmt::Item(_) => {}
                Stmt::Local(local) if is_handle(local) => {
                    captures.bind_local(&local.pat);
                    scope.bind(&local.pat);
                }
                stmt => errors.at(
                    stmt,
                    "this would run before the lock is taken: move it into the `async move` block; what the future needs \
                     of `self` may be cloned before, as in `let inner = self.inner.clone();`",
                ),
            }
        }
        Some(Self { items, pin, boxed, future, captures })
    }
}

/// Refuses every other function that returns a future, whose body would run without the lock. True
/// if it was refused.
pub(crate) fn refuse_future(sig: &Signature, errors: &mut Errors) -> bool {
    if let ReturnType::Type(_, ty) = &sig.output
        && let shape = Shape::of(ty)
        && shape.is_future()
    {
        let name = &sig.ident;
        // Where a trait dictates a boxed future, the function cannot be `async`.
        let advice = match shape {
            Shape::Traits(_) => {
                format!("write `async fn {name}`, or let `async move {{ ... }}` be the whole body")
            }
            _ => "let `Box::pin(async move { ... })`, or `async move { ... }.boxed()`, be the whole body"
                .to_owned(),
        };
        errors.at(ty, format!("the lock would be released before this future runs: {advice}"));
        return true;
    }
    false
}

/// Looks at the last tokens only, so that other bodies are not parsed.
fn ends_with_future(body: &TokenStream) -> bool {
    let (mut before, mut last) = (None, None);
    for token in body.clone() {
        before = last.replace(token);
    }
    match (before, last) {
        (Some(TokenTree::Ident(word)), Some(TokenTree::Group(_))) => {
            word == "pin" || word == "move" || word == "async" || is_boxed(&word)
        }
        _ => false,
    }
}

fn is_box_pin(func: &Expr) -> bool {
    let Expr::Path(func) = func else { return false };
    let mut names = func.path.segments.iter().rev().map(|segment| &segment.ident);
    names.next().is_some_and(|name| name == "pin") && names.next().is_some_and(|name| name == "Box")
}

/// True for the methods of the trait `FutureExt` that box a future.
fn is_boxed(method: &Ident) -> bool {
    method == "boxed" || method == "boxed_local"
}

/// True for `let name = value;` where the value only hands on what is there, as in the usual `call`
/// of a `tower::Service`: names, fields, references, `clone()` and its like. It may run before the
/// lock is taken, because it does nothing.
fn is_handle(local: &Local) -> bool {
    let pat = match &local.pat {
        Pat::Type(pat) => &*pat.pat,
        pat => pat,
    };
    let is_name = matches!(pat, Pat::Ident(pat) if pat.subpat.is_none());
    is_name && local.init.as_ref().is_some_and(|init| init.diverge.is_none() && is_handed_on(&init.expr))
}

fn is_handed_on(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) => true,
        Expr::Field(field) => is_handed_on(&field.base),
        Expr::Group(group) => is_handed_on(&group.expr),
        Expr::Paren(paren) => is_handed_on(&paren.expr),
        Expr::Reference(reference) => is_handed_on(&reference.expr),
        Expr::MethodCall(call) => {
            let copies = ["clone", "to_owned", "as_ref", "as_mut", "cloned", "to_string", "to_vec"];
            call.args.is_empty() && is_handed_on(&call.receiver) && copies.iter().any(|it| call.method == it)
        }
        Expr::Call(call) => {
            let Expr::Path(func) = &*call.func else { return false };
            let names: Vec<String> = func.path.segments.iter().map(|it| it.ident.to_string()).collect();
            let copies = matches!(
                names.iter().map(String::as_str).collect::<Vec<_>>().as_slice(),
                [.., "Arc" | "Rc" | "Clone", "clone"] | [.., "mem", "replace" | "take"]
            );
            copies && call.args.iter().all(is_handed_on)
        }
        _ => false,
    }
}

fn calls_async_fn(call: &Expr, items: &[Stmt]) -> bool {
    let Expr::Call(call) = call else { return false };
    let Expr::Path(callee) = &*call.func else {
        return false;
    };
    items.iter().any(|stmt| match stmt {
        Stmt::Item(Item::Fn(item)) => {
            item.sig.asyncness.is_some()
                && callee.path.segments.len() == 1
                && callee.path.segments[0].ident == item.sig.ident
        }
        _ => false,
    })
}

// Input:   if let Some(__ret) = None::<R> { return __ret; }
//          let __self = self;
//          let (a, b) = { let __arg1 = __arg1; __arg1 };
//          let __ret: R = { … };
//          __ret
//
// Output: the pattern, which stays in `stmts`, as the key may name what it binds; and the other
// statements
fn split_off_body(
    stmts: &mut Vec<Stmt>,
    sig: &Signature,
    scope: &mut Scope,
    captures: &mut Captures,
) -> Vec<Stmt> {
    let arguments = Captures::of(sig);
    let mut rest = Vec::new();
    let mut ahead = std::mem::take(stmts).into_iter().peekable();
    if matches!(ahead.peek(), Some(Stmt::Expr(Expr::If(_), _))) {
        rest.extend(ahead.next());
    }
    while let Some((argument, pat)) = ahead.peek().and_then(|stmt| rebinding(stmt, scope)) {
        let (argument, pat) = (argument.clone(), pat.clone());
        let (is_name, is_receiver) = (matches!(pat, Pat::Ident(_)), argument == "self");
        match &pat {
            Pat::Ident(_) if is_receiver => {}
            // An argument `_`, which binds nothing.
            Pat::Ident(pat) if stands_for_a_pattern(&pat.ident) => scope.forget(&pat.ident),
            pat => {
                scope.forget(&argument);
                scope.bind(pat);
            }
        }
        // The attribute names `self`, only the body names `__self`. A receiver with a destructor is
        // dropped after the arguments, so they stay in the body with it.
        if is_name && (is_receiver || arguments.hold_the_receiver()) {
            rest.extend(ahead.next());
        } else {
            captures.rebind(&arguments, &argument, &pat);
            stmts.extend(ahead.next());
        }
    }
    rest.extend(ahead);
    rest
}

/// Argument and pattern of `let pattern = argument;`.
fn rebinding<'a>(stmt: &'a Stmt, scope: &Scope) -> Option<(&'a Ident, &'a Pat)> {
    let Stmt::Local(local) = stmt else {
        return None;
    };
    let init = local.init.as_ref().filter(|init| init.diverge.is_none())?;
    let argument = argument(&init.expr).filter(|argument| scope.binds(argument))?;
    Some((argument, &local.pat))
}

/// `x` of `x`, and of `{ let x = x; x }`.
fn argument(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(path) if path.attrs.is_empty() => path.path.get_ident(),
        Expr::Block(block) if block.label.is_none() => match block.block.stmts.as_slice() {
            [Stmt::Local(local), Stmt::Expr(expr, None)] => {
                let inner = argument(expr)?;
                let Pat::Ident(pat) = &local.pat else {
                    return None;
                };
                let init = argument(&local.init.as_ref()?.expr)?;
                (inner == &pat.ident && inner == init).then_some(inner)
            }
            _ => None,
        },
        _ => None,
    }
}
