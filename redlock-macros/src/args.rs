//! The options between the parentheses: every mistake is reported at once, each at its own token.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Error, Expr, ExprLit, Ident, Lit, LitStr, Path, Result, Token};

use crate::duration;
use crate::errors::{Errors, list, nearest};
use crate::template;

/// The attribute, understood.
pub(crate) struct LockArgs {
    pub(crate) key: Key,
    pub(crate) ttl: Option<Length>,
    pub(crate) wait: Option<Length>,
    pub(crate) renew: Option<bool>,
    pub(crate) guard: Option<Ident>,
    pub(crate) manager: Option<Expr>,
    pub(crate) on_busy: Option<Expr>,
    pub(crate) on_error: Option<Expr>,
    pub(crate) krate: Option<Path>,
}

/// What is locked.
pub(crate) enum Key {
    Template(LitStr),
    Expr(Expr),
}

/// `ttl` or `wait`.
pub(crate) enum Length {
    Millis(u64),
    Forever,
    Expr(Expr),
}

const OPTIONS: [&str; 9] =
    ["key", "ttl", "wait", "renew", "guard", "manager", "on_busy", "on_error", "crate"];

/// What other libraries call our options.
const SYNONYMS: [(&str, &str); 14] = [
    ("name", "key"),
    ("id", "key"),
    ("resource", "key"),
    ("lease", "ttl"),
    ("expire", "ttl"),
    ("expires", "ttl"),
    ("expiry", "ttl"),
    ("duration", "ttl"),
    ("timeout", "wait"),
    ("wait_time", "wait"),
    ("client", "manager"),
    ("pool", "manager"),
    ("fallback", "on_busy"),
    ("watchdog", "renew"),
];

/// The shortest lease that the runtime takes.
const MIN_TTL_MILLIS: u64 = 10;

impl LockArgs {
    /// `None` if there is an error.
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Option<Self> {
        let mut draft = Draft::default();
        let parser = |input: ParseStream| {
            while !input.is_empty() {
                if let Err(error) = draft.option(input, errors) {
                    errors.push(error);
                    skip_to_comma(input);
                }
                Draft::comma(input, errors);
            }
            Ok(())
        };
        let parsed = parser.parse2(tokens);
        errors.keep(parsed);
        draft.finish(errors)
    }
}

/// The options seen so far.
#[derive(Default)]
struct Draft {
    key: Option<Key>,
    ttl: Option<Length>,
    wait: Option<Length>,
    renew: Option<bool>,
    guard: Option<Ident>,
    manager: Option<Expr>,
    on_busy: Option<Expr>,
    on_error: Option<Expr>,
    krate: Option<Path>,
    seen: Vec<String>,
}

impl Draft {
    /// One `name = value`.
    fn option(&mut self, input: ParseStream, errors: &mut Errors) -> Result<()> {
        if input.peek(LitStr) {
            // Taken as given, so that it is not also missing.
            self.seen.push("key".to_owned());
            return Err(input.error("expected an option, found a string: write `key = \"...\"`"));
        }
        if !input.peek(Ident::peek_any) {
            return Err(input.error("expected an option such as `key = \"order:{id}\"`"));
        }
        let name = input.call(Ident::parse_any)?;
        let text = name.to_string();
        if !OPTIONS.contains(&text.as_str()) {
            return Err(self.unknown(&name, &text));
        }
        if self.seen.contains(&text) {
            errors.at(&name, format!("`{text}` is given twice"));
        }
        self.seen.push(text.clone());

        let hint = hint(&text);
        if !input.peek(Token![=]) || input.peek(Token![==]) {
            let span = if input.is_empty() || input.peek(Token![,]) { name.span() } else { input.span() };
            return Err(Error::new(span, format!("expected `{hint}`")));
        }
        let eq: Token![=] = input.parse()?;
        if input.is_empty() || input.peek(Token![,]) {
            return Err(Error::new_spanned(eq, format!("expected a value, such as `{hint}`")));
        }
        if text == "crate" {
            self.krate = Some(crate_path(input)?);
            return Ok(());
        }
        let value: Expr = input.parse()?;
        match text.as_str() {
            "key" => self.key = key(value, errors),
            "ttl" => self.ttl = errors.keep(length(value, "ttl")),
            "wait" => self.wait = errors.keep(length(value, "wait")),
            "renew" => self.renew = errors.keep(boolean(&value)),
            "guard" => self.guard = errors.keep(binding(&value)),
            "manager" => self.manager = errors.keep(expression(value, hint)),
            "on_error" => self.on_error = errors.keep(expression(value, hint)),
            _ => self.on_busy = Some(value),
        }
        Ok(())
    }

