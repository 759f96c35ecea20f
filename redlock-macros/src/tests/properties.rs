//! The invariants of templates, durations, keys and attributes, on random ones.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use proptest::sample::{Index, select};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Expr, Ident, LitStr, Token, parse_quote};

use crate::attribute::LockArgs;
use crate::attribute::duration;
use crate::errors::Errors;
use crate::function::scope::Scope;
use crate::key::template::{self, Piece, Template};
use crate::{invariants, key};

fn scope() -> Scope {
    Scope::of(&parse_quote!(fn f(&self, größe: A, r#type: B, a_b: C, a: D)))
}

/// A part of a valid template: text before its braces are doubled, or a path with a format spec.
#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Value(Vec<&'static str>, &'static str),
}

fn part() -> impl Strategy<Value = Part> {
    let roots = select(vec!["self", "größe", "type", "a_b", "a"]);
    let fields = select(vec!["b", "b_c", "0", "type"]);
    let specs = select(vec!["", ":?", ":04", ":>+8.3e", "::^9", ":*<3"]);
    prop_oneof![
        "[a-z:{}%é. ]{1,8}".prop_map(Part::Text),
        (roots, vec(fields, 0..3), specs)
            .prop_map(|(root, fields, spec)| Part::Value([vec![root], fields].concat(), spec)),
    ]
}

/// The parts with a colon after each, so that the values are kept apart.
fn apart(parts: &[Part]) -> Vec<Part> {
    parts.iter().flat_map(|part| [part.clone(), Part::Text(":".to_owned())]).collect()
}

/// The template as a user writes it.
fn written(parts: &[Part]) -> String {
    let text = |part: &Part| match part {
        Part::Text(text) => text.replace('{', "{{").replace('}', "}}"),
        Part::Value(path, spec) => format!("{{{}{spec}}}", path.join(".")),
    };
    parts.iter().map(text).collect()
}

/// The format string, with each name replaced by the path that its argument stands for.
fn said(render: TokenStream) -> String {
    let last_group = |tokens: TokenStream| {
        let groups = tokens
            .into_iter()
            .filter_map(|token| if let TokenTree::Group(it) = token { Some(it) } else { None });
        groups.last()
    };
    let tokens: Vec<TokenTree> = render.clone().into_iter().collect();
    let render = match tokens.as_slice() {
        // Beside the checks of what has a `Display`.
        [TokenTree::Group(block)] => block.stream(),
        _ => render,
    };
    let format_args = last_group(render).and_then(|render| last_group(render.stream()));
    let Some(inside) = format_args else { return String::new() };
    let plain = |tokens: String| tokens.replace([' ', '&'], "").replace("r#", "");
    let parser = |input: ParseStream| {
        let lit: LitStr = input.parse()?;
        let mut arguments = Vec::new();
        while !input.is_empty() {
            let _: Token![,] = input.parse()?;
            let name = input.call(Ident::parse_any)?.unraw().to_string();
            let _: Token![=] = input.parse()?;
            let Expr::Call(escape) = input.parse()? else { return Err(input.error("no call")) };
            let path = plain(escape.args.last().to_token_stream().to_string());
            let checked = path.split_once('(').filter(|_| path.starts_with("*__printed"));
            let path = checked.map_or(path.as_str(), |(_, path)| path.trim_end_matches(')'));
            arguments.push((name, path.to_owned()));
        }
        let mut said = String::new();
        for piece in template::parse(&lit.value()).unwrap() {
            match piece {
                Piece::Text(text) => said.push_str(&text),
                Piece::Value(value) => {
                    let (_, path) = arguments.iter().find(|(name, _)| *name == value.name()).unwrap();
                    said.extend(["{", path, value.spec.as_str(), "}"]);
                }
            }
        }
        Ok(said)
    };
    parser.parse2(inside.stream()).unwrap()
}

/// Numbers for some of the units, from the largest to the smallest.
fn length() -> impl Strategy<Value = Vec<(u64, &'static str, &'static str)>> {
    let unit =
        |unit| (0..100_000_u64, select(vec!["", " ", "  \t"]), any::<bool>()).prop_map(move |it| (it, unit));
    let units = [unit("d"), unit("h"), unit("m"), unit("s"), unit("ms")];
    units.prop_map(|units| {
        let chosen = units.into_iter().filter(|((.., chosen), _)| *chosen);
        chosen.map(|((number, space, _), unit)| (number, unit, space)).collect()
    })
}

/// Words of attributes and functions.
const WORDS: [&str; 52] = [
    "key",
    "ttl",
    "wait",
    "guard",
    "reentrant",
    "shared",
    "permits",
    "take",
    "rate",
    "on_busy",
    "on_error",
    "crate",
    "manager",
    "self",
    "Self",
    "fn",
    "async",
    "unsafe",
    "extern",
    "const",
    "pub",
    "move",
    "impl",
    "dyn",
    "for",
    "where",
    "mut",
    "ref",
    "struct",
    "Box",
    "pin",
    "Pin",
    "Future",
    "Result",
    "Output",
    "'a",
    "\"a:{b}\"",
    "\"{a.b}\"",
    "\"10s\"",
    "1",
    "=",
    ",",
    ":",
    "::",
    ";",
    "->",
    "<",
    ">",
    "&",
    "#",
    "|",
    "!",
];

/// A token, or a group of tokens.
#[derive(Clone, Debug)]
enum Node {
    Token(TokenTree),
    Group(Delimiter, Vec<Node>),
}

impl Node {
    fn all(tokens: TokenStream) -> Vec<Self> {
        let node = |token| match token {
            TokenTree::Group(group) => Self::Group(group.delimiter(), Self::all(group.stream())),
            token => Self::Token(token),
        };
        tokens.into_iter().map(node).collect()
    }

    fn tokens(nodes: &[Self]) -> TokenStream {
        let token = |node: &Self| match node {
            Self::Token(token) => token.clone(),
            Self::Group(delimiter, nodes) => Group::new(*delimiter, Self::tokens(nodes)).into(),
        };
        nodes.iter().map(token).collect()
    }

    fn random() -> impl Strategy<Value = Vec<Self>> {
        let word = || select(WORDS.as_slice()).prop_map(|word| Self::all(word.parse().unwrap()));
        let delimiters =
            select(vec![Delimiter::Parenthesis, Delimiter::Brace, Delimiter::Bracket, Delimiter::None]);
        let tree = word().prop_recursive(4, 40, 8, move |inner| {
            let nodes = vec(inner, 0..8).prop_map(|nodes| nodes.concat());
            (delimiters.clone(), nodes).prop_map(|(delimiter, nodes)| vec![Self::Group(delimiter, nodes)])
        });
        vec(tree, 0..20).prop_map(|nodes| nodes.concat())
    }

    /// The number of lists of nodes, this one included.
    fn lists(nodes: &[Self]) -> usize {
        1 + nodes
            .iter()
            .map(|node| if let Self::Group(_, nodes) = node { Self::lists(nodes) } else { 0 })
            .sum::<usize>()
    }

    /// Changes the list with this number.
    fn change(nodes: &mut Vec<Self>, number: &mut usize, change: &Change) {
        if *number == 0 {
            change.apply(nodes);
        }
        *number = number.wrapping_sub(1);
        for node in nodes {
            if let Self::Group(_, nodes) = node {
                Self::change(nodes, number, change);
            }
        }
    }
}

/// A typo.
#[derive(Clone, Debug)]
enum Change {
    Delete(Index),
    Double(Index),
    Swap(Index, Index),
    Insert(Index, Vec<Node>),
    Unwrap(Index),
}

impl Change {
    fn random() -> impl Strategy<Value = Self> {
        let at = any::<Index>;
        prop_oneof![
            at().prop_map(Self::Delete),
            at().prop_map(Self::Double),
            (at(), at()).prop_map(|(a, b)| Self::Swap(a, b)),
            (at(), Node::random())
                .prop_map(|(at, nodes)| Self::Insert(at, nodes.into_iter().take(2).collect())),
            at().prop_map(Self::Unwrap),
        ]
    }

    fn apply(&self, nodes: &mut Vec<Node>) {
        let length = nodes.len();
        match self {
            Self::Insert(at, new) => {
                let at = at.index(length + 1);
                nodes.splice(at..at, new.iter().cloned());
            }
            _ if length == 0 => {}
            Self::Delete(at) => drop(nodes.remove(at.index(length))),
            Self::Double(at) => nodes.insert(at.index(length), nodes[at.index(length)].clone()),
            Self::Swap(a, b) => nodes.swap(a.index(length), b.index(length)),
            Self::Unwrap(at) => {
                if let Node::Group(_, inside) = nodes.remove(at.index(length)) {
                    nodes.splice(at.index(length)..at.index(length), inside);
                }
            }
        }
    }
}

/// Valid attributes, each with its function.
const RIGHT: [(&str, &str); 7] = [
    (
        "key = \"stock:{sku}\", ttl = \"10s\", wait = \"5s\"",
        "async fn purchase(sku: &str, quantity: u32) -> Result<Receipt, ShopError> { shop::buy(sku, quantity).await }",
    ),
    (
        "key = \"{self.tenant}:{name}\", wait = \"forever\", renew = false, manager = self.locks, guard = lock",
        "/// Writes.\n #[must_use] pub(crate) fn report(&mut self, name: &str) -> Result<&mut Report, Error> { #![allow(a)] self.b(name) }",
    ),
    (
        "key = \"n:{n:04}\", max_hold = \"1h\", min_hold = a / 2, reentrant, on_busy = None, on_error = |error| log(&error)",
        "unsafe extern \"C\" fn count(mut n: u32) -> Option<impl Iterator<Item = u32>> { Some(0..n) }",
    ),
    (
        "key = \"{sku}:{x}:{first}:{whole:?}:{type}\", on_lost = \"finish\", crate = crate::vendor::redlocked",
        "async fn patterns<'a, T, const N: usize>(Path(sku): Path<T>, Point { x, .. }: Point, [first, ..]: [u8; N], whole @ (_, _): (u8, u8), mut r#type: u8) -> ! where T: 'a { loop {} }",
    ),
    (
        "key = format!(\"{a}\", a = order.a()), ttl = config.ttl",
        "fn boxed(path: String) -> BoxFuture<'static, Result<(), Error>> { use a::b; Box::pin(async move { step(&path).await }) }",
    ),
    (
        "key = \"{self.tenant}:{a}\"",
        "fn f<'async_trait>(&'async_trait self, __arg1: (u32, u32)) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'async_trait>> { Box::pin(async move { if let Some(__ret) = None::<Result<(), Error>> { return __ret; } let __self = self; let (a, b) = { let __arg1 = __arg1; __arg1 }; let __ret: Result<(), Error> = { __self.book(a, b).await }; __ret }) }",
    ),
    (
        "key = \"{self.tenant}\"",
        "fn load(&self) -> Pin<Box<dyn Future<Output = R> + Send>> { async fn load(_self: &Table) -> R { _self.row().await } Box::pin(load(self)) }",
    ),
];

/// Valid arguments of `key!`, after the path of its crate.
const KEYS: [&str; 4] = [
    "::redlocked, \"stock:{}\", sku",
    "::redlocked, \"{TENANT}:{order.sku()}-{0:+05} {at}\", order.number, at = place",
    "crate::vendor::redlocked, (\"{{{a}}}:{b.c:?}\"),",
    "crate, \"{}{}\", a, b",
];

proptest! {
    #[test]
    fn a_template_says_what_is_written(parts in vec(part(), 1..6)) {
        let template = written(&apart(&parts));
        invariants::of_template(&template);
        let mut errors = Errors::default();
        let (lit, name) = (LitStr::new(&template, Span::call_site()), Ident::new("key", Span::call_site()));
        let krate = TokenStream::new();
        let tokens = Template::of(&lit, &mut errors).map(|template| {
            key::render(&template, key::Renderer { krate: &krate, key: &name }, &scope(), &mut errors)
        });
        let errors = errors.finish().map(|error| error.to_string());
        assert_eq!((errors, tokens.map(said)), (None, Some(template)));
    }

    #[test]
    fn a_duration_says_what_is_written(length in length()) {
        let parts = length.iter().flat_map(|(number, unit, space)| [number.to_string(), unit.to_string(), space.to_string()]);
        let text: String = parts.collect();
        assert_eq!(duration::parse(&text).is_ok(), !length.is_empty(), "{text:?}");
        invariants::of_duration(&text);
    }

    #[test]
    fn any_text_is_a_template_or_has_a_reason(text in ".{0,40}", braces in "[{}a.:0$ é]{0,40}") {
        invariants::of_template(&text);
        invariants::of_template(&braces);
    }

    #[test]
    fn any_text_is_a_duration_or_has_a_reason(text in ".{0,20}", near in "([0-9]{1,20}[dhms .µ-]{0,3}){0,4}") {
        invariants::of_duration(&text);
        invariants::of_duration(&near);
    }

    #[test]
    fn an_error_points_into_the_literal(key in "[{}a.:0$ é\"\n]{0,20}", ttl in "[0-9dhms .µ]{0,8}") {
        let tokens: TokenStream = format!("key = {key:?}, ttl = {ttl:?}").parse().unwrap();
        let literals = tokens.clone().into_iter().filter(|token| matches!(token, TokenTree::Literal(_)));
        let literals: Vec<_> = literals.map(|literal| literal.span().byte_range()).collect();
        let mut errors = Errors::default();
        LockArgs::parse(tokens, &mut errors);
        for error in errors.finish().into_iter().flatten() {
            let at = error.span().byte_range();
            let inside = literals.iter().any(|it| it.start <= at.start && at.end <= it.end && at.start < at.end);
            assert!(inside, "{error}: {at:?} is in none of {literals:?}");
        }
    }

    #[test]
    fn noise_is_an_error(args in Node::random(), item in Node::random()) {
        invariants::of_attribute(Node::tokens(&args), Node::tokens(&item));
    }

    #[test]
    fn what_is_nearly_right_is_a_function_or_an_error(
        (args, item) in select(RIGHT.as_slice()),
        changes in vec((any::<Index>(), any::<bool>(), Change::random()), 0..6),
    ) {
        let mut args = Node::all(args.parse().unwrap());
        let mut item = Node::all(item.parse().unwrap());
        for (list, of_item, change) in changes {
            let nodes = if of_item { &mut item } else { &mut args };
            let mut number = list.index(Node::lists(nodes));
            Node::change(nodes, &mut number, &change);
        }
        invariants::of_attribute(Node::tokens(&args), Node::tokens(&item));
    }

    #[test]
    fn a_key_is_nearly_right_or_an_error(
        tokens in select(KEYS.as_slice()),
        changes in vec((any::<Index>(), Change::random()), 0..6),
        noise in Node::random(),
    ) {
        let mut tokens = Node::all(tokens.parse().unwrap());
        for (list, change) in changes {
            let mut number = list.index(Node::lists(&tokens));
            Node::change(&mut tokens, &mut number, &change);
        }
        invariants::of_key(Node::tokens(&tokens));
        invariants::of_key(Node::tokens(&noise));
    }
}
