// runtime/bench_command/random_model.hpp: a model of a named shape with random weights, in memory or as a checkpoint
// folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "assembly/assembly.hpp"
#include "bench_command/model_shape.hpp"

namespace mortise::bench {

// A folder of its own under TMPDIR (or /tmp), removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();  // throws an Error when none can be made
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::vector<std::uint16_t> random_bf16(std::size_t count);  // normal(0, 0.02), the same ones each time

// Weights normal(0, 0.02) in bf16, norms 1. They take a few megabytes however large the model is: all tensors are views
// of the same numbers, which repeat in the address space, at another place each. What the model packs on its device is
// as large as ever.
ModelFiles make_random_model(const ModelShape& shape);

Tokenizer make_tokenizer(const ModelShape& shape);  // that of make_random_model

// A draft model for a target with that tokenizer: of its vocabulary, whatever the shape's own is.
ModelFiles make_random_draft(ModelShape shape, Tokenizer target);

// Bytes that such a model packs (with the options `dtype` and `weights` of a model plugin). Throws an Error, with the
// figures, when they are more than are there: loading it would end with a process killed by the system, minutes later.
std::uint64_t check_fits_memory(const ModelShape& shape, const nlohmann::json& model_options,
                                std::uint64_t available_bytes);
// The same check for a draft model, against the memory that the target leaves free.
void check_draft_fits_memory(const ModelShape& shape, std::uint64_t available_bytes);

// The same as a checkpoint that any program loads: config.json, tokenizer.json, model.safetensors. Throws an Error when
// it cannot be written.
void write_random_model(const ModelShape& shape, const std::filesystem::path& folder);

}  // namespace mortise::bench