    /// The comma after an option; one that was forgotten does not hide the options after it.
    fn comma(input: ParseStream, errors: &mut Errors) {
        if input.is_empty() || input.parse::<Token![,]>().is_ok() {
            return;
        }
        if input.peek(Ident::peek_any) && input.peek2(Token![=]) {
            errors.push(input.error("expected `,` before this option"));
            return;
        }
        errors.push(input.error("expected `,`"));
        skip_to_comma(input);
        let _ = input.parse::<Token![,]>();
    }

    fn unknown(&mut self, name: &Ident, text: &str) -> Error {
        let synonym = SYNONYMS.iter().find(|(theirs, _)| *theirs == text).map(|(_, ours)| *ours);
        Error::new(
            name.span(),
            match synonym.or_else(|| nearest(text, OPTIONS)) {
                Some(option) => {
                    // Taken as given, so that `kye` is not also a missing `key`.
                    self.seen.push(option.to_owned());
                    format!("unknown option `{text}`, did you mean `{option}`?")
                }
                None => format!("unknown option `{text}`, expected {}", list(OPTIONS, "or")),
            },
        )
    }

    fn finish(self, errors: &mut Errors) -> Option<LockArgs> {
        if !self.seen.iter().any(|name| name == "key") {
            errors.push(Error::new(
                Span::call_site(),
                "missing `key`, the name of what is locked: write `#[distributed_lock(key = \"order:{id}\")]`",
            ));
        }
        Some(LockArgs {
            key: self.key?,
            ttl: self.ttl,
            wait: self.wait,
            renew: self.renew,
            guard: self.guard,
            manager: self.manager,
            on_busy: self.on_busy,
            on_error: self.on_error,
            krate: self.krate,
        })
    }
}

/// How an option is written.
fn hint(option: &str) -> &'static str {
    match option {
        "key" => "key = \"order:{id}\"",
        "ttl" => "ttl = \"10s\"",
        "wait" => "wait = \"5s\"",
        "renew" => "renew = false",
        "guard" => "guard = lock",
        "manager" => "manager = self.locks",
        "on_busy" => "on_busy = Ok(())",
        "on_error" => "on_error = |error| ...",
        _ => "crate = some_crate::redlocked",
    }
}

