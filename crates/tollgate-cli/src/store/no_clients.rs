//! Replaces the module `clients` in builds without the feature `servers`.

use std::io;
use std::path::Path;

use tollgate_core::{ErrorKind, StoreError};
use tollgate_wire::Options;

use crate::failure::Failure;
use crate::store::remote::{Client, Remote};

const WITHOUT: &str =
    "this program has no clients for servers: build it with the feature `servers`";

pub(crate) enum Authorities {}

impl Authorities {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        Err(Failure::Authorities {
            path: path.to_owned(),
            source: io::Error::new(io::ErrorKind::Unsupported, WITHOUT),
        })
    }
}

pub(crate) fn choose() {}

pub(crate) async fn open(
    _client: &Client,
    _authorities: Option<&Authorities>,
    _options: Options,
) -> Result<Box<dyn Remote>, StoreError> {
    Err(StoreError::new(ErrorKind::Unsupported, WITHOUT))
}
