/* mortise/host.h: what the host offers a plugin instance. Threads belong to the device (ext/parallel.h), so a plugin
 * needs none of its own. One mortise_host is made per instance, so that memory and messages are accounted to it. */
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
  const char* version; /* of the host; static */

  /* Writes one line to the host's log, with the instance's name before it. The text is copied. [any] since 0.1 */
  void (*log)(const mortise_host* host, int32_t level, mortise_string_view message);
  /* Host memory, accounted to the instance; `alignment` is a power of two up to 4096. NULL when there is none. [any]
   * since 0.1 */
  void* (*allocate)(const mortise_host* host, uint64_t bytes, uint64_t alignment);
  /* Gives back what allocate returned; NULL is fine. [any] since 0.1 */
  void (*free)(const mortise_host* host, void* memory);
  /* Monotonic clock. [any] since 0.1 */
  uint64_t (*now_ns)(const mortise_host* host);
  /* The table of an extension of the host, e.g. MORTISE_EXT_RUNNER, or NULL. Static. [any] since 0.1 */
  const void* (*get_ext)(const mortise_host* host, const char* id);
};

#endif