/// After a slip of syntax the next option starts after the next comma.
fn skip_to_comma(input: ParseStream) {
    while !input.is_empty() && !input.peek(Token![,]) {
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}

fn key(value: Expr, errors: &mut Errors) -> Option<Key> {
    match literal(&value) {
        Some(Lit::Str(lit)) => {
            if let Err(mistakes) = template::parse(&lit.value()) {
                for mistake in mistakes {
                    errors.at(lit, mistake);
                }
            }
            Some(Key::Template(lit.clone()))
        }
        Some(lit) => {
            errors.at(lit, format!("expected a string such as `{}`, found {}", hint("key"), describe(lit)));
            None
        }
        None => Some(Key::Expr(value)),
    }
}

fn length(value: Expr, option: &str) -> Result<Length> {
    let Some(lit) = literal(&value) else {
        return Ok(Length::Expr(value));
    };
    let Lit::Str(lit) = lit else {
        let message = format!("expected a duration such as `{}`, found {}", hint(option), describe(lit));
        return Err(Error::new_spanned(&value, message));
    };
    let text = lit.value();
    if text == "forever" && option == "wait" {
        return Ok(Length::Forever);
    }
    let message = match duration::parse(&text) {
        Err(_) if text == "forever" => {
            "`ttl` cannot be forever: it frees the lock of a process that has crashed; a living one renews it"
                .to_owned()
        }
        Err(message) => message,
        Ok(millis) if option == "ttl" && millis < MIN_TTL_MILLIS => {
            format!("`ttl = \"{text}\"` is too short: the minimum is `{MIN_TTL_MILLIS}ms`")
        }
        Ok(millis) => return Ok(Length::Millis(millis)),
    };
    Err(Error::new_spanned(lit, message))
}

fn boolean(value: &Expr) -> Result<bool> {
    match literal(value) {
        Some(Lit::Bool(lit)) => Ok(lit.value),
        _ => Err(Error::new_spanned(value, "expected `renew = true` or `renew = false`")),
    }
}

fn binding(value: &Expr) -> Result<Ident> {
    let ident = match value {
        Expr::Path(path) => path.path.get_ident(),
        Expr::Group(group) => return binding(&group.expr),
        _ => None,
    };
    ident
        .filter(|ident| !["self", "Self", "super", "crate"].contains(&ident.to_string().as_str()))
        .cloned()
        .ok_or_else(|| {
            let found = literal(value).map(|lit| format!(", found {}", describe(lit))).unwrap_or_default();
            Error::new_spanned(value, format!("expected a name for the guard, such as `guard = lock`{found}"))
        })
}

/// Any expression but a literal, which can be neither a manager nor a handler.
fn expression(value: Expr, hint: &str) -> Result<Expr> {
    match literal(&value) {
        Some(lit) => Err(Error::new_spanned(lit, format!("expected `{hint}`, found {}", describe(lit)))),
        None => Ok(value),
    }
}

fn crate_path(input: ParseStream) -> Result<Path> {
    if input.peek(LitStr) {
        return Err(input.error("expected a path such as `crate = some_crate::redlocked`, found a string"));
    }
    input.call(Path::parse_mod_style)
}

/// The literal behind invisible delimiters and a sign.
fn literal(expr: &Expr) -> Option<&Lit> {
    match expr {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        Expr::Group(group) => literal(&group.expr),
        Expr::Unary(unary) => literal(&unary.expr),
        _ => None,
    }
}

fn describe(lit: &Lit) -> &'static str {
    match lit {
        Lit::Str(_) => "a string",
        Lit::ByteStr(_) => "a byte string",
        Lit::CStr(_) => "a C string",
        Lit::Byte(_) => "a byte",
        Lit::Char(_) => "a character",
        Lit::Int(_) => "an integer",
        Lit::Float(_) => "a float",
        Lit::Bool(_) => "a boolean",
        _ => "a literal",
    }
}

#[cfg(test)]
mod tests {
    use quote::ToTokens as _;

    use super::{Errors, Key, Length, LockArgs, OPTIONS, SYNONYMS};

    /// The arguments, if there are any, and each error.
    fn parse(text: &str) -> (Option<LockArgs>, Vec<String>) {
        let mut errors = Errors::default();
        let args = text.parse().ok().and_then(|tokens| LockArgs::parse(tokens, &mut errors));
        let errors =
            errors.finish().map(|errors| errors.into_iter().map(|error| error.to_string()).collect());
        (args, errors.unwrap_or_default())
    }

    #[test]
    fn every_option() {
        let (args, errors) = parse(
            "key = \"a:{b}\", ttl = \"1m 30s\", wait = \"forever\", renew = false, guard = lock, manager = self.locks(), \
             on_busy = Ok(vec![1, 2]), on_error = |a: LockError| -> B { b(a, c) }, crate = ::a::b,",
        );
        assert!(errors.is_empty(), "{errors:?}");
        let Some(args) = args else {
            return assert!(args.is_some());
        };
        assert!(matches!(args.key, Key::Template(lit) if lit.value() == "a:{b}"));
        assert!(matches!(args.ttl, Some(Length::Millis(90_000))));
        assert!(matches!(args.wait, Some(Length::Forever)));
        assert_eq!(args.renew, Some(false));
        assert_eq!(args.guard.map(|guard| guard.to_string()).as_deref(), Some("lock"));
        for (value, expected) in [
            (args.manager, "self . locks ()"),
            (args.on_busy, "Ok (vec ! [1 , 2])"),
            (args.on_error, "| a : LockError | -> B { b (a , c) }"),
        ] {
            assert_eq!(value.map(|value| value.to_token_stream().to_string()).as_deref(), Some(expected));
        }
        assert!(args.krate.is_some());
    }

