#include "bench/subject.hpp"

#include <algorithm>
#include <cstdlib>

#include "error.hpp"

namespace mortise::bench {
namespace {

// For shapes without a script. A sequence for each request of the largest scenario; blocks for all of their tokens.
constexpr const char* kShapeScript = R"(return pipeline {
  device    = cpu {},
  model     = llama { path = script_dir },  -- the shape's random weights take its place
  attention = paged { block_size = 16 },
  scheduler = fcfs { max_num_seqs = 256, max_batched_tokens = 2048 },
  kv_cache  = { memory = "2GiB" },
})";

PipelineScript load_script(const SubjectChoice& choice, const PluginCatalog& catalog) {
  if (!choice.script.empty()) return PipelineScript::load(choice.script, catalog);
  if (choice.shape != nullptr) {
    return PipelineScript::from_text(kShapeScript, "bench", std::filesystem::current_path(), catalog);
  }
  return PipelineScript::load_demo(catalog);
}

// The variable beats the option: an instruction set that was asked for would silently not be measured.
void check_environment(const SubjectChoice& choice) {
  const char* forced = std::getenv("MORTISE_ISA");
  if (forced == nullptr || *forced == '\0') return;
  for (const Setting& setting : choice.settings) {
    if (setting.part == "device" && setting.option == "isa") {
      fail("device.isa={}: MORTISE_ISA={} comes before it; unset that variable", setting.value.dump(), forced);
    }
  }
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return name.ends_with(end); });
}

// Bytes of one weight as the device reads it.
struct WeightBytes {
  double body, head;
};

// Weights that a model makes integers of when it loads (its option `weights`): scales are f32, of a row with int8 and
// of a group of `group_size` with int4; its head has 8 bits either way.
WeightBytes bytes_of_weights(const mortise_model_dims& dims, const nlohmann::json& model_options) {
  const double as_computed = dims.dtype == MORTISE_BF16 ? 2 : 4;
  const auto weights = model_options.find("weights");
  if (weights == model_options.end()) return {as_computed, as_computed};
  if (*weights == "int8") return {1, 1};
  if (*weights == "int4") {
    constexpr int kDefaultGroup = 64;
    const auto group = model_options.find("group_size");
    const bool given = group != model_options.end() && group->is_number_integer() && *group > 0;
    return {0.5 + 4.0 / (given ? group->get<int>() : kDefaultGroup), 1};
  }
  return {as_computed, as_computed};
}

double bytes_of_kv(const PipelineDescription& description, const mortise_model_dims& dims) {
  const double elements = 2.0 * dims.num_kv_heads * dims.head_dim;
  switch (description.kv_cache.dtype) {
    case KvDtype::kInt8:
      return elements + 2.0 * dims.num_kv_heads * 4;  // a scale for each token and head
    case KvDtype::kBf16:
      return 2 * elements;
    case KvDtype::kF32:
      return 4 * elements;
    case KvDtype::kAuto:
      break;
  }
  return elements * (dims.dtype == MORTISE_BF16 ? 2 : 4);
}

bool has_int8_weights(const PipelineDescription& description) {
  const nlohmann::json& options = description.model.choices.front().options;
  return options.contains("weights") && (options["weights"] == "int8" || options["weights"] == "int4");
}

mortise_device_info describe_device(const Parts& parts) {
  mortise_device_info info{};
  info.struct_size = sizeof info;
  parts.device.api->describe(parts.device.self, &info);
  return info;
}

EngineHooks hooks_with(TraceFile* trace, const std::string& pipeline) {
  EngineHooks hooks;
  hooks.trace = trace;
  hooks.name = "pipeline " + pipeline;
  return hooks;
}

}  // namespace

std::string SubjectChoice::label() const {
  std::string text = shape != nullptr ? fmt::format("{} (random weights)", shape->name) : "";
  if (!script.empty()) text += (text.empty() ? "" : " in ") + script;
  if (text.empty()) text = "demo";
  for (const Setting& setting : settings) {
    text += fmt::format(", {}.{}={}", setting.part, setting.option,
                        setting.value.is_string() ? setting.value.get<std::string>() : setting.value.dump());
  }
  return text;
}

PipelineScript load_subject_script(const SubjectChoice& choice) {
  check_environment(choice);
  const PluginCatalog catalog = PluginCatalog::standard();
  PipelineScript script = load_script(choice, catalog);
  if (choice.settings.empty()) return script;
  const std::string text = script_text(script.pipelines().front(), choice.settings, catalog);
  return PipelineScript::from_text(text, "settings", std::filesystem::current_path(), catalog);
}

Subject::Subject(const SubjectChoice& choice, TraceFile* trace)
    : script_(load_subject_script(choice)),
      assembly_(description(),
                choice.shape != nullptr ? std::optional(make_random_model(*choice.shape)) : std::nullopt),
      device_(describe_device(assembly_.parts())),
      cost_(model_cost(assembly_, description())),
      engine_(assembly_.parts(), assembly_.limits(), assembly_.model_info(), assembly_.tokenizer(),
              hooks_with(trace, description().name)) {}

std::optional<Unit> Subject::unit() const {
  if (device_.host_memory == 0) return std::nullopt;
  return unit_of_isa(device_.isa, has_int8_weights(description()));
}

std::size_t Subject::num_threads() const {
  return static_cast<std::size_t>(std::max(device_.num_threads, 1));
}

ModelCost model_cost(const Assembly& assembly, const PipelineDescription& description) {
  const mortise_model_dims& dims = assembly.dims();
  ModelCost cost;
  for (const auto& [name, view] : assembly.checkpoint().tensors()) {
    const bool looked_up =
        ends_with_any(name, {"embed_tokens.weight", "embed_positions.weight", "wte.weight", "wpe.weight"});
    if (view.shape.size() < 2 || looked_up || name.ends_with("lm_head.weight")) continue;
    double elements = 1;
    for (const std::int64_t extent : view.shape) elements *= static_cast<double>(extent);
    cost.body_elements += elements;
  }
  cost.head_elements = static_cast<double>(dims.vocab_size) * dims.hidden_size;
  const WeightBytes bytes = bytes_of_weights(dims, description.model.choices.front().options);
  cost.weight_bytes = cost.body_elements * bytes.body + cost.head_elements * bytes.head;
  cost.kv_bytes = bytes_of_kv(description, dims);
  cost.attention_width = static_cast<double>(dims.num_heads) * dims.head_dim;
  cost.windows.assign(static_cast<std::size_t>(dims.num_layers), 0);
  if (dims.sliding_windows != nullptr) {
    std::copy_n(dims.sliding_windows, cost.windows.size(), cost.windows.begin());
  }
  return cost;
}

std::optional<Unit> unit_of_isa(std::string_view isa, bool int8_weights) {
  const auto available = [](Unit unit) {
    const auto& units = available_units();
    return std::find(units.begin(), units.end(), unit) != units.end() ? std::optional(unit) : std::nullopt;
  };
  if (isa == "amx") return available(int8_weights ? Unit::kAmxInt8 : Unit::kAmxBf16);
  if (isa == "avx512") return available(int8_weights ? Unit::kAvx512Int8 : Unit::kAvx512Fma);
  if (isa == "avx2" && !int8_weights) return available(Unit::kAvx2Fma);
  // The portable path has no unit of its own: its floor is what the machine's floats can do.
  if (isa == "portable" && !int8_weights) return available(Unit::kAvx2Fma).value_or(Unit::kF32);
  return std::nullopt;
}

}  // namespace mortise::bench
