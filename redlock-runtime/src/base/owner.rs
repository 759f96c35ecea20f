//! The public part of a token: which process asked for the lock, when, and in which function.
//!
//! `<host>:<pid>/<time>/<function>`, with the time in seconds since 1970, by the clock of that
//! host. The function is missing where a request has neither a function nor a label; the time, too,
//! in an inbox.
//!
//! Where a request comes from: what metrics and logs call it, and which function asks.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::base::host;

/// So much of the name of a function is written: its end.
const LONGEST_FUNCTION: usize = 64;

/// A host has 253 characters at most; a process and a time have ten digits each.
const LONGEST_OWNER: usize = 253 + 1 + 10 + 1 + 10 + 1 + LONGEST_FUNCTION;

/// The bytes of an owner whose function is short.
pub(crate) fn usual_length() -> usize {
    host::name().len() + 60
}

/// `<host>:<pid>` of this process. The pid is not cached, because a forked child has another.
pub(crate) fn process_name() -> String {
    let mut name = String::new();
    push_process(&mut name, host::process_id());
    name
}

/// `<host>:<pid>` of the process with this pid.
pub(crate) fn push_process(text: &mut String, process: u32) {
    // Writing into a string does not fail, here and below.
    let _ = write!(text, "{}:{process}", host::name());
}

/// The owner of the last request. A token is made for each request, and writing numbers is the
/// longest part of that: it is done once for a process and a second.
#[derive(Default)]
pub(crate) struct Requester {
    process: u32,
    /// When the text was made, in seconds since 1970.
    time: u64,
    /// The site of the last request, known by its address.
    site: Option<&'static CallSite>,
    text: String,
    /// The length of the text without the function.
    without_function: usize,
}

impl Requester {
    /// Writes the owner of a request that the process with this pid makes now.
    pub(crate) fn push_owner(&mut self, text: &mut String, process: u32, origin: &Origin) {
        let time = host::wall_clock().as_secs();
        if (self.process, self.time) != (process, time) {
            (self.process, self.time, self.site) = (process, time, None);
            self.text.clear();
            push_process(&mut self.text, process);
            let _ = write!(self.text, "/{time}");
            self.without_function = self.text.len();
        }
        let site = if let Origin::Site(site) = origin { Some(*site) } else { None };
        if !site.zip(self.site).is_some_and(|(site, last)| std::ptr::eq(site, last)) {
            self.site = site;
            self.text.truncate(self.without_function);
            if let Some(function) = origin.function() {
                self.text.push('/');
                push_function(&mut self.text, function);
            }
        }
        text.push_str(&self.text);
    }
}

fn push_function(text: &mut String, function: &str) {
    if function.len() <= LONGEST_FUNCTION && function.bytes().all(is_plain) {
        text.push_str(function);
        return;
    }
    let left_out = function.chars().count().saturating_sub(LONGEST_FUNCTION);
    let plain = |c| u8::try_from(c).ok().filter(|byte| is_plain(*byte)).map_or('_', char::from);
    text.extend(function.chars().skip(left_out).map(plain));
}

/// Returns whether the byte stands in the name of a function, and needs no escape.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'.' | b'-')
}

/// As read from a token. Control characters are escaped, because any client may have written them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Owner(Arc<str>);

impl Owner {
    pub(crate) fn read(text: &str) -> Self {
        // This library has written it, so nothing is to be escaped.
        if text.len() <= LONGEST_OWNER && text.bytes().all(|byte| is_plain(byte) || byte == b'/') {
            return Self(text.into());
        }
        let shown: String = text.chars().take(LONGEST_OWNER).flat_map(char::escape_debug).collect();
        Self(shown.into())
    }

    /// `<host>:<pid>`
    pub(crate) fn name(&self) -> &str {
        self.parts().0
    }

