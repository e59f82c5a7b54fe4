#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/hash_sidecar.hpp"
#include "hasher.hpp"

namespace mortise {
namespace {

std::string config_without_origin(const std::string& text) {
  nlohmann::json config = nlohmann::json::parse(text);
  config.erase("transformers_version");
  config.erase("_name_or_path");
  return config.dump();
}

// The fields of generation_config.json that the runtime reads, with one spelling for each meaning.
std::string canonical(const GenerationConfig& defaults) {
  nlohmann::json json = {{"eos_token_id", defaults.eos_token_ids}};
  const auto add = [&](const char* name, const auto& value) {
    if (value) json[name] = *value;
  };
  add("bos_token_id", defaults.bos_token_id);
  add("pad_token_id", defaults.pad_token_id);
  add("do_sample", defaults.do_sample);
  add("temperature", defaults.temperature);
  add("top_k", defaults.top_k);
  add("top_p", defaults.top_p);
  add("min_p", defaults.min_p);
  add("repetition_penalty", defaults.repetition_penalty);
  return json.dump();
}

// Hashes the beginning of each tensor only. Random weights follow from their shapes, and views that repeat a few
// megabytes may span terabytes.
std::string sample_hash(const TensorMap& tensors) {
  constexpr std::size_t kSampleBytes = 4096;
  Hasher hasher;
  for (const auto& [name, view] : tensors) {
    add_description(hasher, name, view);
    hasher.add(view.bytes.data(), std::min(kSampleBytes, view.bytes.size()));
  }
  return hasher.hex();
}

}  // namespace

void Checkpoint::start_hashing(const std::optional<std::filesystem::path>& cache_folder) {
  if (!weights_hash_) return;
  std::optional<HashSidecar> sidecar;
  if (const std::optional<std::string> identity = this->identity(); identity && cache_folder) {
    sidecar.emplace(*cache_folder, path_, *identity);
  }
  weights_hash_->start(std::move(sidecar));
}

std::string Checkpoint::fingerprint() const {
  return fmt::format("weights {}; config {}; defaults {}",
                     weights_hash_ ? weights_hash_->value() : "sample-" + sample_hash(tensors_),
                     hash_of(config_without_origin(config_.json)), hash_of(canonical(generation_config_)));
}

// The files identify the weights. config.json and the index decide which tensors they are, and which file a tensor
// comes from if two files have it.
std::optional<std::string> Checkpoint::identity() const {
  if (files_.empty()) return std::nullopt;
  Hasher hasher;
  hasher.add(config_without_origin(config_.json));
  for (const auto& [name, view] : tensors_) {
    add_description(hasher, name, view);
    for (std::size_t i = 0; i < files_.size(); ++i) {
      const std::span<const std::byte> file = files_[i].bytes;
      if (view.bytes.data() >= file.data() && view.bytes.data() < file.data() + file.size()) hasher.add(i);
    }
  }
  std::string all = hasher.hex();
  for (const WeightFile& file : files_) {
    if (!file.identity) return std::nullopt;
    all += ' ';
    all += *file.identity;
  }
  return all;
}

}  // namespace mortise
