//! The options between the parentheses. All mistakes are reported at once, each at its own token.

pub(crate) mod duration;
pub(crate) mod keys;
pub(crate) mod length;
mod options;
pub(crate) mod permits;
pub(crate) mod rate;
pub(crate) mod recovery;
pub(crate) mod value;

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Error, Expr, Ident, LitStr, Path, Result, Token};

use self::keys::{Key, ListedKey};
use self::length::Length;
use self::options::{FLAGS, OPTIONS, elsewhere, hint, meant};
use self::permits::Permits;
use self::rate::Rate;
use self::recovery::{hyphenated, no_comma, skip_to_comma, starts_option, without_equals};
use self::value::{OnLost, Release, TickMissed};
use crate::errors::{Errors, list};
use crate::variables::find;

/// The parsed options.
#[derive(Default)]
pub(crate) struct LockArgs {
    /// Exactly one of `key` and `keys` is set, unless there is an error.
    pub(crate) key: Option<Key>,
    pub(crate) keys: Option<Vec<ListedKey>>,
    /// The word itself, for its span.
    pub(crate) constant_key: Option<Ident>,
    /// The word itself, for its span.
    pub(crate) shared: Option<Ident>,
    pub(crate) permits: Option<Permits>,
    pub(crate) take: Option<Permits>,
    pub(crate) rate: Option<Rate>,
    pub(crate) ttl: Option<Length>,
    pub(crate) wait: Option<Length>,
    pub(crate) renew: Option<bool>,
    pub(crate) max_hold: Option<Length>,
    pub(crate) min_hold: Option<Length>,
    pub(crate) tick: Option<Length>,
    pub(crate) tick_at: Option<Expr>,
    pub(crate) tick_missed: Option<TickMissed>,
    pub(crate) on_lost: Option<OnLost>,
    pub(crate) release: Option<Release>,
    pub(crate) reentrant: Option<bool>,
    pub(crate) guard: Option<Ident>,
    pub(crate) ticket: Option<Ident>,
    pub(crate) once: Option<Once>,
    pub(crate) manager: Option<Expr>,
    pub(crate) on_busy: Option<Expr>,
    pub(crate) on_error: Option<Expr>,
    pub(crate) krate: Option<Path>,
}

impl LockArgs {
    /// The options that could be parsed. After an error they only serve to find more errors.
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
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

    pub(crate) fn all_keys(&self) -> impl Iterator<Item = &Key> {
        self.key.iter().chain(self.keys.iter().flatten().map(|listed| &listed.key))
    }

    /// The keys, and the request that the key stands for.
    pub(crate) fn all_names(&self) -> impl Iterator<Item = &Key> {
        self.all_keys().chain(self.once.as_ref().and_then(|once| once.fingerprint.as_ref()))
    }

    /// `release_in_background`.
    pub(crate) fn is_released_in_background(&self) -> bool {
        self.release.as_ref().is_some_and(|release| release.in_background)
    }

    /// `spawn`.
    pub(crate) fn spawn(&self) -> Option<&Ident> {
        self.once.as_ref()?.spawn.as_ref()
    }

    /// The name that the body sees its lock under.
    pub(crate) fn binding(&self) -> Option<&Ident> {
        self.ticket.as_ref().or(self.guard.as_ref())
    }

    /// The durations, the numbers of permits, the rate, and the time of a tick, that are expressions.
    pub(crate) fn amounts(&self) -> impl Iterator<Item = &Expr> {
        let once = self.once.as_ref().map_or(&None, |once| &once.lasts);
        let lengths = [&self.ttl, &self.wait, &self.max_hold, &self.min_hold, &self.tick, once];
        let lengths = lengths.into_iter().filter_map(|length| match length {
            Some(Length::Expr(expr)) => Some(&**expr),
            _ => None,
        });
        let of_keys = self.keys.iter().flatten().flat_map(|listed| listed.kind.amounts());
        let permits = [&self.permits, &self.take].into_iter().flatten().chain(of_keys);
        let permits = permits.filter_map(Permits::expression);
        let rate = self.rate.as_ref().and_then(Rate::expression);
        lengths.chain(permits).chain(rate).chain(&self.tick_at)
    }

    /// The expressions that are evaluated before the lock is taken.
    pub(crate) fn settings(&self) -> Vec<TokenStream> {
        let keys = self.all_names().filter_map(|key| match key {
            Key::Expr(expr) => Some(&**expr),
            Key::Template(_) | Key::Broken => None,
        });
        keys.chain(self.amounts()).chain(&self.manager).map(ToTokens::to_token_stream).collect()
    }

