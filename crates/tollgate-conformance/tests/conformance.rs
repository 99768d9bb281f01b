//! The suite passes on the simplest store that keeps every promise, and where nobody else says what
//! time it is.

mod reference;

use reference::Reference;

tollgate_conformance::conformance!(Reference);

mod by_its_own_clock_only {
    use super::reference::ByItsOwnClockOnly;

    tollgate_conformance::conformance!(ByItsOwnClockOnly);
}
