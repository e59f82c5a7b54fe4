#include "conformance/attention_scene.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "conformance/device_matrix.hpp"
#include "mortise/numerics.h"
#include "mortise/plugin.hpp"

namespace mortise::conformance {
namespace {

constexpr std::uint8_t kUnwritten = 0x7b;  // what an output holds before the attention writes it

std::vector<std::uint8_t> stored(const AttentionShape& shape, const std::vector<float>& values) {
  std::vector<std::uint8_t> bytes(values.size() * shape.element_bytes());
  mortise_store(values.data(), shape.dtype, static_cast<std::int64_t>(values.size()), bytes.data());
  return bytes;
}

DeviceWeight prepare_norm(const DeviceAccess& device, const AttentionShape& shape, RowOf row) {
  return prepare_vector(device, {shape.dtype, 1, shape.head_dim, norm_weight(shape, row)});
}

// Columns of a dense matrix with rows of `row_bytes`, as [rows, heads, head_dim].
mortise_tensor heads_at(const AttentionShape& shape, const DeviceBuffer& matrix, std::size_t row_bytes,
                        std::size_t offset, std::int32_t heads) {
  auto tensor = sized<mortise_tensor>();
  tensor.data = matrix.data<std::uint8_t>() + offset;
  tensor.dtype = shape.dtype;
  tensor.ndim = 3;
  tensor.shape[0] = static_cast<std::int64_t>(matrix.size() / row_bytes);
  tensor.shape[1] = heads;
  tensor.shape[2] = shape.head_dim;
  tensor.shape[3] = tensor.stride[3] = tensor.stride[2] = 1;
  tensor.stride[0] = static_cast<std::int64_t>(row_bytes / shape.element_bytes());
  tensor.stride[1] = shape.head_dim;
  tensor.bytes = matrix.size() - offset;
  return tensor;
}

}  // namespace

void expect_same_rows(const AttentionShape& shape, const OutputRows& expected, const OutputRows& found,
                      const char* what) {
  for (const auto& [place, row] : found) {
    const auto other = expected.find(place);
    if (other == expected.end()) fail("the case compares rows that it has not computed");
    if (other->second == row) continue;
    const auto at = static_cast<std::size_t>(std::ranges::mismatch(other->second, row).in1 - other->second.begin());
    const std::size_t element = at / shape.element_bytes(), dim = static_cast<std::size_t>(shape.head_dim);
    const std::size_t layer_size = dim * static_cast<std::size_t>(shape.num_heads);
    const auto bits = [&](const OutputRow& bytes) {
      std::uint32_t value = 0;
      std::memcpy(&value, bytes.data() + element * shape.element_bytes(), shape.element_bytes());
      return value;
    };
    throw CaseFailed(
        fmt::format("{}: {}: sequence {}, position {}, layer {}, head {}, element {} has the bits {:#x}, "
                    "expected {:#x}",
                    what, shape.text(), place.first, place.second, element / layer_size, element % layer_size / dim,
                    element % dim, bits(row), bits(other->second)));
  }
}

AttentionScene::AttentionScene(const PartInstance& device, const Part& part, AttentionShape shape,
                               std::int32_t num_blocks)
    : device_(device),
      part_(part),
      shape_(std::move(shape)),
      free_blocks_(static_cast<std::size_t>(num_blocks - 1)),
      cos_(device, std::span<const float>(rope_table(shape_, false))),
      sin_(device, std::span<const float>(rope_table(shape_, true))) {
  std::iota(free_blocks_.begin(), free_blocks_.end(), 1);
  has_host_memory_ = conformance::has_host_memory(device);
  if (!shape_.has_norms) return;
  q_norm_ = prepare_norm(device, shape_, RowOf::kQuery);
  k_norm_ = prepare_norm(device, shape_, RowOf::kKey);
}

std::int32_t AttentionScene::take_block() {
  if (free_blocks_.empty()) fail("the scene needs more KV blocks");
  const std::int32_t block = free_blocks_.front();
  free_blocks_.erase(free_blocks_.begin());
  return block;
}

std::size_t AttentionScene::add(std::vector<std::int32_t> tokens) {
  sequences_.push_back({sequences_.size() + 1, std::move(tokens), {}});
  Sequence& added = sequences_.back();
  const auto block_size = static_cast<std::size_t>(shape_.block_size);
  while (added.blocks.size() * block_size < added.tokens.size()) added.blocks.push_back(take_block());
  return sequences_.size() - 1;
}

std::size_t AttentionScene::fork(std::size_t sequence, std::int32_t num_blocks, std::span<const std::int32_t> tokens) {
  const Sequence parent = sequences_[sequence];
  std::vector<std::int32_t> all(parent.tokens.begin(), parent.tokens.begin() + num_blocks * shape_.block_size);
  all.insert(all.end(), tokens.begin(), tokens.end());
  const std::size_t index = add(std::move(all));
  std::vector<std::int32_t>& blocks = sequences_[index].blocks;
  free_blocks_.insert(free_blocks_.begin(), blocks.begin(), blocks.begin() + num_blocks);
  std::copy_n(parent.blocks.begin(), num_blocks, blocks.begin());
  return index;
}

void AttentionScene::end(std::size_t sequence) {
  std::vector<std::int32_t>& blocks = sequences_[sequence].blocks;
  free_blocks_.insert(free_blocks_.begin(), blocks.begin(), blocks.end());
  blocks.clear();
}

void AttentionScene::copy_blocks(std::size_t sequence) {
  const std::vector<std::int32_t> from = sequences_[sequence].blocks;
  std::vector<std::int32_t> to;
  for (std::size_t i = 0; i < from.size(); ++i) to.push_back(take_block());
  ReadOnlyCopies copies;
  part_.perform("copy_blocks", [&](mortise_error* error) {
    return part_.table<mortise_attention_table>().copy_blocks(part_.handle<mortise_attention>(), nullptr,
                                                              copies.copy(from), copies.copy(to),
                                                              static_cast<std::int32_t>(from.size()), error);
  });
  sequences_[sequence].blocks = to;
}

AttentionScene::Arrays AttentionScene::arrays_of(const std::vector<SceneRun>& runs, const StepStyle& style) const {
  Arrays arrays;
  for (const SceneRun& run : runs) {
    const Sequence& sequence = sequences_[run.sequence];
    for (std::int32_t position = run.first; position < run.first + run.count; ++position) {
      arrays.token_ids.push_back(std::max(sequence.tokens[static_cast<std::size_t>(position)], 0));
      arrays.positions.push_back(position);
      const std::int64_t block = sequence.blocks[static_cast<std::size_t>(position / shape_.block_size)];
      arrays.slot_mapping.push_back(block * shape_.block_size + position % shape_.block_size);
    }
    arrays.seq_ids.push_back(sequence.id);
    arrays.seq_lens.push_back(run.first + run.count);
    arrays.cu_seqlens_q.push_back(static_cast<std::int32_t>(arrays.positions.size()));
    arrays.logit_rows.push_back(arrays.cu_seqlens_q.back() - 1);
    arrays.max_blocks = std::max(arrays.max_blocks, (arrays.seq_lens.back() - 1) / shape_.block_size + 1);
    arrays.max_query_len = std::max(arrays.max_query_len, run.count);
  }
  add_padding(arrays, style);
  if (style.is_bucket) arrays.max_blocks += 3;
  arrays.block_table.assign(arrays.seq_ids.size() * static_cast<std::size_t>(arrays.max_blocks), 0);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto used = (arrays.seq_lens[i] - 1) / shape_.block_size + 1;
    std::copy_n(sequences_[runs[i].sequence].blocks.begin(), used,
                arrays.block_table.begin() + static_cast<std::ptrdiff_t>(i) * arrays.max_blocks);
  }
  for (const SceneGroup& group : style.groups) {
    arrays.group_seqs.insert(arrays.group_seqs.end(), group.runs.begin(), group.runs.end());
    arrays.group_offsets.push_back(static_cast<std::int32_t>(arrays.group_seqs.size()));
    arrays.group_shared_tokens.push_back(group.shared_tokens);
    arrays.group_parents.push_back(group.parent);
  }
  return arrays;
}

