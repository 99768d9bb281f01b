//! The examples of README.md and of the documents, which are compiled and run as those of this package.
//!
//! They need more crates than any library does. `cargo xtask ci readme` also builds each program of README.md with
//! only the dependencies that stand above it.

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/algorithms.md")]
struct Algorithms;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/architecture.md")]
struct Architecture;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/blocking.md")]
struct Blocking;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/delayed-starts.md")]
struct DelayedStarts;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/http.md")]
struct Http;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/leases.md")]
struct Leases;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/operating.md")]
struct Operating;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/outbound.md")]
struct Outbound;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/prefetch.md")]
struct Prefetch;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/recipes.md")]
struct Recipes;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/repeating.md")]
struct Repeating;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/schedules.md")]
struct Schedules;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/settling.md")]
struct Settling;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/waiting.md")]
struct Waiting;
