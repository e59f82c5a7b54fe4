// tests/e2e/plugins/rogue_entry.cpp: a plugin whose entry function throws.
#include <stdexcept>

#include "mortise/plugin.h"

MORTISE_EXTERN_C MORTISE_EXPORT const mortise_module* mortise_plugin_entry_v0(const mortise_entry_args*) {
  throw std::runtime_error("nothing is described today");
}