// As batch.h says: token 0, position 0, a slot of a reserved block, in sequences of length 0.
void AttentionScene::add_padding(Arrays& arrays, const StepStyle& style) const {
  for (std::int32_t i = 0; i < style.padding; ++i) {
    arrays.token_ids.push_back(0);
    arrays.positions.push_back(0);
    arrays.slot_mapping.push_back(i % shape_.block_size);
    arrays.seq_ids.push_back(0);
    arrays.seq_lens.push_back(0);
    arrays.cu_seqlens_q.push_back(static_cast<std::int32_t>(arrays.positions.size()));
  }
}

template <typename T>
const T* AttentionScene::on_device(const T* copy, const std::vector<T>& values,
                                   std::vector<std::unique_ptr<DeviceBuffer>>& device) {
  if (has_host_memory_) return copy;
  device.push_back(std::make_unique<DeviceBuffer>(device_, std::span<const T>(values)));
  return device.back()->template data<T>();
}

mortise_batch AttentionScene::batch_of(const Arrays& arrays, const std::vector<SceneRun>& runs, const StepStyle& style,
                                       ReadOnlyCopies& host, std::vector<std::unique_ptr<DeviceBuffer>>& device) {
  auto batch = sized<mortise_batch>();
  batch.flags = style.is_bucket ? MORTISE_BATCH_BUCKET : 0;
  batch.step_id = ++step_id_;
  batch.num_seqs = static_cast<std::int32_t>(arrays.seq_ids.size());
  batch.num_tokens = static_cast<std::int32_t>(arrays.positions.size());
  batch.num_logit_rows = static_cast<std::int32_t>(arrays.logit_rows.size());
  batch.num_real_seqs = static_cast<std::int32_t>(runs.size());
  batch.num_real_tokens = batch.num_tokens - style.padding;
  batch.block_size = shape_.block_size;
  batch.max_blocks = arrays.max_blocks;
  batch.max_query_len = arrays.max_query_len + (style.is_bucket ? 2 : 0);
  batch.max_seq_len =
      style.is_bucket ? arrays.max_blocks * shape_.block_size : *std::ranges::max_element(arrays.seq_lens);
  batch.seq_ids = host.copy(arrays.seq_ids);
  batch.device_token_ids = on_device(batch.token_ids = host.copy(arrays.token_ids), arrays.token_ids, device);
  batch.device_positions = on_device(batch.positions = host.copy(arrays.positions), arrays.positions, device);
  batch.device_cu_seqlens_q =
      on_device(batch.cu_seqlens_q = host.copy(arrays.cu_seqlens_q), arrays.cu_seqlens_q, device);
  batch.device_seq_lens = on_device(batch.seq_lens = host.copy(arrays.seq_lens), arrays.seq_lens, device);
  batch.device_block_table = on_device(batch.block_table = host.copy(arrays.block_table), arrays.block_table, device);
  batch.device_slot_mapping =
      on_device(batch.slot_mapping = host.copy(arrays.slot_mapping), arrays.slot_mapping, device);
  batch.device_logit_rows = on_device(batch.logit_rows = host.copy(arrays.logit_rows), arrays.logit_rows, device);
  batch.num_groups = static_cast<std::int32_t>(style.groups.size());
  if (batch.num_groups > 0) {
    batch.group_offsets = host.copy(arrays.group_offsets);
    batch.group_seqs = host.copy(arrays.group_seqs);
    batch.group_shared_tokens = host.copy(arrays.group_shared_tokens);
    batch.group_parents = host.copy(arrays.group_parents);
  }
  return batch;
}

