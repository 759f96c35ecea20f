//! Where a request comes from: what metrics and logs call it, and which function asks.

use std::sync::Arc;

/// An annotated function, as the attribute writes it.
#[derive(Debug)]
pub struct Site {
    /// `module::function`.
    pub function: &'static str,
    /// The templates of its keys, such as `stock:{sku}`; empty where the keys are expressions.
    pub template: &'static str,
    /// The body has a guard, and can see its fencing token.
    pub fenced: bool,
    /// The options that the attribute gives as constants: one that it leaves out is not here.
    pub given: &'static [Given],
}

/// An option of an annotated function, with its constant value. Lengths are in milliseconds.
#[derive(Clone, Copy, Debug)]
pub enum Given {
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
}

/// Of one request.
#[derive(Clone, Debug, Default)]
pub(crate) enum Origin {
    /// Made by hand, without a label.
    #[default]
    Unnamed,
    Label(Arc<str>),
    Site(&'static Site),
}

impl Origin {
    /// The same for all keys of a template; `None` for a request made by hand that has no label.
    pub(crate) fn label(&self) -> Option<&str> {
        match self {
            Self::Unnamed => None,
            Self::Label(label) => Some(label),
            Self::Site(Site { function, template: "", .. }) => Some(function),
            Self::Site(Site { template, .. }) => Some(template),
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
