//! A transaction that is lent to the function: its caller commits it, after the lock was released.

use proc_macro2::{TokenStream, TokenTree};
use syn::{FnArg, Path, PathArguments, Type};

use crate::attribute::LockArgs;
use crate::errors::Errors;
use crate::function::item::LockedFn;

/// Transactions of sqlx and `sea_orm` that tell their database by their name.
const NAMES: [&str; 4] = ["DatabaseTransaction", "MySqlTransaction", "PgTransaction", "SqliteTransaction"];

/// Crates whose `Transaction` may be written without a lifetime.
const CRATES: [&str; 5] = ["deadpool_postgres", "postgres", "rusqlite", "sqlx", "tokio_postgres"];

/// The method that keeps the next holder waiting until the commit.
const FENCE_IN: &str = "fence_in";

/// Refuses it, unless the fence in it keeps the next holder out until the commit, or a caller may
/// hold the lock.
pub(crate) fn refuse_lent(args: &LockArgs, function: &LockedFn, errors: &mut Errors) {
    if args.reentrant == Some(true) || mentions(&function.body, FENCE_IN) {
        return;
    }
    for input in &function.sig.inputs {
        let FnArg::Typed(input) = input else { continue };
        if !is_lent_transaction(&input.ty) {
            continue;
        }
        let fence = if function.sig.asyncness.is_some() {
            let bind = if args.guard.is_some() { "" } else { "bind `guard = lock`, and " };
            let lock = args.guard.as_ref().map_or_else(|| "lock".to_owned(), ToString::to_string);
            format!(
                "; or {bind}begin with `{lock}.fence_in(...)` of `redlocked-sqlx`, which keeps the next holder waiting"
            )
        } else {
            String::new()
        };
        errors.at(
            &input.ty,
            format!(
                "the caller commits this transaction after the lock was released, and the next holder may read what was before \
                 it: take the pool, and begin and commit in this body{fence}"
            ),
        );
    }
}

/// As its spelling says: `&mut Transaction<'_, Postgres>`, `&tokio_postgres::Transaction`. A
/// `Transaction` of an application has no lifetime.
fn is_lent_transaction(ty: &Type) -> bool {
    match ty {
        Type::Group(ty) => is_lent_transaction(&ty.elem),
        Type::Paren(ty) => is_lent_transaction(&ty.elem),
        Type::Reference(ty) => is_transaction(&ty.elem),
        _ => false,
    }
}

fn is_transaction(ty: &Type) -> bool {
    match ty {
        Type::Group(ty) => is_transaction(&ty.elem),
        Type::Paren(ty) => is_transaction(&ty.elem),
        Type::Reference(ty) => is_transaction(&ty.elem),
        Type::Path(ty) => names_a_transaction(&ty.path),
        _ => false,
    }
}

fn names_a_transaction(path: &Path) -> bool {
    let Some(last) = path.segments.last() else { return false };
    let is_of = |names: &[&str], word: &syn::Ident| names.iter().any(|name| word == name);
    let is_theirs = path.segments.first().is_some_and(|first| is_of(&CRATES, &first.ident));
    let has_generics = matches!(last.arguments, PathArguments::AngleBracketed(_));
    is_of(&NAMES, &last.ident) || last.ident == "Transaction" && (is_theirs || has_generics)
}

/// True where the tokens have this word, at any depth.
fn mentions(tokens: &TokenStream, word: &str) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Group(group) => mentions(&group.stream(), word),
        TokenTree::Ident(ident) => ident == word,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::{Errors, LockArgs, LockedFn, refuse_lent};

    fn mistakes(args: &str, function: &str) -> String {
        let mut errors = Errors::default();
        let args = LockArgs::parse(args.parse().unwrap_or_default(), &mut errors);
        let function: syn::Result<LockedFn> = syn::parse_str(function);
        assert!(function.is_ok(), "{:?}", function.err());
        let _ = function.map(|function| refuse_lent(&args, &function, &mut errors));
        errors.finish().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_transaction_that_is_lent_is_seen_by_its_spelling() {
        for ty in [
            "&mut Transaction<'_, Postgres>",
            "&mut Transaction<Postgres>",
            "&'a mut sqlx::Transaction<'a, DB>",
            "&mut tokio_postgres::Transaction",
            "&rusqlite::Transaction<'_>",
            "&mut &mut (PgTransaction<'_>)",
            "&sea_orm::DatabaseTransaction",
        ] {
            let found = mistakes("key = \"a\"", &format!("async fn f(id: u32, tx: {ty}) {{ write(tx) }}"));
            assert!(
                found.contains("bind `guard = lock`, and begin with `lock.fence_in(...)`"),
                "{ty}: {found}"
            );
            let bound = mistakes("key = \"a\", guard = held", &format!("async fn f(tx: {ty}) {{}}"));
            assert!(bound.contains("; or begin with `held.fence_in(...)`"), "{ty}: {bound}");
            let sync = mistakes("key = \"a\"", &format!("fn f(tx: {ty}) {{}}"));
            assert!(sync.ends_with("begin and commit in this body"), "{ty}: {sync}");
        }
    }

    #[test]
    fn nothing_to_say() {
        for (args, function) in [
            ("key = \"a\"", "fn f(tx: Transaction<'_, Postgres>) {}"),
            ("key = \"a\"", "fn f(tx: &mut Transaction) {}"),
            ("key = \"a\"", "fn f(tx: &mut bank::Transaction) {}"),
            ("key = \"a\"", "fn f(pool: &PgPool, tx: &TransactionId<'_>) {}"),
            ("key = \"a\", reentrant", "async fn f(tx: &mut Transaction<'_, Postgres>) {}"),
            (
                "key = \"a\", guard = lock",
                "async fn f(tx: &mut Transaction<'_, Postgres>) { Box::pin(async { lock.fence_in(tx).await }) }",
            ),
        ] {
            assert_eq!(mistakes(args, function), "", "{function}");
        }
    }
}
