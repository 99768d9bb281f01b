//! The examples of README.md and of the documents, which are compiled and run as those of this package.
//!
//! They need more crates than any library does. `cargo xtask ci readme` also builds each program of README.md with
//! only the dependencies that stand above it.

/// Each page is a struct, so that a failing example names its page.
macro_rules! pages {
    ($($name:ident $path:literal)+) => {$(
        #[cfg(doctest)]
        #[doc = include_str!(concat!("../../../", $path))]
        struct $name;
    )+};
}

pages! {
    Readme "README.md"
    Algorithms "docs/algorithms.md"
    Architecture "docs/architecture.md"
    Blocking "docs/blocking.md"
    DelayedStarts "docs/delayed-starts.md"
    Http "docs/http.md"
    Leases "docs/leases.md"
    Operating "docs/operating.md"
    Outbound "docs/outbound.md"
    Prefetch "docs/prefetch.md"
    Recipes "docs/recipes.md"
    RedisSnippets "docs/redis-snippets.md"
    Repeating "docs/repeating.md"
    Schedules "docs/schedules.md"
    Settling "docs/settling.md"
    Waiting "docs/waiting.md"
}