void AttentionScene::fill_heads(std::vector<std::uint8_t>& matrix, std::size_t row_bytes, std::size_t offset, RowOf row,
                                std::int32_t layer, const std::vector<SceneRun>& runs) const {
  const std::int32_t heads = row == RowOf::kQuery ? shape_.num_heads : shape_.num_kv_heads;
  std::uint8_t* at = matrix.data() + offset;
  for (const SceneRun& run : runs) {
    for (std::int32_t position = run.first; position < run.first + run.count; ++position, at += row_bytes) {
      const std::int32_t token = sequences_[run.sequence].tokens[static_cast<std::size_t>(position)];
      std::uint8_t* head_at = at;
      for (std::int32_t head = 0; head < heads; ++head) {
        const auto bytes = stored(shape_, head_values(shape_, row, token, position, layer, head));
        head_at = std::ranges::copy(bytes, head_at).out;
      }
    }
  }
}

std::vector<std::uint8_t> AttentionScene::run_layer(const Part& part, const mortise_step& step, std::int32_t layer,
                                                    const std::vector<SceneRun>& runs, bool is_wide) {
  const auto rows = static_cast<std::size_t>(step.batch->num_tokens);
  const auto head_bytes = static_cast<std::size_t>(shape_.head_dim) * shape_.element_bytes();
  const std::size_t q_bytes = head_bytes * static_cast<std::size_t>(shape_.num_heads),
                    kv_bytes = head_bytes * static_cast<std::size_t>(shape_.num_kv_heads);
  // q, k and v lie in one matrix if the step is wide, else in a matrix each.
  const std::size_t wide = q_bytes + 2 * kv_bytes;
  const auto matrix = [&](RowOf row, std::size_t columns) {
    std::vector<std::uint8_t> bytes(rows * columns);
    fill_heads(bytes, columns, 0, row, layer, runs);
    return bytes;
  };
  std::vector<std::uint8_t> all(is_wide ? rows * wide : 0);
  if (is_wide) {
    fill_heads(all, wide, 0, RowOf::kQuery, layer, runs);
    fill_heads(all, wide, q_bytes, RowOf::kKey, layer, runs);
    fill_heads(all, wide, q_bytes + kv_bytes, RowOf::kValue, layer, runs);
  }
  const auto upload = [&](RowOf row, std::size_t columns) {
    const std::vector<std::uint8_t> bytes = is_wide ? std::vector<std::uint8_t>() : matrix(row, columns);
    return DeviceBuffer(device_, std::span<const std::uint8_t>(bytes));
  };
  const DeviceBuffer together(device_, std::span<const std::uint8_t>(all));
  const DeviceBuffer q_alone = upload(RowOf::kQuery, q_bytes), k_alone = upload(RowOf::kKey, kv_bytes),
                     v_alone = upload(RowOf::kValue, kv_bytes);
  const DeviceBuffer out_memory(device_, rows * q_bytes, kUnwritten);
  const auto tensor = [&](const DeviceBuffer& alone, std::size_t bytes, std::size_t offset, std::int32_t heads) {
    return is_wide ? heads_at(shape_, together, wide, offset, heads) : heads_at(shape_, alone, bytes, 0, heads);
  };
  const mortise_tensor q = tensor(q_alone, q_bytes, 0, shape_.num_heads),
                       k = tensor(k_alone, kv_bytes, q_bytes, shape_.num_kv_heads),
                       v = tensor(v_alone, kv_bytes, q_bytes + kv_bytes, shape_.num_kv_heads),
                       out = heads_at(shape_, out_memory, q_bytes, 0, shape_.num_heads);
  auto rope = sized<mortise_rope>();
  rope.cos = cos_.data<float>();
  rope.sin = sin_.data<float>();
  rope.rotary_dim = shape_.rotary_dim;
  rope.interleaved = shape_.interleaved ? 1 : 0;
  auto append = sized<mortise_append_args>();
  append.layer = layer;
  append.q = &q;
  append.k = &k;
  append.v = &v;
  append.rope = shape_.rotary_dim > 0 ? &rope : nullptr;
  append.q_norm = q_norm_.get();
  append.k_norm = k_norm_.get();
  append.norm_eps = kNormEps;
  const auto& table = part.table<mortise_attention_table>();
  auto* const self = part.handle<mortise_attention>();
  part.perform("append", [&](mortise_error* error) { return table.append(self, &step, &append, error); });
  part.perform("run", [&](mortise_error* error) { return table.run(self, &step, layer, &q, &out, error); });
  const std::vector<std::uint8_t> bytes = out_memory.read();
  out_memory.expect_guards("out");
  for (const DeviceBuffer* buffer : {&together, &q_alone, &k_alone, &v_alone}) {
    buffer->expect_guards("q, k or v");
  }
  if (!is_wide) expect(v_alone.read() == matrix(RowOf::kValue, kv_bytes), "append changes v");
  return bytes;
}

