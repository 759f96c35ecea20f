//! A key that names no argument is one lock for all calls: the usual mistake in a key, so it must
//! be confirmed by `constant_key`.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{BinOp, Expr, ExprLit, Ident, Lit};

use crate::attribute::LockArgs;
use crate::attribute::keys::Key;
use crate::attribute::recovery::{filled, written};
use crate::errors::Errors;
use crate::function::scope::Scope;
use crate::key::is_constant;
use crate::key::template::Placeholder;
use crate::variables::{named, text_that_looks_like_a_template};

/// Requires `constant_key` where the key is the same for every call, and refuses it elsewhere. Of several
/// keys, one that differs is enough.
pub(crate) fn check(args: &LockArgs, scope: &Scope, errors: &mut Errors) {
    let keys: Vec<&Key> = args.all_keys().collect();
    let mut differs = None;
    for key in &keys {
        match key {
            Key::Broken => return,
            Key::Template(template) => {
                let value = template.values().find(|value| varies(value, scope));
                differs = differs.or(value.map(|value| format!("the key has `{{{}}}`", value.name())));
            }
            Key::Expr(expr) => {
                if let Some((text, name)) = text_that_looks_like_a_template(expr, &|name| scope.varies(name))
                {
                    let key = joined(expr).map_or_else(
                        || text.token().to_string(),
                        |(text, arguments)| format!("{text:?}{}", arguments.concat()),
                    );
                    errors.at(
                        text,
                        format!(
                            "`{{{name}}}` is plain text here, because only a literal by itself is a template: write \
                             `redlocked::key!({key})`"
                        ),
                    );
                    return;
                }
                if let Some((place, key)) = made_of_a_literal(expr) {
                    errors.at(
                        place,
                        format!("a value stands between braces in the template: write `key = {key}`"),
                    );
                    return;
                }
                if let Some(name) = called_like_a_function(expr, &|name| scope.varies(name)) {
                    let path = if name == "key" { "redlocked::" } else { "" };
                    errors.at(name, format!("the `!` of the macro is missing: write `{path}{name}!(...)`"));
                    return;
                }
                let name = named(&expr.to_token_stream(), &|name| scope.varies(name));
                differs = differs.or(name.map(|name| format!("the key names `{name}`")));
            }
        }
    }
    match (differs, &args.constant_key) {
        (Some(differs), Some(constant_key)) => {
            errors.at(
                constant_key,
                format!("`constant_key` means one lock for all calls, but {differs}: remove one"),
            );
        }
        (None, None) => {
            if let Some(key) = keys.first() {
                same_for_all(key, args, scope, errors);
            }
        }
        _ => {}
    }
}

/// True if the value may differ between calls. A name that does not exist counts: rustc reports it.
fn varies(value: &Placeholder, scope: &Scope) -> bool {
    scope.varies(value.root()) || !is_constant(value.root())
}

/// The text of string literals that are added, with `{}` for each other value, and these values as
/// arguments.
fn joined(expr: &Expr) -> Option<(String, Vec<String>)> {
    match expr {
        Expr::Binary(sum) if matches!(sum.op, BinOp::Add(_)) => {
            let (mut text, mut arguments) = joined(&sum.left)?;
            if let Some((more, values)) = joined(&sum.right) {
                text += &more;
                arguments.extend(values);
            } else {
                text += if text.ends_with('}') { ":{}" } else { "{}" };
                arguments.push(format!(", {}", written(&sum.right.to_token_stream())));
            }
            Some((text, arguments))
        }
        Expr::Reference(reference) => joined(&reference.expr),
        Expr::Paren(paren) => joined(&paren.expr),
        Expr::MethodCall(call) if call.args.is_empty() => joined(&call.receiver),
        Expr::Lit(ExprLit { lit: Lit::Str(lit), .. }) => Some((lit.value(), Vec::new())),
        _ => None,
    }
}

