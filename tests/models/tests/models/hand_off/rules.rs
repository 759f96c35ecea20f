//! What a run explores, and the mistake that is made in it.

/// A mistake in a script or in a client. Most of them break one of these rules:
///
/// | rule | |
/// | --- | --- |
/// | R1 | a plain `SET NX` only as the first ask; behind a join, only join and again |
/// | R2 | a `SET NX` that fails may be the second of one whose answer was lost: join compares first |
/// | R3 | a lease counts from the request that set the expiry |
/// | R4 | a waiter's timer counts from the server's time, or from the time of its request, never from an answer's receipt |
/// | R5 | a script that lets a waiter sleep marks the lock in the same step |
/// | R6 | a script that shortens a marked lock tells the queue |
/// | R7 | a plain delete only of an unmarked lock; a cancel behind a join is the release script |
/// | R8 | a client whose lock is lost while an answer is open sends the release script |
/// | R9 | a waiter asks now and then unasked, and more often behind a stranger |
/// | R10 | a marked lock outlives its lease by a grace, in which its waiters ask |
/// | R11 | a script that finds a lease over knows who had it, and that process loses its places |
/// | R12 | a client enters when it, and each that is inside, allows one more |
/// | R13 | a script that can make room lets in all that have room, in order, until one has none |
/// | R14 | the key of a counted lock outlives each holder by the grace |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mistake {
    /// R1: a waiter asks again by a plain `SET NX`.
    WaiterSets,
    /// R2: join does not compare the lock with the client's own token.
    JoinDoesNotCompare,
    /// R2, R3: a lock that an earlier request took is counted from the latest request.
    CountsFromLatestSet,
    /// R3: a lease that was granted is counted from when its grant was read.
    CountsGrantFromReceipt,
    /// R4: a waiter counts the rest of the lease in front from when it reads it.
    CountsBusyFromReceipt,
    /// R4: a waiter that receives a new lease in front counts it from when it reads it.
    CountsNextFromReceipt,
    /// R5
    JoinDoesNotMark,
    /// R5
    AgainDoesNotMark,
    /// R5: a waiter that finds its own lock removes the mark.
    AgainRemovesMark,
    /// R5: a lock is granted without a mark, although other waiters remain.
    GrantForgetsMark,
    /// R5: the same, by a waiter that is the head itself.
    OwnGrantForgetsMark,
    /// R5
    RenewalRemovesMark,
    /// R6: a grant does not tell the waiters behind it.
    GrantTellsNoWaiter,
    /// R6: the same, by a waiter that is the head itself.
    OwnGrantTellsNoWaiter,
    /// R6: a waiter that was told, and leaves the queue, does not tell the next ones.
    LeavingTellsNoWaiter,
    /// R6: the same, unless it is the head: when the second waiter leaves and the first one dies,
    /// the third is not told.
    LeavingSecondTellsNoWaiter,
    /// R6: a lock that is kept for its `min_hold` only gets a shorter expiry, and its waiters are
    /// not told.
    MinHoldTellsNoWaiter,
    /// R6: one waiter is notified, not two.
    TellsOneWaiter,
    /// R7: a plain delete also deletes a marked lock.
    DeletesMarked,
    /// R7: a cancel behind a join is a plain delete.
    CancelOnlyDeletes,
    /// R8
    LossSendsNoRelease,
    /// R9: a waiter asks only when it is notified or when the lease in front is over.
    DoesNotPoll,
    /// R9: the same, behind a stranger.
    TrustsStrangers,
    /// R10: a marked lock ends with its lease.
    NoGrace,
    /// R10: a lock that is marked gets no grace.
    MarkAddsNoGrace,
    /// R10: a renewal of a marked lock adds no grace.
    RenewalAddsNoGrace,
    /// R11: a grant does not note whose claim it is.
    ClaimIsNotNoted,
    /// R11: a lock that is kept for its `min_hold` ends without a release, and its process seems to
    /// stand still.
    MinHoldKeepsClaim,
    /// R12: the end of a lease is not taken out of the count.
    ExpiryStaysCounted,
    /// R12: the limit is not computed again when a holder has left.
    LimitSticks,
    /// R12: each holder counts for one.
    HoldersWeighOne,
    /// R12: each newcomer counts for one.
    NewcomerWeighsOne,
    /// R12: only the number of the newcomer counts.
    OnlyNewcomerCounts,
    /// R12: a release lowers the count, whoever was counted.
    ReleaseLowersCount,
    /// R12: a release deletes the lock, although others are inside.
    ReleaseDeletesKey,
    /// R13: one client is let in, not all that have room.
    LetsInOne,
    /// R13: a waiter that gives up lets in nobody that waits behind it.
    LeavingLetsNobodyIn,
    /// R13: a head of the queue that does not listen stays in front.
    DeadHeadStays,
    /// R6: a holder that leaves others inside tells no waiter.
    HolderLeavesSilently,
    /// R14: the key ends with the holder that entered last.
    KeyEndsWithLatest,
    /// R14: a renewal does not move the end of the key.
    RenewalLeavesKey,
    /// R14: there is no grace.
    NoGraceForCounted,
    /// R3: a holder that asks once more has a shorter lease than before.
    CountedAskShortens,
    /// A client is let in for its ttl, although its process may stand still.
    GrantLastsTtl,
    /// The answer to a caller that asks again lasts its TTL.
    AgainLastsTtl,
    /// The counted holders of a new phase have the fencing token of the phase before.
    PhaseKeepsFence,
    /// R11: a claim of an exclusive lock is remembered while others are inside.
    CountedKeepsClaim,
    /// A renewal takes a marked token for another one.
    RenewalComparesMark,
    /// A waiter that finds its own lock makes its expiry earlier.
    AgainShortens,
    /// A value of a stranger gets a mark.
    MarksStranger,
    /// A waiter that is the next holder, or leaves, keeps its place in the queue.
    KeepsPlace,
    /// The fencing token is counted by a second request.
    CountsFenceLater,
    /// A release does not compare the token.
    ReleasesAnyLock,
    /// A newcomer takes a free lock, although another client waits.
    Barges,
    /// A client that finds a free lock with a queue only joins the queue.
    LeavesFree,
    /// A waiter is granted the lock, although its connection has ended.
    GrantsToTheGone,
    /// A client that asks again joins the queue again.
    JoinsAgain,
    /// A client whose connection broke waits for an answer that was lost.
    WaitsForLostAnswer,
    /// A release overtakes the request before it, as on another connection.
    Overtakes,
}

