//! Which images people may choose.

use super::{RuntimeConfig, RuntimeKind};

impl RuntimeConfig {
    /// The server's own image, or one that matches a pattern it allows.
    pub fn offers(&self, image: &str) -> bool {
        image == self.image || self.images_allowed.iter().any(|pattern| matches(pattern, image))
    }

    /// Whether there is anything to choose. A process is run from no image, whatever is allowed.
    pub fn has_choice_of_images(&self) -> bool {
        self.kind != RuntimeKind::Process && self.images_allowed.iter().any(|one| *one != self.image)
    }

    /// The images that are allowed by name, our own first, and whether there are patterns besides.
    pub fn named_images(&self) -> (Vec<&str>, bool) {
        let (patterns, names): (Vec<&str>, Vec<&str>) =
            self.images_allowed.iter().map(String::as_str).partition(|one| one.contains('*'));
        let others = names.into_iter().filter(|one| *one != self.image);
        (std::iter::once(self.image.as_str()).chain(others).collect(), !patterns.is_empty())
    }
}

/// `*` stands for any run of characters, and everything else for itself.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(before) else { return false };
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    let mut tails = ends.filter_map(|at| rest.get(at..));
    tails.any(|tail| matches(after, tail))
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn images_are_chosen_from_what_is_allowed() {
        let with = |kind: &str, allowed: &str| {
            let settings = [
                ("data_dir", "/tmp/nowhere"),
                ("runtime.kind", kind),
                ("runtime.image", "default"),
                ("runtime.images_allowed", allowed),
            ];
            Config::with(&settings).unwrap().runtime
        };
        let runtime = with("docker", "team/*:1, exact, default");
        for fine in ["default", "exact", "team/a:1", "team/a/b:1"] {
            assert!(runtime.offers(fine), "{fine}");
        }
        for not in ["exact2", "team/a:2", "other", "", "xteam/a:1"] {
            assert!(!runtime.offers(not), "{not}");
        }
        assert_eq!(runtime.named_images(), (vec!["default", "exact"], true));
        assert!(runtime.has_choice_of_images() && !with("docker", "default").has_choice_of_images());
        assert!(!with("process", "team/*:1").has_choice_of_images());
        assert!(with("process", "").offers("default"));
    }
}
