//! [`FencedRedis`]: writes to Redis that only the right holder of a lock can make.
//!
//! Each write is one script: it compares the fencing token of each lock of the guard with the
//! largest that its place has seen, and writes where none is larger. The place is beside the data,
//! under `{tag}%fence:name`: `tag` is the hash tag of the data's key, or the key, so that both are in
//! one slot of a Cluster, and `name` is that of the lock. So data with one hash tag share their fence.

use std::sync::LazyLock;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{FromRedisValue, RedisError, Script, ScriptInvocation, ToRedisArgs, ToSingleRedisArg};

use crate::base::error::LockError;
use crate::base::fence::Fence;
use crate::current::CurrentLock;
use crate::election::Term;
use crate::engine::slots::hash_tag;
use crate::guard::LockGuard;

/// `KEYS`: the places of the fences, then those of the write. `ARGV`: how many places, for how long
/// they are kept (nothing forever), a token for each, then those of the write. One line, so that an
/// error of the script behind it is only one line off.
const CHECK: &str = "local n = tonumber(ARGV[1]) \
    for i = 1, n do \
      if tonumber(redis.call('GET', KEYS[i]) or 0) > tonumber(ARGV[i + 2]) then \
        return redis.error_reply('FENCED ' .. i) \
      end \
    end \
    for i = 1, n do \
      if ARGV[2] == '' then redis.call('SET', KEYS[i], ARGV[i + 2]) \
      else redis.call('SET', KEYS[i], ARGV[i + 2], 'PX', ARGV[2]) end \
    end \
    local keys, arguments = {}, {} \
    for i = n + 1, #KEYS do keys[i - n] = KEYS[i] end \
    for i = n + 3, #ARGV do arguments[i - n - 2] = ARGV[i] end \
    local KEYS, ARGV = keys, arguments\n";

fn fenced(write: &str) -> Script {
    Script::new(&[CHECK, write].concat())
}

static SET: LazyLock<Script> = LazyLock::new(|| fenced("redis.call('SET', KEYS[1], ARGV[1])"));
static HSET: LazyLock<Script> =
    LazyLock::new(|| fenced("return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])"));
static DEL: LazyLock<Script> = LazyLock::new(|| fenced("return redis.call('DEL', KEYS[1])"));
static CLAIM: LazyLock<Script> = LazyLock::new(|| fenced(""));

/// Writes that only the right holder of a lock can make, through a connection of the caller's own:
/// from [`LockGuard::redis`], in code that has no guard from [`CurrentLock::redis`], and of a leader
/// from [`Term::redis`]. Needs the feature `redis`, which is on by default.
///
/// The earlier one of two holders of a lock writes nothing to a key after the later one has written
/// there, or has [claimed](Self::claim) it. Keys with one hash tag, such as `{account:7}:balance`
/// and `{account:7}:history`, count as one place: a write to one of them keeps earlier holders from
/// all. The fence lies beside the data, under `{account:7}%fence:` and the name of the lock, and
/// stays there unless [`forget_after`](Self::forget_after) says otherwise.
///
/// Each call is one command, `EVALSHA`, and nothing more than the write. Each has a form for sync code
/// and a connection of it: [`set_blocking`](Self::set_blocking) and the like. The server is any that has
/// the data, and need not be that of the locks. In a Cluster, a key that has a `}` also has a hash
/// tag.
///
/// # Errors
///
/// Each method returns [`LockError::Fenced`] when a later holder was there; [`LockError::Lost`] when the
/// lease has ended; [`LockError::Store`] with the error of the client, a `redis::RedisError`, and
/// then the write may have been made. Of a [`CurrentLock`] also those of
/// [`CurrentLock::fencing_token`].
///
/// # Cancel safety
///
/// When the future of a method is dropped, the write is made or not.
///
/// # Examples
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redlocked::LockManager;
///
/// let client = redis::Client::open("redis://127.0.0.1/")?;
/// let mut connection = client.get_multiplexed_async_connection().await?;
/// let locks = LockManager::connect("redis://127.0.0.1/").await?;
///
/// let guard = locks.lock("account:7").acquire().await?;
/// guard.redis().set(&mut connection, "balance:7", b"42").await?;
/// guard.redis().hset(&mut connection, "account:7", "owner", "ann").await?;
/// guard.redis().del(&mut connection, "offer:7").await?;
/// # Ok(())
/// # }
/// ```
#[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
#[derive(Clone, Copy, Debug)]
#[must_use = "it writes nothing by itself"]
pub struct FencedRedis<'g> {
    holder: Holder<'g>,
    forget_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
