//! Without the feature `__simulation` there is no world but the real one.

use std::any::Any;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

/// There is none.
#[derive(Clone, Copy)]
pub(crate) enum NoWorld {}

pub(crate) type RuntimeNumber = u64;

pub(crate) fn world() -> Option<NoWorld> {
    None
}

pub(crate) type Connecting = std::future::Ready<io::Result<TcpStream>>;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl NoWorld {
    pub(crate) fn met(self, _: &'static str, _: &'static str, _: &'static str) {
        match self {}
    }

    pub(crate) fn lease_clock(self) -> u64 {
        match self {}
    }

    pub(crate) fn wall_clock(self) -> Duration {
        match self {}
    }

    pub(crate) fn process_id(self) -> u32 {
        match self {}
    }

    pub(crate) fn random(self, _: &mut [u8]) {
        match self {}
    }

    pub(crate) fn runtime(self) -> RuntimeNumber {
        match self {}
    }

    pub(crate) fn spawn(self, _: RuntimeNumber, _: Work) {
        match self {}
    }

    pub(crate) fn start_thread(self, _: Work) {
        match self {}
    }

    pub(crate) fn connect(self, _: &str, _: u16) -> Connecting {
        match self {}
    }

    pub(crate) fn kept(self) -> Option<Arc<dyn Any + Send + Sync>> {
        match self {}
    }

    pub(crate) fn keep(self, _: Arc<dyn Any + Send + Sync>) {
        match self {}
    }
}
