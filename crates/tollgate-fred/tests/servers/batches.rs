//! Calls that are sent together while their callers come and go.

use std::sync::Arc;

use tollgate_core::Store;
use tollgate_fred::{FredStore, Options};

async fn connect(url: String, options: Options) -> Arc<dyn Store> {
    let builder = FredStore::builder().options(options);
    Arc::new(builder.connect(&url).await.unwrap())
}

tollgate_scenarios::batches!(connect);
