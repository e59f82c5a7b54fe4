// fixture.hpp: paged or cascade attention on CUDA, whichever is linked, through its ABI table, on a device that has
// memory, copies and events and nothing else. Every row's q, k and v follow from (seed, sequence, position, layer), so
// that any schedule of the same sequences must give the same rows.
#pragma once

#include <map>
#include <ostream>
#include <set>
#include <utility>
#include <vector>

#include "gpu.hpp"
#include "groups.hpp"
#include "mortise/attention.h"
#include "mortise/plugin.hpp"

struct mortise_device {
  cudaStream_t stream;
};
struct mortise_weight {
  const uint16_t* data;
  int64_t n;
};

namespace mortise::test {

const mortise_component* attention_component();
const mortise_device_table* device_table();

struct AbiConfig {
  int32_t num_layers = 2, num_heads = 8, num_kv_heads = 2, head_dim = 64;
  int32_t block_size = 16, num_blocks = 600, kv_dtype = MORTISE_BF16;
  bool qk_norm = false;
  bool groups = false;                // batches tell which sequences share blocks
  std::vector<int32_t> windows = {};  // [num_layers] or empty
};

inline std::ostream& operator<<(std::ostream& out, const AbiConfig& config) {
  return out << config.num_heads << " heads, " << config.num_kv_heads << " kv heads of " << config.head_dim
             << ", blocks of " << config.block_size << ", " << config.num_layers << " layers"
             << (config.kv_dtype == MORTISE_I8        ? ", int8"
                 : config.kv_dtype == MORTISE_F8_E4M3 ? ", fp8"
                                                      : "")
             << (config.qk_norm ? ", norms" : "") << (config.windows.empty() ? "" : ", windows");
}

// `count` next tokens of sequence `seq`.
struct Piece {
  int32_t seq, count;
};

struct AbiKey {
  int32_t seq, position, layer;
  auto operator<=>(const AbiKey&) const = default;
};
using AbiRows = std::map<AbiKey, std::vector<uint16_t>>;

class Attention {
 public:
  explicit Attention(const AbiConfig& config);
  ~Attention();

  // Runs one batch through all layers and adds its rows to `rows`.
  void step(const std::vector<Piece>& pieces, AbiRows& rows);
  // The same, padded to a bucket of kBucketRows rows and kBucketSeqs sequences: eager, or captured once and replayed
  // from then on.
  enum class Bucket { kEager, kGraph };
  void bucket_step(const std::vector<Piece>& pieces, Bucket how, AbiRows& rows);
  // Forgets the last tokens, as after rejected drafts; what they wrote stays in the blocks.
  void roll_back(int32_t seq, int32_t length) { sequences_.at(seq).length = length; }
  // From now on V of the token is not finite, in all layers.
  void break_token(int32_t seq, int32_t position) { broken_.insert({seq, position}); }
  // Its blocks are free, and the next that are taken.
  void end(int32_t seq);
  // Makes the new sequence `to`, which begins with the first `tokens` tokens of `from`, in the same blocks. REQUIRES:
  // whole blocks.
  void share(int32_t from, int32_t to, int32_t tokens);
  // Copies all blocks of `from` to blocks of the new sequence `to`, whose tokens are those of `from` from now on.
  void fork(int32_t from, int32_t to);
  int32_t length(int32_t seq) const { return sequences_.count(seq) == 0 ? 0 : sequences_.at(seq).length; }
  mortise_status plan(const mortise_batch& batch, mortise_error* error);
  const mortise_attention_table& table() const { return *table_; }
  mortise_attention* instance() const { return attention_; }

 private:
  static constexpr int32_t kMaxRows = 4096, kMaxSeqs = 32, kMaxBlocks = 260, kBucketRows = 24, kBucketSeqs = 12;
  struct Sequence {
    int32_t length = 0, name = 0;
    std::vector<int32_t> blocks;
  };
  struct Batch {
    std::vector<AbiKey> rows;  // seq -1: padding
    std::vector<int32_t> positions, starts = {0}, lengths, blocks;
    std::vector<int64_t> slots;
  };

  Batch make_batch(const std::vector<Piece>& pieces);
  void pad(Batch& batch) const;
  mortise_batch upload(const Batch& batch, bool bucket);
  void plan_batch(mortise_batch& view);
  void upload_rows(const Batch& batch);
  void layers(const mortise_batch& view);
  void download_rows(const Batch& batch, AbiRows& rows);
  mortise_step step_of(const mortise_batch& view);
  mortise_tensor tensor(uint16_t* data, int64_t num_rows, int32_t num_heads, int64_t row_stride) const;
  int64_t columns() const { return (config_.num_heads + 2 * config_.num_kv_heads) * config_.head_dim; }

  AbiConfig config_;
  mortise_device device_{};
  const mortise_attention_table* table_;
  mortise_attention* attention_ = nullptr;
  mortise_model_dims dims_{};
  DeviceArray<uint16_t> kv_, qkv_, pristine_, out_, norm_;
  DeviceArray<float> cos_, sin_;
  DeviceArray<int32_t> positions_, starts_, lengths_, blocks_;
  DeviceArray<int64_t> slots_;
  mortise_weight norm_weight_{};
  std::vector<int32_t> free_blocks_;
  std::map<int32_t, Sequence> sequences_;
  std::set<std::pair<int32_t, int32_t>> broken_;  // sequence and position
  uint64_t step_id_ = 0;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace mortise::test