    /// Returns when the caller asked.
    pub(crate) fn asked(&self) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_secs(self.parts().1?.parse().ok()?))
    }

    pub(crate) fn function(&self) -> Option<&str> {
        self.parts().2.filter(|function| !function.is_empty())
    }

    fn parts(&self) -> (&str, Option<&str>, Option<&str>) {
        let mut parts = self.0.splitn(3, '/');
        (parts.next().unwrap_or_default(), parts.next(), parts.next())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.function().map_or(Ok(()), |function| write!(f, " in {function}"))
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An annotated function, as the attribute writes it.
#[derive(Debug)]
pub struct CallSite {
    /// `module::function`.
    pub function: &'static str,
    /// The templates of its keys, such as `stock:{sku}`; empty where the keys are expressions.
    pub template: &'static str,
    /// The body has a guard, and can see its fencing token.
    pub fenced: bool,
    /// The options that the attribute gives as constants: one that it leaves out is not here.
    pub options: &'static [ConstOption],
}

/// An option of an annotated function, with its constant value. Lengths are in milliseconds.
#[derive(Clone, Copy, Debug)]
pub enum ConstOption {
    /// `ttl = "10s"`
    Ttl(u64),
    /// `wait = "5s"`
    Wait(u64),
    /// `wait = "forever"`
    WaitForever,
    /// `max_hold = "1m"`
    MaxHold(u64),
    /// `min_hold = "1m"`
    MinHold(u64),
    /// `renew = false`
    Renew(bool),
    /// `on_lost = "cancel"`
    Cancel,
    /// `on_lost = "finish"`
    Finish,
    /// `on_lost = "error"`
    Error,
    /// `reentrant`
    Reentrant(bool),
    /// `shared`
    Shared,
    /// `permits = 5`
    Permits(u32),
    /// `take = 2`
    Take(u32),
    /// `rate = "5/1m"`
    Rate(u32, u64),
    /// `tick = "1h"`
    Tick(u64),
    /// `tick_missed = "skip"`
    TickSkip,
    /// `tick_missed = "retry"`
    TickRetry,
    /// `release_in_background`, or `"awaited"`: false
    ReleaseInBackground(bool),
}

/// The origin of one request.
#[derive(Clone, Debug, Default)]
pub(crate) enum Origin {
    /// Made by hand, without a label.
    #[default]
    Unnamed,
    Label(Arc<str>),
    Site(&'static CallSite),
}

impl Origin {
    /// The template or the label, which all keys of a template share; `None` for a request made by
    /// hand without a label.
    pub(crate) fn label(&self) -> Option<&str> {
        match self {
            Self::Unnamed => None,
            Self::Label(label) => Some(label),
            Self::Site(CallSite { function, template: "", .. }) => Some(function),
            Self::Site(CallSite { template, .. }) => Some(template),
        }
    }

    /// The function that asks, or the label of a request made by hand.
    pub(crate) fn function(&self) -> Option<&str> {
        match self {
            Self::Site(site) => Some(site.function),
            other => other.label(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(origin: &Origin) -> String {
        let mut text = String::new();
        Requester::default().push_owner(&mut text, 7, origin);
        text
    }

    #[test]
    fn an_owner_says_the_process_the_time_and_the_function() {
        let site = &CallSite {
            function: "shop::stock::purchase",
            template: "stock:{sku}",
            fenced: false,
            options: &[],
        };
        let owner = Owner::read(&written(&Origin::Site(site)));
        assert_eq!(owner.name(), format!("{}:7", host::name()));
        assert_eq!(owner.function(), Some("shop::stock::purchase"));
        let age = owner.asked().and_then(|asked| asked.elapsed().ok());
        assert!(age.is_some_and(|age| age < Duration::from_secs(60)), "{age:?}");
        assert_eq!(owner.to_string(), format!("{}:7 in shop::stock::purchase", host::name()));
        let unnamed = Owner::read(&written(&Origin::Unnamed));
        assert_eq!((unnamed.to_string(), unnamed.function()), (format!("{}:7", host::name()), None));
    }

    #[test]
    fn the_next_request_of_another_process_says_so() {
        let mut requester = Requester::default();
        for process in [7, 7, 8, 7] {
            let mut text = String::new();
            requester.push_owner(&mut text, process, &Origin::Label("f".into()));
            let owner = Owner::read(&text);
            assert_eq!(
                (owner.name(), owner.function()),
                (&*format!("{}:{process}", host::name()), Some("f"))
            );
            let age = owner.asked().and_then(|asked| asked.elapsed().ok());
            assert!(age.is_some_and(|age| age < Duration::from_secs(60)), "{age:?}");
        }
    }

    #[test]
    fn the_next_request_of_another_function_says_so() {
        const fn site(function: &'static str) -> CallSite {
            CallSite { function, template: "", fenced: false, options: &[] }
        }
        static SITES: [CallSite; 2] = [site("shop::purchase"), site("refund")];
        let [purchase, refund] = SITES.each_ref().map(Origin::Site);
        let mut requester = Requester::default();
        for (origin, function) in [
            (&purchase, Some("shop::purchase")),
            (&purchase, Some("shop::purchase")),
            (&refund, Some("refund")),
            (&Origin::Unnamed, None),
            (&Origin::Label("f".into()), Some("f")),
            (&Origin::Label("g".into()), Some("g")),
            (&purchase, Some("shop::purchase")),
        ] {
            let mut text = String::new();
            requester.push_owner(&mut text, 7, origin);
            assert_eq!(Owner::read(&text).function(), function);
        }
    }

    #[test]
    fn a_label_is_reduced_to_plain_characters_and_a_long_one_to_its_end() {
        let label =
            |text: &str| Owner::read(&written(&Origin::Label(text.into()))).function().map(str::to_owned);
        assert_eq!(label("nightly report|!\n").as_deref(), Some("nightly_report___"));
        let long = format!("{}::end", "module::".repeat(50));
        assert_eq!(
            label(&long).map(|shown| (shown.len(), shown.ends_with("module::::end"))),
            Some((64, true))
        );
    }

    #[test]
    fn what_another_client_has_written_is_escaped_and_limited() {
        let owner = Owner::read("web\u{1b}[2J\n\u{202e}3:1");
        assert_eq!(owner.name(), "web\\u{1b}[2J\\n\\u{202e}3:1");
        assert_eq!((owner.asked(), owner.function()), (None, None));
        assert_eq!(Owner::read(&"x".repeat(100_000)).name().len(), LONGEST_OWNER);
        assert_eq!(Owner::read("h:1/2/").function(), None);
        assert_eq!(Owner::read("h:1/99999999999999999999/f").asked(), None);
        assert_eq!(Owner::read(&format!("h:1/{}/f", u64::MAX)).asked(), None);
    }
}