enum Holder<'g> {
    Guard(&'g LockGuard),
    /// Its fencing tokens may have to be drawn.
    Current(&'g CurrentLock),
    Leader(&'g Term),
}

impl LockGuard {
    /// Writes to Redis that are refused once a later holder was there: [`FencedRedis`]. Needs the
    /// feature `redis`, which is on by default.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: redlocked::LockGuard, mut connection: redis::aio::MultiplexedConnection)
    /// #     -> Result<(), redlocked::LockError> {
    /// guard.redis().set(&mut connection, "balance:7", b"42").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
    pub fn redis(&self) -> FencedRedis<'_> {
        FencedRedis { holder: Holder::Guard(self), forget_after: None }
    }
}

impl CurrentLock {
    /// As [`LockGuard::redis`]: for code below an annotated function, and for one without
    /// `guard = …`. Such a function takes its lock without a fencing token, so its first write
    /// draws one from the server of the locks, as [`fencing_token`](Self::fencing_token) does. Needs
    /// the feature `redis`, which is on by default.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use redlocked::distributed_lock;
    ///
    /// type Failure = Box<dyn std::error::Error + Send + Sync>;
    ///
    /// #[distributed_lock(key = "account:{id}", wait = "5s")]
    /// fn deposit(connection: &mut redis::Connection, id: u32, amount: i64) -> Result<i64, Failure> {
    ///     let deposit = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
    ///     let lock = redlocked::current()?;
    ///     Ok(lock.redis().eval_blocking(connection, deposit, &[&format!("balance:{id}")], amount)?)
    /// }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
    pub fn redis(&self) -> FencedRedis<'_> {
        FencedRedis { holder: Holder::Current(self), forget_after: None }
    }
}

impl Term {
    /// Writes of a leader that are refused once a later one has written: [`FencedRedis`]. After the
    /// term each fails with [`LockError::NotLocked`]. Needs the feature `redis`, which is on by
    /// default.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(term: redlocked::election::Term, mut connection: redis::aio::MultiplexedConnection)
    /// #     -> Result<(), redlocked::LockError> {
    /// term.redis().set(&mut connection, "invoices:last", 4711).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
    pub fn redis(&self) -> FencedRedis<'_> {
        FencedRedis { holder: Holder::Leader(self), forget_after: None }
    }
}

