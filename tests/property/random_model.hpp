// tests/property/random_model.hpp: small random checkpoints of the Llama family, OPT and GPT-2, each with another mix
// of features, and with a large enough head that sampling has something to choose from. They use the demo model's
// tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace mortise::test {

struct RandomModel {
  std::string name;  // says what is special about it
  std::int32_t vocab_size = 0;
  std::filesystem::path folder;
  bool comes_quantized = false;  // so that `weights` must be "auto"
  int most_shards = 1;           // 1, 2 or 4: ranks that divide its heads and sizes
};

// Writes all of them below `root`; the same bytes at every call. The embedding of `nan_token` is NaN; -1: of none.
std::vector<RandomModel> write_random_models(const std::filesystem::path& root, std::int32_t nan_token = -1);
// The same for the device cuda: all head sizes that it serves; f16 and f32 ones are for dtype = "bf16".
std::vector<RandomModel> write_random_gpu_models(const std::filesystem::path& root, std::int32_t nan_token = -1);
// 162 million parameters in bf16: 325 MB.
RandomModel write_large_model(const std::filesystem::path& root);

}  // namespace mortise::test
