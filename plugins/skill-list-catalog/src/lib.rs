//! `cyberos.skill.list_catalog`: the skills in the read-only directory that the operator granted as `/skills`.

mod frontmatter;

use cyberos_plugin_sdk::prelude::*;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;

/// Where the grants put the catalogue: a folder per skill, each with a `SKILL.md`.
const CATALOGUE: &str = "/skills";
/// Frontmatter stands at the top; what follows is not read.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Enough for nearly every frontmatter, so that a file costs one read.
const READ_BYTES: usize = 8 << 10;
const MAX_DESCRIPTION_CHARS: usize = 1_100;
/// The answer stays well under the output limit, whatever the catalogue holds.
const MAX_ANSWER_BYTES: usize = 500_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Words that must all occur in a skill's id or description, in any order and case.
    #[schemars(length(max = 200))]
    filter: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Catalogue {
    /// In order of id.
    skills: Vec<Skill>,
    /// How many match, listed here or not.
    total: usize,
    /// Some that match are left out because the answer would be too long: narrow the filter.
    truncated: bool,
}

#[derive(Serialize, JsonSchema)]
struct Skill {
    /// Pass this as `skill` to invoke_skill.
    id: String,
    /// What it does and when to use it.
    description: String,
    /// For a skill that writes, the one that reviews what it wrote, and the other way round; null when it stands alone.
    pair: Option<String>,
}

struct ListCatalog;

impl Tool for ListCatalog {
    const NAME: &'static str = "cyberos.skill.list_catalog";
    const TITLE: &'static str = "List skills";
    const DESCRIPTION: &'static str = "Lists the skills that CyberOS can run, with id, description and the skill that each is paired with (`x-author` \
        writes, `x-audit` reviews). Use it to find a single skill for a task; give `filter` a few words to keep the answer \
        short. Then run one with invoke_skill. For a whole chain of skills, use route and execute_workflow instead.";
    const ANNOTATIONS: Annotations = READ_ONLY;
    const SCOPES: &'static [&'static str] = &["cyberos:skill:list"];
    type Arguments = Arguments;
    type Output = Catalogue;

    fn call(arguments: Arguments) -> Result<Catalogue, ToolError> {
        let filter = arguments.filter.unwrap_or_default().to_lowercase();
        let ids = skill_folders()?;
        let matching = ids.iter().filter_map(|id| {
            let description = description(id)?;
            let text = format!("{id} {description}").to_lowercase();
            let wanted = filter.split_whitespace().all(|word| text.contains(word));
            wanted.then(|| Skill { id: id.clone(), description, pair: pair(id, &ids) })
        });
        let (mut skills, mut total, mut bytes) = (vec![], 0, 0);
        for skill in matching {
            total += 1;
            bytes += skill.id.len() * 2 + skill.description.len() + 64;
            if bytes <= MAX_ANSWER_BYTES {
                skills.push(skill);
            }
        }
        Ok(Catalogue { truncated: skills.len() < total, skills, total })
    }
}

fn skill_folders() -> Result<BTreeSet<String>, ToolError> {
    let entries =
        fs::read_dir(CATALOGUE).map_err(|_| ToolError::Unavailable("The skill catalogue cannot be read.".into()))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter(|name| !name.starts_with(['.', '_'])).collect())
}

/// `None` for a folder without a usable `SKILL.md`: one bad file must not hide the others.
fn description(id: &str) -> Option<String> {
    let mut file = File::open(format!("{CATALOGUE}/{id}/SKILL.md")).ok()?;
    let mut head = vec![];
    while head.len() < MAX_HEAD_BYTES && !frontmatter::is_complete(&head) {
        let start = head.len();
        head.resize(start + READ_BYTES, 0);
        let read = file.read(&mut head[start..]).ok()?;
        head.truncate(start + read);
        if read == 0 {
            break;
        }
    }
    let description = frontmatter::value(&String::from_utf8_lossy(&head), "description")?;
    Some(description.chars().take(MAX_DESCRIPTION_CHARS).collect())
}

fn pair(id: &str, ids: &BTreeSet<String>) -> Option<String> {
    let other = match id.strip_suffix("-author") {
        Some(stem) => format!("{stem}-audit"),
        None => format!("{}-author", id.strip_suffix("-audit")?),
    };
    ids.contains(&other).then_some(other)
}

export_tools!(ListCatalog);