OutputRows AttentionScene::step_by(const Part& part, const std::vector<SceneRun>& runs, const StepStyle& style) {
  const Arrays arrays = arrays_of(runs, style);
  ReadOnlyCopies host;
  std::vector<std::unique_ptr<DeviceBuffer>> device;
  const mortise_batch batch = batch_of(arrays, runs, style, host, device);
  auto step = sized<mortise_step>();
  step.batch = host.copy(&batch, 1);
  step.device = device_.handle<mortise_device>();
  step.device_table = device_.table<mortise_device_table>();
  step.attention = part.handle<mortise_attention>();
  step.attention_table = &part.table<mortise_attention_table>();
  step.world = 1;
  part.perform("plan", [&](mortise_error* error) { return step.attention_table->plan(step.attention, &step, error); });
  OutputRows rows;
  const std::size_t row_bytes = shape_.element_bytes() * static_cast<std::size_t>(shape_.num_heads * shape_.head_dim);
  for (std::int32_t layer = 0; layer < shape_.num_layers; ++layer) {
    const std::vector<std::uint8_t> bytes = run_layer(part, step, layer, runs, style.is_wide);
    const std::uint8_t* at = bytes.data();
    for (const SceneRun& run : runs) {
      for (std::int32_t position = run.first; position < run.first + run.count; ++position, at += row_bytes) {
        OutputRow& row = rows[{run.sequence, position}];
        row.insert(row.end(), at, at + row_bytes);
      }
    }
  }
  cos_.expect_guards("the rotary tables");
  return rows;
}

OutputRows AttentionScene::prefill(std::size_t sequence, const StepStyle& style) {
  return step({{sequence, 0, size(sequence)}}, style);
}

}  // namespace mortise::conformance
