//! Settings, read once at start from flags, environment and files. The rest of the host gets typed values.

mod grants;

pub use grants::{Credential, DirectoryGrant, Grants, Limits, UpstreamGrant};
