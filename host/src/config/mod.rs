//! Settings, read once at start from flags, environment and files. The rest of the host gets typed values.
//!
//! [`SettingsArgs`] is what the command line and the environment say; [`Settings`] is what they mean, checked.

mod args;
mod grants;
mod plugins_file;
mod rate_limits;
mod settings;

pub use args::{AuthArg, ConfirmArg, CuoArg, LogFormatArg, PagemapScanArg, SettingsArgs, ToolNamesArg, TransportArg};
pub use grants::{Credential, DirectoryGrant, Grants, Limits, UpstreamGrant};
pub use plugins_file::PluginsFile;
pub use rate_limits::{BucketRate, Rate, RateSetting, WindowRate};
pub use settings::{BadSetting, Settings, StoreSettings, read_environment};
