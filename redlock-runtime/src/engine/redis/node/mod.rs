//! One Redis node: how to connect to it, and the messages when that fails.

pub(crate) mod cluster_layout;
pub(crate) mod sentinel;
pub(crate) mod wait_replicas;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use super::connect::handshake::Session;
use super::connect::handshake::{
    Handshake, HandshakeCommands, HandshakeParams, Unsuitable, is_of_a_primary, must_allow,
};
use super::connect::login::CredentialSource;
use super::connect::login::{Login, Speak, refuses_resp3};
use super::connect::server_address::{Place, ServerAddress};
use super::connect::server_identity::{ClaimedIdentity, NodeIdentity, ServerIdentities};
use super::connect::stale_connection::StaleConnection;
use super::connect::tls::{Tls, TlsSettings};
use super::connect::{Opening, open};
use super::requests::connection::RedisConnection;
use super::wire::command::Pipeline;
use super::wire::dns::Addresses;
use super::wire::error_reply::ErrorReply;
use super::wire::exchange::{Exchange, Interrupted, PushReader};
use super::wire::failure::Failure;
use super::wire::keyspace::{ClockOf, Keyspace};
use super::wire::seen_fences::SeenFences;
use super::wire::stream::ConnectError;
use super::wire::value::Value;
use crate::base::clock::Moment;
use crate::base::host;
use crate::base::key::INBOX;
use crate::base::span::Span;
use crate::base::telemetry;
use crate::engine::protocol::{ConnectionEvent, Disconnected};
use crate::engine::slots::Slot;
use sentinel::Sentinels;

/// The manager's settings for a node.
#[derive(Clone)]
pub(crate) struct NodeSettings {
    /// The prefix of all keys and channels on the server.
    pub(crate) prefix: String,
    /// Makes the inbox of this manager unique.
    pub(crate) instance: String,
    /// Other lock clients use the keys, too.
    pub(crate) foreign_clients: bool,
    /// Accept a server that may evict locks.
    pub(crate) allow_eviction: bool,
    pub(crate) tls: TlsSettings,
    /// In place of those in the address.
    pub(crate) credentials: Option<CredentialSource>,
    /// Shared by all connections of the manager.
    pub(crate) seen: SeenFences,
}

#[cfg(test)]
impl NodeSettings {
    pub(crate) fn for_a_test() -> Self {
        Self {
            prefix: "lock:".to_owned(),
            instance: "1".to_owned(),
            foreign_clients: false,
            allow_eviction: false,
            tls: TlsSettings::default(),
            credentials: None,
            seen: SeenFences::default(),
        }
    }
}

/// The address of a node, how to connect to it, and the names of its side keys and of the inbox.
#[derive(Clone)]
pub(crate) struct RedisNode {
    address: ServerAddress,
    addresses: Addresses,
    keyspace: Keyspace,
    inbox: Arc<str>,
    /// In a Cluster: a key in another slot of this node than the inbox, if it has two.
    elsewhere: Option<Arc<str>>,
    foreign_clients: bool,
    allow_eviction: bool,
    /// A connection has been made before.
    is_known: Arc<AtomicBool>,
    /// In a quorum.
    identity: Option<NodeIdentity>,
    tls: Option<Tls>,
    credentials: Option<CredentialSource>,
    /// The address is in no setting of the manager: a Cluster has announced it.
    is_announced: bool,
    /// They report the address of the primary; without them, it is in `info`.
    sentinels: Option<Sentinels>,
    stale: StaleConnection,
    seen: SeenFences,
}