/// The `+` in `"stock:" + sku`, or the name in `"stock:{}".format(sku)`, and the key that was
/// meant: Rust has neither.
fn made_of_a_literal(expr: &Expr) -> Option<(TokenStream, String)> {
    match expr {
        Expr::MethodCall(call) if call.method == "format" || call.method == "arg" => {
            let Expr::Lit(ExprLit { lit: Lit::Str(lit), .. }) = &*call.receiver else { return None };
            Some((call.method.to_token_stream(), filled(lit.value(), &call.args)))
        }
        Expr::Binary(sum) if matches!(sum.op, BinOp::Add(_)) => {
            let mut terms = vec![&*sum.right];
            let (mut plus, mut first) = (&sum.op, &*sum.left);
            while let Expr::Binary(sum) = first
                && matches!(sum.op, BinOp::Add(_))
            {
                terms.push(&sum.right);
                (plus, first) = (&sum.op, &sum.left);
            }
            let Expr::Lit(ExprLit { lit: Lit::Str(lit), .. }) = first else { return None };
            let (mut text, mut arguments) = (lit.value().replace('{', "{{").replace('}', "}}"), Vec::new());
            for term in terms.into_iter().rev() {
                match shown(term) {
                    Expr::Lit(ExprLit { lit: Lit::Str(lit), .. }) => {
                        text += &lit.value().replace('{', "{{").replace('}', "}}");
                    }
                    term => {
                        text += "{}";
                        arguments.push(term);
                    }
                }
            }
            Some((plus.to_token_stream(), filled(text, arguments)))
        }
        _ => None,
    }
}

/// The value itself, which a placeholder takes, without what makes a text of it.
fn shown(expr: &Expr) -> &Expr {
    match expr {
        Expr::Reference(reference) => shown(&reference.expr),
        Expr::Paren(paren) => shown(&paren.expr),
        Expr::MethodCall(call)
            if call.args.is_empty()
                && ["to_string", "to_owned", "as_str", "clone", "into"]
                    .iter()
                    .any(|name| call.method == name) =>
        {
            shown(&call.receiver)
        }
        _ => expr,
    }
}

/// The name in `format("stock:{sku}")`, whose text looks like a template.
fn called_like_a_function<'a>(expr: &'a Expr, known: &dyn Fn(&str) -> bool) -> Option<&'a Ident> {
    let Expr::Call(call) = expr else { return None };
    let Expr::Path(func) = &*call.func else { return None };
    let name = &func.path.segments.last()?.ident;
    let is_macro = ["key", "format", "format_args", "concat"].iter().any(|it| name == it);
    let text = call.args.first()?;
    let is_template = text_that_looks_like_a_template(text, known).is_some()
        || joined(text).is_some_and(|(text, _)| text.contains("{}") && call.args.len() > 1);
    (is_macro && is_template).then_some(name)
}

/// The expression, if it is one word.
fn word(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        _ => None,
    }
}

fn same_for_all(key: &Key, args: &LockArgs, scope: &Scope, errors: &mut Errors) {
    let arguments = data(args, scope);
    let Some(first) = arguments.first() else {
        return;
    };
    let shown: Vec<&String> = arguments.iter().filter(|argument| scope.prints(argument)).collect();
    let advice = match shown.first() {
        Some(first) => {
            let key = match key {
                Key::Broken => String::new(),
                Key::Template(template) => suggestion(&template.text(), &shown, first),
                Key::Expr(expr) => match word(expr) {
                    Some(name) if is_constant(&name) => format!("{{{name}}}:{{{first}}}"),
                    // Without quotes.
                    Some(word) => suggestion(&word, &shown, first),
                    None => match text_that_looks_like_a_template(expr, &|_| true) {
                        Some((text, _)) => text.value(),
                        None => format!("...:{{{first}}}"),
                    },
                },
            };
            let option =
                if args.keys.is_some() { format!("keys = [{key:?}, ...]") } else { format!("key = {key:?}") };
            format!("name an argument, as in `{option}`")
        }
        // Perhaps no argument has a `Display`.
        None => format!(
            "name what differs, such as `{{{first}}}`, a field (`{{{first}.id}}`) or a call (`{{{first}.id()}}`) of it"
        ),
    };
    let subject = if args.keys.is_some() { "these keys are" } else { "this key is" };
    let message = format!(
        "{subject} the same for every call: {advice}, or add `constant_key` if one lock for all is meant"
    );
    match key {
        Key::Broken => {}
        Key::Template(template) => errors.at(&template.lit, message),
        Key::Expr(expr) => errors.at(expr, message),
    }
}

