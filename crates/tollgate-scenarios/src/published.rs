//! Widely used rate limiters as published, command by command, to compare this library with.
//!
//! Each runs the same commands, with the same flaws, as the original. Where the original reads its
//! machine's clock, the time is an argument here. Where it decides in one round trip and writes in
//! another, there is one function for each, so that other callers can run in between.

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisResult};

/// The amount per second that is hard-coded in the counter of each second.
pub const MOST_PER_SECOND: u64 = 10;
/// The most times that the schedule accepts per day; hard-coded too, as is the minute between two.
pub const MOST_PER_DAY: usize = 10;
/// The number that the schedule compares an hour's entries with.
pub const MOST_PER_HOUR: usize = 5;

const DAY_MS: u64 = 86_400_000;

/// Decides with a sorted set of milliseconds, in one transaction: add, trim, count.
pub async fn sorted_set_in_transaction(
    connection: &mut (impl ConnectionLike + Send),
    key: &str,
    now_ms: u64,
    period_s: u64,
    most: u64,
) -> RedisResult<bool> {
    let (held,): (u64,) = redis::pipe()
        .atomic()
        .add_command(add(key, now_ms, now_ms))
        .ignore()
        .add_command(trim(key, 0, now_ms.saturating_sub(period_s * 1_000)))
        .ignore()
        .add_command(command("ZCARD", key))
        .add_command(expire(key, period_s + 1))
        .ignore()
        .query_async(connection)
        .await?;
    Ok(held <= most)
}

/// Decides with a sorted set of milliseconds, in a script that counts before it trims.
pub async fn sorted_set_in_script(
    connection: &mut (impl ConnectionLike + Send),
    key: &str,
    now_ms: u64,
    period_s: u64,
    most: u64,
) -> RedisResult<bool> {
    const SCRIPT: &str = "
        local now, left, period = ARGV[1], ARGV[2], ARGV[3]
        redis.call('ZADD', KEYS[1], now, now)
        local held = redis.call('ZCARD', KEYS[1])
        redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, left)
        redis.call('EXPIRE', KEYS[1], period)
        return held";
    let left = now_ms.saturating_sub(period_s * 1_000);
    let held = eval(SCRIPT, &[key], &[now_ms, left, period_s]);
    let held: u64 = held.query_async(connection).await?;
    Ok(held <= most)
}

/// Decides with a sorted set of whole seconds, one command after another.
pub async fn sorted_set_of_seconds(
    connection: &mut (impl ConnectionLike + Send),
    key: &str,
    now_s: u64,
    period_s: u64,
    most: u64,
) -> RedisResult<bool> {
    let from = now_s.saturating_sub(period_s);
    let mut count = command("ZCOUNT", key);
    let held: u64 = count.arg(from).arg(now_s).query_async(connection).await?;
    if held < most {
        let () = add(key, now_s, now_s).query_async(connection).await?;
        let () = trim(key, 0, from).query_async(connection).await?;
    }
    Ok(held < most)
}

/// Decides with one counter for each of several windows `(period, most)`, and increments them all.
pub async fn counters_of_windows(
    connection: &mut (impl ConnectionLike + Send),
    key: &str,
    now_s: u64,
    windows: &[(u64, u64)],
) -> RedisResult<bool> {
    let mut pipeline = Pipeline::new();
    pipeline.atomic();
    for (period, _) in windows {
        let counter = window_key(key, *period, now_s);
        pipeline
            .add_command(command("INCR", &counter))
            .add_command(expire(&counter, 3 * period))
            .ignore();
    }
    let counted: Vec<u64> = pipeline.query_async(connection).await?;
    let within = |(counted, (_, most)): (&u64, &(u64, u64))| counted <= most;
    Ok(counted.iter().zip(windows).all(within))
}

/// Returns the key of a counter of [`counters_of_windows`].
fn window_key(key: &str, period_s: u64, now_s: u64) -> String {
    format!("rate_limit:{key}:{period_s}:{}", now_s / period_s)
}

/// The first half of the counter of each second: reads the count, if there is one.
pub async fn counter_of_a_second_reads(
    connection: &mut (impl ConnectionLike + Send),
    ip: &str,
    now_s: u64,
) -> RedisResult<Option<u64>> {
    command("GET", &second_key(ip, now_s))
        .query_async(connection)
        .await
}

/// The second half of the counter of each second: decides by the count that was read, and
/// increments.
pub async fn counter_of_a_second_writes(
    connection: &mut (impl ConnectionLike + Send),
    ip: &str,
    now_s: u64,
    read: Option<u64>,
) -> RedisResult<bool> {
    let key = second_key(ip, now_s);
    match read {
        Some(counted) if counted > MOST_PER_SECOND => return Ok(false),
        Some(_) => command("INCR", &key).query_async(connection).await?,
        None => {
            let mut pipeline = Pipeline::new();
            pipeline
                .atomic()
                .add_command(command("INCR", &key))
                .add_command(expire(&key, 1));
            let () = pipeline.query_async(connection).await?;
        }
    }
    Ok(true)
}