/// What may happen only so often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Accident {
    /// A process is killed.
    Crash,
    /// A connection breaks.
    Cut,
    /// A process stands still for any time.
    Freeze,
    /// An operator deletes the lock.
    DeleteLock,
    /// An operator deletes the queue.
    DeleteQueue,
    /// A push is lost.
    LosePush,
    /// The server loses all keys.
    Flush,
    /// A manager takes the lock away from its holder.
    ForceRelease,
    /// The server restarts with its data.
    Restart,
    /// The server restarts with older data: the lock without its mark and without its queue.
    RestartOlder,
    /// A client of another kind takes the lock.
    Stranger,
}

/// What a run explores.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) clients: usize,
    /// How many may be inside while each of the first clients is: 0 for any number. The others are
    /// exclusive.
    pub(super) numbers: &'static [u8],
    /// For how many of these each of the first clients counts. The others count for one.
    pub(super) weights: &'static [u8],
    /// The run begins with one client inside, and all others in the queue.
    pub(super) queued: bool,
    /// These clients are of one process; each of the others is one of its own.
    pub(super) of_one: &'static [usize],
    /// How many of the `kinds` happen.
    pub(super) accidents: u8,
    pub(super) kinds: &'static [Accident],
    /// Time passes only when no message is under way and all that is due was done, but by clients
    /// that are gone, cut off or frozen. Without it a message takes any time.
    pub(super) prompt: bool,
    /// For how many ticks a running waiter may at most sleep while the lock is free: none, except
    /// after a loss that no script notices.
    pub(super) may_sleep: u8,
    /// Waiters ask once a tick, whatever messages they get. Without it, they must get a message
    /// for everything except losses.
    pub(super) polls: bool,
    pub(super) renews: bool,
    pub(super) cancels: bool,
    /// Locks are kept for a `min_hold` after their bodies.
    pub(super) min_hold: bool,
    /// A release may leave a lock free for clients of another kind.
    pub(super) leaves_free: bool,
    /// A release is one script that deletes or hands over; else a plain delete, and the script only
    /// if that fails.
    pub(super) one_script: bool,
    /// A new connection ends the one before on the server, with all that it may still deliver.
    pub(super) kills: bool,
    /// One client asks for no fencing token.
    pub(super) without_fence: bool,
    pub(super) mistake: Option<Mistake>,
}

impl Bounds {
    pub(super) const PROMPT: Self = Self {
        clients: 3,
        numbers: &[],
        weights: &[],
        queued: false,
        of_one: &[],
        accidents: 0,
        kinds: &[],
        prompt: true,
        may_sleep: 0,
        polls: false,
        renews: true,
        cancels: true,
        min_hold: false,
        leaves_free: false,
        one_script: false,
        kills: true,
        without_fence: false,
        mistake: None,
    };

    pub(super) const ANY_DELAY: Self = Self { clients: 2, prompt: false, ..Self::PROMPT };

    pub(super) const QUEUED: Self = Self { clients: 4, queued: true, ..Self::PROMPT };

    pub(super) fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }
}
