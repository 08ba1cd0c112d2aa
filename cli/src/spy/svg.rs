//! A picture as SVG that needs nothing else.

use std::fmt::Write;

use maud::html;

use super::picture::{CHARACTER, INKS, PAPER, Picture, TEXT};

/// The file's text.
pub(super) fn text(picture: &Picture) -> String {
    let Picture { width, height, .. } = picture;
    // A path for each ink takes fewer bytes than an element for each rectangle.
    let mut paths = INKS.map(|_| String::new());
    for rectangle in &picture.rectangles {
        let (x, y, width, height) = (rectangle.x, rectangle.y, rectangle.width, rectangle.height);
        write!(paths[usize::from(rectangle.ink)], "M{x} {y}h{width}v{height}h-{width}z").expect("a string takes it");
    }
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height) {
            rect width=(width) height=(height) fill=(colour(PAPER)) {}
            @for (ink, path) in (0u8..).zip(&paths) {
                @if !path.is_empty() {
                    path fill=(colour(ink)) shape-rendering="crispEdges" d=(path) {}
                }
            }
            // A monospaced character is 0.6 times as wide as the font's size.
            g fill=(colour(TEXT)) font-family="monospace" font-size=(CHARACTER as f64 / 0.6) {
                @for text in &picture.texts {
                    text x=(text.x) y=(text.y) { (text.content) }
                }
            }
        }
    };
    svg.into_string()
}

fn colour(ink: u8) -> String {
    let [red, green, blue] = INKS[usize::from(ink)];
    format!("#{red:02x}{green:02x}{blue:02x}")
}
