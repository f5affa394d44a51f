//! A secret that may become another one while the bridge serves. Everybody who was granted it holds the same one, so a new
//! value is in force for the next request, also of a call that began before; those before it are still known, because
//! an upstream that repeats one must not give it away. Knows nothing of places and files.

use arc_swap::ArcSwap;
use secrecy::{ExposeSecret, SecretString};
use std::fmt;
use std::sync::Arc;

/// Values that were in force before and are still kept out of answers. The older ones have been replaced as often.
const MOST_FORMER: usize = 4;

#[derive(Clone)]
pub struct LiveSecret(Arc<ArcSwap<Values>>);

/// The one in force first.
struct Values(Vec<SecretString>);

impl LiveSecret {
    pub fn new(value: SecretString) -> LiveSecret {
        LiveSecret(Arc::new(ArcSwap::from_pointee(Values(vec![value]))))
    }

    /// In force now.
    pub fn current(&self) -> SecretString {
        self.0.load().0[0].clone()
    }

    /// In force now, and before.
    pub fn all(&self) -> Vec<SecretString> {
        self.0.load().0.clone()
    }

    /// For everybody who holds it. One at a time. False: it is this already.
    pub fn becomes(&self, value: SecretString) -> bool {
        let mut values = self.all();
        if is_same(values[0].expose_secret().as_bytes(), value.expose_secret().as_bytes()) {
            return false;
        }
        values.retain(|old| old.expose_secret() != value.expose_secret());
        values.insert(0, value);
        values.truncate(1 + MOST_FORMER);
        self.0.store(Arc::new(Values(values)));
        true
    }
}

/// By what is in force now.
impl PartialEq for LiveSecret {
    fn eq(&self, other: &LiveSecret) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || is_same(self.current().expose_secret().as_bytes(), other.current().expose_secret().as_bytes())
    }
}

impl fmt::Debug for LiveSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LiveSecret")
    }
}

/// In a time that depends on the lengths alone.
fn is_same(one: &[u8], two: &[u8]) -> bool {
    let differences = one.iter().zip(two).fold(0, |found, (a, b)| std::hint::black_box(found | (a ^ b)));
    one.len() == two.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_holds_it_has_the_new_value_and_knows_the_last_few() {
        let secret = LiveSecret::new("one".into());
        let held = secret.clone();
        assert!(!secret.becomes("one".into()) && secret.becomes("two".into()) && secret.becomes("one".into()));
        let all = |secret: &LiveSecret| {
            secret.all().iter().map(|value| value.expose_secret().to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(all(&held), "one two");
        for n in 3..=9 {
            secret.becomes(n.to_string().into());
        }
        assert_eq!((all(&held).as_str(), held.current().expose_secret()), ("9 8 7 6 5", "9"));
        assert!(held == secret && held == LiveSecret::new("9".into()) && held != LiveSecret::new("8".into()));
        assert_eq!(format!("{held:?}"), "LiveSecret");
    }
}
