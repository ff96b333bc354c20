//! Runs the command line.

/// What one thread allocates another frees: a request of the door ends at the committer, a decision at the applier. This
/// allocator is made for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    tollgate::cli::main()
}
