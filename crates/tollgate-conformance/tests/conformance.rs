//! The suite passes on the reference store, also if that refuses callers' instants.

mod reference;

use reference::Reference;

tollgate_conformance::conformance!(Reference);

mod by_its_own_clock_only {
    use super::reference::ByItsOwnClockOnly;

    tollgate_conformance::conformance!(ByItsOwnClockOnly);
}
