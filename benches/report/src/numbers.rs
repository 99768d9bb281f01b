//! Finds the numbers that tables and charts show.

use super::Rows;

/// The limit with which calls together and alone are compared.
const LIMIT: &str = "l=gcra:1000000000/1000d";

/// Returns a number of `memory`: of an outcome, so many keys and threads, and a limiter.
pub(super) fn in_memory(
    memory: &Rows,
    column: &str,
    [outcome, keys, threads, limiter]: [&str; 4],
) -> Option<f64> {
    memory.number(
        column,
        &[
            ("outcome", outcome),
            ("keys", keys),
            ("threads", threads),
            ("limiter", limiter),
        ],
    )
}

/// Returns a number of `servers`, with so many calls in flight.
pub(super) fn on_server(
    servers: &Rows,
    column: &str,
    server: &str,
    client: &str,
    depth: &str,
    call: &str,
) -> Option<f64> {
    servers.number(
        column,
        &[
            ("server", server),
            ("client", client),
            ("calls_in_flight", depth),
            ("call", call),
        ],
    )
}

/// Returns a number of `batches`: of a server, a client, keys, so many callers, and whether calls are
/// sent alone or together.
pub(super) fn in_batches(
    batches: &Rows,
    column: &str,
    [server, client, keys, callers, sent]: [&str; 5],
) -> Option<f64> {
    batches.number(
        column,
        &[
            ("server", server),
            ("client", client),
            ("keys", keys),
            ("limit", LIMIT),
            ("callers", callers),
            ("sent", sent),
        ],
    )
}
