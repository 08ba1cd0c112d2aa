//! NCCL, loaded when it is first needed: its functions, and what went wrong in them.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    ptr,
    sync::OnceLock,
};

use libloading::Library;

/// A communicator of NCCL, or null.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Comm(*mut c_void);

impl Comm {
    pub(super) const NULL: Self = Self(ptr::null_mut());
}

// SAFETY: NCCL takes a communicator from any thread, one at a time: it is locked.
unsafe impl Send for Comm {}

/// A function's result; 0 is success.
pub(super) type Status = c_int;

/// What the ranks of a communicator have in common before it exists.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct UniqueId(pub(super) [u8; 128]);

/// The least version, 2.7: the first that sends and receives.
const LEAST_VERSION: c_int = 2700;

/// `ncclUint8`, `ncclFloat32` and `ncclFloat64` have had these numbers in every version.
pub(super) mod datatype {
    pub(in super::super) const UINT8: super::c_uint = 1;
    pub(in super::super) const FLOAT64: super::c_uint = 8;
}

macro_rules! functions {
    ($($name:ident: $symbol:literal ($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions in use. See NVIDIA's "NCCL API".
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            pub(super) version: c_int,
        }

        fn functions(library: &'static Library, version: c_int) -> Result<Functions, libloading::Error> {
            // SAFETY: the symbols are NCCL's functions of these types, and the library is never unloaded.
            unsafe { Ok(Functions { $($name: *library.get($symbol)?,)* version }) }
        }
    };
}
functions! {
    get_unique_id: b"ncclGetUniqueId\0"(*mut UniqueId) -> Status;
    comm_init_rank: b"ncclCommInitRank\0"(*mut Comm, c_int, UniqueId, c_int) -> Status;
    comm_destroy: b"ncclCommDestroy\0"(Comm) -> Status;
    comm_abort: b"ncclCommAbort\0"(Comm) -> Status;
    comm_get_async_error: b"ncclCommGetAsyncError\0"(Comm, *mut Status) -> Status;
    group_start: b"ncclGroupStart\0"() -> Status;
    group_end: b"ncclGroupEnd\0"() -> Status;
    send: b"ncclSend\0"(*const c_void, usize, c_uint, c_int, Comm, *mut c_void) -> Status;
    recv: b"ncclRecv\0"(*mut c_void, usize, c_uint, c_int, Comm, *mut c_void) -> Status;
    all_gather: b"ncclAllGather\0"(*const c_void, *mut c_void, usize, c_uint, Comm, *mut c_void) -> Status;
    get_error_string: b"ncclGetErrorString\0"(Status) -> *const c_char;
}

impl Functions {
    /// Fails with NCCL's words.
    pub(super) fn check(&self, call: &str, status: Status) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the function takes any number, and returns a text that is never freed.
        let text = unsafe { CStr::from_ptr((self.get_error_string)(status)) };
        Err(format!("{call}: {}", text.to_string_lossy()))
    }

    /// The version, as NCCL's users know it.
    pub(super) fn version(&self) -> String {
        // From 2.9 on, 10000 for a major version; before, 1000.
        let (major, rest) = if self.version >= 10_000 {
            (self.version / 10_000, self.version % 10_000)
        } else {
            (self.version / 1000, self.version % 1000)
        };
        format!("{major}.{}.{}", rest / 100, rest % 100)
    }
}

/// Returns NCCL, or why there is none.
pub(super) fn nccl() -> Result<&'static Functions, String> {
    static NCCL: OnceLock<Result<Functions, String>> = OnceLock::new();
    NCCL.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn load() -> Result<Functions, String> {
    let open = |name: &str| {
        // SAFETY: NCCL's initialisers ask nothing of their caller.
        unsafe { Library::new(name) }
    };
    let library = open("libnccl.so.2").or_else(|_| open("libnccl.so")).map_err(|error| format!("no NCCL: {error}"))?;
    // Never unloaded: its threads may outlive every communicator.
    let library: &'static Library = Box::leak(Box::new(library));
    let mut version = 0;
    // SAFETY: the symbol is NCCL's function of this type.
    let status = unsafe {
        let get_version = library.get::<unsafe extern "C" fn(*mut c_int) -> Status>(b"ncclGetVersion\0");
        get_version.map_err(|error| format!("no NCCL: {error}"))?(&raw mut version)
    };
    if status != 0 || version < LEAST_VERSION {
        return Err(format!("NCCL is too old: version {version}, and {LEAST_VERSION} is the least"));
    }
    functions(library, version).map_err(|error| format!("NCCL, version {version}: {error}"))
}
