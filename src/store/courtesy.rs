//! Who waits for whom when processors are scarce: the door answers first, then events are decided, then the view follows.

/// Lets threads of a lower number go first; of this thread and those that it starts. Without the right to it, or on a
/// system where it would be the whole process, nothing changes.
pub(crate) fn step_back(by: i32) {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(by);
    #[cfg(not(target_os = "linux"))]
    let _ = by;
}