    /// True if an expression that is evaluated before the lock is taken belongs into the function
    /// itself, and not into a closure in it: one with a `?`, an `.await` or a `return`, and one
    /// that takes an argument, of which rustc tells more there.
    pub(crate) fn needs_the_function(&self) -> bool {
        fn leaves(tokens: TokenStream) -> bool {
            tokens.into_iter().any(|token| match token {
                TokenTree::Ident(word) => word == "await" || word == "return",
                TokenTree::Punct(mark) => mark.as_char() == '?',
                TokenTree::Group(group) => leaves(group.stream()),
                TokenTree::Literal(_) => false,
            })
        }
        let takes = |tokens: &TokenStream| find(tokens, &|variable| variable.is_taken()).is_some();
        self.settings().into_iter().any(|tokens| takes(&tokens) || leaves(tokens))
    }

    /// True if a template names the argument.
    pub(crate) fn names(&self, argument: &str) -> bool {
        self.all_names().any(|key| {
            matches!(key, Key::Template(template) if template.values().any(|value| value.root() == argument))
        })
    }

    fn flag(&mut self, name: Ident, value: bool) {
        if name == "constant_key" {
            self.constant_key = value.then_some(name);
        } else if name == "shared" {
            self.shared = value.then_some(name);
        } else if name == "spawn" {
            let once = self.once.get_or_insert_default();
            once.words.push(name.clone());
            once.spawn = value.then_some(name);
        } else if name == "release_in_background" {
            self.release = Some(Release { name, in_background: value });
        } else {
            self.reentrant = Some(value);
        }
    }
}

/// The options of a body that runs once. At least one of them is given.
#[derive(Default)]
pub(crate) struct Once {
    /// The words themselves, for their spans.
    pub(crate) words: Vec<Ident>,
    pub(crate) lasts: Option<Length>,
    pub(crate) fingerprint: Option<Key>,
    /// The words of the runtime.
    pub(crate) interrupted: Option<&'static str>,
    pub(crate) undecodable: Option<&'static str>,
    /// The word itself, for its span.
    pub(crate) spawn: Option<Ident>,
}

/// The options seen so far.
#[derive(Default)]
struct Draft {
    args: LockArgs,
    seen: Vec<String>,
    /// What was meant with `constant_key`, or is missing in the key, is not known.
    constant_key_is_broken: bool,
    /// A word is given that belongs into the key.
    key_is_meant: bool,
}

impl Draft {
    /// One `name = value`, or a flag.
    fn option(&mut self, input: ParseStream, errors: &mut Errors) -> Result<()> {
        if input.peek(LitStr) {
            let is_more = self.seen.iter().any(|name| other_key(name).is_some());
            // Counts as given, so that `key` is not reported as missing too.
            self.seen.push("key".to_owned());
            let advice =
                if is_more { "several keys are `keys = [..., ...]`" } else { "write `key = \"...\"`" };
            return Err(input.error(format!("expected an option, found a string: {advice}")));
        }
        if input.peek(Token![,]) {
            return Err(input.error("expected an option, found `,`: remove it"));
        }
        if !input.peek(Ident::peek_any) {
            return Err(input.error("expected an option such as `key = \"order:{id}\"`"));
        }
        let name = input.call(Ident::parse_any)?;
        let text = name.to_string();
        if !OPTIONS.contains(&text.as_str()) {
            let (words, text) = hyphenated(&name, input)?;
            let is_alone = input.is_empty() || input.peek(Token![,]);
            return Err(self.unknown(&words, &text, is_alone));
        }
        if self.seen.contains(&text) {
            errors.at(&name, format!("`{text}` is given twice: remove one"));
        } else if other_key(&text).is_some_and(|other| self.seen.iter().any(|seen| seen == other)) {
            errors.at(&name, "`key` and `keys` cannot both be given: put every key into `keys = [...]`");
        }
        self.seen.push(text.clone());

        let args = &mut self.args;
        // Until its value is parsed: a bad value is not reported as a missing `constant_key` too.
        self.constant_key_is_broken |= text == "constant_key";
        if FLAGS.contains(&text.as_str())
            && (input.is_empty() || input.peek(Token![,]) || starts_option(input))
        {
            self.constant_key_is_broken &= text != "constant_key";
            args.flag(name, true);
            return Ok(());
        }
        let hint = hint(&text);
        if !input.peek(Token![=]) || input.peek(Token![==]) || input.peek(Token![=>]) {
            return Err(match without_equals(&name, input) {
                Some(error) => error,
                None if text == "renew" => Error::new_spanned(name, RENEW),
                None => Error::new_spanned(name, format!("expected `{hint}`")),
            });
        }
        let eq: Token![=] = input.parse()?;
        if input.is_empty() && text == "renew" {
            return Err(Error::new_spanned(eq, RENEW));
        }
        if input.is_empty() || input.peek(Token![,]) {
            return Err(Error::new_spanned(eq, format!("expected a value, such as `{hint}`")));
        }
        if text == "crate" {
            args.krate = Some(value::crate_path(input)?);
            return Ok(());
        }
        if text == "keys"
            && let Some(keys) = keys::keys_of_kinds(input, errors)
        {
            args.keys = Some(keys);
            return Ok(());
        }
        let of_one_key = if text == "key" { keys::kind_of_one_key(input) } else { None };
        if let Some(error) = of_one_key.or_else(|| recovery::mistake(&text, input)) {
            return Err(error);
        }
        let value = recovery::value(input, hint)?;
        match text.as_str() {
            "key" => args.key = keys::key(value, errors),
            "keys" => args.keys = keys::keys(value, errors),
            "ttl" => args.ttl = errors.keep(length::length(value, "ttl")),
            "wait" => args.wait = errors.keep(length::length(value, "wait")),
            "renew" => args.renew = errors.keep(value::boolean(&value, "renew")),
            "max_hold" => args.max_hold = errors.keep(length::length(value, "max_hold")),
            "min_hold" => args.min_hold = errors.keep(length::length(value, "min_hold")),
            "tick" => args.tick = errors.keep(length::length(value, "tick")),
            "tick_at" => args.tick_at = errors.keep(value::time(value, hint)),
            "tick_missed" => {
                args.tick_missed = Some(TickMissed { name, value: errors.keep(value::when_missed(&value)) });
            }
            "on_lost" => {
                args.on_lost = Some(OnLost { name, value: errors.keep(value::when_lost(&value)) });
            }
            "once" | "once_fingerprint" | "on_interrupted" | "on_undecodable" => {
                once(args, name, value, errors);
            }
            "permits" => args.permits = errors.keep(permits::permits(value, &text)),
            "take" => args.take = errors.keep(permits::permits(value, &text)),
            "rate" => args.rate = errors.keep(rate::rate(value)),
            "constant_key" | "shared" | "release_in_background" | "reentrant" | "spawn" => {
                if let Some(value) = errors.keep(value::boolean(&value, &text)) {
                    self.constant_key_is_broken &= text != "constant_key";
                    args.flag(name, value);
                }
            }
            "guard" => args.guard = errors.keep(value::binding(&value, "guard")),
            "ticket" => args.ticket = errors.keep(value::binding(&value, "ticket")),
            "manager" => args.manager = errors.keep(value::manager(value, hint)),
            "on_error" => args.on_error = errors.keep(value::handler(value, hint)),
            _ => args.on_busy = Some(value),
        }
        Ok(())
    }

