//! Arguments that borrow, of a body that runs in a task of its own.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{FnArg, ReceiverKind, Signature, Type};

use crate::attribute::LockArgs;
use crate::attribute::recovery::written;
use crate::errors::Errors;

const WHY: &str =
    "with `spawn`, the body goes on when its caller has gone, so it cannot borrow from the caller";

/// Refuses what the caller lends, because the body may outlive the caller. An alias can hide a
/// borrow from this crate, but not from the compiler.
pub(crate) fn refuse_borrows(args: &LockArgs, sig: &Signature, errors: &mut Errors) {
    if args.spawn().is_none() {
        return;
    }
    for input in &sig.inputs {
        match input {
            FnArg::Receiver(receiver) => {
                let borrows = match &receiver.kind {
                    ReceiverKind::Reference(..) => true,
                    ReceiverKind::Typed(_, ty) => borrows(ty.to_token_stream()),
                    _ => false,
                };
                if borrows {
                    errors.at(
                        receiver,
                        format!("{WHY}: take `self: Arc<Self>`, or `self` and let the caller clone it"),
                    );
                }
            }
            FnArg::Typed(input) if borrows(input.ty.to_token_stream()) => {
                errors.at(&input.ty, format!("{WHY}: take {}", instead(&input.ty)));
            }
            FnArg::Typed(_) => {}
        }
    }
}

/// What owns the same.
fn instead(ty: &Type) -> String {
    let Type::Reference(reference) = ty else { return "a value that owns what it has".to_owned() };
    match (&*reference.elem, reference.mutability) {
        (Type::Path(path), None) if path.path.is_ident("str") => "`String`".to_owned(),
        (Type::Slice(slice), None) => format!("`Vec<{}>`", written(&slice.elem.to_token_stream())),
        (ty @ Type::Path(_), None) => format!("`{0}`, or `Arc<{0}>`", written(&ty.to_token_stream())),
        _ => "a value that owns what it has, such as an `Arc`".to_owned(),
    }
}

/// True for a reference or a lifetime other than `'static`. Those of the arguments of a function,
/// as in `Box<dyn Fn(&str)>`, are no borrows.
fn borrows(tokens: TokenStream) -> bool {
    let mut tokens = tokens.into_iter().peekable();
    let mut is_behind_a_name = false;
    while let Some(token) = tokens.next() {
        let is_static =
            |next: Option<&TokenTree>| matches!(next, Some(TokenTree::Ident(name)) if name == "static");
        match &token {
            TokenTree::Punct(mark) if mark.as_char() == '&' => {
                // The lifetime behind it says more.
                let names_lifetime =
                    matches!(tokens.peek(), Some(TokenTree::Punct(mark)) if mark.as_char() == '\'');
                if !names_lifetime {
                    return true;
                }
            }
            TokenTree::Punct(mark) if mark.as_char() == '\'' && !is_static(tokens.peek()) => return true,
            TokenTree::Group(group) => {
                let takes_arguments = group.delimiter() == Delimiter::Parenthesis && is_behind_a_name;
                if !takes_arguments && borrows(group.stream()) {
                    return true;
                }
            }
            // The lifetimes of `for<'a>` are of such arguments: rustc finds the others.
            TokenTree::Ident(word) if word == "for" => return false,
            _ => {}
        }
        is_behind_a_name = matches!(token, TokenTree::Ident(_));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::borrows;

    #[test]
    fn borrows_are_told_from_what_is_owned() {
        for (ty, is_borrow) in [
            ("String", false),
            ("&'static str", false),
            ("Arc<Shop>", false),
            ("Box<dyn Fn(&str) -> u8 + Send>", false),
            ("fn(&str)", false),
            ("Option<for<'a> fn(&'a str)>", false),
            ("Cow<'static, str>", false),
            ("&str", true),
            ("&'a mut Shop", true),
            ("Option<&[u8]>", true),
            ("(u8, &str)", true),
            ("[&str; 2]", true),
            ("Cow<'_, str>", true),
            ("impl Shown + 'a", true),
            ("Box<dyn Fn(u8) -> &str + 'a>", true),
        ] {
            assert!(ty.parse().is_ok_and(|tokens| borrows(tokens) == is_borrow), "{ty}");
        }
    }
}
