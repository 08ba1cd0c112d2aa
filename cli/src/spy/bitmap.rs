//! A picture as PNG, its text in a font that this program brings along.

use std::convert::Infallible;

use embedded_graphics::{
    Drawable, Pixel,
    draw_target::DrawTarget,
    geometry::{OriginDimensions, Point, Size},
    mono_font::{MonoTextStyle, ascii::FONT_7X13},
    pixelcolor::{Gray8, GrayColor},
    text,
};
use png::{BitDepth, ColorType, Encoder, EncodingError};

use super::picture::{CHARACTER, INKS, PAPER, Picture, TEXT};

const _: () = assert!(FONT_7X13.character_size.width as usize == CHARACTER);

/// The file's bytes.
pub(super) fn encode(picture: &Picture) -> Result<Vec<u8>, EncodingError> {
    let bitmap = Bitmap::of(picture);
    let Size { width, height } = bitmap.size();
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(ColorType::Indexed);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_palette(INKS.as_flattened());
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&bitmap.inks)?;
    writer.finish()?;
    Ok(bytes)
}

/// The ink of each pixel, row by row.
struct Bitmap {
    width: usize,
    inks: Vec<u8>,
}

impl Bitmap {
    fn of(picture: &Picture) -> Self {
        let &Picture { width, height, .. } = picture;
        let mut bitmap = Self { width, inks: vec![PAPER; width * height] };
        for rectangle in &picture.rectangles {
            for y in rectangle.y..rectangle.y + rectangle.height {
                let begin = y * width + rectangle.x;
                bitmap.inks[begin..begin + rectangle.width].fill(rectangle.ink);
            }
        }
        let style = MonoTextStyle::new(&FONT_7X13, Gray8::new(TEXT));
        for text in &picture.texts {
            // A picture has some thousand pixels.
            let place = Point::new(text.x as i32, text.y as i32);
            let Ok(_) = text::Text::new(&text.content, place, style).draw(&mut bitmap);
        }
        bitmap
    }
}

impl OriginDimensions for Bitmap {
    fn size(&self) -> Size {
        // A picture has some thousand pixels.
        Size::new(self.width as u32, (self.inks.len() / self.width) as u32)
    }
}

/// Only text is drawn by way of this: its greys are inks.
impl DrawTarget for Bitmap {
    type Color = Gray8;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Gray8>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        for Pixel(place, ink) in pixels {
            if let (Ok(x), Ok(y)) = (usize::try_from(place.x), usize::try_from(place.y))
                && x < self.width
                && let Some(pixel) = self.inks.get_mut(y * self.width + x)
            {
                *pixel = ink.luma();
            }
        }
        Ok(())
    }
}
