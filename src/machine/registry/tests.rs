use super::*;

#[test]
fn every_shipped_file_is_good() {
    let loaded = Registry::load([]).unwrap();
    let names = |registry: &Registry| registry.iter().map(|machine| machine.name().to_string()).collect::<Vec<_>>();
    assert_eq!(names(&loaded), SHIPPED.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>());
    assert_eq!(names(&Registry::shipped()), names(&loaded));
}

#[test]
fn a_name_that_is_almost_right_is_recognized() {
    let registry = Registry::shipped();
    let nearest = |name| registry.nearest(name).map(MachineName::as_str);
    assert_eq!(nearest("stripe/subscriptions"), Some("stripe/subscription"));
    assert_eq!(nearest("Paddle/Transaction"), Some("paddle/transaction"));
    assert_eq!(nearest("lago/invoice_fee"), None);
}
