// runtime/bench_command/random_model.hpp: makes a model of a named shape with random weights, in memory or as a
// checkpoint folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "assembly/assembly.hpp"
#include "bench_command/model_shape.hpp"

namespace mortise::bench {

// A new folder in TMPDIR (or /tmp), which is removed with the object. Invariant: the folder exists until the
// destructor. Used by one thread.
class TemporaryFolder {
 public:
  TemporaryFolder();  // throws an Error if none can be created
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::vector<std::uint16_t> random_bf16(std::size_t count);  // normal(0, 0.02), the same numbers each time

// Makes a model whose weights are normal(0, 0.02) in bf16, and whose norms are 1. The weights take only a few
// megabytes, whatever the model's size: all tensors are views, at different offsets, of the same numbers, which repeat
// in the address space. The weights that the model packs on its device have their full size.
ModelFiles make_random_model(const ModelShape& shape);

Tokenizer make_tokenizer(const ModelShape& shape);  // the tokenizer of make_random_model

// Makes a draft model for a target with that tokenizer. It has the target's vocabulary, whatever the shape says.
ModelFiles make_random_draft(ModelShape shape, Tokenizer target);

// Returns the bytes that such a model packs (with the options `dtype` and `weights` of a model plugin). Throws an Error
// with the figures if that is more than the available memory: loading the model would end minutes later with the
// process killed by the system.
std::uint64_t check_fits_memory(const ModelShape& shape, const nlohmann::json& model_options,
                                std::uint64_t available_bytes);
// Makes the same check for a draft model, with the memory that the target leaves.
void check_draft_fits_memory(const ModelShape& shape, std::uint64_t available_bytes);

// Writes the model as a checkpoint that any program can load: config.json, tokenizer.json, model.safetensors. Throws an
// Error if it cannot be written.
void write_random_model(const ModelShape& shape, const std::filesystem::path& folder);

}  // namespace mortise::bench
