//! The outside: everything that the bridge itself calls. A plugin never calls out; it asks the host, and the host
//! asks one of these, under the plugin's grants.

pub mod cuo;