    #[test]
    fn expressions() {
        for key in ["name", "NAME", "format!(\"{}\", a)", "a.b(c)", "&a", "if a { \"b\" } else { \"c\" }"] {
            let (args, errors) = parse(&format!("key = {key}, ttl = config.ttl, wait = secs(5)"));
            assert!(errors.is_empty(), "{key}: {errors:?}");
            let args = args.map(|args| (args.key, args.ttl, args.wait));
            assert!(
                matches!(args, Some((Key::Expr(_), Some(Length::Expr(_)), Some(Length::Expr(_))))),
                "{key}"
            );
        }
    }

    #[test]
    fn mistakes() {
        let given = "key = \"a\", ";
        for (text, hints) in [
            ("", vec!["missing `key`"]),
            ("ttl = \"1s\"", vec!["missing `key`"]),
            ("\"a:{b}\"", vec!["found a string: write `key"]),
            ("kye = \"a\"", vec!["did you mean `key`?"]),
            ("key = \"a\", key = \"b\"", vec!["`key` is given twice"]),
            ("key", vec!["expected `key = "]),
            ("key =", vec!["expected a value"]),
            ("key = 1.5", vec!["found a float"]),
            ("key = ,", vec!["expected a value"]),
            ("key == \"a\"", vec!["expected `key = "]),
            ("key: \"a\", wait = 1", vec!["expected `key = ", "found an integer"]),
            ("key = \"{}\" \"{0}\", wait = 1", vec!["names no argument", "expected `,`", "found an integer"]),
            (
                "key = \"a\" ttl = \"1\" wait = 1",
                vec!["before this option", "no unit", "before this option", "integer"],
            ),
            ("1, key = \"a\"", vec!["expected an option such as"]),
            (", key = \"a\"", vec!["expected an option such as"]),
            ("key = \"a\",, ttl = 1", vec!["expected an option such as", "found an integer"]),
            ("redlocked::key = \"a\"", vec!["unknown option `redlocked`", "missing `key`"]),
            ("key = \"a\", r#ttl = \"1s\"", vec!["unknown option `r#ttl`"]),
        ] {
            let (_, errors) = parse(text);
            assert_eq!(errors.len(), hints.len(), "{text}: {errors:?}");
            for (error, hint) in errors.iter().zip(hints) {
                assert!(error.contains(hint), "{text}: {error}");
            }
        }
        for (text, hint) in [
            ("ttl = '1'", "found a character"),
            ("ttl = b\"1s\"", "found a byte string"),
            ("ttl = c\"1s\"", "found a C string"),
            ("ttl = -1", "found an integer"),
            ("ttl = \"9ms\"", "the minimum is `10ms`"),
            ("ttl = \"forever\"", "cannot be forever"),
            ("wait = \"Forever\"", "is not a duration"),
            ("renew = yes", "expected `renew = true` or `renew = false`"),
            ("guard = mut lock", "expected"),
            ("guard = a::b", "expected a name for the guard"),
            ("guard = _", "expected a name for the guard"),
            ("crate = \"a\"", "found a string"),
            ("manager = 1", "found an integer"),
            ("on_error = true", "found a boolean"),
        ] {
            let (_, errors) = parse(&format!("{given}{text}"));
            assert_eq!(errors.len(), 1, "{text}: {errors:?}");
            assert!(errors[0].contains(hint), "{text}: {errors:?}");
        }
    }

    #[test]
    fn synonyms_are_not_options() {
        for (theirs, ours) in SYNONYMS {
            assert!(!OPTIONS.contains(&theirs) && OPTIONS.contains(&ours), "{theirs} -> {ours}");
        }
    }
}
