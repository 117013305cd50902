//! The allocator of the program: jemalloc, told to give back what is free (docs/decisions/0002).

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// What jemalloc reads when the program starts, in front of the environment's `_RJEM_MALLOC_CONF`. A thread of its own
/// gives back pages that have been free for a quarter of a second; it sleeps while there are none. By default nobody would
/// give back what a thread has freed that then falls idle, and ten seconds are long for an alarm that stops publishers.
const SETTINGS: &[u8] =
    b"background_thread:true,max_background_threads:1,dirty_decay_ms:250,muzzy_decay_ms:0\0";

/// C sees it as `const char *_rjem_malloc_conf`.
///
/// # Safety
/// No other symbol of the program has this name: it is jemalloc's own, which is weak. What it points at ends with NUL.
#[allow(
    unsafe_code,
    reason = "jemalloc takes its settings in a symbol; anything else it would take too late"
)]
#[unsafe(export_name = "_rjem_malloc_conf")]
static MALLOC_CONF: &u8 = &SETTINGS[0];
