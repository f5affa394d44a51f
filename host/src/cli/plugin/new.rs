//! `plugin new`.

use std::path::PathBuf;
use std::process::ExitCode;

use super::super::out;
use crate::author::{Language, NewPlugin, Result};

#[derive(clap::Args)]
pub struct Arguments {
    /// The plugin's name, such as `demo-greet`; its tool is then `cyberos.demo.greet`.
    name: String,
    #[arg(long, value_enum)]
    lang: Language,
    /// Where to make it; a directory with the plugin's name unless given.
    #[arg(long)]
    dir: Option<PathBuf>,
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let directory = arguments.dir.unwrap_or_else(|| PathBuf::from(&arguments.name));
    let made: Result<_> = NewPlugin::named(&arguments.name, arguments.lang).and_then(|plugin| {
        let files = plugin.write(&directory)?;
        Ok((plugin.tool().to_owned(), files.len()))
    });
    match made {
        Ok((tool, files)) => {
            let place = directory.display();
            out::text(&format!("{place}: {files} files, one tool: {tool}"))?;
            out::text(&format!("next: cd {place} && {} plugin build", crate::app::NAME))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Ok(super::refused(&error)),
    }
}
