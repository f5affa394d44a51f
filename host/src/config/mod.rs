//! Settings, read once at start from flags, environment and files. The rest of the host gets typed values.
//!
//! [`SettingsArgs`] is what the command line and the environment say; [`Settings`] is what they mean, checked.

mod args;
mod edit_lock;
mod grants;
mod live_secret;
mod mistakes;
mod paths;
mod plugins_file;
mod policy;
mod rate_limits;
mod secret_place;
mod settings;
mod small_file;
mod structure;
mod toolchains;
mod upstream_rules;

pub use args::{
    AuthArg, ConfirmArg, CuoArg, LogFormatArg, PagemapScanArg, SettingsArgs, ToolNamesArg, TransportArg, WatchArg,
};
pub use edit_lock::{EditLock, lock_soon};
pub use grants::{Credential, DirectoryGrant, Grants, Limits, UpstreamGrant};
pub use live_secret::LiveSecret;
pub use mistakes::{Mistake, Mistakes};
pub use paths::{check_path_pattern, normal_path};
pub use plugins_file::{MAX_PLUGINS_FILE_BYTES, PluginsFile, Secrets};
pub use policy::{Approval, Policy, Signatures, public_key};
pub use rate_limits::{BucketRate, Rate, RateSetting, WindowRate};
pub use secret_place::{NoSecret, SecretPlace};
pub use settings::{
    BadSetting, MAX_MEMORY_BYTES, MAX_TABLE_ELEMENTS, Settings, StoreSettings, read_environment, state_dir,
};
pub use small_file::read_small_file;
pub use toolchains::Toolchains;
pub use upstream_rules::{is_host_header, parse_method};
