//! Signature schemes of providers as rows, shipped or not: for the tests of published vectors, and for fuzzing.

/// All of them.
pub(crate) const ALL: [&str; 11] =
    [STRIPE, STANDARD, PADDLE, ORB, RECURLY, GITHUB, BARE_HEX, SQUARE, SHOPIFY, ADYEN, POLAR];

/// Stripe.
pub(crate) const STRIPE: &str = r#"
headers = [{ signature = "Stripe-Signature" }]
parse = { form = "pairs", separator = ",", timestamp = "t", signatures = ["v1"] }
key_decode = ["utf8"]
signed = "{timestamp}.{body}"
encoding = "hex"
timestamp_unit = "unix_s"
window = "one_sided"
tolerance_s = 300
"#;
/// Standard Webhooks, and Svix before it.
pub(crate) const STANDARD: &str = r#"
headers = [{ id = "webhook-id", timestamp = "webhook-timestamp", signature = "webhook-signature" }]
parse = { form = "list", separator = " ", label_separator = ",", labels = ["v1"] }
key_decode = ["base64"]
key_prefix = "whsec_"
signed = "{id}.{timestamp}.{body}"
encoding = "base64"
timestamp_unit = "unix_s"
window = "two_sided"
tolerance_s = 300
"#;
/// Paddle Billing.
pub(crate) const PADDLE: &str = r#"
headers = [{ signature = "Paddle-Signature" }]
parse = { form = "pairs", separator = ";", timestamp = "ts", signatures = ["h1"] }
key_decode = ["utf8"]
signed = "{timestamp}:{body}"
encoding = "hex"
timestamp_unit = "unix_s"
window = "one_sided"
tolerance_s = 5
"#;
/// Orb: a time without a zone.
pub(crate) const ORB: &str = r#"
headers = [{ timestamp = "X-Orb-Timestamp", signature = "X-Orb-Signature" }]
parse = { form = "list", separator = " ", label_separator = "=", labels = ["v1"] }
key_decode = ["utf8"]
signed = "v1:{timestamp}:{body}"
encoding = "hex"
timestamp_unit = "naive_utc"
window = "two_sided"
tolerance_s = 300
"#;
/// Recurly: the timestamp is the first element.
pub(crate) const RECURLY: &str = r#"
headers = [{ signature = "recurly-signature" }]
parse = { form = "list", separator = ",", timestamp_first = true }
key_decode = ["utf8"]
signed = "{timestamp}.{body}"
encoding = "hex"
timestamp_unit = "unix_ms"
window = "two_sided"
tolerance_s = 300
"#;
/// GitHub: no timestamp.
pub(crate) const GITHUB: &str = r#"
headers = [{ signature = "X-Hub-Signature-256" }]
parse = { form = "plain", prefix = "sha256=" }
key_decode = ["utf8"]
signed = "{body}"
encoding = "hex"
window = "none"
"#;
/// Lemon Squeezy, Razorpay and `GoCardless`: a bare hex code over the body.
pub(crate) const BARE_HEX: &str = r#"
headers = [{ signature = "X-Signature" }]
parse = { form = "plain" }
key_decode = ["utf8"]
signed = "{body}"
encoding = "hex"
window = "none"
"#;
/// Square: the address is signed.
pub(crate) const SQUARE: &str = r#"
headers = [{ signature = "x-square-hmacsha256-signature" }]
parse = { form = "plain" }
key_decode = ["utf8"]
signed = "{url}{body}"
url = "https://example.com/webhook"
encoding = "base64"
window = "none"
"#;
/// Shopify: two header names.
pub(crate) const SHOPIFY: &str = r#"
headers = [{ signature = "Shopify-Hmac-Sha256" }, { signature = "X-Shopify-Hmac-Sha256" }]
parse = { form = "plain" }
key_decode = ["utf8"]
signed = "{body}"
encoding = "base64"
window = "none"
"#;
/// Adyen's header form: the key is hexadecimal.
pub(crate) const ADYEN: &str = r#"
headers = [{ signature = "hmacsignature" }]
parse = { form = "plain" }
key_decode = ["hex"]
signed = "{body}"
encoding = "base64"
window = "none"
"#;
/// Polar: secrets of either age, used whole or decoded.
pub(crate) const POLAR: &str = r#"
headers = [{ id = "webhook-id", timestamp = "webhook-timestamp", signature = "webhook-signature" }]
parse = { form = "list", separator = " ", label_separator = ",", labels = ["v1"] }
key_decode = ["base64", "utf8"]
key_prefix = "whsec_"
signed = "{id}.{timestamp}.{body}"
encoding = "base64"
timestamp_unit = "unix_s"
window = "two_sided"
tolerance_s = 300
"#;
