#include "assembly/default_parts.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "error.hpp"
#include "execution/device_memory.hpp"
#include "execution/model_stack.hpp"
#include "execution/weight_reader.hpp"
#include "loader/part_instance.hpp"
#include "mortise/model.h"
#include "tokenizer/tokenizer.hpp"

namespace mortise {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// The only place that ranks parts: the first one that is installed and accepts the model is taken. cascade and
// prefix_group come before paged and fcfs: they are several times faster if requests share prefixes, and no measurable
// difference was found if they share none (bench/results/2026-11-22-cascade-cpu.md).
constexpr const char* kDevices[] = {"cuda", "cpu"};
constexpr const char* kAttentions[] = {"cascade", "paged"};
constexpr const char* kSchedulers[] = {"prefix_group", "fcfs"};
constexpr const char* kProposers[] = {"ngram"};  // proposers that need no second model

std::vector<const Component*> components_of(const PluginCatalog& catalog, PartKind kind, const char* name) {
  std::vector<const Component*> components = catalog.find(name).components;
  std::erase_if(components, [&](const Component* component) { return component->kind != kind; });
  return components;
}

// Returns the first of `names` that is installed and accepts the query; nullptr: none.
const Component* find_part(const PluginCatalog& catalog, PartKind kind, std::span<const char* const> names,
                           const mortise_query& query) {
  for (const char* name : names) {
    for (const Component* component : components_of(catalog, kind, name)) {
      if (!component->refusal(query)) return component;
    }
  }
  return nullptr;
}

const char* required_part(const PluginCatalog& catalog, PartKind kind, std::span<const char* const> names,
                          const mortise_query& query) {
  const Component* component = find_part(catalog, kind, names, query);
  if (component != nullptr) return component->name.c_str();
  std::vector<std::string> words(names.begin(), names.end());
  fail("no {} for the default pipeline: none of {} is installed and supports this model; write a script that names one",
       kind_name(kind), fmt::join(words, ", "));
}

mortise_query query_of(const std::string& device) {
  mortise_query query{};
  query.struct_size = sizeof query;
  query.device = device.c_str();
  query.block_size = 16;
  return query;
}

std::string architecture_of(const ModelConfig& config) {
  return config.architectures.empty() ? "" : fmt::format(" ({})", config.architectures.front());
}

// Every model plugin decides by itself which configurations it accepts, so there is no table of architectures here.
const Component& find_model(const Checkpoint& checkpoint, const PluginCatalog& catalog) {
  mortise_query query{};
  query.struct_size = sizeof query;
  query.model_config = {checkpoint.config().json.data(), checkpoint.config().json.size()};
  std::string reasons;
  std::vector<std::string> asked;
  for (const PluginFile* file : catalog.list().files) {
    for (const Component& component : file->components) {
      if (component.kind != PartKind::kModel) continue;
      const bool again = std::find(asked.begin(), asked.end(), component.name) != asked.end();
      const auto refusal = component.refusal(query);
      if (!refusal) return component;
      if (!again) reasons += fmt::format("; {}: {}", component.name, *refusal);
      asked.push_back(component.name);
    }
  }
  fail("{}: no model plugin supports a checkpoint of model type '{}'{}{}", checkpoint.path().string(),
       checkpoint.config().model_type, architecture_of(checkpoint.config()),
       reasons.empty() ? "; none is installed" : reasons);
}

bool has_windows(const mortise_model_dims& dims) {
  if (dims.sliding_windows == nullptr) return false;
  const std::span<const std::int32_t> windows(dims.sliding_windows, static_cast<std::size_t>(dims.num_layers));
  return std::any_of(windows.begin(), windows.end(), [](std::int32_t window) { return window != 0; });
}

// An active device, kept while parts are chosen for it. Used by one thread.
class Candidate {
 public:
  Candidate(const Component& device, const Checkpoint& checkpoint, const PluginCatalog& catalog)
      : device_(device, device.schema.complete(Json::object(), device.label()), CreateContext{}),
        checkpoint_(checkpoint),
        catalog_(catalog) {
    device_.activate();
    part_ = device_.active_part<mortise_device, mortise_device_table>();
  }

