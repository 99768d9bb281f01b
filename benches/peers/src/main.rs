//! Prints what rate limiters admit, next to the most that each should.

use tollgate_peers::{Problem, admitted};

fn main() -> Result<(), Problem> {
    admitted::print()
}
