//! Runs the command line.

fn main() -> std::process::ExitCode {
    tollgate::cli::main()
}
