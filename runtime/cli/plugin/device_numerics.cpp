#include "cli/plugin/device_numerics.hpp"

#include "error.hpp"
#include "mortise/device.h"

namespace mortise {

PartInstance open_device(const Component& component) {
  mortise_query query{};
  query.struct_size = sizeof query;
  if (const auto reason = component.refusal(query)) throw Error(*reason);
  return {component, component.schema.complete(nlohmann::json::object(), component.label()), {}};
}

std::vector<std::pair<std::string, const char*>> device_numerics(const PartInstance& device) {
  const auto* const table = device.table<mortise_device_table>();
  auto* const handle = device.handle<mortise_device>();
  std::vector<std::pair<std::string, const char*>> ids;
  for (const auto& [dtype, name] : {std::pair(MORTISE_BF16, "bf16"), std::pair(MORTISE_F32, "f32")}) {
    const char* id = nullptr;
    device.perform("numerics_id", [&](mortise_error*) { return id = table->numerics_id(handle, dtype), MORTISE_OK; });
    if (id != nullptr) ids.emplace_back(plugin_text(id, 200), name);
  }
  return ids;
}

}  // namespace mortise
