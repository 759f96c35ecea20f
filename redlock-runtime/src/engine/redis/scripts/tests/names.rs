//! The names in a Lua text: where each is declared, and whether it is used. Knows as much of the
//! language as the scripts use.

use std::collections::HashMap;

/// The names that a server declares.
const OF_SERVER: &[&str] = &[
    "redis", "string", "math", "table", "unpack", "tonumber", "type", "pcall", "ipairs", "pairs", "next",
    "select", "error",
];

const KEYWORDS: &[&str] = &[
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil",
    "not", "or", "repeat", "return", "then", "true", "until", "while",
];

#[derive(Clone, PartialEq, Debug)]
enum Piece {
    Name(String),
    Word(&'static str),
    /// A number or a text.
    Value,
    Symbol(String),
    /// The name of the included file, and the arguments.
    Include(String, Vec<String>),
    Function(String),
    With(Vec<String>),
    End,
}

struct Declared {
    name: String,
    is_used: bool,
    /// The include that declares it, of which one name has to be used.
    by: Option<String>,
}

/// The walk through a text.
pub(super) struct Names<'a> {
    pieces: Vec<Piece>,
    at: usize,
    scopes: Vec<Vec<Declared>>,
    includes: Option<&'a HashMap<String, String>>,
    is_include: bool,
    pub(super) problems: Vec<String>,
}

impl Names<'_> {
    /// Reads the names of a whole script.
    pub(super) fn of_script(text: &str) -> Self {
        let mut names = Names::new(text, None, false);
        names.walk();
        names
    }
}

impl<'a> Names<'a> {
    /// Reads the names of a command or an include, as it stands.
    pub(super) fn of_file(text: &str, is_include: bool, includes: &'a HashMap<String, String>) -> Self {
        let mut names = Self::new(text, Some(includes), is_include);
        names.walk();
        names
    }

    fn new(text: &str, includes: Option<&'a HashMap<String, String>>, is_include: bool) -> Self {
        Self { pieces: pieces(text), at: 0, scopes: Vec::new(), includes, is_include, problems: Vec::new() }
    }

    /// Reads what an include takes and what it declares.
    fn of_include(text: &str) -> (Vec<String>, Vec<String>) {
        let with = pieces(text).into_iter().find_map(|piece| match piece {
            Piece::With(names) => Some(names),
            _ => None,
        });
        let mut declared = Vec::new();
        let mut is_local = false;
        // Declarations at the top are not indented.
        for line in text.lines().filter(|line| line.starts_with("local ")) {
            for piece in pieces(line) {
                match piece {
                    Piece::Word("local") => is_local = true,
                    Piece::Word("function") => {}
                    Piece::Name(name) if is_local => declared.push(name),
                    Piece::Symbol(symbol) if symbol == "," => {}
                    _ => is_local = false,
                }
            }
        }
        (with.unwrap_or_default(), declared)
    }

    fn walk(&mut self) {
        self.open();
        self.block();
        self.close();
        assert_eq!(self.pieces[self.at], Piece::End, "{:?}", &self.pieces[self.at.saturating_sub(9)..]);
    }

    fn open(&mut self) {
        self.scopes.push(Vec::new());
    }

    fn close(&mut self) {
        let scope = self.scopes.pop().unwrap();
        // What an include declares is there for others, too.
        let is_top = self.scopes.is_empty() && self.is_include;
        for Declared { name, is_used, by } in &scope {
            match by {
                Some(by) => {
                    let is_one_used =
                        scope.iter().any(|other| other.by.as_ref() == Some(by) && other.is_used);
                    let problem = format!("nothing of {by} is used");
                    if !is_one_used && !self.problems.contains(&problem) {
                        self.problems.push(problem);
                    }
                }
                None if !is_used && name != "_" && !(is_top && self.is_declared_here(name)) => {
                    self.problems.push(format!("{name} is not used"));
                }
                None => {}
            }
        }
    }

    /// Not an argument of the include.
    fn is_declared_here(&self, name: &str) -> bool {
        !self
            .pieces
            .iter()
            .any(|piece| matches!(piece, Piece::With(names) if names.iter().any(|with| with == name)))
    }

