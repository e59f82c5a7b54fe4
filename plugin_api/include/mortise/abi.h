/* mortise/abi.h: the types, status codes and rules of the plugin ABI. The other headers state only what differs.
 *
 * Data
 *  - Structs hold fixed-width integers, floats and pointers only. Strings are UTF-8. `const char*` is NUL-terminated;
 *    mortise_string_view is not.
 *  - Every struct and table begins with `uint32_t struct_size`, the size in its writer's headers, and with
 *    `uint32_t flags`, 0 unless the header defines bits. Structs and tables grow at the tail only. A reader copies
 *    min(struct_size, its own size) bytes into a zeroed local. A writer of an out-struct never writes past the
 *    struct_size that the caller set. A table may lack slots at its tail, or hold NULL there; MORTISE_HAS tests a slot.
 *    A slot is required unless its comment says otherwise.
 *
 * Ownership
 *  - The caller owns every struct, array and string that it passes. They are valid during the call only; the callee
 *    copies what it needs later. A comment says so where something lives longer. Data behind `const` is read-only.
 *  - The caller provides the memory for results. The host copies what a plugin returns before it calls it again. In an
 *    in/out struct a plugin writes only the fields that the header names; the host ignores changes to the pointers.
 *  - The side that allocates memory frees it. A handle lives until the function that destroys it, which has the word
 *    destroy, free or close in its name. On failure the out-handle is NULL.
 *
 * Errors
 *  - A function that can fail returns a mortise_status and writes the detail into `error`, which may be NULL. After
 *    INVALID_ARGUMENT and RESOURCE_EXHAUSTED the callee's state is as before the call. No exception may leave a plugin.
 *  - INTERNAL from any function ends the instance: the host never calls it again, not even destroy, and leaks it. An
 *    exception that leaves the plugin counts as INTERNAL.
 *      proposer: its requests continue without drafts.
 *      scheduler: the host plans every step itself, first come, first served.
 *      device, model, attention: the pipeline stops serving.
 *  - Any other status of a step function costs only that step:
 *      proposer: its drafts of the step. Scheduler: its plan.
 *      device, model, attention: the requests whose sequences are in the step end with an error.
 *  - A failure outside of steps (create, load, bind, activate ...) makes the start of the pipeline, or the swap, fail,
 *    and the user sees the message.
 *  - The host logs each failure once, with plugin, function and status code, and counts repetitions.
 *  - A plugin must not end the process (exit, abort). If one does, the host names it and exits with a failure. The host
 *    logs a call that takes longer than one minute while the instance is active, or ten minutes otherwise.
 *
 * Threads. Each function has a tag, an optional state, and the ABI version that added it: [step & active] since 0.1.
 *  - [control]: one call at a time per instance; may block.
 *  - [step]: one call at a time per instance, on any OS thread; must not block on anything but the device.
 *  - [any]: thread-safe.
 *  - [control] and [step] calls to one instance never overlap.
 *  - created: between create and destroy while not active. active: between activate and deactivate.
 *
 * Versions. The major is part of the entry's name, see plugin.h. In version 0.x a host accepts plugins that were built
 * with its own minor or with the one before (MORTISE_ABI_OLDEST_MINOR), and refuses all others. This works because a
 * minor only adds: fields at the tail of structs, slots at the tail of tables, extensions. A required slot that a minor
 * adds is required of plugins of that minor only. mortise/struct_sizes.h has each struct's size at each minor: a reader
 * that requires a field compares struct_size with the size at the minor that it needs, never with its own sizeof.
 * Anything marked DRAFT has no users yet, and may change without these rules. CHANGES.md says what each minor changed.
 */
#ifndef MORTISE_ABI_H
#define MORTISE_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define MORTISE_EXTERN_C extern "C"
#define MORTISE_STATIC_ASSERT static_assert
#else
#define MORTISE_EXTERN_C extern
#define MORTISE_STATIC_ASSERT _Static_assert
#endif

#define MORTISE_ABI_MAJOR 0u
#define MORTISE_ABI_MINOR 6u
#define MORTISE_ABI_OLDEST_MINOR 5u /* the oldest minor of plugins that a host of this minor accepts */

/* True if `table`, a pointer to a table, is large enough to hold `slot` and the slot is not NULL. */
#define MORTISE_HAS(table, slot) \
  ((table)->struct_size >= offsetof(MORTISE_TYPEOF_TABLE(table), slot) + sizeof((table)->slot) && (table)->slot != NULL)
#ifdef __cplusplus
#include <type_traits>
#define MORTISE_TYPEOF_TABLE(table) std::remove_cv_t<std::remove_pointer_t<std::remove_cv_t<decltype(table)>>>
#else
#define MORTISE_TYPEOF_TABLE(table) __typeof__(*(table))
#endif

/* The numbers are those of gRPC and absl. Codes from 1000 on are a plugin's own; its message explains them. */
typedef int32_t mortise_status;
enum {
  MORTISE_OK = 0,
  MORTISE_CANCELLED = 1,
  MORTISE_UNKNOWN = 2,
  MORTISE_INVALID_ARGUMENT = 3, /* the caller's mistake; the callee's state is unchanged */
  MORTISE_NOT_FOUND = 5,
  MORTISE_RESOURCE_EXHAUSTED = 8, /* no memory or room; state unchanged, the caller may retry later */
  MORTISE_FAILED_PRECONDITION = 9,
  MORTISE_OUT_OF_RANGE = 11,
  MORTISE_UNIMPLEMENTED = 12,
  MORTISE_INTERNAL = 13,    /* a broken invariant in the callee; ends the instance, see Errors above */
  MORTISE_UNAVAILABLE = 14, /* a machine, file or device is missing now */
  MORTISE_DATA_LOSS = 15    /* a file or weights are damaged */
};

/* The detail of a failure. The caller owns it and sets struct_size; the callee fills it. */
typedef struct mortise_error {
  uint32_t struct_size;
  int32_t code;
  char where[64];    /* function, option or file; NUL-terminated */
  char message[440]; /* what is wrong and what to do about it; NUL-terminated */
} mortise_error;

typedef struct mortise_string_view {
  const char* data; /* may be NULL when size is 0 */
  uint64_t size;    /* bytes */
} mortise_string_view;

enum {
  MORTISE_KIND_DEVICE = 1,
  MORTISE_KIND_MODEL = 2,
  MORTISE_KIND_ATTENTION = 3,
  MORTISE_KIND_PROPOSER = 4,
  MORTISE_KIND_SCHEDULER = 5
};

#endif
