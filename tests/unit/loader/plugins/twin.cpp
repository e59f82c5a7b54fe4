// tests/unit/loader/plugins/twin.cpp: two files, twin-left.so and twin-right.so, offer one attention "twin" for two
// devices (TWIN_DEVICE), with different options (TWIN_OPTION): as paged does for the CPU and for CUDA.
#include <string_view>

#include "mortise/plugin.hpp"
#include "stub_tables.hpp"

namespace {

constexpr mortise_attention_table kTable = stub::attention_table();

mortise_status supports(const mortise_query* query, mortise_error* reason) {
  if (query->device != nullptr && std::string_view(query->device) == TWIN_DEVICE) return MORTISE_OK;
  return mortise::set_error(reason, MORTISE_INVALID_ARGUMENT, "device", "this twin needs " TWIN_DEVICE);
}

constexpr mortise_component make() {
  mortise_component c = stub::component(MORTISE_KIND_ATTENTION, "twin",
                                        R"({"type": "object", "properties": {")" TWIN_OPTION
                                        R"(": {"title": "x", "type": "integer", "default": 1}}})",
                                        &kTable);
  c.supports = supports;
  return c;
}
constexpr mortise_component kTwin = make();

}  // namespace

MORTISE_PLUGIN("test.twin." TWIN_DEVICE, "Tests", "1.0.0", "Apache-2.0", &kTwin)
