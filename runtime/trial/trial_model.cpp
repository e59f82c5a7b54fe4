#include "trial/trial_model.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

namespace mortise {
namespace {

constexpr std::uint64_t kSmallBytes = std::uint64_t{32} << 20;   // of weights
constexpr std::uint64_t kWholeBytes = std::uint64_t{128} << 20;  // smaller models run with all layers
constexpr std::int64_t kFirstLayers = 2;

// The configuration with fewer layers, under the names that transformers uses. Lists with an entry per layer are
// shortened.
std::string with_first_layers(const std::string& config) {
  nlohmann::json json = nlohmann::json::parse(config);
  for (const char* key : {"num_hidden_layers", "n_layer"}) {
    if (json.contains(key) && json[key].is_number_integer() && json[key] > kFirstLayers) json[key] = kFirstLayers;
  }
  if (json.contains("layer_types") && json["layer_types"].is_array() && json["layer_types"].size() > kFirstLayers) {
    json["layer_types"].erase(json["layer_types"].begin() + kFirstLayers, json["layer_types"].end());
  }
  return json.dump();
}

}  // namespace

TrialModel open_trial_model(const std::filesystem::path& folder) {
  auto whole = std::make_shared<ModelFiles>(ModelFiles::open(folder));
  const Checkpoint& checkpoint = whole->checkpoint;
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) bytes += tensor.bytes.size();
  ModelConfig config = checkpoint.config();
  if (bytes > kWholeBytes) config.json = with_first_layers(config.json);
  // from_memory: so the weights are not hashed, which would read all of them.
  Checkpoint trial = Checkpoint::from_memory(folder.string(), std::move(config), checkpoint.tensors(), whole);
  return {{std::move(trial), std::move(whole->tokenizer)}, bytes <= kSmallBytes};
}

}  // namespace mortise
