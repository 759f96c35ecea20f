//! How long this process has held the locks of each template. The error of a caller that finds a
//! lock busy names this time.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::host::HashMap;
use crate::base::owner::Origin;

/// The largest number of templates and labels whose hold times are kept.
const MOST: usize = 1000;

/// A template or a label, by its number. `None`: a request by hand without a label, or one beyond
/// [`MOST`].
pub(crate) type HoldKind = Option<u16>;

/// When a caller got its lock, and what kind of lock it is.
#[derive(Clone, Copy)]
pub(crate) struct HoldStart {
    pub(crate) kind: HoldKind,
    pub(crate) since: Moment,
}

#[derive(Default)]
pub(crate) struct HoldTimes {
    kinds: HashMap<Arc<str>, u16>,
    /// The mean of each kind, in which the last holds count most; `None` before the first has
    /// ended.
    usual: Vec<Option<Duration>>,
}

impl HoldTimes {
    pub(crate) fn kind(&mut self, origin: &Origin) -> HoldKind {
        let label = origin.label()?;
        if let Some(kind) = self.kinds.get(label) {
            return Some(*kind);
        }
        let kind = u16::try_from(self.usual.len()).ok().filter(|_| self.usual.len() < MOST)?;
        self.kinds.insert(label.into(), kind);
        self.usual.push(None);
        Some(kind)
    }

    /// A holder gives its lock back, whose key is free at `free`.
    pub(crate) fn learn(&mut self, hold: HoldStart, free: Moment) {
        if let Some(usual) = hold.kind.and_then(|kind| self.usual.get_mut(usize::from(kind))) {
            let lasted = free.since(hold.since);
            *usual = Some(usual.map_or(lasted, |usual| (7 * usual + lasted) / 8));
        }
    }

    pub(crate) fn usual(&self, kind: HoldKind) -> Option<Duration> {
        *self.usual.get(usize::from(kind?))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn label(text: &str) -> Origin {
        Origin::Label(text.into())
    }

    #[test]
    fn the_last_holds_of_a_kind_count_most_and_other_kinds_not_at_all() {
        let (mut times, since) = (HoldTimes::default(), Moment::now());
        let kind = times.kind(&label("report"));
        let other = times.kind(&label("stock:{sku}"));
        assert_eq!((times.usual(kind), times.kind(&Origin::Unnamed)), (None, None));
        let mut lasts = |seconds: u32| {
            times.learn(HoldStart { kind, since }, since.after(seconds * SECOND));
            times.usual(kind)
        };
        assert_eq!(lasts(8), Some(8 * SECOND));
        assert_eq!(lasts(16), Some(9 * SECOND));
        let settled = (0..40).filter_map(|_| lasts(2)).last();
        assert!(settled.is_some_and(|usual| usual < 3 * SECOND && usual >= 2 * SECOND), "{settled:?}");
        assert_eq!((times.usual(other), times.kind(&label("report"))), (None, kind));
        times.learn(HoldStart { kind: None, since }, since.after(SECOND));
        assert_eq!(times.usual(None), None);
    }

    #[test]
    fn no_more_than_a_thousand_kinds_are_known() {
        let mut times = HoldTimes::default();
        let known = (0..2_000).filter(|number| times.kind(&label(&number.to_string())).is_some()).count();
        assert_eq!((known, times.kinds.len(), times.usual.len()), (MOST, MOST, MOST));
        assert_eq!(times.kind(&label("7")), Some(7));
    }
}
