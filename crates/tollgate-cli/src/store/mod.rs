//! Stores: where limits are counted, in memory or on a server.

#[cfg_attr(not(feature = "servers"), path = "no_clients.rs")]
mod clients;
mod hashing;
mod options;
mod remote;
mod server;

pub(crate) use hashing::has_secret;
pub(crate) use options::{
    KeyOptions, LocationOptions, OneKeyOptions, ServerOptions, TimeSource, Whom,
};
pub(crate) use remote::{PATIENCE, Remote};
pub(crate) use server::Server;

use crate::failure::Failure;

pub(crate) fn wait_for<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::Runtime)?;
    let done = runtime.block_on(work);
    // Do not wait for a DNS lookup that is still running.
    runtime.shutdown_background();
    done
}