/// The arguments that a key could name: all but those that the manager, a duration or a number is taken from.
fn data(args: &LockArgs, scope: &Scope) -> Vec<String> {
    let settings: Vec<_> = args.amounts().chain(&args.manager).map(ToTokens::to_token_stream).collect();
    let is_setting =
        |argument: &str| settings.iter().any(|expr| named(expr, &|name| name == argument).is_some());
    scope.arguments().filter(|argument| !is_setting(argument)).collect()
}

/// The key with an argument: braces around its name if the key has it, else one more part.
fn suggestion(key: &str, arguments: &[&String], first: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut at = 0;
    for word in key.split(|c| !is_part(c)) {
        if arguments.iter().any(|argument| *argument == word) {
            let (before, after) = (&key[..at], &key[at + word.len()..]);
            // `{{sku}}` and `$sku`, the syntax of other template languages, are text here.
            let before = before.strip_suffix('$').unwrap_or(before);
            let unbraced = (before.trim_end().strip_suffix("{{"), after.trim_start().strip_prefix("}}"));
            let (before, after) = match unbraced {
                (Some(before), Some(after)) => (before, after),
                _ => (before, after),
            };
            return format!("{before}{{{word}}}{after}");
        }
        // The word, and the character after it.
        at += word.len();
        at += key[at..].chars().next().map_or(0, char::len_utf8);
    }
    let colon = if key.ends_with(|c: char| c.is_alphanumeric() || c == '}') { ":" } else { "" };
    format!("{key}{colon}{{{first}}}")
}

#[cfg(test)]
mod tests {
    use syn::{Signature, parse_str};

    use super::{Errors, LockArgs, Scope, check};

    fn mistakes(args: &str, sig: &str) -> String {
        let mut errors = Errors::default();
        let args = LockArgs::parse(args.parse().unwrap_or_default(), &mut errors);
        let sig: syn::Result<Signature> = parse_str(sig);
        assert!(sig.is_ok(), "{:?}", sig.err());
        let scope = sig.map(|sig| Scope::of(&sig)).unwrap_or_default();
        check(&args, &scope, &mut errors);
        let errors =
            errors.finish().map(|errors| errors.into_iter().map(|error| error.to_string()).collect());
        errors.unwrap_or_else(Vec::new).join("\n")
    }

    #[test]
    fn a_key_that_is_the_same_for_every_call_says_so() {
        for (key, sig, suggested) in [
            ("stock", "fn f(sku: &str, quantity: u32)", "stock:{sku}"),
            ("stock:", "fn f(&self, sku: &str)", "stock:{sku}"),
            ("stock/sku/all", "fn f(quantity: u32, sku: &str)", "stock/{sku}/all"),
            ("sku", "fn f(sku: &str)", "{sku}"),
            ("für größe é", "fn f(é: u8, größe: u8)", "für {größe} é"),
            ("skus", "fn f(Path(sku): Path<String>)", "skus:{sku}"),
            ("{TENANT}", "fn f(_: u8, _b: u8, r#type: u8)", "{TENANT}:{type}"),
            ("stock:{{sku}}", "fn f(sku: &str)", "stock:{sku}"),
            ("stock:{{ sku }}", "fn f(sku: &str)", "stock:{sku}"),
            ("stock_", "fn f(sku: &str)", "stock_{sku}"),
            ("stock:$sku", "fn f(sku: &str)", "stock:{sku}"),
        ] {
            let found = mistakes(&format!("key = \"{key}\""), sig);
            assert!(found.contains(&format!("as in `key = \"{suggested}\"`, or")), "{key}: {found}");
            assert_eq!(mistakes(&format!("key = \"{key}\", constant_key"), sig), "", "{key}");
        }
    }

