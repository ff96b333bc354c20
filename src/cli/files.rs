//! How many files this process may have open: each connection is one, and the journal must never want for one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is kept for the store's own files, the upstreams' connections and the like.
const KEPT: u64 = 256;

/// Raises the limit as far as the system allows, and answers how many connections fit below it.
pub(super) fn connections_within(asked: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { maximum } else { current };
    let fit = fitting(asked, limit);
    if fit < asked {
        tracing::warn!(asked, connections = fit, "the limit of open files is too low for `server.connections_max`");
    }
    fit
}

/// Connections below a limit of files; none is no limit. A server takes a few whatever the limit is.
fn fitting(asked: usize, limit: Option<u64>) -> usize {
    let room = limit.map_or(u64::MAX, |limit| limit.saturating_sub(KEPT).max(limit / 4));
    asked.min(usize::try_from(room).unwrap_or(usize::MAX)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_store() {
        let rows = [(10_000, Some(1024), 768), (100, Some(1024), 100), (10_000, None, 10_000), (10_000, Some(100), 25)];
        for (asked, limit, expected) in rows {
            assert_eq!(fitting(asked, limit), expected, "{asked} of {limit:?}");
        }
    }
}