    fn declare(&mut self, name: String, by: Option<String>) {
        let scope = self.scopes.last_mut().unwrap();
        if name != "_" && scope.iter().any(|other| other.name == name) {
            self.problems.push(format!("{name} is declared twice"));
        }
        scope.push(Declared { name, is_used: false, by });
    }

    fn declare_all(&mut self, names: Vec<String>) {
        for name in names {
            self.declare(name, None);
        }
    }

    fn take(&mut self, name: &str) {
        let declared = self.scopes.iter_mut().rev().flat_map(|scope| scope.iter_mut().rev());
        match declared.into_iter().find(|declared| declared.name == name) {
            Some(declared) => declared.is_used = true,
            None if OF_SERVER.contains(&name) => {}
            None if matches!(name, "KEYS" | "ARGV") && !self.is_include => {}
            None => self.problems.push(format!("{name} is not declared")),
        }
    }

    fn peek(&self) -> &Piece {
        &self.pieces[self.at]
    }

    fn next(&mut self) -> Piece {
        self.at += 1;
        self.pieces[self.at - 1].clone()
    }

    fn is_word(&self, word: &str) -> bool {
        *self.peek() == Piece::Word(KEYWORDS.iter().find(|keyword| **keyword == word).unwrap())
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek(), Piece::Symbol(next) if next == symbol)
    }

    fn skip(&mut self, text: &str) -> bool {
        let is_next = match self.peek() {
            Piece::Word(word) => *word == text,
            Piece::Symbol(symbol) => symbol == text,
            _ => false,
        };
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, text: &str) {
        assert!(
            self.skip(text),
            "{text} before {:?}",
            &self.pieces[self.at..(self.at + 9).min(self.pieces.len())]
        );
    }

    fn name(&mut self) -> String {
        match self.next() {
            Piece::Name(name) => name,
            other => panic!("a name before {other:?}"),
        }
    }

    fn names(&mut self) -> Vec<String> {
        let mut names = vec![self.name()];
        while self.skip(",") {
            names.push(self.name());
        }
        names
    }

    fn scope(&mut self) {
        self.open();
        self.block();
        self.close();
    }

    fn block(&mut self) {
        loop {
            match self.peek().clone() {
                Piece::End | Piece::Word("end" | "else" | "elseif" | "until") => return,
                _ => self.statement(),
            }
        }
    }

    fn statement(&mut self) {
        match self.next() {
            Piece::With(names) => self.declare_all(names),
            Piece::Include(name, arguments) => self.include(&name, &arguments),
            Piece::Function(name) => self.declare(name, None),
            Piece::Word("local") if self.skip("function") => {
                let name = self.name();
                self.declare(name, None);
                self.body();
            }
            Piece::Word("local") => {
                let names = self.names();
                if self.skip("=") {
                    self.expressions();
                }
                self.declare_all(names);
            }
            Piece::Word("if") => {
                loop {
                    self.expression();
                    self.expect("then");
                    self.scope();
                    if !self.skip("elseif") {
                        break;
                    }
                }
                if self.skip("else") {
                    self.scope();
                }
                self.expect("end");
            }
            Piece::Word("while") => {
                self.expression();
                self.expect("do");
                self.scope();
                self.expect("end");
            }
            Piece::Word("repeat") => {
                self.open();
                self.block();
                self.expect("until");
                self.expression();
                self.close();
            }
            Piece::Word("for") => {
                let names = self.names();
                assert!(self.skip("=") || self.skip("in"));
                self.expressions();
                self.expect("do");
                self.open();
                self.declare_all(names);
                self.block();
                self.close();
                self.expect("end");
            }
            Piece::Word("do") => {
                self.scope();
                self.expect("end");
            }
            Piece::Word("break") => {}
            Piece::Word("return") => {
                if self.is_include && self.scopes.len() == 1 {
                    self.problems.push("it returns".to_owned());
                }
                let ends = self.is_word("end") || self.is_word("else") || self.is_word("elseif");
                if !ends && *self.peek() != Piece::End {
                    self.expressions();
                }
            }
            _ => {
                self.at -= 1;
                self.suffixed();
                while self.skip(",") {
                    self.suffixed();
                }
                if self.skip("=") {
                    self.expressions();
                }
            }
        }
    }

    fn include(&mut self, name: &str, arguments: &[String]) {
        let Some(text) = self.includes.and_then(|includes| includes.get(name)) else {
            self.problems.push(format!("there is no {name}"));
            return;
        };
        let (with, declared) = Names::of_include(text);
        if with != arguments {
            self.problems.push(format!("{name} takes {with:?}"));
        }
        for argument in arguments {
            self.take(argument);
        }
        for of in declared {
            self.declare(of, Some(name.to_owned()));
        }
    }

    /// Reads the body of a function.
    fn body(&mut self) {
        self.open();
        self.expect("(");
        if !self.is_symbol(")") {
            let names = self.names();
            self.declare_all(names);
        }
        self.expect(")");
        self.block();
        self.close();
        self.expect("end");
    }

    fn expressions(&mut self) {
        self.expression();
        while self.skip(",") {
            self.expression();
        }
    }

    fn expression(&mut self) {
        const BETWEEN: &[&str] =
            &["+", "-", "*", "/", "%", "^", "..", "<", ">", "<=", ">=", "==", "~=", "and", "or"];
        while self.skip("not") || self.skip("-") || self.skip("#") {}
        match self.peek() {
            Piece::Value | Piece::Word("nil" | "true" | "false") => self.at += 1,
            Piece::Word("function") => {
                self.at += 1;
                self.body();
            }
            Piece::Symbol(symbol) if symbol == "{" => self.table(),
            _ => self.suffixed(),
        }
        if BETWEEN.iter().any(|symbol| self.skip(symbol)) {
            self.expression();
        }
    }

    fn suffixed(&mut self) {
        if self.skip("(") {
            self.expression();
            self.expect(")");
        } else {
            let name = self.name();
            self.take(&name);
        }
        loop {
            if self.skip(".") {
                self.name();
            } else if self.skip("[") {
                self.expression();
                self.expect("]");
            } else if self.skip("(") {
                if !self.is_symbol(")") {
                    self.expressions();
                }
                self.expect(")");
            } else {
                return;
            }
        }
    }

    fn table(&mut self) {
        self.expect("{");
        while !self.skip("}") {
            if self.skip("[") {
                self.expression();
                self.expect("]");
                self.expect("=");
            } else if matches!(self.pieces[self.at + 1], Piece::Symbol(ref next) if next == "=") {
                self.at += 2;
            }
            self.expression();
            self.skip(",");
        }
    }
}

