//! Replies that are noise: the call is counted once, and the error reports an invalid reply.

use std::time::Duration;

use tollgate_fred::{FredStore, Options};
use tollgate_scenarios::garbled as shared;
use tollgate_testkit::{Flavor, Server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_with_a_garbled_reply_is_not_sent_again() {
    let server = Server::start(Flavor::System);
    let connect = async |url: String| {
        let options = Options::default().with_deadline(Duration::from_secs(3));
        FredStore::builder()
            .options(options)
            .connect(&url)
            .await
            .unwrap()
    };
    shared::is_counted_once(&server, connect).await;
}
