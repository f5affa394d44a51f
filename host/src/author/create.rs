//! `plugin new`: a small, complete project in a directory of its own.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::{Error, Result};
use super::language::Language;
use super::templates;
use crate::model::{PluginId, ToolName};

/// Modules of the tools that come with the bridge.
const OWN_MODULES: [&str; 3] = ["cuo", "memory", "skill"];

/// What to make, and where.
pub struct NewPlugin {
    name: PluginId,
    tool: String,
    language: Language,
}

impl NewPlugin {
    /// `name` becomes the plugin's id and the name of its file.
    pub fn named(name: &str, language: Language) -> Result<NewPlugin> {
        let bad = |why: String| Error::BadName { name: name.to_owned(), why };
        let id = PluginId::parse(name).ok_or_else(|| {
            bad("it has 1 to 63 lower-case letters, digits and hyphens, and begins with a letter, such as demo-greet".into())
        })?;
        let tool = tool_name(&id).map_err(bad)?;
        Ok(NewPlugin { name: id, tool, language })
    }

    /// As agents will see it.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Write the project. `directory` must not exist, or be empty.
    pub fn write(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        match fs::read_dir(directory).map(|mut entries| entries.next().is_some()) {
            Ok(true) => return Err(Error::NotEmpty(directory.to_owned())),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(Error::at(directory)(error)),
            _ => {}
        }
        let mut written = Vec::new();
        for (path, text) in templates::files(self.name.as_str(), &self.tool, self.language) {
            let file = directory.join(&path);
            let folder = file.parent().expect("it is below the directory");
            fs::create_dir_all(folder).map_err(Error::at(folder))?;
            fs::write(&file, text).map_err(Error::at(&file))?;
            written.push(PathBuf::from(path));
        }
        Ok(written)
    }
}

/// `demo-greet` offers `cyberos.demo.greet`, and `weather` offers `cyberos.weather.weather`: names of this form need no
/// grant of their own.
pub fn tool_name(name: &PluginId) -> Result<String, String> {
    let (module, rest) = name.as_str().split_once('-').unwrap_or((name.as_str(), ""));
    let verb = rest.replace('-', "_");
    let verb = match verb.trim_matches('_') {
        "" => module.to_owned(),
        digits if digits.starts_with(|c: char| c.is_ascii_digit()) => format!("tool_{digits}"),
        verb => verb.to_owned(),
    };
    if OWN_MODULES.contains(&module) {
        return Err(format!("{module} is a module of the bridge's own tools; begin with another word"));
    }
    let tool = format!("cyberos.{module}.{verb}");
    match ToolName::parse(&tool) {
        Some(name) if name.is_federated() => Ok(tool),
        Some(_) => Err("it must begin with a letter".into()),
        None => Err(format!("its tool would be called {tool}, and names of tools have at most 64 characters")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_named_after_its_plugin() {
        let of = |name: &str| tool_name(&PluginId::parse(name).unwrap());
        assert_eq!(of("demo-greet").unwrap(), "cyberos.demo.greet");
        assert_eq!(of("weather").unwrap(), "cyberos.weather.weather");
        assert_eq!(of("notes-find-all-").unwrap(), "cyberos.notes.find_all");
        assert_eq!(of("demo-2").unwrap(), "cyberos.demo.tool_2");
        assert!(of("3d-print").unwrap_err().contains("letter"));
        assert!(of("cuo-route").unwrap_err().contains("own tools"));
        assert!(of(&"a".repeat(63)).unwrap_err().contains("64 characters"));
    }
}
