// runtime/bench_command/model_shape.hpp: models that are defined by their sizes alone. Benchmarks of kernels need no
// more, since speed does not depend on the values of weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace mortise::bench {

// The sizes of a Llama in bf16.
struct ModelShape {
  std::string_view name;
  std::int64_t hidden_size, num_layers, num_heads, num_kv_heads, head_dim, vocab_size, intermediate_size;
  std::int64_t max_position_embeddings;
  bool tie_word_embeddings;
  std::string_view rope;  // rope_parameters, JSON
};

// Finds a shape by name: tiny, 68m, 160m, 1b (Llama-3.2-1B) or 8b (Llama-3.1-8B). For any other name it throws an Error
// that lists them and names `option`.
const ModelShape& model_shape(std::string_view name, std::string_view option = "--shape");
std::string model_shape_names();  // "tiny, 160m, ..."

struct TensorShape {
  std::string name;
  std::vector<std::int64_t> shape;
};
std::vector<TensorShape> tensors_of(const ModelShape& shape);  // with the names that transformers uses

// Bytes of the weights on a device, without scales: the layers' matrices in `weight_bits` (4, 8, 16, 32), the head in
// `head_bits`, the embedding in `float_bits`, counted once if it is also the head.
std::uint64_t device_bytes_of(const ModelShape& shape, int weight_bits, int head_bits, int float_bits);

// Writes config.json, tokenizer.json and tokenizer_config.json: a checkpoint without weights. The tokenizer has a token
// for each byte; its other tokens occur in no text.
void write_model_description(const ModelShape& shape, const std::filesystem::path& folder);

}  // namespace mortise::bench