/// Returns the key of the counter of a second.
fn second_key(ip: &str, now_s: u64) -> String {
    format!("{ip}:{now_s}")
}

/// Accepts and stores the time `send_ms`, at one per minute, five per hour and ten per day, or does
/// neither.
pub async fn schedule(
    connection: &mut (impl ConnectionLike + Send),
    ip: &str,
    send_ms: u64,
    now_ms: u64,
) -> RedisResult<bool> {
    if send_ms < now_ms {
        return Ok(true);
    }
    let midnight_ms = send_ms / DAY_MS * DAY_MS;
    let second = (send_ms - midnight_ms) / 1_000;
    let key = format!("{ip}:day-{}", send_ms / DAY_MS);
    let taken: Vec<u64> = command("SMEMBERS", &key).query_async(connection).await?;
    let within = |span: u64| {
        let near = |other: &&u64| second.abs_diff(**other) < span;
        taken.iter().filter(near).count()
    };
    if taken.len() >= MOST_PER_DAY || within(60) > 0 || within(3_600) > MOST_PER_HOUR {
        return Ok(false);
    }
    let mut pipeline = Pipeline::new();
    pipeline.cmd("SADD").arg(&key).arg(second);
    if taken.is_empty() {
        pipeline.add_command(expire(&key, (midnight_ms + DAY_MS - now_ms) / 1_000));
    }
    let () = pipeline.query_async(connection).await?;
    Ok(true)
}

/// Decides with a counter that the first call of a window creates, in a script.
pub async fn counter_set_by_the_first(
    connection: &mut (impl ConnectionLike + Send),
    key: &str,
    period_s: u64,
    most: u64,
) -> RedisResult<bool> {
    const SCRIPT: &str = "
        local used = redis.call('GET', KEYS[1])
        if not used then
          redis.call('SET', KEYS[1], 1, 'EX', ARGV[1])
          return 1
        end
        if tonumber(used) >= tonumber(ARGV[2]) then return 0 end
        redis.call('INCR', KEYS[1])
        return 1";
    eval(SCRIPT, &[key], &[period_s, most])
        .query_async(connection)
        .await
}

/// Decides with a counter that is created if needed and then read, in a script.
pub async fn counter_set_then_read(
    connection: &mut (impl ConnectionLike + Send),
    key: &str,
    period_s: u64,
    most: u64,
) -> RedisResult<bool> {
    const SCRIPT: &str = "
        redis.call('SET', KEYS[1], 0, 'NX', 'EX', ARGV[1])
        if tonumber(redis.call('GET', KEYS[1])) >= tonumber(ARGV[2]) then return 0 end
        redis.call('INCR', KEYS[1])
        return 1";
    eval(SCRIPT, &[key], &[period_s, most])
        .query_async(connection)
        .await
}

/// Decides with a counter that every call increments, in one transaction.
pub async fn counter_in_transaction(
    connection: &mut (impl ConnectionLike + Send),
    key: &str,
    period_s: u64,
    most: u64,
) -> RedisResult<bool> {
    let mut expire_once = expire(key, period_s);
    expire_once.arg("NX");
    let (counted,): (u64,) = redis::pipe()
        .atomic()
        .add_command(command("INCR", key))
        .ignore()
        .add_command(expire_once)
        .ignore()
        .add_command(command("GET", key))
        .query_async(connection)
        .await?;
    Ok(counted <= most)
}

/// Decides with a sorted set of the seconds with calls and a hash of the calls in each, in a
/// script, by the server's time.
pub async fn counts_by_second(
    connection: &mut (impl ConnectionLike + Send),
    seconds_key: &str,
    counts_key: &str,
    period_s: u64,
    most: u64,
) -> RedisResult<bool> {
    const SCRIPT: &str = "
        local second = redis.call('TIME')[1]
        local seconds = redis.call('ZRANGEBYSCORE', KEYS[1], second - ARGV[1], second)
        if #seconds > 0 then
          local sum = 1
          for _, count in ipairs(redis.call('HMGET', KEYS[2], unpack(seconds))) do
            sum = sum + count
          end
          if sum > tonumber(ARGV[2]) then return 0 end
        end
        redis.call('ZADD', KEYS[1], second, second)
        redis.call('HINCRBY', KEYS[2], second, 1)
        return 1";
    eval(SCRIPT, &[seconds_key, counts_key], &[period_s, most])
        .query_async(connection)
        .await
}

fn command(name: &str, key: &str) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(key);
    command
}

fn add(key: &str, score: u64, member: u64) -> Cmd {
    let mut command = command("ZADD", key);
    command.arg(score).arg(member);
    command
}

fn trim(key: &str, from: u64, to: u64) -> Cmd {
    let mut command = command("ZREMRANGEBYSCORE", key);
    command.arg(from).arg(to);
    command
}

fn expire(key: &str, seconds: u64) -> Cmd {
    let mut command = command("EXPIRE", key);
    command.arg(seconds);
    command
}

fn eval(script: &str, keys: &[&str], arguments: &[u64]) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(keys.len()).arg(keys).arg(arguments);
    command
}
