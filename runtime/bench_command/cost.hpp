// runtime/bench_command/cost.hpp: the floors. What a model's work must read and compute, and how long the machine's
// limits make that take at least. Arithmetic alone; docs/performance.md tells the equations.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mortise::bench {

// Of the same run as what is compared with it.
struct Limits {
  double read_bytes_per_s = 0;             // of memory, or of the cache that the model fits
  std::optional<double> operations_per_s;  // a multiply-add is two; none: not measured for this arithmetic
};

// What a step of a model reads and computes, by its parts.
struct ModelCost {
  double body_elements = 0;           // of the matrices that every row is multiplied by
  double head_elements = 0;           // of the product with the vocabulary, for rows that want logits
  double weight_bytes = 0;            // of both; what a step reads whatever its rows
  double kv_bytes = 0;                // of one position in one layer
  double attention_width = 0;         // num_heads * head_dim
  std::vector<std::int32_t> windows;  // [num_layers] positions that a row sees at most; 0: all before it
};

struct Work {
  double bytes = 0;
  double operations = 0;

  Work& operator+=(const Work& other);
};

// Positions that a row with `context` known positions (its own included) sees, summed over the layers.
double visible_positions(const ModelCost& cost, std::int64_t context);

// One step in which sequences of these contexts decode a token each. Their KV is read once each.
Work decode_step(const ModelCost& cost, std::span<const std::int64_t> contexts);

// Rows [begin, end) of one prompt and logits for `num_logits` of them: operations alone, because the weights are read
// once for as many rows as a batch holds.
Work prefill_rows(const ModelCost& cost, std::int64_t begin, std::int64_t end, std::int64_t num_logits);

// The larger of two times: bytes at the bandwidth, operations at the peak. Without a measured peak: the bytes' alone,
// and nullopt for work that reads nothing.
std::optional<double> floor_seconds(const Work& work, const Limits& limits);

// `batch` sequences that have their first token after `prompt` tokens and decode to `output` tokens together.
double decode_floor_seconds(const ModelCost& cost, std::int64_t batch, std::int64_t prompt, std::int64_t output,
                            const Limits& limits);

// A sequence of a batch that begins at once: its first `cached` prompt tokens are computed by another.
struct SequenceShape {
  std::int64_t prompt = 0;
  std::int64_t output = 0;
  std::int64_t cached = 0;
};
// All of them: prompts first, then steps in which up to `max_num_seqs` decode, longest first (any order takes as many
// steps or more). KV of cached tokens is read with the sequence that computed it, as an attention with shared prefixes
// can. nullopt when the operations' peak is not known.
std::optional<double> batch_floor_seconds(const ModelCost& cost, std::span<const SequenceShape> sequences,
                                          std::int64_t max_num_seqs, const Limits& limits);

}  // namespace mortise::bench
