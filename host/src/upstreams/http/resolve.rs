//! Names become addresses here, once, and every one of them is checked before anything connects.
//!
//! The connector asks this resolver and connects to what it returned: there is no second lookup that could answer
//! differently (DNS rebinding).

use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::error::Error as StdError;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::address::{Reach, reach};

/// Where answers come from: the system, or a test that plays a hostile name server.
pub trait Lookup: Send + Sync + 'static {
    fn lookup(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The system's resolver.
pub(super) struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let name = name.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// The name resolved, and to an address that the grant does not cover.
#[derive(Debug, thiserror::Error)]
#[error("an address of this name is not allowed")]
pub(super) struct Refused;

impl Refused {
    /// Is this the reason why a connection failed?
    pub(super) fn caused(error: &(dyn StdError + 'static)) -> bool {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if error.is::<Refused>() {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

pub(super) fn check(address: IpAddr, allow_private: bool) -> Result<(), Refused> {
    match reach(address) {
        Reach::Public => Ok(()),
        Reach::Private if allow_private => Ok(()),
        Reach::Private | Reach::Never => Err(Refused),
    }
}

/// What the HTTP client resolves with.
pub(super) struct CheckedResolver {
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) allow_private: bool,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let answer = self.lookup.lookup(name.as_str());
        let allow_private = self.allow_private;
        Box::pin(async move {
            let addresses = answer.await?;
            // One bad answer spoils all: a name that leads outside and inside at once is an attack or a mistake.
            for address in &addresses {
                check(*address, allow_private)?;
            }
            // The connector puts the port in.
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}
