// runtime/bench_command/cost.hpp: computes floors: the data that a model's work must read, the operations that it must
// compute, and the shortest time that the machine's limits allow. docs/performance.md has the equations.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mortise::bench {

// An exchange of columns between all ranks (mortise/ext/collective.h).
struct LinkLimits {
  double latency_s = 0;    // of an exchange of one row
  double bytes_per_s = 0;  // that a rank receives in an exchange of many rows
};

// Limits measured in the same run as the figures that are compared with them. Of several ranks: those of the slowest.
struct Limits {
  double read_bytes_per_s = 0;             // of memory, or of the cache that holds the model
  std::optional<double> operations_per_s;  // a multiply-add is two; nullopt: not measured for this arithmetic
  std::optional<LinkLimits> links = {};    // nullopt: one rank, or they do not count
};

// Exchanges of rows of the same length in each step.
struct Exchanges {
  double count = 0;
  double row_bytes = 0;  // that a rank receives for each row

  bool operator==(const Exchanges&) const = default;
};

// The sizes from which the cost of a model's step follows. Of several ranks: those of the rank with the largest share,
// because the others wait for it.
struct ModelCost {
  double body_elements = 0;           // matrices that every row is multiplied by
  double head_elements = 0;           // product with the vocabulary, for rows that want logits
  double weight_bytes = 0;            // of body and head; a step reads them whatever its number of rows
  double kv_bytes = 0;                // of one position in one layer
  double attention_width = 0;         // num_heads * head_dim
  std::vector<std::int32_t> windows;  // [num_layers] the most positions that a row sees; 0: all
  std::vector<Exchanges> exchanges;   // of embedding and layers; empty: one rank
  double head_exchange_bytes = 0;     // of the exchange after the head: that a rank receives for a row with logits
};

struct Work {
  double bytes = 0;
  double operations = 0;
  double rows = 0, logits = 0;  // rows of the layers and of the head, which ranks exchange

  Work& operator+=(const Work& other);
  Work& operator*=(double factor);
};

// Returns the positions that a row sees, summed over the layers, if `context` positions are known, including its own.
double visible_positions(const ModelCost& cost, std::int64_t context);

// Returns the work of a step in which sequences with these contexts decode a token each. The KV of each is read once.
Work decode_step(const ModelCost& cost, std::span<const std::int64_t> contexts);

// Returns the work of rows [begin, end) of a prompt, with logits for `num_logits` of them. Counts operations only,
// because the weights are read once for a whole batch of rows.
Work prefill_rows(const ModelCost& cost, std::int64_t begin, std::int64_t end, std::int64_t num_logits);

// Returns the larger of two times: bytes at the bandwidth, and operations at the peak. Without a measured peak: the
// time of the bytes, or nullopt if there are none. Leaves out the links.
std::optional<double> floor_seconds(const Work& work, const Limits& limits);

// Returns the least time of the exchanges of a step with the work's rows, each the larger of the latency and its bytes
// at the bandwidth. Rows of several steps count as one step, because so many rows take longer than the latency. 0
// without links.
double link_seconds(const ModelCost& cost, const Work& work, const Limits& limits);

// Returns floor_seconds() and link_seconds() together: nothing can run beside an exchange, because the next operation
// needs all columns.
std::optional<double> floor_seconds(const ModelCost& cost, const Work& work, const Limits& limits);

// Returns the least time in which `batch` sequences that have their first token after `prompt` tokens decode together
// to `output` tokens.
double decode_floor_seconds(const ModelCost& cost, std::int64_t batch, std::int64_t prompt, std::int64_t output,
                            const Limits& limits);

// A sequence of a batch in which all begin at once. Another sequence computes its first `cached` prompt tokens.
struct SequenceShape {
  std::int64_t prompt = 0;
  std::int64_t output = 0;
  std::int64_t cached = 0;
};
// Returns the least time of the whole batch: prompts first, then steps in which up to `max_num_seqs` sequences decode,
// the longest first (no order needs fewer steps). KV of cached tokens is read together with the sequence that computed
// it, as an attention with shared prefixes can do. nullopt if the peak of operations is unknown.
std::optional<double> batch_floor_seconds(const ModelCost& cost, std::span<const SequenceShape> sequences,
                                          std::int64_t max_num_seqs, const Limits& limits);

}  // namespace mortise::bench