    #[test]
    fn so_does_an_expression_that_names_no_argument() {
        for (key, advice) in [
            ("KEY", "name an argument, as in `key = \"{KEY}:{sku}\"`, or add `constant_key`"),
            ("stock", "as in `key = \"stock:{sku}\"`"),
            ("names::KEY", "as in `key = \"...:{sku}\"`"),
            ("current_name()", "as in `key = \"...:{sku}\"`"),
            ("concat!(\"stock:\", \"{sku}\")", "as in `key = \"...:{sku}\"`"),
            ("format!(\"stock:{{sku}}\")", "as in `key = \"...:{sku}\"`"),
            ("order.sku(KEY)", ""),
            ("sku::KEY", "as in `key = \"...:{sku}\"`"),
        ] {
            let found = mistakes(&format!("key = {key}"), "fn f(sku: &str, order: Order)");
            let is_same = found.contains("is the same for every call");
            assert!(is_same != advice.is_empty() && found.contains(advice), "{key}: {found}");
            if is_same {
                assert_eq!(mistakes(&format!("key = {key}, constant_key"), "fn f(sku: &str)"), "", "{key}");
            }
        }
        let text = "`{sku}` is plain text here, because only a literal by itself is a template: write \
                    `redlocked::key!(\"a:{sku}\")`";
        for key in [
            "\"a:{sku}\".to_owned()",
            "if all { \"a\" } else { \"a:{sku}\" }",
            "match all { _ => &\"a:{sku}\" }",
        ] {
            assert_eq!(mistakes(&format!("key = {key}"), "fn f(sku: &str, all: bool)"), text, "{key}");
        }
    }

    #[test]
    fn advice_is_of_what_can_be_printed() {
        for (sig, advice) in [
            ("fn f(order: Order, id: u64)", "as in `key = \"stock:{id}\"`"),
            (
                "fn f(order: &Order)",
                "such as `{order}`, a field (`{order.id}`) or a call (`{order.id()}`) of it",
            ),
            ("fn f(Json(order): Json<Order>, Path(id): Path<u64>)", "as in `key = \"stock:{id}\"`"),
            ("fn f(Path((shop, id)): Path<(Shop, String)>)", "as in `key = \"stock:{id}\"`"),
            ("fn f(a: Option<u8>, b: &&Arc<str>)", "as in `key = \"stock:{b}\"`"),
            ("fn f(a: Vec<u8>, b: Cow<'_, str>)", "as in `key = \"stock:{b}\"`"),
            ("fn f(a: &[u8], b: impl Display + Copy)", "as in `key = \"stock:{b}\"`"),
        ] {
            let found = mistakes("key = \"stock\"", sig);
            assert!(found.contains(advice), "{sig}: {found}");
        }
    }

    #[test]
    fn nothing_to_say() {
        for (args, sig) in [
            ("key = \"stock:{sku}\"", "fn f(sku: &str, quantity: u32)"),
            ("key = \"{self.tenant}\"", "fn f(&self, quantity: u32)"),
            ("key = \"stock:{skuu}\"", "fn f(sku: &str)"),
            ("key = \"nightly\"", "fn f()"),
            ("key = \"nightly\", constant_key", "fn f()"),
            ("key = \"nightly\"", "fn f(&self)"),
            ("key = \"nightly\"", "fn f(_: u8, _job: u8)"),
            ("key = KEY", "fn f(&self)"),
            ("key = KEY, constant_key", "fn f(sku: &str)"),
            ("key = concat!(\"a:\", \"b\"), constant_key", "fn f(sku: &str)"),
            ("key = format!(\"stock:{sku}\")", "fn f(sku: &str)"),
            ("key = sku", "fn f(sku: &str)"),
            ("key = self.name()", "fn f(&self, sku: &str)"),
            ("key = \"stock\", manager = shop.locks", "fn f(State(shop): State<Shop>)"),
            (
                "key = \"stock\", manager = locks, ttl = config.ttl",
                "fn f(locks: &LockManager, config: &Config)",
            ),
            ("key = \"stock\"", "fn f(#[cfg(test)] sku: &str)"),
            ("key = \"{N}\"", "fn f<const N: usize>(a: [u8; N])"),
            ("keys = [\"config\", \"account:{id}\"]", "fn f(id: u32)"),
            ("keys = [\"config\", KEY, format!(\"{id}\")]", "fn f(id: u32)"),
            ("keys = [\"a\", \"b\"], constant_key", "fn f(id: u32)"),
            ("keys = [\"a\", \"b\"]", "fn f()"),
        ] {
            assert_eq!(mistakes(args, sig), "", "{args}");
        }
    }

