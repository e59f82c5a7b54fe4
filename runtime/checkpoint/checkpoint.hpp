// runtime/checkpoint/checkpoint.hpp: a model in files. Either a Hugging Face folder: config.json,
// generation_config.json (optional) and the weights, in model.safetensors or in the shards that
// model.safetensors.index.json lists. Or a GGUF file, of a split model the first part; it looks like the folder that it
// was converted from (gguf/translation.hpp). Opening maps the files and checks their headers, but reads no weights, so
// it takes milliseconds at any size. Immutable after open(), and thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/generation_config.hpp"
#include "checkpoint/model_config.hpp"
#include "checkpoint/quantized_matrix.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/weights_hash.hpp"

namespace mortise {

// An open checkpoint. Invariant: each view of tensors_ points into memory that this object keeps. Immutable after
// open(), and thread-safe.
class Checkpoint {
 public:
  // `path`: a folder or a GGUF file. Throws an Error with the file, the problem and the remedy if it cannot be used.
  static Checkpoint open(const std::filesystem::path& path);

  // Whether `path` is meant as a GGUF file: its name ends with .gguf, or it begins as such a file does.
  static bool is_gguf(const std::filesystem::path& path);

  // Whether the tensor is an embedding, of tokens or positions: models look its rows up, which must be floats.
  static bool is_embedding(std::string_view name);

  // Makes a model with made-up weights, for benchmarks. `tensors` are in memory that `owner` keeps; `name` replaces the
  // folder in messages, and is the model's name.
  static Checkpoint from_memory(const std::string& name, ModelConfig config, TensorMap tensors,
                                std::shared_ptr<const void> owner);

  const std::filesystem::path& path() const { return path_; }  // as given to open()
  const ModelConfig& config() const { return config_; }
  const GenerationConfig& generation_config() const { return generation_config_; }

  // The weights by name. With shards: the tensors of the index, each from the shard that the index names. Views live as
  // long as this object.
  const TensorMap& tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const;  // nullptr if there is none

  // The quantised matrix that replaces the tensor `name`; nullopt if there is none, or if the checkpoint is not
  // quantised. Throws an Error if its tensors do not fit together. Valid as long as this object.
  std::optional<QuantizedMatrix> find_quantized(std::string_view name) const;

  // Starts threads that hash the weights while they are loaded, unless a file in `cache_folder` has the hash from an
  // earlier start (HashSidecar). No such file is used if `cache_folder` is nullopt or the checkpoint has no identity().
  // Call it at most once, before fingerprint().
  void start_hashing(const std::optional<std::filesystem::path>& cache_folder);

  // Returns the checkpoint's part of the numerics id, "weights HASH; config HASH; defaults HASH". The hashes cover
  // everything that decides answers: every byte of every tensor with its name, dtype and shape (WeightsHash); the
  // normalised configuration without transformers_version and _name_or_path, which change nothing; and the end tokens
  // and sampling defaults of generation_config.json. Equal checkpoints have equal fingerprints, wherever their folders
  // are, however they are divided into shards, and however their JSON is written. Waits for start_hashing(), or reads
  // all weights if it was not called. Made-up weights are sampled instead.
  std::string fingerprint() const;

  // A text that stays equal only while the weight files are unchanged since they were opened. It holds each file's
  // device, inode, size, and the times of its last modification and last status change in nanoseconds, as of opening;
  // and a hash of the normalised configuration and of each tensor's name, dtype, shape and file. Reads no weights.
  // Every write to a file changes the status time, which programs cannot set back; so does copying the folder, although
  // the weights stay the same. It misses writes through a mapping that the system has not noted yet, and writers on
  // machines whose clocks differ. nullopt: the weights are not in files, or a file was changed so shortly before it was
  // opened that the clock of its file system may not show the next change.
  std::optional<std::string> identity() const;

 private:
  // A file of the weights, for identity().
  struct WeightFile {
    std::span<const std::byte> bytes;
    std::optional<std::string> identity;
  };

  Checkpoint() = default;
  static Checkpoint open_folder(const std::filesystem::path& folder);
  static Checkpoint open_gguf(const std::filesystem::path& file);

  std::filesystem::path path_;
  ModelConfig config_;
  GenerationConfig generation_config_;
  std::vector<WeightFile> files_;      // in the memory of owner_; empty: made-up weights
  std::shared_ptr<const void> owner_;  // of the memory that tensors_ points into
  TensorMap tensors_;
  std::unique_ptr<WeightsHash> weights_hash_;  // null: made-up weights
};

}  // namespace mortise
