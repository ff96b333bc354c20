//! Secrets: what is refused when the configuration is loaded, and that nothing shows them.

use super::*;

fn refusal(name: &str, texts: &[&str]) -> String {
    problems(&shipped_spec(name), &with_secrets(texts))
}

#[test]
fn secrets_that_cannot_be_right_are_refused_at_once() {
    let check = |name: &str, texts: &[&str], expected: &str| {
        let found = refusal(name, texts);
        assert!(found.contains(expected), "{texts:?}: `{found}` does not hold `{expected}`");
        for text in texts.iter().filter(|text| text.len() > 6) {
            assert!(!found.contains(text.trim()), "`{found}` shows the secret");
        }
    };
    check("stripe", &[], "source `stripe`: secrets: there is no signing secret");
    check("stripe", &[""], "secret 1: it is empty");
    check("stripe", &["whsec_tollgate_test_secret\n"], "secret 1: it has spaces or line breaks at an end");
    check("stripe", &[PLAIN_SECRET, " whsec_tollgate_old_secret"], "secret 2: it has spaces or line breaks at an end");
    check("stripe", &["whsec_short"], "secret 1: its key has 11 bytes, 16 to 512 are expected");
    check("stripe", &[PLAIN_SECRET, PLAIN_SECRET], "secret 2: it is the same as secret 1");
    let many: Vec<_> = (10..30).map(|n| format!("whsec_tollgate_secret_{n}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    check("stripe", &many, "there are 20 signing secrets, at most 16 fit");
    // Lenient decoding would make a near-empty key of these.
    check(
        "standard",
        &["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS"],
        "it is not standard base64 with padding behind `whsec_`",
    );
    check("standard", &["whsec_!!!!MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "it is not standard base64");
    check("standard", &["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2La LaSw"], "it is not standard base64");
    check("stripe", &["whsec_tollgate_\u{200b}test_secret"], "secret 1: its character 16 is not printable ASCII");
    check("stripe", &["whsec_tollgate_test_secret\u{feff}"], "secret 1: its character 27 is not printable ASCII");
    check("stripe", &["whsec_tollgate\ttest_secret"], "secret 1: its character 15 is not printable ASCII");
    check("stripe", &["whsec_tollgate_test_secret\u{0}"], "secret 1: its character 27 is not printable ASCII");
    check("stripe", &["'whsec_tollgate_test_secret'"], "secret 1: it stands in quotes");
    check("stripe", &["\"whsec_tollgate_test_secret\""], "secret 1: it stands in quotes");
    check("stripe", &["\"whsec_tollgate_test_secret"], "secret 1: it stands in quotes");
    check("standard", &["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaR="], "it is not standard base64");
    check("standard", &["whsec_AAAA"], "its key has 3 bytes, 24 to 64 are expected");
    check("standard", &["whsec_"], "its key has 0 bytes, 24 to 64 are expected");
    check("standard", &["whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "it is not standard base64");
    let twins = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];
    check("standard", &twins, "secret 2: it is the same as secret 1");
}

#[test]
fn a_hexadecimal_secret_is_decoded_or_refused() {
    let mut spec = shipped_spec("stripe");
    spec.signature.key_decode = vec![spec::KeyDecode::Hex];
    let digits = "dfb1eb5485895cfa84146406857104ab";
    let [lower, upper] = [digits.to_owned(), digits.to_uppercase()].map(|text| compile(&spec, &[&text]));
    assert_eq!(lower.sign(0, "", b"{}", NOW), upper.sign(0, "", b"{}", NOW));
    let refusal = |text: &str| problems(&spec, &with_secrets(&[text]));
    assert_eq!(refusal(&digits[1..]), "source `stripe`: secret 1: it is not hexadecimal");
    assert_eq!(refusal(&digits.replace('d', "x")), "source `stripe`: secret 1: it is not hexadecimal");
    assert!(refusal(&digits[2..]).contains("its key has 15 bytes, 16 to 512 are expected"));
}

#[test]
fn lists_of_secrets_are_read_with_their_times() {
    let read = |text: &str| {
        let secrets = SigningSecret::from_variable(text)?;
        let show = |secret: &SigningSecret| {
            let time = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), |at| at.to_string());
            let text = secrecy::ExposeSecret::expose_secret(&secret.text).to_owned();
            format!("{text}|{}|{}", time(secret.not_before), time(secret.not_after))
        };
        Ok(secrets.iter().map(show).collect::<Vec<_>>())
    };
    let check = |text: &str, expected: &[&str]| {
        assert_eq!(read(text), Ok::<_, Unreadable>(expected.iter().map(|s| (*s).to_owned()).collect()));
    };
    check("a", &["a|-|-"]);
    check("a,b", &["a|-|-", "b|-|-"]);
    check("a,", &["a|-|-", "|-|-"]);
    check("a not_after=2027-01-31T00:00:00Z", &["a|-|2027-01-31T00:00:00Z"]);
    check(
        "a not_before=2026-01-01T00:00:00Z not_after=2027-01-31T00:00:00+01:00,b",
        &["a|2026-01-01T00:00:00Z|2027-01-30T23:00:00Z", "b|-|-"],
    );
    check(
        "a not_after=2027-01-31T00:00:00Z  not_before=2026-01-01T00:00:00Z ",
        &["a|2026-01-01T00:00:00Z|2027-01-31T00:00:00Z"],
    );
    // Spaces around a secret alone are not taken off, they are refused with the secret.
    check(" a", &[" a|-|-"]);
    check("a ", &["a |-|-"]);
    let wrong = read("a,b not_after=tomorrow").unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "secret 2: `not_after=tomorrow` is not an RFC 3339 time, for example `not_after=2027-01-31T00:00:00Z`"
    );
    let file = "# rolled in May\nwhsec_old not_after=2027-01-31T00:00:00Z\r\n\nwhsec_new,with,commas\n";
    let secrets = SigningSecret::from_file(file).unwrap();
    let texts: Vec<_> = secrets.iter().map(|s| secrecy::ExposeSecret::expose_secret(&s.text).to_owned()).collect();
    assert_eq!(texts, ["whsec_old", "whsec_new,with,commas"]);
}

#[test]
fn an_unknown_word_behind_a_secret_is_told_without_the_secret() {
    let check = |text: &str, expected: &str| {
        let found = SigningSecret::from_variable(text).unwrap_err().to_string();
        let rest = "; expected `not_before=TIME` or `not_after=TIME` (a secret itself holds no space)";
        assert_eq!(found, format!("secret 1: {expected}{rest}"), "{text}");
    };
    let not_after = "behind the secret is not known (did you mean `not_after`?)";
    check("whsec_x not_afer=2020-01-01T00:00:00Z", &format!("`not_afer` {not_after}"));
    check("whsec_x not-after=2020-01-01T00:00:00Z", &format!("`not-after` {not_after}"));
    check("whsec_x not_after:2020-01-01T00:00:00Z", &format!("`not_after` {not_after}"));
    check("whsec_x not_befor=x", "`not_befor` behind the secret is not known (did you mean `not_before`?)");
    check("whsec_x not_afer=1 not_after=2027-01-31T00:00:00Z", &format!("`not_afer` {not_after}"));
    check("whsec_x expires=2020-01-01T00:00:00Z", "`expires` behind the secret is not known");
    // What may be part of a secret is not shown.
    check("It's a Secret to Everybody", "word 4 behind the secret is not known");
    check("whsec_x c2VjcmV0=", "word 1 behind the secret is not known");
}

#[test]
fn secrets_that_have_all_expired_are_warned_of() {
    let check = |texts: &str, expected: Option<&str>| {
        let secrets = Secrets { signing: SigningSecret::from_variable(texts).unwrap(), ..Secrets::default() };
        let source = Source::compile(&shipped_spec("stripe"), &secrets).unwrap();
        let rest = "deliveries are refused until one that counts is set";
        let expected = expected.map(|at| format!("every signing secret has expired, the last at {at}; {rest}"));
        assert_eq!(source.expired(NOW), expected, "{texts}");
    };
    let (old, new) = ("whsec_tollgate_old_secret", PLAIN_SECRET);
    check(new, None);
    check(&format!("{old} not_after=2020-01-01T00:00:00Z"), Some("2020-01-01T00:00:00Z"));
    check(&format!("{old} not_after={NOW}"), Some(&NOW.to_string()));
    check(&format!("{old} not_after={}", NOW.plus(std::time::Duration::from_nanos(1))), None);
    check(&format!("{old} not_after=2020-01-01T00:00:00Z,{new}"), None);
    check(&format!("{old} not_after=2020-01-01T00:00:00Z,{new} not_before=2200-01-01T00:00:00Z"), None);
    let both = format!("{old} not_after=2020-01-01T00:00:00Z,{new} not_after=2021-01-01T00:00:00Z");
    check(&both, Some("2021-01-01T00:00:00Z"));
}

#[test]
fn a_secret_that_never_counts_is_refused() {
    let signing = SigningSecret::from_variable(&format!(
        "{PLAIN_SECRET} not_before=2027-01-01T00:00:00Z not_after=2026-01-01T00:00:00Z"
    ));
    let secrets = Secrets { signing: signing.unwrap(), ..Secrets::default() };
    let expected = "source `stripe`: secret 1: it never counts: not_after 2026-01-01T00:00:00Z is not later than not_before 2027-01-01T00:00:00Z";
    assert_eq!(problems(&shipped_spec("stripe"), &secrets), expected);
}

#[test]
fn nothing_prints_a_secret() {
    let api_key = "sk_live_tollgate_api_key";
    let secrets = Secrets { api_key: Some(api_key.into()), ..with_secrets(&[PLAIN_SECRET]) };
    let source = Source::compile(&shipped_spec("stripe"), &secrets).unwrap();
    let key = EntityKey {
        partition: crate::domain::Partition::LIVE,
        source: "stripe".into(),
        kind: "invoice".into(),
        id: "in_1".into(),
    };
    let request = source.upstream().unwrap().request(&key).unwrap();
    let printed = format!("{secrets:?} {source:?} {request:?}");
    let bytes = format!("{:?}", PLAIN_SECRET.as_bytes());
    for secret in [PLAIN_SECRET, api_key, bytes.as_str()] {
        assert!(!printed.contains(secret), "{printed}");
    }
}