    #[test]
    fn global_that_is_not_true() {
        for (args, hint) in [
            ("key = \"stock:{sku}\", constant_key", "the key has `{sku}`: remove one"),
            ("key = \"{self.tenant.id:04}\", constant_key", "the key has `{self.tenant.id}`: remove one"),
            ("key = format!(\"{sku}\"), constant_key", "the key names `sku`: remove one"),
            ("key = self.name(), constant_key", "the key names `self`: remove one"),
        ] {
            let found = mistakes(args, "fn f(&self, sku: &str)");
            assert!(found.ends_with(hint), "{args}: {found}");
        }
        let found = mistakes("keys = [\"a\", \"b\"]", "fn f(sku: &str)");
        assert!(
            found.contains("these keys are the same for every call") && found.contains("[\"a:{sku}\", ...]"),
            "{found}"
        );
        let found = mistakes("keys = [\"a\", \"b:{sku}\"], constant_key", "fn f(sku: &str)");
        assert!(found.ends_with("the key has `{sku}`: remove one"), "{found}");
        for (key, written) in [
            ("\"a:\" + sku", "\"a:{sku}\""),
            ("\"a:\" + &sku + \":x\"", "\"a:{sku}:x\""),
            ("\"a:\" + &id.to_string() + \":\" + self.name.as_str()", "\"a:{id}:{self.name}\""),
            ("\"a:\" + &other(sku)", "redlocked::key!(\"a:{}\", other(sku))"),
            ("\"a:\" + &format!(\"{id}\") + sku", "redlocked::key!(\"a:{}{}\", format!(\"{id}\"), sku)"),
            ("\"a:{}\".format(sku)", "\"a:{sku}\""),
        ] {
            let found = mistakes(&format!("key = {key}"), "fn f(&self, sku: &str, id: u32)");
            assert!(found.ends_with(&format!("write `key = {written}`")), "{key}: {found}");
        }
        for (key, written) in [
            ("\"a:{sku}\" + \"b\"", "\"a:{sku}b\""),
            ("\"a:{sku}:\".to_owned() + &id.to_string()", "\"a:{sku}:{}\", &id.to_string()"),
            ("\"a:{sku}\" + id + \"b\"", "\"a:{sku}:{}b\", id"),
        ] {
            let found = mistakes(&format!("key = {key}"), "fn f(sku: &str, id: &str)");
            assert!(found.ends_with(&format!("write `redlocked::key!({written})`")), "{key}: {found}");
        }
        let found = mistakes("key = \"stock:{sku}\", constant_ky", "fn f(sku: &str)");
        assert_eq!(found, "unknown option `constant_ky`, did you mean `constant_key`?");
        for slip in ["constant_ky", "constant_key = \"yes\"", "constant_key(true)", "constant_key ="] {
            let found = mistakes(&format!("key = \"stock\", {slip}"), "fn f(sku: &str)");
            assert!(!found.is_empty() && !found.contains("the same for every call"), "{slip}: {found}");
        }
        let found = mistakes("key = \"stock\", constant_key = false", "fn f(sku: &str)");
        assert!(found.contains("the same for every call"), "{found}");
        assert!(mistakes("key = \"a:{b\"", "fn f(b: u8)").ends_with("write `{b}`"));
    }
}
