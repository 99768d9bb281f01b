//! Reads a server's release and script count from `INFO`.

use tollgate_testkit::Server;

use crate::Problem;

/// Returns the name and release of a server, such as `Redis 7.0.15`.
///
/// # Errors
///
/// If the server does not say them.
pub fn release(server: &Server) -> Result<String, Problem> {
    let reply = server.command(&["INFO", "server"]);
    let text = reply.text().ok_or("the server does not say what it is")?;
    // Valkey also reports the Redis release that it is compatible with.
    let named = [("Valkey", "valkey_version"), ("Redis", "redis_version")];
    let found = named
        .into_iter()
        .find_map(|(name, field)| Some(format!("{name} {}", value(text, field)?)));
    found.ok_or_else(|| "the server does not say its release".into())
}

/// Returns how many scripts a server has run since its counters started, including failed ones.
///
/// # Errors
///
/// If the server does not say so, as before its first script.
pub fn scripts_run(server: &Server) -> Result<u64, Problem> {
    let reply = server.command(&["INFO", "commandstats"]);
    let text = reply.text().ok_or("the server does not count commands")?;
    let calls = value(text, "cmdstat_evalsha").and_then(calls);
    calls.ok_or_else(|| "the server has not counted scripts".into())
}

/// Returns the value of a field in the reply to `INFO`.
fn value<'a>(information: &'a str, name: &str) -> Option<&'a str> {
    information
        .lines()
        .find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}

/// Returns the number of calls in the statistics of one command.
fn calls(counts: &str) -> Option<u64> {
    let mut parts = counts.split(',');
    parts.find_map(|part| part.strip_prefix("calls=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_names() {
        let text = "# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\n";
        assert_eq!(value(text, "valkey_version"), Some("9.1.2"));
        assert_eq!(value(text, "version"), None);
        assert_eq!(value(text, "redis"), None);
    }

    #[test]
    fn calls_are_parsed_from_command_statistics() {
        let counts = "calls=12,usec=34,usec_per_call=2.83,rejected_calls=1,failed_calls=0";
        assert_eq!(calls(counts), Some(12));
        assert_eq!(calls("rejected_calls=1"), None);
    }
}
