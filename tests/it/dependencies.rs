//! What the dependencies may not bring along.

use std::process::Command;

/// Both change how `serde_json` reads numbers and maps for the whole build: tagged enums break, and digits are lost
/// where they must not be.
#[test]
fn no_crate_turns_on_the_features_of_serde_json_that_change_every_reader() {
    let cargo = option_env!("CARGO").unwrap_or("cargo");
    let output = Command::new(cargo)
        .args(["tree", "--locked", "--offline", "--edges", "features,normal", "--prefix", "none"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let tree = String::from_utf8(output.stdout).unwrap();
    assert!(tree.contains("serde_json feature \"raw_value\""), "{}", String::from_utf8_lossy(&output.stderr));
    for feature in ["arbitrary_precision", "preserve_order", "float_roundtrip"] {
        assert!(!tree.contains(&format!("serde_json feature \"{feature}\"")), "something turns on `{feature}`");
    }
}
