// The JSON files of a checkpoint. Input: config.json, generation_config.json and model.safetensors.index.json, cut by
// lines of %%%; an empty one is absent. What is accepted goes on to the llama plugin's reading of the configuration.
#include <cmath>
#include <cstring>

#include "checkpoint/checkpoint.hpp"
#include "error.hpp"
#include "fuzz_input.hpp"
#include "models/llama/config.hpp"
#include "models/llama/rope.hpp"
#include "mortise/plugin.hpp"

namespace {

using mortise::fuzz::require;

// Two tensors, which an index may name: model.safetensors has both, and so does each shard.
constexpr std::string_view kHeader =
    R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[2,2],"data_offsets":[8,16]}} )";

std::string weights() {
  const std::uint64_t length = kHeader.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  return bytes.append(kHeader).append(16, 'w');
}

void write_or_remove(const mortise::fuzz::ScratchFolder& folder, const char* name, std::string_view text) {
  if (text.empty()) {
    folder.remove(name);
  } else {
    folder.write(name, text);
  }
}

// No size is 0 and no product that the plugin allocates by overflows.
void check_llama(const std::string& json) {
  try {
    const mortise::llama::Config config = mortise::llama::parse_config(json);
    require(config.num_layers > 0 && config.hidden_size > 0 && config.vocab_size > 0 && config.max_positions > 0);
    require(config.num_kv_heads > 0 && config.num_heads % config.num_kv_heads == 0);
    require(config.head_dim > 0 && config.head_dim % 2 == 0);
    require(config.sliding_windows.empty() ||
            config.sliding_windows.size() == static_cast<std::size_t>(config.num_layers));
    std::int64_t bytes = 0;
    require(!__builtin_mul_overflow(std::int64_t{config.vocab_size} * config.hidden_size, 4, &bytes));
    require(!__builtin_mul_overflow(std::int64_t{config.intermediate_size} * config.hidden_size, 8, &bytes));
    require(!__builtin_mul_overflow(std::int64_t{config.qkv_columns()} * config.hidden_size, 4, &bytes));
    for (const float frequency : mortise::llama::inverse_frequencies(config.rope, config.head_dim)) {
      require(std::isfinite(frequency) && frequency >= 0 && frequency <= 1);
    }
  } catch (const mortise::Failure& failure) {
    require(*failure.what() != '\0');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const mortise::fuzz::ScratchFolder folder;
  static const bool written = [] {
    folder.write("model-1.safetensors", weights());
    folder.write("model-2.safetensors", weights());
    return true;
  }();
  require(written);
  const auto parts = mortise::fuzz::parts_of(mortise::fuzz::text_of(data, size), 3);
  write_or_remove(folder, "config.json", parts[0]);
  write_or_remove(folder, "generation_config.json", parts[1]);
  write_or_remove(folder, "model.safetensors.index.json", parts[2]);
  write_or_remove(folder, "model.safetensors", parts[2].empty() ? weights() : "");
  try {
    const mortise::Checkpoint checkpoint = mortise::Checkpoint::open(folder.path());
    checkpoint.fingerprint();
    require(!checkpoint.config().dtype.empty());
    check_llama(checkpoint.config().json);
  } catch (const mortise::Error& error) {
    require(*error.what() != '\0');
  }
  return 0;
}
