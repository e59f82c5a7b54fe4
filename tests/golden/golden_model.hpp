// tests/golden/golden_model.hpp: the models of tests/golden/models for C++ tests: what is expected of them, and their
// bf16 copies. README.md beside this file describes the tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace mortise::test {

struct GoldenModel {
  std::string name;    // "llama_gqa4"
  std::string plugin;  // that serves it: "llama", "opt", "gpt2"
  std::filesystem::path folder;
  std::int64_t vocab_size = 0;
  std::vector<std::int32_t> prompt;
  std::vector<std::int64_t>
      positions;                       // ascending positions of the prompt; row r of the logits is that of positions[r]
  std::vector<float> logits;           // [positions.size(), vocab_size], f32 arithmetic
  std::vector<float> logits_bf16;      // the same, bf16 weights and arithmetic
  std::vector<std::int32_t> greedy;    // 64 tokens after the prompt, f32
  std::vector<float> greedy_logprobs;  // of these tokens
};

// Names of the folders of tests/golden/models, ascending: for INSTANTIATE_TEST_SUITE_P. Of one model plugin, or all.
std::vector<std::string> golden_model_names(std::string_view plugin = {});

GoldenModel read_golden_model(const std::string& name);

// Writes to the existing folder `to` the checkpoint `from` with every tensor rounded to bf16 (to nearest, ties to
// even), as one file, and with the dtype of config.json changed accordingly.
void write_bf16_copy(const std::filesystem::path& from, const std::filesystem::path& to);

// The same in f32, the matrices of the layers as what integers of this many bits stand for: docs/numerics.md, "Weights
// made from float ones", computed in double here. `group_size` columns share a scale; 0: a row.
void write_rounded_copy(const std::filesystem::path& from, const std::filesystem::path& to, int bits,
                        std::size_t group_size);

}  // namespace mortise::test
