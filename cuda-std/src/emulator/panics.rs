//! Panics inside kernels become findings: their message and line are kept instead of printed.

use core::{any::Any, cell::Cell};
use std::{panic, sync::Once};

use super::thread::{self, Place};

thread_local! {
    static LAST: Cell<Option<(String, Place)>> = const { Cell::new(None) };
}

static HOOK: Once = Once::new();

/// Makes the panic hook keep quiet in kernels. Other panics go to the hook that was there before.
pub(super) fn install_hook() {
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if thread::in_kernel() {
                // The location is of the program's text, so it is as good as static; the hook is given less.
                let location = info.location().map(|location| {
                    // SAFETY: panic locations are constants of the program.
                    unsafe { core::mem::transmute::<&panic::Location<'_>, Place>(location) }
                });
                let message = info.payload_as_str().unwrap_or("a panic without a message").to_owned();
                LAST.set(location.map(|location| (message, location)));
            } else {
                previous(info);
            }
        }));
    });
}

/// The message and, if the hook saw it, the line of the panic that was just caught.
pub(super) fn describe(payload: &(dyn Any + Send)) -> (String, Option<Place>) {
    if let Some((message, place)) = LAST.take() {
        return (message, Some(place));
    }
    let message = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let message = message.or_else(|| payload.downcast_ref::<String>().cloned());
    (message.unwrap_or_else(|| "a panic without a message".to_owned()), None)
}
