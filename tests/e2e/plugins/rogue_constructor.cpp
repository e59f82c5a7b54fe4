// tests/e2e/plugins/rogue_constructor.cpp: a plugin that crashes while it is loaded.
#include <csignal>

#include "mortise/plugin.h"

namespace {

__attribute__((constructor)) void crash() {
  std::raise(SIGSEGV);
}

}  // namespace

MORTISE_EXTERN_C MORTISE_EXPORT const mortise_module* mortise_plugin_entry_v0(const mortise_entry_args*) {
  return nullptr;
}
