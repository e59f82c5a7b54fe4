// runtime/checkpoint/checkpoint.hpp: a Hugging Face model folder: config.json, generation_config.json (optional) and
// the weights, in model.safetensors or in the shards that model.safetensors.index.json lists. Opening maps the files
// and checks their headers; no weight is read, so it costs milliseconds at any size. Immutable after open: any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/generation_config.hpp"
#include "checkpoint/model_config.hpp"
#include "checkpoint/quantized_matrix.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/weights_hash.hpp"

namespace mortise {

class Checkpoint {
 public:
  // Error, with the file, what is wrong and what to do, when the folder or one of its files cannot be used.
  static Checkpoint open(const std::filesystem::path& folder);

  // A model whose weights were made, not read. `tensors` lie in memory that `owner` keeps; `name` stands where a folder
  // would: in messages, and as the model's name.
  static Checkpoint from_memory(const std::string& name, ModelConfig config, TensorMap tensors,
                                std::shared_ptr<const void> owner);

  const std::filesystem::path& folder() const { return folder_; }
  const ModelConfig& config() const { return config_; }
  const GenerationConfig& generation_config() const { return generation_config_; }

  // The weights by name. With shards: those that the index lists, each from the shard that it names. Views live as long
  // as this object.
  const TensorMap& tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const;  // nullptr when there is none of that name

  // The matrix that a quantised checkpoint has in place of the tensor `name`; nullopt: none of that name, or the
  // checkpoint is not quantised. Error when its tensors do not fit each other. Lives no longer than this object.
  std::optional<QuantizedMatrix> find_quantized(std::string_view name) const;

  // Starts hashing the weights on threads of its own, beside whatever reads them, unless a file in `cache_folder` has
  // their hash from an earlier start (HashSidecar). No such file is used or written when `cache_folder` is nullopt or
  // the checkpoint has no identity(). Call it at most once, before fingerprint().
  void start_hashing(const std::optional<std::filesystem::path>& cache_folder);

  // The checkpoint's share of the numerics id, "weights HASH; config HASH; defaults HASH". The hashes cover all that
  // decides answers here: every byte of every tensor with its name, dtype and shape (WeightsHash); the normalised
  // configuration without transformers_version and _name_or_path, which change nothing; and the end tokens and sampling
  // defaults that generation_config.json gives. Equal checkpoints have equal fingerprints, wherever their folders are,
  // however they are cut into shards and however their JSON is spelled. Waits for start_hashing(), or reads all weights
  // where that was not called. Weights that were made, not read, have a sample in place of all bytes.
  std::string fingerprint() const;

  // What is equal only while the files of the weights are the ones that were opened, unchanged: of each its device,
  // inode, size, and the times of its last modification and of its last change of any kind, in nanoseconds, all as they
  // were when it was opened; and a hash of the normalised configuration and of each tensor's name, dtype, shape and
  // file. No weight is read for it. Writing to a file moves the last of them, which no program can set
  // back; so does copying the folder, although that changes no weight. Not seen: what is written through a mapping
  // before the system notes it, and writers on other machines whose clocks differ. nullopt: the weights are in no file,
  // or one was changed so shortly before it was opened that the clock of its file system may not tell the next change.
  std::optional<std::string> identity() const;

 private:
  Checkpoint() = default;

  std::filesystem::path folder_;
  ModelConfig config_;
  GenerationConfig generation_config_;
  std::shared_ptr<const std::vector<SafetensorsFile>> files_;  // null: made weights
  std::shared_ptr<const void> owner_;                          // of made weights
  TensorMap tensors_;
  std::unique_ptr<WeightsHash> weights_hash_;  // null: made weights
};

}  // namespace mortise
