// fixture.hpp: attention of the CPU through its ABI table, on a device that has threads and nothing else. Every row's
// q, k and v follow from (seed, sequence, position, layer), so that any schedule of the same sequences must give the
// same rows.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "attention/span_cpu/component.hpp"
#include "mortise/attention.h"
#include "mortise/ext/parallel.h"
#include "mortise/plugin.hpp"

// A device of the test: threads, an instruction set, weights that are plain vectors.
struct mortise_device {
  int32_t num_threads;
  std::string isa;
  bool pairs;  // its numerics id for bf16 is cpu-bf16-pairs/1
};
struct mortise_weight {
  std::vector<float> values;
};

namespace mortise::test {

const mortise_device_table* device_table();
const mortise_host* host();  // counts what plugins hold
int64_t host_bytes();

struct Config {
  const mortise_component* component = &span_cpu::kPaged;
  int32_t dtype = MORTISE_BF16;
  // Else the cache has the model's type.
  bool int8_cache = false, fp8_cache = false;
  int32_t num_layers = 1, num_heads = 4, num_kv_heads = 2, head_dim = 64;
  int32_t block_size = 16, num_blocks = 256;
  int32_t num_threads = 1;
  std::string isa = "portable";
  bool pairs = false;      // the order of the device's sums
  int32_t rotary_dim = 0;  // 0: no rope
  bool interleaved = false;
  bool qk_norm = false;
  std::vector<int32_t> windows = {};  // [num_layers] or empty
  uint32_t seed = 1;
  // By sequence: the sequence `seq` whose first `tokens` tokens it shares, and whose blocks it holds where these fill
  // them.
  struct Prefix {
    int32_t seq, tokens;
  };
  std::map<int32_t, Prefix> prefixes = {};
  // Tokens (sequence, position) whose V has an element that is NaN or infinite, in every head and layer.
  std::set<std::pair<int32_t, int32_t>> broken = {};

  bool has_scales() const { return int8_cache || fp8_cache; }
  int32_t kv_dtype() const { return int8_cache ? int32_t{MORTISE_I8} : fp8_cache ? int32_t{MORTISE_F8_E4M3} : dtype; }
};

struct RowKey {
  int32_t seq, position, layer;
  auto operator<=>(const RowKey&) const = default;
};
// The output of each row, widened to f32: [num_heads, head_dim].
using Rows = std::map<RowKey, std::vector<float>>;

// `count` next tokens of sequence `seq`, which begins after its prefix; count 0 is a padding sequence of one row.
struct Run {
  int32_t seq, count;
};

class Attention {
 public:
  explicit Attention(const Config& config);
  ~Attention();

  // Runs one batch through all layers and adds its rows to `rows`. Tells the prefix groups of its runs.
  void step(const std::vector<Run>& runs, Rows& rows);
  // Calls `plan` of the attention alone, for tests of errors.
  mortise_status plan(const mortise_batch& batch, mortise_error* error);
  int32_t length(int32_t seq) { return sequence(seq).length; }
  // Forgets the last tokens, as after rejected drafts; what they wrote stays in the blocks.
  void roll_back(int32_t seq, int32_t length) { sequence(seq).length = length; }
  // Frees its blocks, which are the next ones to be taken.
  void end(int32_t seq);
  // Copies all blocks of `from` to blocks of the new sequence `to`.
  void fork(int32_t from, int32_t to);
  // From now on the tokens of `seq` are those of `other`, and its rows are reported under that name.
  void alias(int32_t seq, int32_t other) { names_[seq] = other; }

  // The bytes of the cache that the units of all steps have read.
  uint64_t kv_bytes_read() const { return kv_bytes_read_; }

  const Config& config() const { return config_; }
  const mortise_attention_table& table() const { return *table_; }
  mortise_attention* instance() const { return attention_; }

 private:
  struct Sequence {
    int32_t length = 0;
    std::vector<int32_t> blocks;
  };
  struct Batch;

  Sequence& sequence(int32_t seq);
  void grow(Sequence& sequence, int32_t length);
  template <typename T>
  void run_layer(const mortise_step& step, const Batch& batch, int32_t layer, Rows& rows);

  Config config_;
  mortise_device device_;
  const mortise_attention_table* table_;
  mortise_attention* attention_ = nullptr;
  mortise_model_dims dims_{};
  std::vector<unsigned char> kv_;
  std::vector<int32_t> free_blocks_;
  std::map<int32_t, Sequence> sequences_;
  std::map<int32_t, int32_t> names_;
  std::vector<float> cos_, sin_;
  mortise_weight q_norm_, k_norm_;
  uint64_t step_id_ = 0, kv_bytes_read_ = 0;
};

// q, k or v of a row before norm and rope, in the values of the config's type. `kind` is 0, 1, 2.
std::vector<float> row_values(const Config& config, RowKey row, int32_t kind, int32_t num_heads);

// What the references give for the rows of a sequence of `length` tokens.
void expect_reference_rows(const Config& config, int32_t seq, int32_t length, const Rows& rows);

}  // namespace mortise::test
