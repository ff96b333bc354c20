//! The sources that come with the binary.

/// Name and file of each shipped source, by name.
pub const SHIPPED: [(&str, &str); 4] = [
    ("flexprice", include_str!("../../config/sources/flexprice.toml")),
    ("paddle", include_str!("../../config/sources/paddle.toml")),
    ("standard", include_str!("../../config/sources/standard.toml")),
    ("stripe", include_str!("../../config/sources/stripe.toml")),
];