impl RedisNode {
    /// A server that is part of no Cluster. The error says what of the address cannot be read.
    pub(crate) fn at(url: &str, settings: &NodeSettings) -> Result<Self, &'static str> {
        Ok(Self::new(ServerAddress::read(url)?, settings))
    }

    fn new(address: ServerAddress, settings: &NodeSettings) -> Self {
        let NodeSettings { prefix, instance, .. } = settings;
        let inbox = format!("{prefix}{INBOX}:{instance}");
        Self::named(address, settings, Keyspace::on_a_server(prefix), inbox)
    }

    /// A node of a Cluster. The inbox lives in the first of its `slots`; the handshake tries from
    /// the second whether scripts can publish to it.
    ///
    /// One inbox serves all slots of the node: a script may publish to any sharded channel that
    /// lives on its node.
    pub(crate) fn in_a_cluster(
        address: ServerAddress,
        settings: &NodeSettings,
        slots: Option<(Slot, Slot)>,
    ) -> Self {
        let NodeSettings { prefix, instance, .. } = settings;
        let inbox = match slots {
            Some((home, _)) => format!("{prefix}{INBOX}:{instance}{{{}}}", home.tag()),
            None => format!("{prefix}{INBOX}:{instance}"),
        };
        let elsewhere = slots.map(|(_, other)| ClockOf(prefix, other).to_string().into());
        Self { elsewhere, ..Self::named(address, settings, Keyspace::in_a_cluster(prefix), inbox) }
    }

    fn named(address: ServerAddress, settings: &NodeSettings, keyspace: Keyspace, inbox: String) -> Self {
        Self {
            address,
            addresses: Addresses::default(),
            keyspace,
            inbox: inbox.into(),
            elsewhere: None,
            foreign_clients: settings.foreign_clients,
            allow_eviction: settings.allow_eviction,
            is_known: Arc::default(),
            identity: None,
            tls: None,
            credentials: settings.credentials.clone(),
            is_announced: false,
            sentinels: None,
            stale: StaleConnection::default(),
            seen: settings.seen.clone(),
        }
    }

    /// Encrypts the connections if there is a `tls`.
    pub(crate) fn encrypted(self, tls: Option<Tls>) -> Self {
        Self { tls, ..self }
    }

    /// A node of a quorum, in which each server has one vote.
    pub(crate) fn voting_as(self, identity: NodeIdentity) -> Self {
        Self { identity: Some(identity), ..self }
    }

    /// At the address that the sentinels report.
    pub(crate) fn behind(self, sentinels: Sentinels) -> Self {
        Self { sentinels: Some(sentinels), ..self }
    }

    /// At an address that a Cluster has announced.
    pub(super) fn announced(self) -> Self {
        Self { is_announced: true, ..self }
    }

    /// Its first connection closes the last one of `before`.
    pub(crate) fn after(self, before: &Self) -> Self {
        Self { stale: before.stale.clone(), is_known: Arc::clone(&before.is_known), ..self }
    }

    #[cfg(test)]
    pub(crate) fn for_a_test(url: &str) -> Self {
        let node = Self::at(url, &NodeSettings::for_a_test());
        node.unwrap_or_else(|_| unreachable!("a test writes an address"))
    }

    #[cfg(test)]
    pub(crate) fn stale_connection(&self) -> &StaleConnection {
        &self.stale
    }

    /// Connects to the primary.
    pub(crate) async fn connect(
        mut self,
        timeout: Duration,
        pushes: UnboundedSender<ConnectionEvent>,
    ) -> Result<RedisConnection, Disconnected> {
        self.addresses = self.addresses.next_round();
        let Some(sentinels) = self.sentinels.clone() else {
            let is_announced = self.is_announced;
            return self.connect_there(timeout, &pushes).await.map_err(|mut trouble| {
                if is_announced {
                    let words =
                        "that is where the Cluster says it is: see cluster-announce-ip, -hostname and -port";
                    trouble.reason = format!("{} ({words})", trouble.reason).into();
                }
                trouble
            });
        };
        let found = sentinels.find(timeout).await?;
        self.address = self.address.at(Place::Tcp(found.host.clone(), found.port));
        match self.connect_there(timeout, &pushes).await {
            Ok(connection) => {
                host::spawn(sentinels.watch(found, pushes, timeout));
                Ok(connection)
            }
            Err(trouble) => Err(sentinels.no_connection(&found, trouble)),
        }
    }

    /// Another connection to the primary, for commands that must not delay the locks.
    pub(super) async fn beside(mut self, timeout: Duration) -> Result<Exchange, Disconnected> {
        self.addresses = self.addresses.next_round();
        if let Some(sentinels) = &self.sentinels {
            let found = sentinels.find(timeout).await?;
            self.address = self.address.at(Place::Tcp(found.host, found.port));
        }
        let attempt = || self.open_beside(timeout);
        self.addresses.try_each(timeout, may_pass, attempt).await
    }

    /// Connects to the first address of the host whose server can be used.
    async fn connect_there(
        self,
        timeout: Duration,
        pushes: &UnboundedSender<ConnectionEvent>,
    ) -> Result<RedisConnection, Disconnected> {
        let attempt = || self.clone().connect_once(timeout, pushes);
        self.addresses.try_each(timeout, may_pass, attempt).await
    }

    /// Without a handshake. Where the host has several addresses, the server may be another one
    /// than that of the locks.
    async fn open_beside(&self, timeout: Duration) -> Result<Exchange, Disconnected> {
        let (mut exchange, _) = self.open(Speak::Resp2, timeout).await?;
        if self.addresses.are_several() {
            let mut ask = Pipeline::default();
            ask.add(&["ROLE"]);
            let role = self.answer(&mut exchange, &ask, timeout).await?;
            is_of_a_primary(role).map_err(|unsuitable| self.unsuitable(&unsuitable))?;
        }
        Ok(exchange)
    }

    /// The answer to one command.
    async fn answer(
        &self,
        exchange: &mut Exchange,
        command: &Pipeline,
        timeout: Duration,
    ) -> Result<Value, Disconnected> {
        match tokio::time::timeout(timeout, exchange.ask(command)).await {
            Ok(Ok(answers)) => Ok(answers.into_iter().next().unwrap_or(Value::Nil)),
            Ok(Err(interrupted)) => Err(self.interrupted(&interrupted)),
            Err(_) => Err(self.no_answer(timeout)),
        }
    }

    /// Connects, and subscribes to the inbox over the same connection, so that both end together.
    /// Its pushes and its end go to `pushes`.
    async fn connect_once(
        self,
        timeout: Duration,
        pushes: &UnboundedSender<ConnectionEvent>,
    ) -> Result<RedisConnection, Disconnected> {
        let (exchange, speaks_resp3) = self.open(Speak::Resp3, timeout).await?;
        let mut exchange = exchange.with(PushReader {
            events: pushes.clone(),
            keyspace: self.keyspace.clone(),
            seen: self.seen.clone(),
        });
        let handshake = self.shake_hands(&mut exchange, speaks_resp3, timeout).await?;
        let identity = handshake.run_id.map(|run_id| self.claim_identity(run_id)).transpose()?.flatten();
        let session = Session {
            sharded: handshake.sharded,
            server_info: handshake.server_info,
            queues: self.identity.is_none() && handshake.allows_queues,
            may_not_count: handshake.may_not_count,
            reads_parts: handshake.reads_parts,
            server_time: handshake.server_time,
            abilities: handshake.abilities,
            late_requests: handshake.late_requests,
            native_delete: handshake.native_delete,
            keyspace: self.keyspace,
            inbox: self.inbox,
            foreign_clients: self.foreign_clients,
            seen: self.seen,
            _identity: identity,
        };
        Ok(RedisConnection::new(exchange, session))
    }

    /// Finds out what the server can do.
    async fn shake_hands(
        &self,
        exchange: &mut Exchange,
        speaks_resp3: bool,
        timeout: Duration,
    ) -> Result<Handshake, Disconnected> {
        let commands = HandshakeCommands::new(&HandshakeParams {
            keyspace: &self.keyspace,
            inbox: &self.inbox,
            elsewhere: self.elsewhere.as_deref(),
            allow_eviction: self.allow_eviction,
            one_of_several: self.identity.is_some(),
            pushes: speaks_resp3,
            stale: self.stale.get(),
        });
        let asked_at = Moment::now();
        let answers = match tokio::time::timeout(timeout, commands.send(exchange)).await {
            Ok(answers) => answers.map_err(|interrupted| self.interrupted(&interrupted))?,
            Err(_) => return Err(self.no_answer(timeout)),
        };
        let handshake = commands.read(&answers, Moment::now().since(asked_at));
        let handshake = handshake.map_err(|unsuitable| self.unsuitable(&unsuitable))?;
        if let Some(reason) = &handshake.may_evict {
            // A refusal now would lose the locks that are held: the policy was changed since.
            if !self.is_known.load(Relaxed) {
                return Err(self.unsuitable(reason));
            }
            telemetry::may_evict(&reason.words, &self.address.place.to_string());
        }
        self.is_known.store(true, Relaxed);
        // Not for a server that was refused: at another address, it knows nothing of the connection
        // that is to be closed.
        self.stale.set(commands.client(&answers));
        if let Some(reason) = &handshake.no_hand_over {
            let server = self.address.place.to_string();
            telemetry::cannot_hand_over(reason, &server, handshake.abilities.tracks_changes);
        }
        Ok(handshake)
    }

    /// In a quorum, no other node may be this server.
    fn claim_identity(&self, run_id: String) -> Result<Option<ClaimedIdentity>, Disconnected> {
        let Some(identity) = &self.identity else { return Ok(None) };
        let claimed = identity.take(run_id, self.address.place.to_string());
        claimed.map(Some).map_err(|reason| Disconnected { reason, is_permanent: true })
    }

    /// Opens a connection with the credentials of now. False where the server speaks no RESP3, so
    /// that it can push nothing.
    fn open(&self, asked: Speak, timeout: Duration) -> Opening<'_, (Exchange, bool), Disconnected> {
        // Less than the limit of a caller, who then gets the reason.
        let (limit, mut refused) = (timeout * 3 / 4, None);
        Box::pin(async move {
            loop {
                let login = Login::new(&self.address, self.credentials.as_ref(), refused.take(), limit).await;
                let login = login.map_err(|error| self.not_opened(error, timeout))?;
                match self.open_as(&login.address, asked, timeout).await {
                    Ok(opened) => return Ok(opened),
                    Err(error) => {
                        let again = login.refused(error).map_err(|error| self.not_opened(error, timeout))?;
                        refused = Some(again);
                    }
                }
            }
        })
    }

    async fn open_as(
        &self,
        address: &ServerAddress,
        asked: Speak,
        timeout: Duration,
    ) -> Result<(Exchange, bool), ConnectError> {
        let open = |speak| open(address, &self.addresses, self.tls.as_ref(), speak, timeout);
        if asked != Speak::Resp3 {
            return open(asked).await.map(|exchange| (exchange, false));
        }
        match open(Speak::Resp3).await {
            Err(ConnectError::Failed(failure)) if refuses_resp3(&failure) => {
                open(Speak::Resp2).await.map(|exchange| (exchange, false))
            }
            // Some proxies close at a command that they do not know. So does a server that ends: it
            // is asked once more, now that it has answered.
            Err(ConnectError::Failed(Failure::Closed { was_silent: true, .. })) => {
                let without = open(Speak::Resp2Carefully).await?;
                match open(Speak::Resp3).await {
                    Err(ConnectError::Failed(Failure::Closed { was_silent: true, .. })) => {
                        Ok((without, false))
                    }
                    opened => opened.map(|exchange| (exchange, true)),
                }
            }
            opened => opened.map(|exchange| (exchange, true)),
        }
    }

    fn not_opened(&self, error: ConnectError, timeout: Duration) -> Disconnected {
        match error {
            ConnectError::TimedOut => self.no_answer(timeout),
            ConnectError::Failed(failure) => self.failed(&failure),
            ConnectError::Refused(words) => self.cannot_connect(&words, true),
            ConnectError::NoCredentials(words) => self.cannot_connect(&words, false),
        }
    }

    /// The answer to `CLUSTER SLOTS` over its own connection: connecting and the answer each have
    /// the time limit.
    pub(super) async fn cluster_slots(&self, timeout: Duration) -> Result<Value, Disconnected> {
        let node = Self { addresses: self.addresses.next_round(), ..self.clone() };
        node.addresses.try_each(timeout, may_pass, || node.ask_slots(timeout)).await
    }

    async fn ask_slots(&self, timeout: Duration) -> Result<Value, Disconnected> {
        let (mut exchange, _) = self.open(Speak::Resp2, timeout).await?;
        let mut slots = Pipeline::default();
        slots.add(&["CLUSTER", "SLOTS"]);
        match self.answer(&mut exchange, &slots, timeout).await? {
            Value::ServerError(error) if error.code() == "NOPERM" => {
                Err(self.unsuitable(&must_allow("CLUSTER|SLOTS", "it has a slot of the key", "")))
            }
            Value::ServerError(error) => Err(self.failed(&Failure::Said(ErrorReply::of(&error)))),
            answer => Ok(answer),
        }
    }

    /// User or password are in the address and come from [`NodeSettings::credentials`], too.
    pub(crate) fn has_two_passwords(&self) -> bool {
        self.credentials.is_some() && (self.address.user.is_some() || self.address.password.is_some())
    }

    /// A user that cannot log in.
    pub(crate) fn lacks_a_password(&self) -> bool {
        self.address.lacks_a_password()
    }

    /// In a quorum, the servers of all its nodes.
    pub(crate) fn identities(&self) -> Option<&Arc<ServerIdentities>> {
        self.identity.as_ref().map(NodeIdentity::identities)
    }

    pub(crate) fn place(&self) -> &Place {
        &self.address.place
    }

    pub(crate) fn host(&self) -> &str {
        match &self.address.place {
            Place::Tcp(host, _) => host,
            Place::Unix(_) => "localhost",
        }
    }

    fn unsuitable(&self, unsuitable: &Unsuitable) -> Disconnected {
        let reason = format!("Redis at {} {}", self.address.place, unsuitable.words);
        Disconnected { reason: reason.into(), is_permanent: unsuitable.is_permanent }
    }

    fn no_answer(&self, timeout: Duration) -> Disconnected {
        let hint = if self.tls.is_some() { " (does it speak TLS on this port?)" } else { "" };
        let reason = format!(
            "cannot connect: Redis at {} does not answer within {}{hint}",
            self.address.place,
            Span(timeout)
        );
        Disconnected { reason: reason.into(), is_permanent: false }
    }

    /// The connection ended before all commands were answered. A server that closes says why first.
    fn interrupted(&self, Interrupted { answers, failure }: &Interrupted) -> Disconnected {
        match answers.first() {
            Some(Value::ServerError(error)) if ErrorReply::of(error).is_a_farewell() => {
                self.failed(&Failure::Said(ErrorReply::of(error)))
            }
            _ => self.failed(failure),
        }
    }

    fn failed(&self, failure: &Failure) -> Disconnected {
        let words = match failure {
            Failure::Said(reply) if reply.code == "NOAUTH" => {
                format!("it wants a password (NOAUTH): {}://:password@host/", self.scheme(self.tls.is_some()))
            }
            Failure::Said(reply) if reply.code == "WRONGPASS" && self.credentials.is_some() => {
                "the user or password that `credentials` gave is wrong (WRONGPASS)".to_owned()
            }
            Failure::Said(reply) if reply.code == "WRONGPASS" => {
                "user or password is wrong (WRONGPASS)".to_owned()
            }
            Failure::Said(reply) if reply.says("cluster support disabled") => {
                let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
                format!("it is not part of a Cluster: its address starts with {scheme}://")
            }
            Failure::SpeaksTls => format!("{failure}: {}://", self.scheme(true)),
            Failure::Closed { was_silent: true, .. } if self.tls.is_none() => format!(
                "it closed the connection and said nothing: a proxy without a server behind it does so, and a server that \
                 speaks TLS on this port ({}://)",
                self.scheme(true)
            ),
            other => other.to_string(),
        };
        self.cannot_connect(&words, failure.is_permanent())
    }

    /// The scheme of this kind of address.
    fn scheme(&self, encrypted: bool) -> String {
        let how = if encrypted { "rediss" } else { "redis" };
        let what = match (&self.keyspace, &self.sentinels) {
            (Keyspace::Cluster { .. }, _) => "+cluster",
            (Keyspace::Server { .. }, Some(_)) => "+sentinel",
            (Keyspace::Server { .. }, None) => "",
        };
        format!("{how}{what}")
    }

    fn cannot_connect(&self, words: &str, is_permanent: bool) -> Disconnected {
        let reason = format!("cannot connect to Redis at {}: {words}", self.address.place).into();
        Disconnected { reason, is_permanent }
    }
}

/// True if this address later, or another one now, may lead to a connection.
fn may_pass(trouble: &Disconnected) -> bool {
    !trouble.is_permanent
}
