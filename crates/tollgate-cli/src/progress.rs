//! `Progress`: a progress bar for long operations.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Inputs of fewer bytes are read so quickly that they get no bar.
const LONG: u64 = 64 * 1024 * 1024;

/// A progress bar on standard error, or nothing.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Returns progress that is shown only if `is_watching`.
    pub(crate) fn new(is_watching: bool) -> Self {
        let bar = || ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
        Self {
            bar: is_watching.then(bar),
        }
    }

    /// Shows progress while reading `bytes`, if that takes long.
    pub(crate) fn start_reading(&self, bytes: u64) {
        let Some(bar) = self.bar.as_ref().filter(|_| bytes >= LONG) else {
            return;
        };
        bar.set_length(bytes);
        if let Ok(style) = ProgressStyle::with_template(
            "{msg:9} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        ) {
            bar.set_style(style);
        }
        bar.set_draw_target(ProgressDrawTarget::stderr());
        bar.set_message("reading");
    }

    /// Shows progress while `doing` something with each of `requests`.
    pub(crate) fn start_deciding(&self, requests: usize, doing: &'static str) {
        let Some(bar) = &self.bar else {
            return;
        };
        bar.reset();
        bar.set_length(u64::try_from(requests).unwrap_or(u64::MAX));
        if let Ok(style) =
            ProgressStyle::with_template("{msg:9} {wide_bar} {pos}/{len} {per_sec} {eta}")
        {
            bar.set_style(style);
        }
        bar.set_draw_target(ProgressDrawTarget::stderr());
        bar.set_message(doing);
    }

    /// Shows progress while scanning the `keys` of a server; their number may be unknown.
    pub(crate) fn start_clearing(&self, keys: Option<u64>) {
        let Some(bar) = &self.bar else {
            return;
        };
        let template = match keys {
            Some(_) => "{msg} {wide_bar} {pos}/{len} keys {eta}",
            None => "{msg} {spinner} {pos} keys {elapsed}",
        };
        bar.reset();
        if let Some(keys) = keys {
            bar.set_length(keys);
        }
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }

    /// Sets the position to the number of scanned keys, with a message.
    pub(crate) fn reach(&self, position: u64, message: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(message);
            bar.set_position(position);
        }
    }

    /// Adds bytes read or requests decided.
    #[inline]
    pub(crate) fn advance(&self, by: usize) {
        if let Some(bar) = &self.bar {
            bar.inc(u64::try_from(by).unwrap_or(u64::MAX));
        }
    }

    /// Shows what the program does after reading the input.
    pub(crate) fn say(&self, what: &'static str) {
        if let Some(bar) = self.bar.as_ref().filter(|bar| !bar.is_hidden()) {
            if let Ok(style) = ProgressStyle::with_template("{msg:9} {spinner} {elapsed}") {
                bar.set_style(style);
            }
            bar.set_message(what);
            bar.enable_steady_tick(Duration::from_millis(100));
        }
    }

    /// Removes the bar, so that other output can be written.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
