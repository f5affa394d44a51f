//! Renders a skill's `templates/artefact.md.j2` and evaluates a step's condition, within limits.
//!
//! The inputs are data, never template text. A template sees nothing but the variables it is given and other templates
//! below the skill directory; fuel bounds its time and memory. Source: the catalogue's README, "templates".

use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, TemplateSource, UndefinedBehavior};
use serde_json::Value;
use std::collections::HashSet;

use crate::upstreams::cuo::tree::Tree;

/// About a second of rendering; a long artefact with large inputs uses a fiftieth of it.
const FUEL: u64 = 5_000_000;
/// Templates are named from here.
const SKILLS: &str = "modules/skill";
pub const MAX_ARTEFACT_BYTES: usize = 1 << 20;

pub struct Renderer {
    env: Environment<'static>,
    tree: Tree,
}

impl Renderer {
    pub fn new(tree: Tree) -> Self {
        let mut env = Environment::new();
        // Markdown is not HTML: a caller's `<` must arrive as it is.
        env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        env.set_undefined_behavior(UndefinedBehavior::Chainable);
        env.set_fuel(Some(FUEL));
        let source = tree.clone();
        env.set_loader(move |name| load(&source, name));
        Renderer { env, tree }
    }

    /// Does the skill come with a template?
    pub fn has_template(&self, skill: &str) -> bool {
        self.tree.is_file(&format!("{SKILLS}/{}", template_of(skill)))
    }

    /// The skill's SKILL.md; empty when it cannot be read.
    pub fn skill_md(&self, skill: &str) -> String {
        self.tree.read(&format!("{SKILLS}/{skill}/SKILL.md")).unwrap_or_default()
    }

    /// The artefact's text. The error is for the log; it names the template and the line.
    pub fn render(&self, skill: &str, variables: &Value) -> Result<String, String> {
        let render = || self.env.get_template(&template_of(skill))?.render(Serde(variables));
        let text = render().map_err(|e: minijinja::Error| match e.kind() {
            ErrorKind::OutOfFuel => format!("the template used up its budget: {e:#}"),
            _ => format!("{e:#}"),
        })?;
        if text.len() > MAX_ARTEFACT_BYTES {
            return Err(format!("the artefact is over {MAX_ARTEFACT_BYTES} bytes"));
        }
        Ok(text)
    }

    /// Is the condition met? `None` when it is no expression over `known` names but prose for a reader.
    pub fn condition(&self, condition: &str, variables: &Value, known: &HashSet<&str>) -> Option<bool> {
        let expression = self.env.compile_expression(condition).ok()?;
        if !expression.undeclared_variables(false).iter().all(|name| known.contains(name.as_str())) {
            return None;
        }
        expression.eval(Serde(variables)).ok().map(|value| value.is_true())
    }
}

fn template_of(skill: &str) -> String {
    format!("{skill}/templates/artefact.md.j2")
}

fn load(tree: &Tree, name: &str) -> Result<Option<TemplateSource>, minijinja::Error> {
    match tree.read_within(SKILLS, name) {
        Ok(text) => Ok(text.map(TemplateSource::new)),
        Err(what) => Err(minijinja::Error::new(ErrorKind::InvalidOperation, format!("template {name}: {what}"))),
    }
}
