//! placeholder until merge
pub(crate) struct EmbeddedPtx {
    pub(crate) family: &'static str,
    pub(crate) arch: u32,
    pub(crate) text: &'static str,
}
impl EmbeddedPtx {
    pub(crate) fn isa(&self) -> &'static str {
        self.text
    }
}
pub(crate) fn best_for(_family: &str, _cc: (u32, u32)) -> Option<&'static EmbeddedPtx> {
    None
}
