//! The allocator of the program: jemalloc, configured to return free memory to the system
//! (docs/decisions/0002).

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Read by jemalloc when the program starts, before the environment's `_RJEM_MALLOC_CONF`. A background
/// thread returns pages that have been free for 250 ms; it sleeps while there are none. By default, memory
/// freed by a thread that then becomes idle would never be returned. The default delay of ten seconds is also
/// too long for an alarm that stops publishers.
const SETTINGS: &[u8] =
    b"background_thread:true,max_background_threads:1,dirty_decay_ms:250,muzzy_decay_ms:0\0";

/// Declared in C as `const char *_rjem_malloc_conf`.
///
/// # Safety
/// No other symbol of the program has this name: jemalloc's own definition is weak. The bytes it points at
/// end with NUL.
#[allow(unsafe_code, reason = "jemalloc reads its settings from a symbol; any other way comes too late")]
#[unsafe(export_name = "_rjem_malloc_conf")]
static MALLOC_CONF: &u8 = &SETTINGS[0];
