#include "abi_check/step_rules.hpp"

#include <algorithm>
#include <unordered_set>

#include "mortise/plugin.hpp"
#include "mortise/struct_sizes.h"

namespace mortise::abi_check {
namespace {

constexpr const char* kBatch = "mortise/batch.h";
constexpr const char* kTensor = "mortise/tensor.h";

bool is_dtype(std::int32_t dtype) {
  constexpr std::int32_t kAll[] = {MORTISE_I8,  MORTISE_I32, MORTISE_I64,  MORTISE_U8,     MORTISE_U32,
                                   MORTISE_F16, MORTISE_F32, MORTISE_BF16, MORTISE_F8_E4M3};
  return std::ranges::find(kAll, dtype) != std::end(kAll);
}

void check_counts(const Call& call, const mortise_batch& batch, const BatchSizes& sizes) {
  call.caller_must(batch.num_seqs >= 0 && batch.num_seqs <= sizes.max_num_seqs, "mortise/plugin.h",
                   "the most runs of rows in one batch", "{} runs, and max_num_seqs is {}", batch.num_seqs,
                   sizes.max_num_seqs);
  call.caller_must(batch.num_tokens >= 0 && batch.num_tokens <= sizes.max_batched_tokens, "mortise/plugin.h",
                   "the most rows in one batch", "{} rows, and max_batched_tokens is {}", batch.num_tokens,
                   sizes.max_batched_tokens);
  call.caller_must(batch.num_real_seqs >= 0 && batch.num_real_seqs <= batch.num_seqs && batch.num_real_tokens >= 0 &&
                       batch.num_real_tokens <= batch.num_tokens,
                   kBatch, "num_tokens and num_seqs include padding, num_real_* do not", "{} of {} runs, {} of {} rows",
                   batch.num_real_seqs, batch.num_seqs, batch.num_real_tokens, batch.num_tokens);
  call.caller_must(batch.num_logit_rows >= 0 && batch.num_logit_rows <= batch.num_tokens, kBatch,
                   "rows to compute logits for", "{} of {} rows", batch.num_logit_rows, batch.num_tokens);
  call.caller_must(batch.block_size == sizes.block_size && batch.max_blocks > 0, kBatch, "tokens per KV block",
                   "block_size is {}, and {} was bound; max_blocks is {}", batch.block_size, sizes.block_size,
                   batch.max_blocks);
}

void check_arrays(const Call& call, const mortise_batch& batch) {
  struct Array {
    const void *host, *device;
    std::int64_t count;
    const char* name;
  };
  const std::int64_t seqs = batch.num_seqs, rows = batch.num_tokens;
  const Array arrays[] = {
      {batch.token_ids, batch.device_token_ids, rows, "token_ids"},
      {batch.positions, batch.device_positions, rows, "positions"},
      {batch.slot_mapping, batch.device_slot_mapping, rows, "slot_mapping"},
      {batch.cu_seqlens_q, batch.device_cu_seqlens_q, seqs + 1, "cu_seqlens_q"},
      {batch.seq_lens, batch.device_seq_lens, seqs, "seq_lens"},
      {batch.block_table, batch.device_block_table, seqs, "block_table"},
      {batch.logit_rows, batch.device_logit_rows, batch.num_logit_rows, "logit_rows"},
  };
  call.check_array(batch.seq_ids, seqs, kBatch, "seq_ids");
  call.check_array(batch.ended_ids, batch.num_ended, kBatch, "ended_ids");
  for (const Array& array : arrays) {
    call.caller_must(array.count <= 0 || (array.host != nullptr && array.device != nullptr), kBatch,
                     "Every array exists on the host and, as device_*, in the device's memory", "{} is NULL",
                     array.name);
  }
  call.caller_must(batch.cu_seqlens_q[0] == 0 && batch.cu_seqlens_q[seqs] == rows, kBatch, "first 0, last num_tokens",
                   "cu_seqlens_q goes from {} to {} with {} rows", batch.cu_seqlens_q[0], batch.cu_seqlens_q[seqs],
                   rows);
  for (std::int32_t i = 0; i < seqs; ++i) {
    call.caller_must(batch.cu_seqlens_q[i] <= batch.cu_seqlens_q[i + 1], kBatch,
                     "run i has rows cu_seqlens_q[i] .. cu_seqlens_q[i + 1] - 1", "cu_seqlens_q descends after run {}",
                     i);
  }
  call.caller_must(batch.cu_seqlens_q[batch.num_real_seqs] == batch.num_real_tokens, kBatch,
                   "num_tokens and num_seqs include padding, num_real_* do not",
                   "the {} real runs have {} rows, and num_real_tokens is {}", batch.num_real_seqs,
                   batch.cu_seqlens_q[batch.num_real_seqs], batch.num_real_tokens);
  for (std::int32_t i = 0; i < batch.num_logit_rows; ++i) {
    const std::int32_t row = batch.logit_rows[i];
    call.caller_must(row >= 0 && row < rows && (i == 0 || row >= batch.logit_rows[i - 1]), kBatch,
                     "rows to compute logits for, ascending", "logit_rows[{}] is {}", i, row);
  }
}

void check_run(const Call& call, const mortise_batch& batch, const BatchSizes& sizes, std::int32_t i,
               std::unordered_set<std::int64_t>& slots) {
  const std::int32_t begin = batch.cu_seqlens_q[i], end = batch.cu_seqlens_q[i + 1], length = batch.seq_lens[i];
  const std::int32_t* const table = batch.block_table + std::int64_t{i} * batch.max_blocks;
  call.caller_must(end > begin, kBatch, "A run is a sequence's consecutive rows", "run {} has no row", i);
  call.caller_must(end - begin <= batch.max_query_len && length <= batch.max_seq_len, kBatch, "rows of the longest run",
                   "run {} has {} rows and {} tokens; the bounds are {} and {}", i, end - begin, length,
                   batch.max_query_len, batch.max_seq_len);
  call.caller_must(length == batch.positions[end - 1] + 1 && length <= sizes.max_model_len &&
                       length <= std::int64_t{batch.max_blocks} * sizes.block_size,
                   kBatch, "last position of the run + 1", "seq_lens[{}] is {}, and the last position is {}", i, length,
                   batch.positions[end - 1]);
  for (std::int32_t b = 0; b * sizes.block_size < length; ++b) {
    call.caller_must(table[b] >= 0 && table[b] < sizes.num_blocks, kBatch, "token t of run i is in block block_table",
                     "block_table[{}][{}] is {}, and there are {} blocks", i, b, table[b], sizes.num_blocks);
  }
  for (std::int32_t row = begin; row < end; ++row) {
    const std::int32_t position = batch.positions[row];
    call.caller_must(position >= 0 && position == batch.positions[begin] + row - begin, kBatch,
                     "ascending by one within a run", "positions[{}] is {}", row, position);
    const std::int64_t slot =
        std::int64_t{table[position / sizes.block_size]} * sizes.block_size + position % sizes.block_size;
    call.caller_must(batch.slot_mapping[row] == slot, kBatch, "where a row's K and V go: block * block_size + offset",
                     "slot_mapping[{}] is {}, and the block table says {}", row, batch.slot_mapping[row], slot);
    call.caller_must(slots.insert(slot).second, kBatch, "where a row's K and V go",
                     "row {} and another one have the slot {}", row, slot);
    call.caller_must(batch.token_ids[row] >= 0, kBatch, "A row is one token of one sequence", "token_ids[{}] is {}",
                     row, batch.token_ids[row]);
  }
}

void check_padding(const Call& call, const mortise_batch& batch, const BatchSizes& sizes, std::int32_t i) {
  call.caller_must(batch.seq_lens[i] == 0, kBatch, "They belong to sequences with seq_len 0",
                   "seq_lens[{}] of padding is {}", i, batch.seq_lens[i]);
  for (std::int32_t row = batch.cu_seqlens_q[i]; row < batch.cu_seqlens_q[i + 1]; ++row) {
    const std::int64_t slot = batch.slot_mapping[row];
    call.caller_must(batch.token_ids[row] == 0 && batch.positions[row] == 0 && slot >= 0 &&
                         slot < std::int64_t{sizes.num_blocks} * sizes.block_size,
                     kBatch, "Padding rows have token 0, position 0 and a slot in a reserved block",
                     "row {} has token {}, position {} and slot {}", row, batch.token_ids[row], batch.positions[row],
                     slot);
  }
}

void check_groups(const Call& call, const mortise_batch& batch) {
  for (std::int32_t g = 0; g < batch.num_groups; ++g) {
    const std::int32_t begin = batch.group_offsets[g], end = batch.group_offsets[g + 1];
    const std::int32_t shared = batch.group_shared_tokens[g], parent = batch.group_parents[g];
    call.caller_must(end - begin >= 2, kBatch, "A group has at least two members", "group {} has {}", g, end - begin);
    call.caller_must(shared > 0 && shared % batch.block_size == 0, kBatch, "whole blocks", "group {} shares {} tokens",
                     g, shared);
    call.caller_must(parent >= -1 && parent < g && (parent < 0 || batch.group_shared_tokens[parent] < shared), kBatch,
                     "A parent comes before its children", "group_parents[{}] is {}", g, parent);
    for (std::int32_t k = begin; k < end; ++k) {
      const std::int32_t run = batch.group_seqs[k];
      call.caller_must(run >= 0 && run < batch.num_real_seqs && (k == begin || run > batch.group_seqs[k - 1]), kBatch,
                       "members, ascending and without repetition", "group {} has the run {}", g, run);
      const auto* const first = batch.block_table + std::int64_t{batch.group_seqs[begin]} * batch.max_blocks;
      const auto* const own = batch.block_table + std::int64_t{run} * batch.max_blocks;
      call.caller_must(std::equal(own, own + shared / batch.block_size, first), kBatch,
                       "up to there the block tables of its members are equal", "group {} has the run {}", g, run);
      call.caller_must(batch.positions[batch.cu_seqlens_q[run]] >= shared - 1, kBatch,
                       "Each row of a member has position group_shared_tokens[g] - 1 or above", "run {} of group {}",
                       run, g);
    }
  }
}

}  // namespace

std::string dims_problem(const mortise_model_dims& dims) {
  const std::int32_t counts[] = {dims.num_layers, dims.hidden_size, dims.num_heads,    dims.num_kv_heads,
                                 dims.head_dim,   dims.vocab_size,  dims.max_model_len};
  if (std::ranges::any_of(counts, [](std::int32_t count) { return count <= 0; })) return "a size that is not above 0";
  if (dims.num_heads % dims.num_kv_heads != 0) {
    return fmt::format("{} heads and {} KV heads", dims.num_heads, dims.num_kv_heads);
  }
  if (dims.dtype != MORTISE_BF16 && dims.dtype != MORTISE_F32) return fmt::format("the dtype {:#x}", dims.dtype);
  if (dims.weight_bits != 0 && dims.weight_bits != 4 && dims.weight_bits != 8) {
    return fmt::format("weights of {} bits", dims.weight_bits);
  }
  return "";
}

void check_dims(const Call& call, const mortise_model_dims* dims) {
  call.check_struct(dims, MORTISE_SIZE_0_5(mortise_model_dims), "dims");
  const std::string problem = dims_problem(*dims);
  call.caller_must(problem.empty(), kBatch, "Dimensions of a model", "the model has {}", problem);
}

std::string tensor_problem(const Device* device, const mortise_tensor* tensor, std::span<const std::int64_t> shape,
                           std::int32_t dtype) {
  if (tensor == nullptr) return "is NULL";
  if (tensor->struct_size < MORTISE_SIZE_0_5(mortise_tensor))
    return fmt::format("has the struct_size {}", tensor->struct_size);
  if (tensor->ndim < 1 || tensor->ndim > 4) return fmt::format("has {} dimensions", tensor->ndim);
  if (!is_dtype(tensor->dtype) || (dtype != 0 && tensor->dtype != dtype)) {
    return fmt::format("has the dtype {:#x}", tensor->dtype);
  }
  if (!shape.empty() && static_cast<std::size_t>(tensor->ndim) != shape.size()) {
    return fmt::format("has {} dimensions, and {} are needed", tensor->ndim, shape.size());
  }
  std::int64_t last = 0, count = 1;
  for (std::int32_t d = 0; d < tensor->ndim; ++d) {
    const std::int64_t size = tensor->shape[d];
    if (size < 0 || (!shape.empty() && shape[d] >= 0 && size != shape[d])) {
      return fmt::format("has shape[{}] = {}{}", d, size,
                         shape.empty() || shape[d] < 0 ? "" : fmt::format(", and {} is needed", shape[d]));
    }
    if (size > 1 && tensor->stride[d] < 0) return fmt::format("has stride[{}] = {}", d, tensor->stride[d]);
    count *= size;
    last += (size - 1) * tensor->stride[d];
  }
  if (count == 0) return "";
  const auto bytes = static_cast<std::uint64_t>(last + 1) * static_cast<std::uint64_t>(dtype_bytes(tensor->dtype));
  if (tensor->data == nullptr) return "has no data";
  if (bytes > tensor->bytes) return fmt::format("takes {} bytes, and {} are accessible", bytes, tensor->bytes);
  return device == nullptr ? "" : device->memory_problem(tensor->data, bytes);
}

void check_tensor(const Call& call, const Device* device, const char* name, const mortise_tensor* tensor,
                  std::span<const std::int64_t> shape, std::int32_t dtype) {
  const std::string problem = tensor_problem(device, tensor, shape, dtype);
  call.caller_must(problem.empty(), kTensor, "accessible bytes, starting at data", "{} {}", name, problem);
}

void check_step(const Call& call, const mortise_step* step) {
  call.check_struct(step, MORTISE_SIZE_0_5(mortise_step), "step");
  call.check_struct(step->batch, MORTISE_SIZE_0_5(mortise_batch), "batch");
  call.caller_must(step->device != nullptr && step->device_table != nullptr, "mortise/model.h",
                   "The parts and the batch of one step", "the step has no device");
  call.caller_must(step->attention != nullptr && step->attention_table != nullptr, "mortise/model.h",
                   "The parts and the batch of one step", "the step has no attention");
}

void check_batch(const Call& call, const mortise_batch& batch, const BatchSizes& sizes) {
  check_counts(call, batch, sizes);
  check_arrays(call, batch);
  std::unordered_set<std::int64_t> slots;
  for (std::int32_t i = 0; i < batch.num_real_seqs; ++i) check_run(call, batch, sizes, i, slots);
  for (std::int32_t i = batch.num_real_seqs; i < batch.num_seqs; ++i) check_padding(call, batch, sizes, i);
  if (batch.num_groups > 0) check_groups(call, batch);
}

}  // namespace mortise::abi_check
