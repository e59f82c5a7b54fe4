/* mortise/abi.h: the types, status codes and rules that every other header of the plugin ABI stands on.
 *
 * Rules (each one holds for every header here):
 *  - Fixed-width integers, floats and pointers only. Strings are UTF-8; static ids are NUL-terminated, data is pointer
 * + length.
 *  - Every struct and table begins with `uint32_t struct_size` (the size its writer knew) and `uint32_t flags` (0
 * unless the header defines bits) and grows at its tail only. A reader copies min(struct_size, its own size) into a
 * zeroed local; a writer of an out-struct never writes past the struct_size that the caller set. MORTISE_HAS tests a
 * slot of a table.
 *  - Every pointer lives for one of: the call; until X is destroyed; for ever (static). A comment says which. `_view`
 * in a name means borrowed for the call. The host copies what a plugin returns before its next call into that plugin.
 *  - A function that can fail returns a mortise_status and writes the detail into a caller-owned mortise_error (may be
 * NULL). After INVALID_ARGUMENT and RESOURCE_EXHAUSTED the callee's state is as before the call. No exception crosses,
 * nothing allocated on one side is freed on the other.
 *  - What a failure costs. INTERNAL ends an instance: the host never calls it again, not even destroy, and leaks it. An
 * exception that crosses, from any function, counts as INTERNAL. Without a proposer requests go on without drafts,
 * without a scheduler first come, first served; without a device, a model or an attention the pipeline serves no more.
 * Any other status of a step call of those three costs the sequences of that step alone. Of any other status of a
 * proposer the step loses the drafts, and of a scheduler the plan. The host logs each failure once with the names of
 * plugin and function and the code, and counts the rest.
 *  - A plugin never ends the process (exit, abort) and never stays in a call: the host names whoever does, exits with a
 * failure, and reports a call that takes longer than a minute while the instance is active (else: ten minutes).
 *  - What a struct points to with `const` is the host's and read-only. In an in/out struct the plugin writes the values
 * that the header says; the host restores the pointers that it had put there.
 *  - Thread tags: [control] one call at a time per instance, may block; [step] one at a time per instance, on any OS
 * thread, must not block on anything but the device; [any] thread-safe. [control] and [step] calls to one instance
 * never overlap. States: created (after create), active (between activate and deactivate).
 *
 * Version 0.x: the minors of host and plugin must be equal. The major is in the entry's name, see plugin.h. */
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
#define MORTISE_ABI_MINOR 5u

/* True if `table` (a pointer to a struct with struct_size) is large enough to hold `slot` and the slot is not NULL. */
#define MORTISE_HAS(table, slot) \
  ((table)->struct_size >= offsetof(MORTISE_TYPEOF_TABLE(table), slot) + sizeof((table)->slot) && (table)->slot != NULL)
#ifdef __cplusplus
#include <type_traits>
#define MORTISE_TYPEOF_TABLE(table) std::remove_cv_t<std::remove_pointer_t<std::remove_cv_t<decltype(table)>>>
#else
#define MORTISE_TYPEOF_TABLE(table) __typeof__(*(table))
#endif

/* Status codes: the numbers of gRPC and absl. 1000 and above are a plugin's own; `message` explains them. */
typedef int32_t mortise_status;
enum {
  MORTISE_OK = 0,
  MORTISE_CANCELLED = 1,
  MORTISE_UNKNOWN = 2,
  MORTISE_INVALID_ARGUMENT = 3, /* the caller's mistake; state unchanged */
  MORTISE_NOT_FOUND = 5,
  MORTISE_RESOURCE_EXHAUSTED = 8, /* no memory, no room; state unchanged, may be tried again later */
  MORTISE_FAILED_PRECONDITION = 9,
  MORTISE_OUT_OF_RANGE = 11,
  MORTISE_UNIMPLEMENTED = 12,
  MORTISE_INTERNAL = 13,    /* a broken invariant in the callee: the host never calls the instance again */
  MORTISE_UNAVAILABLE = 14, /* not now: the machine, a file or a device is missing */
  MORTISE_DATA_LOSS = 15    /* a file or weights are damaged */
};

/* The detail of a failure. Owned by the caller, filled by the callee, both strings NUL-terminated. Valid for ever. */
typedef struct mortise_error {
  uint32_t struct_size;
  int32_t code;
  char where[64];    /* function, option or file, as short as helps */
  char message[440]; /* what is wrong and what to do about it */
} mortise_error;

typedef struct mortise_string_view {
  const char* data; /* not NUL-terminated; may be NULL when size is 0 */
  uint64_t size;
} mortise_string_view;

/* The five kinds of part. */
enum {
  MORTISE_KIND_DEVICE = 1,
  MORTISE_KIND_MODEL = 2,
  MORTISE_KIND_ATTENTION = 3,
  MORTISE_KIND_PROPOSER = 4,
  MORTISE_KIND_SCHEDULER = 5
};

#endif
