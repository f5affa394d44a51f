//! Where the tools of plugin authors are: what the environment says about this machine, read when a plugin is built.

use std::ffi::OsString;
use std::path::PathBuf;

/// The part of the environment that building a plugin depends on.
#[derive(Clone, Debug, Default)]
pub struct Toolchains {
    /// `PATH`, in its order.
    pub path: Vec<PathBuf>,
    /// `WASI_SDK_PATH`: a WASI SDK with its own clang and libc, used for C when it is set.
    pub wasi_sdk: Option<PathBuf>,
}

impl Toolchains {
    pub fn from_environment() -> Toolchains {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let wasi_sdk = std::env::var_os("WASI_SDK_PATH").filter(|value: &OsString| !value.is_empty());
        Toolchains { path: std::env::split_paths(&path).collect(), wasi_sdk: wasi_sdk.map(PathBuf::from) }
    }
}
