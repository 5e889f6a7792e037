//! The few drawings pages have, as inline SVG. All are decoration: a text next to each says the same,
//! so they are hidden from screen readers.

use codehub_domain::Phase;
pub(crate) use codehub_proxy::appearance::logo;
use maud::{Markup, PreEscaped, html};

/// The mark: two brackets around a hub.
pub(super) const FAVICON: &str = concat!(
    r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">"##,
    r##"<rect width="32" height="32" rx="8" fill="#3257d6"/>"##,
    r##"<path d="M11.5 9 5.5 16l6 7M20.5 9l6 7-6 7" fill="none" stroke="#fff" stroke-width="2.6" "##,
    r##"stroke-linecap="round" stroke-linejoin="round"/><circle cx="16" cy="16" r="2.7" fill="#fff"/></svg>"##
);

fn icon(paths: &'static str) -> Markup {
    html! {
        svg.icon viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false" {
            (PreEscaped(paths))
        }
    }
}

/// Each phase has a shape of its own, so that nobody has to tell them apart by colour.
pub(super) fn phase(phase: Phase) -> Markup {
    icon(match phase {
        Phase::Pending => r#"<circle cx="8" cy="8" r="5" stroke-dasharray="2.4 2.4"/>"#,
        Phase::Archived => r#"<path d="M2.5 3.5h11v3h-11zM3.5 6.5v6h9v-6M6.5 9h3"/>"#,
        Phase::Standby => r#"<path d="M13 9.7A5.5 5.5 0 1 1 6.3 3a4.5 4.5 0 0 0 6.7 6.7z"/>"#,
        Phase::Running => r#"<path class="solid" d="M5 3.2v9.6L12.6 8z"/>"#,
        Phase::Error => r#"<path d="M8 2.2 14.4 13.3H1.6zM8 6.3v3.2M8 11.4v.1"/>"#,
        Phase::Deleting | Phase::Deleted => r#"<path d="M4 4l8 8M12 4l-8 8"/>"#,
    })
}

pub(super) fn clock() -> Markup {
    icon(r#"<circle cx="8" cy="8" r="5.7"/><path d="M8 4.8V8l2.2 1.6"/>"#)
}

pub(super) fn plus() -> Markup {
    icon(r#"<path d="M8 3v10M3 8h10"/>"#)
}

pub(super) fn dots() -> Markup {
    icon(r#"<path class="solid" d="M3 7h2v2H3zM7 7h2v2H7zM11 7h2v2h-2z" stroke="none"/>"#)
}

pub(super) fn search() -> Markup {
    icon(r#"<circle cx="7" cy="7" r="4.2"/><path d="m10.2 10.2 3.3 3.3"/>"#)
}

pub(super) fn person() -> Markup {
    icon(r#"<circle cx="8" cy="5.4" r="2.7"/><path d="M2.8 13.6c.6-2.9 2.6-4.3 5.2-4.3s4.6 1.4 5.2 4.3"/>"#)
}

pub(super) fn open() -> Markup {
    icon(r#"<path d="M9.5 2.8h3.7v3.7M13 3 7.8 8.2M11.3 9.3v3.9H2.8V4.7h3.9"/>"#)
}

pub(super) fn shield() -> Markup {
    icon(r#"<path d="M8 1.8 13.2 4v4c0 3.2-2.2 5.4-5.2 6.4C5 13.4 2.8 11.2 2.8 8V4zM8 5.2v3.4M8 10.9v.1"/>"#)
}

pub(super) fn check() -> Markup {
    icon(r#"<path d="m3 8.4 3.2 3.2L13 4.8"/>"#)
}

pub(super) fn cross() -> Markup {
    icon(r#"<path d="M4 4l8 8M12 4l-8 8"/>"#)
}

pub(super) fn folder() -> Markup {
    icon(r#"<path d="M1.8 12.7V3.6h4.4l1.4 1.7h6.6v7.4z"/>"#)
}

pub(super) fn document() -> Markup {
    icon(r#"<path d="M3.6 1.9h5.6l3.2 3.2v9H3.6zM9 2.2v3.1h3.1"/>"#)
}

pub(super) fn back() -> Markup {
    icon(r#"<path d="M9.8 3.5 5.3 8l4.5 4.5"/>"#)
}