impl FencedRedis<'_> {
    /// The fence is forgotten so long after the last write, in milliseconds: an earlier holder that
    /// was suspended for longer may write again. By default it stays.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(guard: redlocked::LockGuard, mut connection: redis::aio::MultiplexedConnection)
    /// #     -> Result<(), redlocked::LockError> {
    /// let week = Duration::from_secs(7 * 24 * 3_600);
    /// guard.redis().forget_after(week).set(&mut connection, "balance:7", b"42").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn forget_after(self, time: Duration) -> Self {
        Self { forget_after: Some(time), ..self }
    }

    /// `SET key value`.
    ///
    /// # Errors
    ///
    /// See [`FencedRedis`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: redlocked::LockGuard, mut connection: redis::aio::MultiplexedConnection)
    /// #     -> Result<(), redlocked::LockError> {
    /// guard.redis().set(&mut connection, "balance:7", 42).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set(
        self,
        connection: &mut impl ConnectionLike,
        key: &str,
        value: impl ToSingleRedisArg,
    ) -> Result<(), LockError> {
        self.run(connection, &SET, &[key], value.to_redis_args()).await
    }

    /// [`set`](Self::set) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// See [`FencedRedis`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn example(guard: redlocked::LockGuard, mut connection: redis::Connection)
    /// #     -> Result<(), redlocked::LockError> {
    /// guard.redis().set_blocking(&mut connection, "balance:7", 42)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_blocking(
        self,
        connection: &mut impl redis::ConnectionLike,
        key: &str,
        value: impl ToSingleRedisArg,
    ) -> Result<(), LockError> {
        self.run_blocking(connection, &SET, &[key], value.to_redis_args())
    }

    /// `HSET key field value`: true when the field is new.
    ///
    /// # Errors
    ///
    /// See [`FencedRedis`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: redlocked::LockGuard, mut connection: redis::aio::MultiplexedConnection)
    /// #     -> Result<(), redlocked::LockError> {
    /// let is_new = guard.redis().hset(&mut connection, "account:7", "owner", "ann").await?;
    /// # let _ = is_new;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn hset(
        self,
        connection: &mut impl ConnectionLike,
        key: &str,
        field: impl ToSingleRedisArg,
        value: impl ToSingleRedisArg,
    ) -> Result<bool, LockError> {
        self.run(connection, &HSET, &[key], (field, value).to_redis_args()).await
    }

    /// [`hset`](Self::hset) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// See [`FencedRedis`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn example(guard: redlocked::LockGuard, mut connection: redis::Connection)
    /// #     -> Result<(), redlocked::LockError> {
    /// let is_new = guard.redis().hset_blocking(&mut connection, "account:7", "owner", "ann")?;
    /// # let _ = is_new;
    /// # Ok(())
    /// # }
    /// ```
    pub fn hset_blocking(
        self,
        connection: &mut impl redis::ConnectionLike,
        key: &str,
        field: impl ToSingleRedisArg,
        value: impl ToSingleRedisArg,
    ) -> Result<bool, LockError> {
        self.run_blocking(connection, &HSET, &[key], (field, value).to_redis_args())
    }

    /// `DEL key`: true when there was one. The fence stays.
    ///
    /// # Errors
    ///
    /// See [`FencedRedis`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: redlocked::LockGuard, mut connection: redis::aio::MultiplexedConnection)
    /// #     -> Result<(), redlocked::LockError> {
    /// let was_there = guard.redis().del(&mut connection, "offer:7").await?;
    /// # let _ = was_there;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn del(self, connection: &mut impl ConnectionLike, key: &str) -> Result<bool, LockError> {
        self.run(connection, &DEL, &[key], Vec::new()).await
    }

    /// [`del`](Self::del) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// See [`FencedRedis`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn example(guard: redlocked::LockGuard, mut connection: redis::Connection)
    /// #     -> Result<(), redlocked::LockError> {
    /// let was_there = guard.redis().del_blocking(&mut connection, "offer:7")?;
    /// # let _ = was_there;
    /// # Ok(())
    /// # }
    /// ```
    pub fn del_blocking(
        self,
        connection: &mut impl redis::ConnectionLike,
        key: &str,
    ) -> Result<bool, LockError> {
        self.run_blocking(connection, &DEL, &[key], Vec::new())
    }

    /// A script of your own in Lua, with `KEYS` and `ARGV` as `EVAL` has them: it runs where no later
    /// holder was. The keys are in one slot of a Cluster, and the first one says beside which the
    /// fence lies. An error of the script leaves what it has written, as with `EVAL`.
    ///
    /// # Errors
    ///
    /// See [`FencedRedis`]; [`LockError::InvalidRequest`] without a key.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: redlocked::LockGuard, mut connection: redis::aio::MultiplexedConnection)
    /// #     -> Result<(), redlocked::LockError> {
    /// let deposit = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
    /// let balance: i64 = guard.redis().eval(&mut connection, deposit, &["balance:7"], 30).await?;
    /// # let _ = balance;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn eval<T: FromRedisValue>(
        self,
        connection: &mut impl ConnectionLike,
        script: &str,
        keys: &[&str],
        arguments: impl ToRedisArgs,
    ) -> Result<T, LockError> {
        self.run(connection, &fenced(script), keys, arguments.to_redis_args()).await
    }

    /// [`eval`](Self::eval) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`eval`](Self::eval).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn example(guard: redlocked::LockGuard, mut connection: redis::Connection)
    /// #     -> Result<(), redlocked::LockError> {
    /// let deposit = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
    /// let balance: i64 = guard.redis().eval_blocking(&mut connection, deposit, &["balance:7"], 30)?;
    /// # let _ = balance;
    /// # Ok(())
    /// # }
    /// ```
    pub fn eval_blocking<T: FromRedisValue>(
        self,
        connection: &mut impl redis::ConnectionLike,
        script: &str,
        keys: &[&str],
        arguments: impl ToRedisArgs,
    ) -> Result<T, LockError> {
        self.run_blocking(connection, &fenced(script), keys, arguments.to_redis_args())
    }

    /// Keeps earlier holders from the key from now on, and writes nothing else: at the grant, where the
    /// first write comes late, and what is read before it must be the last.
    ///
    /// # Errors
    ///
    /// See [`FencedRedis`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: redlocked::LockGuard, mut connection: redis::aio::MultiplexedConnection)
    /// #     -> Result<(), redlocked::LockError> {
    /// guard.redis().claim(&mut connection, "balance:7").await?;
    /// // What is read from here on is final until this holder writes.
    /// # Ok(())
    /// # }
    /// ```
    pub async fn claim(self, connection: &mut impl ConnectionLike, key: &str) -> Result<(), LockError> {
        self.run(connection, &CLAIM, &[key], Vec::new()).await
    }

    /// [`claim`](Self::claim) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// See [`FencedRedis`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn example(guard: redlocked::LockGuard, mut connection: redis::Connection)
    /// #     -> Result<(), redlocked::LockError> {
    /// guard.redis().claim_blocking(&mut connection, "balance:7")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn claim_blocking(
        self,
        connection: &mut impl redis::ConnectionLike,
        key: &str,
    ) -> Result<(), LockError> {
        self.run_blocking(connection, &CLAIM, &[key], Vec::new())
    }

    async fn run<T: FromRedisValue>(
        self,
        connection: &mut impl ConnectionLike,
        script: &Script,
        keys: &[&str],
        arguments: Vec<Vec<u8>>,
    ) -> Result<T, LockError> {
        let fences = self.fences().await?;
        let call = self.call(&fences, script, keys, arguments)?;
        call.invoke_async(connection).await.map_err(|error| failed(&fences, keys, error))
    }

    fn run_blocking<T: FromRedisValue>(
        self,
        connection: &mut impl redis::ConnectionLike,
        script: &Script,
        keys: &[&str],
        arguments: Vec<Vec<u8>>,
    ) -> Result<T, LockError> {
        let fences = self.fences_blocking()?;
        let call = self.call(&fences, script, keys, arguments)?;
        call.invoke(connection).map_err(|error| failed(&fences, keys, error))
    }

    async fn fences(&self) -> Result<Vec<Fence>, LockError> {
        match self.holder {
            Holder::Guard(guard) => guard.ensure_held().map(|()| guard.fences().collect()),
            Holder::Current(lock) => {
                lock.ensure_held()?;
                lock.fences().await
            }
            Holder::Leader(term) => term.ensure_leading().map(|()| term.fences().collect()),
        }
    }

    fn fences_blocking(&self) -> Result<Vec<Fence>, LockError> {
        match self.holder {
            Holder::Guard(guard) => guard.ensure_held().map(|()| guard.fences().collect()),
            Holder::Current(lock) => lock.ensure_held().and_then(|()| lock.fences_blocking()),
            Holder::Leader(term) => term.ensure_leading().map(|()| term.fences().collect()),
        }
    }

    fn call<'s>(
        &self,
        fences: &[Fence],
        script: &'s Script,
        keys: &[&str],
        arguments: Vec<Vec<u8>>,
    ) -> Result<ScriptInvocation<'s>, LockError> {
        let Some(data) = keys.first() else {
            let reason = "a fenced script has at least one key, beside which its fence lies".into();
            let key = fences.first().map(Fence::key).unwrap_or_default().into();
            return Err(LockError::InvalidRequest { key, reason });
        };
        let mut call = script.prepare_invoke();
        let kept = self.forget_after.map(|time| time.as_millis().to_string());
        call.arg(fences.len()).arg(kept.unwrap_or_default());
        for fence in fences {
            call.key(place(data, fence)).arg(fence.fencing_token());
        }
        call.key(keys).arg(arguments);
        Ok(call)
    }
}

/// Returns where the fence lies beside `data`.
fn place(data: &str, fence: &Fence) -> String {
    format!("{{{}}}%fence:{}", hash_tag(data).unwrap_or(data), fence.name())
}

/// The error of a call with `fences`.
fn failed(fences: &[Fence], keys: &[&str], error: RedisError) -> LockError {
    let Some(first) = fences.first() else {
        return LockError::NotLocked;
    };
    match error.code() {
        Some("FENCED") => {}
        // Redis names neither the user nor what it lacks.
        Some("NOPERM") => {
            let step = format!(
                "the fenced write, whose Redis user needs `+evalsha`, `+script|load`, `+get`, `+set` and the key `{}`,",
                place(keys.first().unwrap_or(&""), first)
            );
            return first.failed(step, error);
        }
        _ => return first.failed("the fenced write", error),
    }
    let which = error.detail().and_then(|number| number.parse::<usize>().ok());
    let which = which.and_then(|number| fences.get(number.checked_sub(1)?));
    which.unwrap_or(first).refused()
}
