//! A simulated world in place of the machine: the package `redlocked-sim` builds one. Not part of
//! the public API.
//!
//! Without the feature `__simulation` there is no world but the real one, and the compiler leaves
//! out what asks for it.
#![cfg_attr(not(feature = "__simulation"), expect(unreachable_pub, reason = "only a simulation reaches it"))]

use std::any::Any;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

/// The number of a simulated runtime: 2 or more.
pub type RuntimeNumber = u64;

/// A task of this library.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection to a server.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// The outcome of connecting.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// All processes, their clocks, and the network between them. Each method is about the process
/// whose task runs.
pub trait World {
    /// Nanoseconds; never zero.
    fn lease_clock(&self) -> u64;

    /// Since 1970.
    fn wall_clock(&self) -> Duration;

    /// The id of the process whose task runs.
    fn process_id(&self) -> u32;

    /// Fills `bytes`.
    fn random(&self, bytes: &mut [u8]);

    /// The runtime of the task that runs.
    fn runtime(&self) -> RuntimeNumber;

    /// Runs `work` in this runtime of the process.
    fn spawn(&self, runtime: RuntimeNumber, work: Work);

    /// Runs `work` in a new runtime of this process, as on a thread of its own.
    fn start_thread(&self, work: Work);

    /// Connects to a server.
    fn connect(&self, host: &str, port: u16) -> Connecting;

    /// An attempt in this state has met this event, and what of it.
    fn met(&self, state: &'static str, event: &'static str, what: &'static str);

    /// Returns what this library keeps for the process.
    fn kept(&self) -> Option<Arc<dyn Any + Send + Sync>>;

    /// Keeps it for the process.
    fn keep(&self, kept: Arc<dyn Any + Send + Sync>);
}

#[cfg(feature = "__simulation")]
thread_local! {
    static WORLD: std::cell::RefCell<Option<Rc<dyn World>>> = const { std::cell::RefCell::new(None) };
}

/// From now on this thread lives in `world`; with `None`, on the machine again.
#[cfg(feature = "__simulation")]
pub fn set_world(world: Option<Rc<dyn World>>) {
    WORLD.with(|here| *here.borrow_mut() = world);
}

#[cfg(feature = "__simulation")]
pub(crate) fn world() -> Option<Rc<dyn World>> {
    // A thread that is ending has none any more.
    WORLD.try_with(|world| world.borrow().clone()).ok().flatten()
}

/// There is none.
#[cfg(not(feature = "__simulation"))]
pub(crate) fn world() -> Option<Rc<dyn World>> {
    None
}