/// Splits a text.
fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for line in text.lines() {
        let line = line.trim_start();
        if let Some(names) = line.strip_prefix("--- @with ") {
            pieces.push(Piece::With(names.split(", ").map(str::to_owned).collect()));
        } else if let Some(rest) = line.strip_prefix("--- @include \"") {
            let (name, rest) = rest.split_once('"').unwrap();
            let arguments = rest.trim().trim_matches(['(', ')']);
            let arguments = arguments.split(", ").filter(|name| !name.is_empty()).map(str::to_owned);
            pieces.push(Piece::Include(name.to_owned(), arguments.collect()));
        } else if let Some(rest) = line.strip_prefix("--- @function \"") {
            pieces.push(Piece::Function(rest.trim_end_matches('"').to_owned()));
        } else {
            of_line(line, &mut pieces);
        }
    }
    pieces.push(Piece::End);
    pieces
}

fn of_line(line: &str, pieces: &mut Vec<Piece>) {
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let length = if rest.starts_with("--") {
            return;
        } else if first == ' ' {
            1
        } else if first == '\'' {
            pieces.push(Piece::Value);
            rest[1..].find('\'').unwrap() + 2
        } else if first.is_ascii_digit() {
            pieces.push(Piece::Value);
            rest.find(|letter: char| !is_of_name(letter) && letter != '.').unwrap_or(rest.len())
        } else if is_of_name(first) {
            let length = rest.find(|letter| !is_of_name(letter)).unwrap_or(rest.len());
            let name = &rest[..length];
            pieces.push(match KEYWORDS.iter().find(|word| **word == name) {
                Some(word) => Piece::Word(word),
                None => Piece::Name(name.to_owned()),
            });
            length
        } else {
            let length =
                if ["..", "<=", ">=", "==", "~="].iter().any(|two| rest.starts_with(two)) { 2 } else { 1 };
            pieces.push(Piece::Symbol(rest[..length].to_owned()));
            length
        };
        rest = &rest[length..];
    }
}