    /// The comma after an option. The options after a missing comma are still parsed.
    fn comma(input: ParseStream, errors: &mut Errors) {
        if input.is_empty() || input.parse::<Token![,]>().is_ok() {
            return;
        }
        if starts_option(input) {
            errors.push(input.error("expected `,` before this option"));
            return;
        }
        errors.push(no_comma(input));
        skip_to_comma(input);
        let _ = input.parse::<Token![,]>();
    }

    fn unknown(&mut self, words: &TokenStream, text: &str, is_alone: bool) -> Error {
        let message = if let Some(advice) = elsewhere(text) {
            format!("`{text}` is no option: {advice}")
        } else if let Some(option) = meant(text) {
            // Counts as given, so that `kye` is not reported as a missing `key` too.
            self.seen.push(option.to_owned());
            self.constant_key_is_broken |= option == "constant_key";
            format!("unknown option `{text}`, did you mean `{option}`?")
        } else if is_alone {
            self.key_is_meant = true;
            self.constant_key_is_broken = true;
            format!(
                "`{text}` is no option: an argument goes into the template of the key, as in `key = \"...:{{{text}}}\"`"
            )
        } else {
            format!("unknown option `{text}`, expected {}", list(OPTIONS, "or"))
        };
        Error::new_spanned(words, message)
    }

    fn finish(mut self, errors: &mut Errors) -> LockArgs {
        if !self.key_is_meant && !self.seen.iter().any(|name| other_key(name).is_some()) {
            errors.push(Error::new(
                Span::call_site(),
                "missing `key`, the name of what is locked: write `#[distributed_lock(key = \"order:{id}\")]`",
            ));
        }
        if self.constant_key_is_broken {
            // A key that is the same for every call, or is not, is no second mistake.
            self.args
                .key
                .iter_mut()
                .chain(self.args.keys.iter_mut().flatten().map(|listed| &mut listed.key))
                .for_each(|key| *key = Key::Broken);
        }
        self.args
    }
}

/// One of the options of a body that runs once.
fn once(args: &mut LockArgs, name: Ident, value: Expr, errors: &mut Errors) {
    let text = name.to_string();
    let once = args.once.get_or_insert_default();
    once.words.push(name);
    let word = |reruns| if reruns { "Rerun" } else { "Error" };
    match text.as_str() {
        "once" => once.lasts = errors.keep(length::length(value, "once")),
        "once_fingerprint" => once.fingerprint = keys::request(value, errors),
        "on_interrupted" => once.interrupted = errors.keep(value::reruns(&value, &text)).map(word),
        _ => once.undecodable = errors.keep(value::reruns(&value, &text)).map(word),
    }
}

