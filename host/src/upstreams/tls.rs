//! TLS for everything that the bridge calls: ring as the one cryptography provider of the process.
//!
//! reqwest is built without a provider of its own, so that one choice serves it, the database driver and the exporter.

use std::sync::Once;

/// Make ring the process's TLS provider. Cheap to repeat; call it before building any client.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An embedding program or a test may have chosen one already: theirs then stands.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