  // Returns nullopt if the device cannot compute in a type of the model with these options, or if no attention accepts
  // the model there.
  std::optional<DefaultParts> try_model(const Component& model, const std::string& dtype) const {
    Json options = {{"path", checkpoint_.path().string()}};
    if (!dtype.empty()) options["dtype"] = dtype;
    CreateContext context;
    context.device = part_.self;
    context.device_table = part_.api;
    context.device_health = part_.health;
    context.model_config = checkpoint_.config().json;
    const PartInstance instance(model, model.schema.complete(options, model.label()), context);
    mortise_model_dims dims{};
    dims.struct_size = sizeof dims;
    instance.perform("dims", [&](mortise_error* error) {
      return instance.table<mortise_model_table>()->dims(instance.handle<mortise_model>(), &dims, error);
    });
    if (numerics_id_of(part_, dims.dtype) == nullptr) return std::nullopt;
    if (dims.weight_bits != 0 && numerics_id_of(part_, weight_class(dims)) == nullptr) return std::nullopt;
    const Component* attention = find_attention(dims);
    if (attention == nullptr) return std::nullopt;
    DefaultParts parts;
    parts.device = device_.component().name;
    parts.model = model.name;
    parts.model_dtype = dtype;
    parts.attention = attention->name;
    parts.weight_bytes = prepared_bytes(checkpoint_, dims);
    if (!shares_host_memory(part_)) parts.device_bytes = free_device_memory(part_);
    return parts;
  }

 private:
  const Component* find_attention(const mortise_model_dims& dims) const {
    mortise_query query = query_of(device_.component().name);
    query.dims = &dims;
    query.kv_dtype = dims.dtype;
    for (const char* name : kAttentions) {
      const Component* attention = find_part(catalog_, PartKind::kAttention, {&name, 1}, query);
      if (attention == nullptr) continue;
      if (!has_windows(dims) || (attention->capabilities & MORTISE_CAP_SLIDING_WINDOW) != 0) return attention;
    }
    return nullptr;
  }

  PartInstance device_;
  const Checkpoint& checkpoint_;
  const PluginCatalog& catalog_;
  DevicePart part_;
};

// Tries one device. If it cannot serve the model, adds the reason to `reasons`.
std::optional<DefaultParts> try_device(const Component& device, const Component& model, const Checkpoint& checkpoint,
                                       const PluginCatalog& catalog, std::string& reasons) {
  std::string why = "does not compute in the model's type, or no attention supports the model there";
  try {
    const Candidate candidate(device, checkpoint, catalog);
    // Checkpoints in f16 and f32 run in bf16 on a device that has no wider type.
    for (const char* dtype : {"", "bf16"}) {
      try {
        if (auto parts = candidate.try_model(model, dtype)) return parts;
      } catch (const Error& error) {
        if (*dtype == '\0') why = error.what();
      }
    }
  } catch (const Error& error) {
    why = error.what();
  }
  reasons += fmt::format("; {}: {}", device.name, why);
  return std::nullopt;
}

}  // namespace

DefaultParts choose_default_parts(const fs::path& folder, const PluginCatalog& catalog) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  Tokenizer::check_is_in(folder);
  const Component& model = find_model(checkpoint, catalog);
  std::string reasons;
  for (const char* name : kDevices) {
    for (const Component* device : components_of(catalog, PartKind::kDevice, name)) {
      auto parts = try_device(*device, model, checkpoint, catalog, reasons);
      if (!parts) continue;
      const mortise_query query = query_of(parts->device);
      parts->scheduler = required_part(catalog, PartKind::kScheduler, kSchedulers, query);
      const Component* proposer = find_part(catalog, PartKind::kProposer, kProposers, query);
      if (proposer != nullptr) parts->proposer = proposer->name;
      return *parts;
    }
  }
  fail("{}: no device can run it{}", folder.string(), reasons.empty() ? "; none is installed" : reasons);
}

}  // namespace mortise
