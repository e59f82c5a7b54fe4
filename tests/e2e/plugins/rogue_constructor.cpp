// tests/e2e/plugins/rogue_constructor.cpp: a plugin that crashes while it is loaded.
#include <csignal>

#include "mortise/manifest.h"

namespace {

__attribute__((constructor)) void crash() {
  std::raise(SIGSEGV);
}

constexpr mortise_component kComponent = {sizeof kComponent,
                                          0,
                                          MORTISE_KIND_SCHEDULER,
                                          0,
                                          0,
                                          "rogue_constructor",
                                          "crashes while it is loaded",
                                          R"({"type": "object"})",
                                          nullptr,
                                          nullptr,
                                          nullptr,
                                          nullptr,
                                          nullptr,
                                          nullptr,
                                          nullptr,
                                          nullptr};
constexpr const mortise_component* kComponents[] = {&kComponent};
constexpr mortise_module kModule = {sizeof kModule, 0,   MORTISE_ABI_MINOR, 1,          "test.rogue",
                                    "Tests",        "1", "Apache-2.0",      kComponents};
MORTISE_MANIFEST(kModule);

}  // namespace

MORTISE_EXTERN_C MORTISE_EXPORT const mortise_module* mortise_plugin_entry_v0(const mortise_entry_args*) {
  return nullptr;
}
