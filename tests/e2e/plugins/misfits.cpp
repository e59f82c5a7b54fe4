// tests/e2e/plugins/misfits.cpp: parts that load, and that no pipeline can be made of.
#include "loader/plugins/stub_tables.hpp"
#include "mortise/plugin.hpp"

namespace {

mortise_status empty_layout(mortise_attention*, const mortise_model_dims*, std::int32_t, std::int32_t,
                            mortise_kv_layout*, mortise_error*) {
  return MORTISE_OK;
}

constexpr mortise_device_table kDevice = stub::device_table();  // its numerics_id is NULL for every type
constexpr mortise_attention_table kAttention = [] {
  mortise_attention_table table = stub::attention_table();
  table.kv_layout = empty_layout;
  return table;
}();

constexpr mortise_component component(std::int32_t kind, std::uint64_t capabilities, const char* name,
                                      const void* table) {
  mortise_component c = stub::component(kind, name, R"({"type": "object", "properties": {}})", table);
  c.capabilities = capabilities;
  c.numerics_id = "misfit";
  return c;
}

constexpr mortise_component kTypeless = component(MORTISE_KIND_DEVICE, MORTISE_CAP_EXACT, "typeless", &kDevice);
constexpr mortise_component kInexact = component(MORTISE_KIND_ATTENTION, 0, "inexact", &kAttention);
constexpr mortise_component kBlockless = component(MORTISE_KIND_ATTENTION, MORTISE_CAP_EXACT, "blockless", &kAttention);

}  // namespace

MORTISE_PLUGIN("test.misfits", "Tests", "1.0.0", "Apache-2.0", &kTypeless, &kInexact, &kBlockless)
