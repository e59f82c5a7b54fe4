/* mortise/host.h: the services that the host offers to a plugin instance. Each instance gets a mortise_host of its own,
 * so that the host can attribute memory and messages to it. A plugin creates no threads: see ext/parallel.h. */
#ifndef MORTISE_HOST_H
#define MORTISE_HOST_H

#include "mortise/abi.h"

enum { MORTISE_LOG_DEBUG = 0, MORTISE_LOG_INFO = 1, MORTISE_LOG_WARNING = 2, MORTISE_LOG_ERROR = 3 };

typedef struct mortise_host mortise_host;
struct mortise_host {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t abi_minor;
  uint32_t reserved;
  const char* name;    /* "mortise"; static */
  const char* version; /* of the host program; static */

  /* Writes one line to the host's log, prefixed with the instance's name. The host copies the text. `level` is
   * MORTISE_LOG_*, other values log an error; the variable MORTISE_LOG=debug shows all levels. [any] since 0.1 */
  void (*log)(const mortise_host* host, int32_t level, mortise_string_view message);

  /* Returns uninitialised host memory, which the host counts as this instance's; the caller returns it with `free`.
   * NULL if there is no memory or `alignment` is not a power of two up to 4096. [any] since 0.1 */
  void* (*allocate)(const mortise_host* host, uint64_t bytes, uint64_t alignment);

  /* Frees memory from `allocate`; ignores NULL. [any] since 0.1 */
  void (*free)(const mortise_host* host, void* memory);

  /* Returns a monotonic time in nanoseconds; its zero has no meaning. [any] since 0.1 */
  uint64_t (*now_ns)(const mortise_host* host);

  /* Returns the table of a host extension such as MORTISE_EXT_RUNNER, or NULL if this host has none. The table lives at
   * least as long as the instance. [any] since 0.1 */
  const void* (*get_ext)(const mortise_host* host, const char* id);
};

#endif
