// tests/plugins/models/common/model_instance.hpp: the model plugin under test, whose sources are compiled in, on the
// naive device: an instance of any configuration, and a checkpoint of zeros.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "golden/golden_model.hpp"
#include "loader/option_reader.hpp"
#include "mortise/plugin.hpp"
#include "parity/stack.hpp"
#include "plugins/models/common/naive_parts.hpp"

namespace mortise::test {

inline const mortise_component& model_under_test() {
  return *mortise_plugin_entry_v0(nullptr)->components[0];
}
inline Parts naive_parts() {
  return {&kNaiveDevice, &kNaiveAttention, &model_under_test()};
}

struct Instance {
  void* device = nullptr;
  void* model = nullptr;
  mortise_error error = make_error();
  mortise_status status = MORTISE_OK;

  explicit Instance(const std::string& config, nlohmann::json options = nlohmann::json::object(), int32_t world = 1,
                    const mortise_host* host = nullptr) {
    options["path"] = "x";
    if (!options.contains("dtype")) options["dtype"] = "auto";
    const OptionReader reader(options);
    kNaiveDevice.create(nullptr, nullptr, &device, nullptr);
    auto args = sized<mortise_create_args>();
    reader.give_to(args);
    args.model_config = view(std::string_view(config));
    args.device = static_cast<mortise_device*>(device);
    args.device_table = static_cast<const mortise_device_table*>(kNaiveDevice.table);
    args.world = world;
    status = model_under_test().create(host, &args, &model, &error);
  }
  ~Instance() {
    if (model != nullptr) model_under_test().destroy(model);
    kNaiveDevice.destroy(device);
  }
  mortise_model* get() const { return static_cast<mortise_model*>(model); }
};

inline std::string config_of(const std::string& name) {
  return Checkpoint::open(read_golden_model(name).folder).config().json;
}

// Serves zeros of any shape by a list that a test writes down, or what `data` has for a tensor.
struct Shelf {
  std::map<std::string, std::vector<int64_t>> shapes;
  std::map<std::string, const float*> data;
  int32_t dtype = MORTISE_F32;
  std::vector<float> zeros = std::vector<float>(1 << 16);

  static mortise_status get(void* context, mortise_string_view name, mortise_tensor* tensor) {
    auto& shelf = *static_cast<Shelf*>(context);
    const auto found = shelf.shapes.find(std::string(view(name)));
    if (found == shelf.shapes.end()) return MORTISE_NOT_FOUND;
    const auto& shape = found->second;
    const auto own = shelf.data.find(found->first);
    *tensor = make_tensor(own == shelf.data.end() ? shelf.zeros.data() : const_cast<float*>(own->second), MORTISE_F32,
                          shape[0], shape.size() > 1 ? shape[1] : 1);
    tensor->ndim = static_cast<int32_t>(shape.size());
    tensor->dtype = shelf.dtype;
    return MORTISE_OK;
  }
  mortise_weight_reader reader() {
    auto out = sized<mortise_weight_reader>();
    out.context = this;
    out.get = get;
    return out;
  }
};

}  // namespace mortise::test
