// runtime/abi_record/attention_fields.hpp: the fields of mortise/batch.h and mortise/attention.h that a record has, and
// the numbers of tensors, which it has as hexadecimal digits of their bytes.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "abi_record/fields.hpp"
#include "mortise/attention.h"

namespace mortise::abi_record {

template <typename Visitor>
void visit(Visitor& v, mortise_batch& batch) {
  v.scalar("flags", batch.flags);
  v.scalar("step_id", batch.step_id);
  v.scalar("num_seqs", batch.num_seqs);
  v.scalar("num_tokens", batch.num_tokens);
  v.scalar("num_logit_rows", batch.num_logit_rows);
  v.scalar("num_real_seqs", batch.num_real_seqs);
  v.scalar("num_real_tokens", batch.num_real_tokens);
  v.scalar("block_size", batch.block_size);
  v.scalar("max_blocks", batch.max_blocks);
  v.scalar("max_query_len", batch.max_query_len);
  v.scalar("max_seq_len", batch.max_seq_len);
  v.scalar("num_groups", batch.num_groups);
  v.scalar("num_ended", batch.num_ended);
  const std::int64_t seqs = batch.num_seqs, rows = batch.num_tokens, groups = batch.num_groups;
  v.array("seq_ids", batch.seq_ids, seqs);
  v.array("token_ids", batch.token_ids, rows);
  v.array("positions", batch.positions, rows);
  v.array("cu_seqlens_q", batch.cu_seqlens_q, seqs + 1);
  v.array("seq_lens", batch.seq_lens, seqs);
  v.array("block_table", batch.block_table, seqs * batch.max_blocks);
  v.array("slot_mapping", batch.slot_mapping, rows);
  v.array("logit_rows", batch.logit_rows, batch.num_logit_rows);
  v.array("ended_ids", batch.ended_ids, batch.num_ended);
  if (groups <= 0) return;
  v.array("group_offsets", batch.group_offsets, groups + 1);
  v.array("group_shared_tokens", batch.group_shared_tokens, groups);
  v.array("group_parents", batch.group_parents, groups);
  if (batch.group_offsets == nullptr) fail("'group_offsets' is missing");
  v.array("group_seqs", batch.group_seqs, batch.group_offsets[groups]);
}

// Write bytes as hexadecimal digits, and read them back. read_bytes throws an Error unless there are `size` bytes.
nlohmann::json bytes_text(std::span<const std::byte> bytes);
std::vector<std::byte> read_bytes(const nlohmann::json& json, const char* name, std::uint64_t size);

// Returns the numbers of a tensor in host memory, dense and row-major.
std::vector<std::byte> dense_bytes(const mortise_tensor& tensor);

}  // namespace mortise::abi_record
