//! Bodies of leaders in tasks that are spawned, and in methods that return a boxed future.
//!
//! A body that owns what it uses is one for `lead`, and a body that borrows one for `lead_fn`.

use std::fmt::Display;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use redlocked::LockError;
use redlocked::election::{Election, LeadError, Term};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

struct App {
    steps: AtomicU32,
}

impl App {
    async fn step(&self, term: &Term) -> Result<u64, LockError> {
        self.steps.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        Ok(term.fencing_token())
    }
}

async fn step(app: &App, term: Term) -> Result<u64, LockError> {
    app.step(&term).await
}

async fn endless(_: Term) -> Result<u64, LockError> {
    std::future::pending().await
}

fn spawn<F: Future<Output: Send> + Send + 'static>(future: F) {
    drop(future);
}

// Bodies that own what they use.

fn owned(election: Election, app: Arc<App>) {
    spawn(election.lead(async move |term| app.step(&term).await));
}

fn owned_in_a_block(election: Election, app: Arc<App>) {
    spawn(async move { election.lead(async move |term| step(&app, term).await).await });
}

async fn owned_in_a_function(election: Election, app: Arc<App>) {
    let _ = election.lead(async move |term| app.step(&term).await).await;
}

fn changed(election: Election) {
    let mut sent = 0;
    spawn(async move {
        let counted = election.lead(async move |_term| {
            while sent < 3 {
                sent += 1;
                tokio::task::yield_now().await;
            }
            Ok::<_, LockError>(sent)
        });
        counted.await
    });
}

fn of_its_own(election: Election) {
    spawn(async move {
        let counted = election.lead(async |term| {
            let mut sent = Vec::new();
            while sent.len() < 3 {
                sent.push(term.fencing_token());
                tokio::task::yield_now().await;
            }
            Ok::<_, LockError>(sent)
        });
        counted.await
    });
}

fn a_function(election: Election) {
    spawn(election.lead(endless));
    spawn(async move { (election.lead(endless).await, election.lead_fn(endless).await) });
}

fn a_boxed_error(election: Election) {
    type Error = Box<dyn std::error::Error + Send + Sync>;
    spawn(async move { election.lead(async |_term| -> Result<u8, Error> { Ok(3) }).await });
}

fn generic<B, F, T, E>(election: Election, mut body: B)
where
    B: FnMut(Term) -> F + Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Display + Send + 'static,
{
    spawn(async move { election.lead(async move |term| body(term).await).await });
}

fn generic_as_it_is<B, F, T, E>(election: Election, body: B)
where
    B: FnMut(Term) -> F + Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Display + Send + 'static,
{
    spawn(election.lead_fn(body));
}

// Bodies that borrow.

fn borrowed_in_a_block(election: Election, app: Arc<App>) {
    spawn(async move { election.lead_fn(async |term| app.step(&term).await).await });
}

async fn borrowed_in_a_function(election: Election, app: Arc<App>) {
    let _ = election.lead_fn(async |term| step(&app, term).await).await;
}

fn a_block_in_a_closure(election: Election, app: Arc<App>) {
    spawn(async move { election.lead_fn(|term| step(&app, term)).await });
}

fn cloned_for_each_term(election: Election, app: Arc<App>) {
    spawn(election.lead_fn(move |term| {
        let app = Arc::clone(&app);
        async move { app.step(&term).await }
    }));
}

fn borrowed_generic<B, F, T, E>(election: Election, mut body: B)
where
    B: FnMut(Term) -> F + Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Display + Send + 'static,
{
    spawn(async move { election.lead_fn(|term| body(term)).await });
}

struct Service {
    election: Election,
    app: App,
}

impl Service {
    fn start(self) {
        spawn(async move { self.election.lead_fn(async |term| self.app.step(&term).await).await });
    }

    fn start_with_its_fields(self) {
        spawn(async move { self.election.lead(async move |term| self.app.step(&term).await).await });
    }

    fn leads<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<usize, LeadError<LockError>>> {
        Box::pin(async move {
            let body = async |term: Term| self.app.step(&term).await.map(|_| name.len());
            self.election.lead_fn(body).await
        })
    }

    fn leads_as_it_is<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<usize, LeadError<LockError>>> {
        Box::pin(self.election.lead_fn(async move |term| self.app.step(&term).await.map(|_| name.len())))
    }

    async fn leads_beside_others(&self) {
        let _ = self.election.lead_fn(async |term| self.app.step(&term).await).await;
    }
}

#[async_trait::async_trait]
trait Leads {
    async fn lead(&self);
}

#[async_trait::async_trait]
impl Leads for Service {
    async fn lead(&self) {
        let _ = self.election.lead_fn(async |term| self.app.step(&term).await).await;
    }
}

// What is not spawned may be anything.

async fn not_send(election: Election) {
    let (shared, mut changed) = (Rc::new(1), 0);
    let body = async |_term| {
        changed += *shared;
        tokio::task::yield_now().await;
        Ok::<_, LockError>(())
    };
    let _ = election.lead(body).await;
    let _ = election.lead_fn(async |_term| Ok::<_, LockError>(Rc::clone(&shared))).await;
}

// `?` of an error that does not implement `Error` itself.

async fn boxed_error(election: Election) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    type E = Box<dyn std::error::Error + Send + Sync>;
    Ok(election.lead(async |term: Term| Ok::<_, E>(term.fencing_token())).await?)
}

async fn one_error(election: Election) -> Result<u64, LockError> {
    election.lead(async |term: Term| Ok(term.fencing_token())).await.map_err(LeadError::flatten)
}

fn methods_are_used(service: &'static Service) {
    spawn(service.leads_beside_others());
    let _ = (Service::start, Service::start_with_its_fields, Service::leads, Service::leads_as_it_is);
    let _ = (service.leads("k"), Leads::lead(service));
}

#[test]
fn compiles() {
    let _ = (owned, owned_in_a_block, changed, of_its_own, a_function, a_boxed_error);
    let _ = (borrowed_in_a_block, a_block_in_a_closure, cloned_for_each_term, not_send, methods_are_used);
    let _ = (boxed_error, one_error);
    let functions = |election: Election, app: Arc<App>| {
        spawn(owned_in_a_function(election.clone(), Arc::clone(&app)));
        spawn(borrowed_in_a_function(election, app));
    };
    let _ = functions;
    let generics = |election: Election| {
        generic(election.clone(), endless);
        generic_as_it_is(election.clone(), endless);
        borrowed_generic(election, endless);
    };
    let _ = generics;
}
