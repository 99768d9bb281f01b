//! Calls that are sent together while their callers come and go.

use std::sync::Arc;

use tollgate_core::Store;
use tollgate_redis::{Options, RedisStore};

async fn connect(url: String, options: Options) -> Arc<dyn Store> {
    let builder = RedisStore::builder().options(options);
    Arc::new(builder.connect(url).await.unwrap())
}

tollgate_scenarios::batches!(connect);
