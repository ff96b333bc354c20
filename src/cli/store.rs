//! `tollgate store`: checks and rebuilds the store of a data directory that no server has open.

use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};

use super::failure::Failure;
use crate::config::Config;
use crate::store::embedded::EmbeddedStore;
use crate::store::options::{Options, Progress};
use crate::store::{Error, Store};

/// Opens the store of a configuration. Shows how far it has come if its view is built anew.
pub(super) fn open(config: &Config) -> Result<Arc<dyn Store>, Failure> {
    let (progress, bar) = progress("building the view");
    let options = options(config, progress);
    // The count of shards is for a new store; an old one keeps its own.
    let asked = Options { shards: Some(config.store.shards), ..options.clone() };
    let store = match EmbeddedStore::open(&config.paths.data, asked) {
        Err(Error::OtherShards { .. }) => EmbeddedStore::open(&config.paths.data, options),
        opened => opened,
    };
    bar.finish_and_clear();
    Ok(Arc::new(store?))
}

fn options(config: &Config, progress: Progress) -> Options {
    Options { shards: None, progress: Some(progress), ..config.store.options() }
}

/// A bar on the standard error stream; nothing is drawn if that is no terminal.
fn progress(what: &'static str) -> (Progress, ProgressBar) {
    let bar = ProgressBar::new(0).with_message(what);
    let form = "{msg} [{bar:30}] {human_pos} of {human_len} records, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style.progress_chars("=> "));
    }
    let drawn = bar.clone();
    let tell = move |done, total| {
        drawn.set_length(total);
        drawn.set_position(done);
    };
    (Arc::new(tell), bar)
}
