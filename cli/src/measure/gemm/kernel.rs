//! Names of the kernels for dense products.

use warpsparse::{GemmKernel, GemmRung};

/// The kernels on a GPU: the ladder from the bottom, then the one taken by default.
pub(crate) fn kernels() -> impl Iterator<Item = GemmKernel> {
    GemmRung::ALL.iter().copied().map(GemmKernel::Ladder).chain([GemmKernel::Tiles])
}

/// As the command line has it: `thread-tile1d` for `ThreadTile1d`.
pub(crate) fn kernel_name(kernel: GemmKernel) -> String {
    let name = match kernel {
        GemmKernel::Ladder(rung) => format!("{rung:?}"),
        other => format!("{other:?}"),
    };
    kebab_case(&name)
}

fn kebab_case(name: &str) -> String {
    let mut kebab = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(letter.to_ascii_lowercase());
    }
    kebab
}

pub(crate) fn parse_kernel(text: &str) -> Result<GemmKernel, String> {
    kernels().find(|&kernel| kernel_name(kernel) == text).ok_or_else(|| {
        let names: Vec<_> = kernels().map(kernel_name).collect();
        format!("the kernels are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parts_in_lower_case() {
        assert_eq!(["Tiles", "ThreadTile1d"].map(kebab_case), ["tiles", "thread-tile1d"]);
    }

    #[test]
    fn every_kernel_is_found_by_its_name() {
        for kernel in kernels() {
            assert_eq!(parse_kernel(&kernel_name(kernel)), Ok(kernel));
        }
        assert!(parse_kernel("Naive").unwrap_err().contains("naive, "));
    }
}