/// `renew` alone is refused: it is the default, so its writer may have meant the opposite.
const RENEW: &str =
    "the lock is renewed by default: remove `renew`, or write `renew = false` to turn that off";

/// `key` and `keys` exclude each other, and one of them is required.
fn other_key(option: &str) -> Option<&'static str> {
    match option {
        "key" => Some("keys"),
        "keys" => Some("key"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use quote::ToTokens as _;

    use super::keys::KeyKind;
    use super::{Errors, Key, Length, ListedKey, LockArgs, Permits};

    /// The arguments and each error.
    fn parse(text: &str) -> (LockArgs, Vec<String>) {
        let mut errors = Errors::default();
        let args = LockArgs::parse(text.parse().unwrap_or_default(), &mut errors);
        let errors =
            errors.finish().map(|errors| errors.into_iter().map(|error| error.to_string()).collect());
        (args, errors.unwrap_or_default())
    }

    #[test]
    fn every_option() {
        let (args, errors) = parse(
            "key = \"a:{b}\", constant_key, shared, permits = a.limit, ttl = \"1m 30s\", wait = limit, renew = true, max_hold = \"50s\", \
             min_hold = a.b, tick = \"1h\", tick_at = at, tick_missed = \"retry\", on_lost = \"finish\", reentrant, guard = lock, ticket = held, manager = self.locks(), on_busy = Ok(vec![1, 2]), \
             on_error = |a: LockError| -> B { b(a, c) }, crate = ::a::b,",
        );
        assert!(errors.is_empty(), "{errors:?}");
        assert!(matches!(args.key, Some(Key::Template(template)) if template.text() == "a:{b}"));
        assert!(args.constant_key.is_some() && args.shared.is_some());
        assert!(args.permits.is_some_and(|permits| permits.expression().is_some()));
        assert!(matches!(args.ttl, Some(Length::Millis(90_000, _))));
        assert!(matches!(args.wait, Some(Length::Expr(_))));
        assert_eq!(args.renew, Some(true));
        assert!(matches!(args.max_hold, Some(Length::Millis(50_000, _))));
        assert!(matches!(args.min_hold, Some(Length::Expr(_))));
        assert!(matches!(args.tick, Some(Length::Millis(3_600_000, _))) && args.tick_at.is_some());
        let missed = args.tick_missed.and_then(|missed| missed.value);
        assert_eq!(missed, Some(super::value::WhenMissed::Retry));
        assert_eq!(args.on_lost.and_then(|on_lost| on_lost.value), Some(super::value::WhenLost::Finish));
        assert_eq!(args.reentrant, Some(true));
        assert_eq!(args.guard.map(|guard| guard.to_string()).as_deref(), Some("lock"));
        assert_eq!(args.ticket.map(|ticket| ticket.to_string()).as_deref(), Some("held"));
        for (value, expected) in [
            (args.manager, "self . locks ()"),
            (args.on_busy, "Ok (vec ! [1 , 2])"),
            (args.on_error, "| a : LockError | -> B { b (a , c) }"),
        ] {
            assert_eq!(value.map(|value| value.to_token_stream().to_string()).as_deref(), Some(expected));
        }
        assert!(args.krate.is_some());
        assert!(matches!(parse("key = a, wait = \"forever\"").0.wait, Some(Length::Forever)));
    }

    #[test]
    fn expressions() {
        for key in ["name", "NAME", "format!(\"{}\", a)", "a.b(c)", "&a", "if a { \"b\" } else { \"c\" }"] {
            let (args, errors) = parse(&format!("key = {key}, ttl = config.ttl, wait = secs(5)"));
            assert!(errors.is_empty(), "{key}: {errors:?}");
            let args = (args.key, args.ttl, args.wait);
            assert!(
                matches!(args, (Some(Key::Expr(_)), Some(Length::Expr(_)), Some(Length::Expr(_)))),
                "{key}"
            );
        }
    }

    #[test]
    fn a_list_of_keys() {
        for (text, length) in [
            ("[\"a:{b}\"]", 1),
            ("[\"a:{b}\", \"a:{c}\"]", 2),
            ("[\"a\", NAME, format!(\"{}\", a), a.b(c),]", 4),
            ("[a, a]", 2),
        ] {
            let (args, errors) = parse(&format!("keys = {text}, wait = \"1s\""));
            assert!(errors.is_empty(), "{text}: {errors:?}");
            assert!(args.key.is_none());
            assert_eq!(args.keys.map(|keys| keys.len()), Some(length), "{text}");
        }
    }

    #[test]
    fn a_list_of_keys_of_several_kinds() {
        let shown = |permits: &Permits| match permits {
            Permits::Number(number, _) => number.to_string(),
            Permits::Expr(expr) => expr.to_token_stream().to_string(),
        };
        let kind = |listed: &ListedKey| match &listed.kind {
            KeyKind::Exclusive => "exclusive".to_owned(),
            KeyKind::Shared => "shared".to_owned(),
            KeyKind::Permits { permits, take: None } => shown(permits),
            KeyKind::Permits { permits, take: Some(take) } => {
                format!("{} of {}", shown(take), shown(permits))
            }
        };
        for (text, kinds) in [
            ("[shared \"a:{b}\"]", vec!["shared"]),
            ("[shared \"a:{b}\", \"a:{c}\",]", vec!["shared", "exclusive"]),
            ("[permits(5) \"a\", shared name, shared format!(\"{}\", a)]", vec!["5", "shared", "shared"]),
            ("[permits({ limit }) self.key, permits(a.b, take = 3,) \"b\"]", vec!["limit", "3 of a . b"]),
            ("[permits(1,) \"a\", if a { b } else { c }]", vec!["1", "exclusive"]),
            ("[shared r#name, f::<A, B>(c)]", vec!["shared", "exclusive"]),
            // Not words, but keys.
            ("[shared, permits]", vec!["exclusive", "exclusive"]),
            ("[shared(a), permits(b), shared.a, shared::A, shared!(\"a\")]", vec!["exclusive"; 5]),
            ("[shared \"a\", shared]", vec!["shared", "exclusive"]),
        ] {
            let (args, errors) = parse(&format!("keys = {text}, wait = \"1s\""));
            assert!(errors.is_empty(), "{text}: {errors:?}");
            let found = args.keys.iter().flatten().map(kind).collect::<Vec<_>>();
            assert_eq!(found, kinds, "{text}");
            assert!(args.wait.is_some(), "{text}");
        }
    }

    #[test]
    fn mistakes_in_the_kind_of_a_key() {
        for (text, hints) in [
            ("[read \"a\", \"b\"]", vec!["unknown kind of a key `read`, did you mean `shared`?"]),
            ("[semaphore(5) \"a\"]", vec!["unknown kind of a key `semaphore`, did you mean `permits(5)`?"]),
            ("[exclusive \"a\"]", vec!["a key without a word is exclusive: remove `exclusive`"]),
            ("[shared \"a\", write \"b\"]", vec!["a key without a word is exclusive: remove `write`"]),
            ("[permits \"a\"]", vec!["write `permits(5) \"...\"`"]),
            ("[permits() \"a\"]", vec!["say how many may hold the key together: write `permits(5)`"]),
            ("[shared(5) \"a\"]", vec!["`shared` has no number"]),
            ("[permits(0) \"a\"]", vec!["`permits(0)` lets nobody in: give at least 1"]),
            ("[permits(10001) \"a\"]", vec!["`permits(10001)` is too many: the most is 10000"]),
            ("[permits(\"5\") \"a\"]", vec!["a number has no quotes: write `permits(5)`"]),
            ("[permits(5, take = 0) \"a\"]", vec!["`take = 0` is no permit: give at least 1"]),
            ("[permits(5, 2) \"a\"]", vec!["expected `take = 2`"]),
            ("[permits(5, taken = 2) \"a\"]", vec!["expected `take = 2`"]),
            ("[shared \"a\" \"b\"]", vec!["a comma is missing before this key"]),
            ("[shared \"a\" shared \"b\", \"c\"]", vec!["a comma is missing before this key"]),
            ("[shared \"a\", b c]", vec!["a comma is missing before this key"]),
            ("[shared \"a:{b}\", \"a:{b}\"]", vec!["`a:{b}` is in the list twice"]),
            (
                "[shared 5, permits(0) \"a\", [\"b\"]]",
                vec!["found an integer", "lets nobody in", "found a list"],
            ),
            ("[shared \"a:{}\"], ttl = 1", vec!["names no argument", "found an integer"]),
            ("[shared(\"a\"), \"b\"]", vec!["a kind stands in front of its key: write `shared \"a\"`"]),
            ("[shared \"a\"] ttl = 1", vec!["before this option", "found an integer"]),
        ] {
            let (_, mut errors) = parse(&format!("keys = {text}"));
            assert_eq!(errors.len(), hints.len(), "{text}: {errors:?}");
            for hint in hints {
                let found = errors.iter().position(|error| error.contains(hint));
                assert!(found.is_some(), "{text}: {errors:?}");
                errors.swap_remove(found.unwrap_or_default());
            }
        }
    }

    #[test]
    fn a_flag_needs_no_value() {
        for (text, expected) in [
            ("", None),
            ("reentrant", Some(true)),
            ("reentrant,", Some(true)),
            ("reentrant, wait = \"1s\"", Some(true)),
            ("reentrant = true", Some(true)),
            ("reentrant = false", Some(false)),
        ] {
            let (args, errors) = parse(&format!("key = \"a\", {text}"));
            assert!(errors.is_empty(), "{text}: {errors:?}");
            assert_eq!(args.reentrant, expected, "{text}");
            let text = text.replace("reentrant", "constant_key");
            let (args, errors) = parse(&format!("key = \"a\", {text}"));
            assert!(errors.is_empty(), "{text}: {errors:?}");
            assert_eq!(args.constant_key.is_some(), expected == Some(true), "{text}");
        }
    }

    #[test]
    fn mistakes() {
        for (text, hints) in [
            ("", vec!["missing `key`"]),
            ("ttl = \"1s\"", vec!["missing `key`"]),
            ("\"a:{b}\"", vec!["found a string: write `key"]),
            ("key = \"a:{b}\", \"a:{c}\"", vec!["several keys are `keys = [..., ...]`"]),
            ("kye = \"a\"", vec!["did you mean `key`?"]),
            ("key = \"a\", key = \"b\"", vec!["`key` is given twice"]),
            ("keys = [\"a\"], keys = [\"b\"]", vec!["`keys` is given twice"]),
            ("keys = [\"a\"], key = \"b\"", vec!["`key` and `keys` cannot both"]),
            ("key = \"a\", keys = []", vec!["`key` and `keys` cannot both", "the list is empty"]),
            ("kyes = [\"a\"]", vec!["did you mean `keys`?"]),
            ("keys", vec!["expected `keys = [\"account:{from}\", \"account:{to}\"]`"]),
            (
                "keys = [\"a:{}\", \"b:{0}\", 5]",
                vec!["names no argument", "is a position", "found an integer"],
            ),
            ("key", vec!["expected `key = "]),
            ("key =", vec!["expected a value"]),
            ("key = stock:{sku}", vec!["goes in quotes: `key = \"stock:{sku}\"`"]),
            ("key = stock:{sku}:all, ttl = 1", vec!["`key = \"stock:{sku}:all\"`", "found an integer"]),
            ("key = 1.5", vec!["found a float"]),
            ("key = ,", vec!["expected a value"]),
            ("key == \"a\"", vec!["joined by `=`: write `key = \"a\"`"]),
            ("key: \"a\", wait = 1", vec!["write `key = \"a\"`", "found an integer"]),
            ("key(\"a:{b}\"), wait = 1", vec!["write `key = \"a:{b}\"`", "found an integer"]),
            ("keys(\"a\", b.c())", vec!["write `keys = [\"a\", b.c()]`"]),
            ("key =>, wait = 1", vec!["write `key = ...`", "found an integer"]),
            ("key = \"{}\" \"{0}\", wait = 1", vec!["names no argument", "expected `,`", "found an integer"]),
            (
                "key = \"a\" ttl = \"1\" wait = 1",
                vec!["before this option", "no unit", "before this option", "integer"],
            ),
            ("key = \"a\" reentrant wait = 1", vec!["before this option", "before this option", "integer"]),
            ("key = a reentrant", vec!["before this option"]),
            ("key = \"a\" rentrant", vec!["expected `,`"]),
            ("key = \"a\", reentrant, reentrant = false", vec!["`reentrant` is given twice"]),
            ("key = \"a\", reentrant = , wait = 1", vec!["such as `reentrant = true`", "integer"]),
            ("1, key = \"a\"", vec!["expected an option such as"]),
            (", key = \"a\"", vec!["found `,`"]),
            ("key = \"a\",, ttl = 1", vec!["found `,`", "found an integer"]),
            ("redlocked::key = \"a\"", vec!["unknown option `redlocked`", "missing `key`"]),
            ("key = \"a\", r#ttl = \"1s\"", vec!["unknown option `r#ttl`, did you mean `ttl`?"]),
            ("key => \"a\"", vec!["write `key = \"a\"`"]),
            ("key = \"s:{}\", sku", vec!["a template takes no arguments: write `key = \"s:{sku}\"`"]),
            (
                "key = \"s:{:04}:{}\", order.id, f(x), ttl = \"1s\"",
                vec![
                    "a template takes no arguments: write `key = redlocked::key!(\"s:{:04}:{}\", order.id, f(x))`",
                ],
            ),
            ("key = \"s:{}\", a, b", vec!["write `key = redlocked::key!(\"s:{}\", a, b)`"]),
            ("key = \"s:{0}\", constant_key", vec!["is a position"]),
            ("key = \"s:{a:>4}\", a = b.c", vec!["write `key = redlocked::key!(\"s:{a:>4}\", a = b.c)`"]),
            ("key = \"s:{a}\", a", vec!["`a` is no option: an argument goes into the template of the key"]),
            (
                "sku",
                vec![
                    "`sku` is no option: an argument goes into the template of the key, as in `key = \"...:{sku}\"`",
                ],
            ),
            ("prefix = \"shop\", key = \"a\"", vec!["`LockManager::builder(url).prefix(\"shop:\")`"]),
            ("key = \"s:{wait}\", wait = 1", vec!["found an integer"]),
            ("key = \"u:{user[\"id\"]}\"", vec!["write `key = redlocked::key!(\"u:{}\", user[\"id\"])`"]),
            (
                "key = \"u:{a}:{user.get(\"id\", \"bc\")}-{b[\"d\"]}.\", ttl = 1",
                vec![
                    "write `key = redlocked::key!(\"u:{a}:{}-{}.\", user.get(\"id\", \"bc\"), b[\"d\"])`",
                    "found an integer",
                ],
            ),
            (
                "key = \"u:{user[\" id \"]}\", ttl = 1",
                vec!["write `key = redlocked::key!(\"u:{}\", user[\"id\"])`", "found an integer"],
            ),
            ("key = shared \"a\", ttl = 1", vec!["write `key = \"a\", shared`", "found an integer"]),
            ("key = permits(5) \"a\"", vec!["write `key = \"a\", permits = 5`"]),
            ("key = exclusive \"a\"", vec!["write `key = \"a\"`"]),
            ("keys = [\"a:{a}\" \"b:{b}\"]", vec!["a comma is missing before this key"]),
            ("keys = [\"a:{a}\" name, f(x)]", vec!["a comma is missing before this key"]),
            ("keys = [a b], ttl = 1", vec!["a comma is missing before this key", "found an integer"]),
        ] {
            let (_, errors) = parse(text);
            assert_eq!(errors.len(), hints.len(), "{text}: {errors:?}");
            for (error, hint) in errors.iter().zip(hints) {
                assert!(error.contains(hint), "{text}: {error}");
            }
        }
    }

    #[test]
    fn mistakes_beside_a_key() {
        let given = "key = \"a\", ";
        for (text, hint) in [
            ("ttl = '1'", "found a character"),
            ("ttl = b\"1s\"", "found a byte string"),
            ("ttl = c\"1s\"", "found a C string"),
            ("ttl = -1", "found an integer"),
            ("ttl = \"9ms\"", "the minimum is `10ms`"),
            ("ttl = \"forever\"", "cannot be forever"),
            ("wait = \"Forever\"", "is not a duration"),
            ("renew = yes", "expected `renew = true` or `renew = false`"),
            ("max_hold = \"9ms\"", "`max_hold = \"9ms\"` is too short: the minimum is `10ms`"),
            ("max_hold = \"0s\"", "leave it out for no limit"),
            ("max_hold = \"forever\"", "leave it out"),
            ("max_hold = 60", "such as `max_hold = \"1m\"`, found an integer"),
            ("min_hold = \"forever\"", "the lock would never be free again"),
            ("min_hold = \"5 minutes\"", "write `\"5m\"`"),
            ("min_hold = 1.5", "such as `min_hold = \"5m\"`, found a float"),
            ("on_lost = \"finnish\"", "did you mean `\"finish\"`?"),
            ("on_lost = \"explode\"", "expected `\"cancel\"`, `\"finish\"` or `\"error\"`"),
            ("on_lost", "expected `on_lost = \"finish\"`"),
            ("shared = 5", "expected `shared = true` or `shared = false`"),
            ("permits", "expected `permits = 5`"),
            ("permits = 0", "`permits = 0` lets nobody in"),
            ("permits = 10001", "the most is 10000"),
            ("permits = 99999999999", "the most is 10000"),
            ("permits = -3", "`permits = -3` lets nobody in"),
            ("take = 0", "`take = 0` is no permit: give at least 1"),
            ("take = 10001", "`take = 10001` is too many: the most is 10000"),
            ("take = \"2\"", "a number has no quotes: write `take = 2`"),
            ("weight = 2", "did you mean `take`?"),
            ("permits = { 0 }", "lets nobody in"),
            ("permits = \"5\"", "a number has no quotes: write `permits = 5`"),
            ("permits = \"many\"", "expected a number such as `permits = 5`, found a string"),
            ("permits = 1.5", "found a float"),
            ("max_concurrency = 5", "did you mean `permits`?"),
            ("rw_lock", "did you mean `shared`?"),
            ("reentrant = yes", "expected `reentrant = true` or `reentrant = false`"),
            ("reentrant(true)", "write `reentrant = true`"),
            ("constant_key = 5", "expected `constant_key = true` or `constant_key = false`"),
            ("manager = &LockManager::connect(url)?", "`connect` is `async`: write `.await` behind it"),
            ("manager = a; ttl", "expected `,` before the next option, found `;`"),
            ("constant_key = \"yes\"", "expected `constant_key = true` or `constant_key = false`"),
            ("constant_ky", "did you mean `constant_key`?"),
            ("lock_at_least_for = \"1m\"", "did you mean `min_hold`?"),
            ("guard = lock: LockGuard", "leave its type out: write `guard = lock`"),
            ("guard = held: &LockGuard<'_>", "write `guard = held`"),
            ("on-busy = Ok(1)", "unknown option `on-busy`, did you mean `on_busy`?"),
            ("max-hold = \"1m\"", "did you mean `max_hold`?"),
            ("skip-if-locked", "did you mean `on_busy`?"),
            ("TTL = \"1s\"", "did you mean `ttl`?"),
            ("ttl_ms = 500", "did you mean `ttl`?"),
            ("manager = LockManager::connect(url)", "`connect` is `async`: write `.await` behind it"),
            (
                "manager = LockManager::builder().connect(url)",
                "`connect` is `async`: write `.await` behind it",
            ),
            ("manager = self.", "the value is incomplete"),
            ("manager = a b", "expected `,`"),
            ("manager = (a b)", "expected a value such as `manager = self.locks`"),
            ("manager = @ x", "expected a value such as `manager = self.locks`"),
            ("guard = mut lock", "not mutable: write `guard = lock`"),
            ("renew", "remove `renew`, or write `renew = false`"),
            ("renew =", "remove `renew`, or write `renew = false`"),
            ("ttl = 10s", "goes in quotes: `\"10s\"`"),
            ("ttl = 500ms", "goes in quotes: `\"500ms\"`"),
            ("wait = 1m30s", "goes in quotes: `\"1m30s\"`"),
            ("wait = 30min", "write `\"30m\"`"),
            ("ttl = 1m 30s", "a duration goes in quotes: `\"1m 30s\"`"),
            ("ttl = 1h 30m 5s,", "a duration goes in quotes: `\"1h 30m 5s\"`"),
            ("wait = 10 s", "`10 s` has a space before its unit: write `\"10s\"`"),
            ("min_hold = 5 minutes", "write `\"5m\"`"),
            ("max_hold = 30s 1m", "out of order: write `\"1m 30s\"`"),
            ("wait = forever", "goes in quotes: `wait = \"forever\"`"),
            ("wait = \"infinite\"", "write `\"forever\"`"),
            ("wait = \"none\"", "leave `wait` out"),
            ("manager = self.", "the value is incomplete: expected one such as `manager = self.locks`"),
            ("ttl = Duration::", "the value is incomplete"),
            ("guard = a::b", "expected a name for the guard"),
            ("guard = _", "expected a name for the guard"),
            ("crate = \"a\"", "found a string"),
            ("manager = 1", "found an integer"),
            ("on_error = true", "found a boolean"),
            ("on_error = Ok(1)", "`on_error` is called with the error: write `on_error = |_| Ok(1)`"),
            ("on_error = return Ok(1)", "write `on_error = |_| Ok(1)`"),
            ("on_error = None", "write `on_error = |_| None`"),
            ("on_error = ()", "write `on_error = |_| ()`"),
            ("on_error = panic!(\"{}\", 1)", "write `on_error = |_| panic!(\"{}\", 1)`"),
            ("wait = None", "leave `wait` out for one try, or write `\"forever\"` for no limit"),
            ("ttl = None", "leave `ttl` out for its default"),
            ("max_hold = Option::None", "leave `max_hold` out for its default"),
            ("min_hold = Some(pause)", "a duration is given without `Some`: write `min_hold = pause`"),
            ("url = \"redis://localhost\"", "did you mean `manager`?"),
        ] {
            let (_, errors) = parse(&format!("{given}{text}"));
            assert_eq!(errors.len(), 1, "{text}: {errors:?}");
            assert!(errors[0].contains(hint), "{text}: {errors:?}");
        }
    }

    #[test]
    fn mistakes_in_a_rate() {
        for (text, message) in [
            ("rate = \"5\"", "a number of starts, `/` and a time: write `rate = \"5/1m\"`"),
            ("rate = 5", "expected a rate such as `rate = \"5/1m\"`, found an integer"),
            ("rate = \"0/1m\"", "lets nobody start: give at least 1"),
            ("rate = \"10001/1m\"", "the most is 10000 starts"),
            ("rate = \"99999999999999999999/1m\"", "the most is 10000 starts"),
            ("rate = \"many/1m\"", "`many` is no number of starts"),
            ("rate = \"/1m\"", "`` is no number of starts"),
            ("rate = \"5/m\"", "write `rate = \"5/1m\"`"),
            ("rate = \"5/1min\"", "write `\"1m\"`"),
            ("rate = \"5/9ms\"", "too short: the minimum is `10ms`"),
            ("rate = \"{limit}/1m\"", "a rate is no template"),
            ("throttle = \"5/1m\"", "did you mean `rate`?"),
        ] {
            let (_, errors) = parse(&format!("key = \"a\", {text}"));
            assert!(errors.len() == 1 && errors[0].contains(message), "{text}: {errors:?}");
        }
    }
}
