//! The compiled kernels in the library: one module per kernel family and architecture, as PTX and, if an assembler has
//! produced it, also as machine code.

use std::io::Read;

use lzma_rust2::LzmaReader;

pub(crate) use only::only;

mod only;

/// Reads the text of PTX from what is kept of it.
mod text {
    include!(concat!(env!("OUT_DIR"), "/text.rs"));
}

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// One module.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EmbeddedModule {
    /// The kernel family, as in `kernels_gpu::FAMILIES`.
    pub(crate) family: &'static str,
    /// The oldest device that runs it: ten times the major compute capability plus the minor one.
    pub(crate) arch: u32,
    /// Whether no newer device runs it.
    only_there: bool,
    /// Its PTX, as `cuda_builder` keeps it.
    ptx: &'static [u8],
    /// Its compressed machine code: a driver loads it in a millisecond, while compiling PTX takes tenths of a second.
    cubin: Option<&'static [u8]>,
}

impl EmbeddedModule {
    /// Returns the PTX, without a NUL at the end.
    pub(crate) fn text(&self) -> String {
        text::with_registers(std::str::from_utf8(&self.kept()).expect("PTX is text"))
    }

    /// The form in which the PTX is kept. Its dictionary is that of the family's module for the next older architecture.
    fn kept(&self) -> Vec<u8> {
        let older = EMBEDDED.iter().filter(|module| module.family == self.family && module.arch < self.arch);
        let dictionary = older.max_by_key(|module| module.arch).map(Self::kept);
        decompress(self.ptx, dictionary.as_deref())
    }

    /// Returns a function that decompresses the machine code, if a device of this major compute capability, and not a
    /// newer one, can run it.
    pub(crate) fn machine_code(&self, major: u32) -> Option<impl FnOnce() -> Vec<u8> + use<>> {
        self.cubin.filter(|_| self.arch / 10 == major).map(|cubin| || decompress(cubin, None))
    }
}

fn decompress(compressed: &[u8], dictionary: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    LzmaReader::new_mem_limit(compressed, u32::MAX, dictionary)
        .and_then(|mut reader| reader.read_to_end(&mut bytes))
        .expect("the build embeds what is compressed");
    bytes
}

/// Returns the PTX ISA that a driver must support to load a module, such as `7.0`.
pub(crate) fn isa(text: &str) -> &str {
    let version = text.lines().find_map(|line| line.strip_prefix(".version "));
    version.map_or("of unknown version", str::trim)
}

/// Returns the module of this family for a device of this compute capability (major, minor): the one for the newest
/// architecture that the device supports. `None` if there is none.
pub(crate) fn best_for(family: &str, compute_capability: (u32, u32)) -> Option<&'static EmbeddedModule> {
    best_of(EMBEDDED, family, compute_capability)
}

fn best_of<'a>(modules: &'a [EmbeddedModule], family: &str, (major, minor): (u32, u32)) -> Option<&'a EmbeddedModule> {
    let device = 10 * major + minor;
    modules
        .iter()
        .filter(|module| module.family == family)
        .filter(|module| module.arch <= device && (module.arch == device || !module.only_there))
        .max_by_key(|module| module.arch)
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process};

    use cuda_builder::Manifest;

    use super::*;

    const fn module(family: &'static str, arch: u32) -> EmbeddedModule {
        EmbeddedModule { family, arch, only_there: false, ptx: &[], cubin: None }
    }
    const MODULES: &[EmbeddedModule] = &[
        module("a", 90),
        module("a", 75),
        module("b", 80),
        module("a", 80),
        EmbeddedModule { only_there: true, ..module("d", 90) },
    ];

    #[test]
    fn the_newest_module_that_the_device_understands_is_chosen() {
        let chosen = |family, device| best_of(MODULES, family, device).map(|module| module.arch);
        assert_eq!(chosen("a", (7, 5)), Some(75));
        assert_eq!(chosen("a", (8, 9)), Some(80));
        assert_eq!(chosen("a", (9, 0)), Some(90));
        assert_eq!(chosen("a", (12, 0)), Some(90));
        assert_eq!(chosen("a", (7, 0)), None);
        assert_eq!(chosen("b", (7, 5)), None);
        assert_eq!(chosen("c", (9, 0)), None);
        assert_eq!([(8, 9), (9, 0), (10, 0)].map(|device| chosen("d", device)), [None, Some(90), None]);
    }

    #[test]
    fn the_texts_are_those_of_the_manifest() {
        // Part of this program, which also runs on machines without the sources.
        let file = env::temp_dir().join(format!("warpsparse-manifest-{}.json", process::id()));
        fs::write(&file, include_str!("../ptx/manifest.json")).unwrap();
        let manifest = Manifest::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        for module in EMBEDDED {
            let suffix = if module.only_there { "a" } else { "" };
            let name = format!("{}.sm_{}{suffix}.ptx", module.family, module.arch);
            assert!(manifest.files[&name].is_of(&module.text()), "{name}: run `cargo xtask kernels` and commit ptx/");
        }
    }

    #[test]
    fn a_module_can_be_cut_down_to_one_entry() {
        for module in EMBEDDED {
            let family =
                kernels_gpu::FAMILIES.iter().find(|family| family.name == module.family).expect("a known family");
            let text = module.text();
            for entry in family.entries {
                let alone = only(&text, entry.name);
                let entries: Vec<_> = alone.lines().filter(|line| line.contains(".entry ")).collect();
                assert_eq!(entries, [format!(".visible .entry {}(", entry.name)]);
                assert_eq!(isa(&alone), isa(&text));
                assert_eq!(alone.matches('{').count(), alone.matches('}').count());
                // What no GPU of the architecture can run ends at once.
                assert!((alone.contains("ret;") || alone.contains("exit;")) && alone.ends_with('\n'));
            }
        }
    }

    #[test]
    fn machine_code_is_of_the_devices_own_generation_and_has_every_entry() {
        for module in EMBEDDED {
            let major = module.arch / 10;
            assert!(module.machine_code(major + 1).is_none());
            let Some(code) = module.machine_code(major) else { continue };
            let code = code();
            assert!(code.starts_with(b"\x7fELF"));
            let family = kernels_gpu::FAMILIES.iter().find(|family| family.name == module.family).unwrap();
            for entry in family.entries {
                let section = format!("\0.text.{}\0", entry.name);
                assert!(code.windows(section.len()).any(|bytes| bytes == section.as_bytes()), "{}", entry.name);
            }
        }
    }

    #[test]
    fn every_family_has_a_module_for_the_oldest_supported_device() {
        let of_one_arch = |name: &str| EMBEDDED.iter().any(|module| module.family == name && module.only_there);
        for family in kernels_gpu::FAMILIES.iter().filter(|family| !of_one_arch(family.name)) {
            let module = best_for(family.name, (7, 5)).unwrap_or_else(|| panic!("no PTX for {}", family.name));
            let text = module.text();
            assert!(text.contains(".target sm_75"));
            assert!(text.contains(&format!(".version {}\n", isa(&text))));
        }
    }
}
