//! `tollgate store`: checks and rebuilds the store of a data directory that no server has open.

use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};

use super::failure::Failure;
use crate::config::Config;
use crate::store::Store;
use crate::store::embedded::EmbeddedStore;
use crate::store::options::{Options, Progress};

/// Opens the store of a configuration. Shows how far it has come if its view is built anew.
pub(super) fn open(config: &Config) -> Result<Arc<dyn Store>, Failure> {
    let (progress, bar) = progress("building the view");
    let options = Options { progress: Some(progress), ..config.store.options() };
    let store = EmbeddedStore::open(&config.paths.data, options);
    bar.finish_and_clear();
    Ok(Arc::new(store?))
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
