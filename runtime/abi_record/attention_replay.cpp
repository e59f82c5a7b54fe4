#include "abi_record/attention_replay.hpp"

#include <algorithm>

#include "abi_record/attention_fields.hpp"
#include "mortise/plugin.hpp"

namespace mortise::abi_record {
namespace {

using conformance::Answer;
using conformance::Part;
using conformance::ReadOnlyCopies;
using nlohmann::json;

const mortise_attention_table& table_of(const Part& part) {
  return part.table<mortise_attention_table>();
}
mortise_attention* self_of(const Part& part) {
  return part.handle<mortise_attention>();
}

}  // namespace

AttentionReplay::~AttentionReplay() {
  for (const auto& [digits, weight] : weights_) access_.table->free_weight(access_.device, weight);
  access_.table->free(access_.device, kv_);
}

bool AttentionReplay::is_step(const std::string& function) {
  return function != "kv_layout" && function != "bind";
}

CallOutput AttentionReplay::make(Part& part, const std::string& function, const json& in) {
  if (function == "kv_layout") return kv_layout(part, in);
  if (function == "bind") return bind(part, in);
  if (function == "plan") return plan(part, in);
  if (function == "append") return append(part, in);
  if (function == "run") return run(part, in);
  if (function == "copy_blocks") return copy_blocks(part, in);
  fail("an attention has no function '{}'", function);
}

CallOutput AttentionReplay::kv_layout(Part& part, const json& in) {
  ReadOnlyCopies copies;
  const auto dims = from_json<mortise_model_dims>(member(in, "dims"), copies);
  const auto kv_dtype = read_number<std::int32_t>(member(in, "kv_dtype"), "kv_dtype");
  const auto block_size = read_number<std::int32_t>(member(in, "block_size"), "block_size");
  mortise_kv_layout layout{};
  layout.struct_size = sizeof layout;
  const Answer answer = part.call("kv_layout", [&](mortise_error* error) {
    return table_of(part).kv_layout(self_of(part), &dims, kv_dtype, block_size, &layout, error);
  });
  if (!answer.ok()) return {answer.status, json::object()};
  bytes_per_block_ = layout.bytes_per_block;
  return {answer.status,
          {{"layout_id", plugin_text(layout.layout_id, sizeof layout.layout_id)},
           {"bytes_per_block", layout.bytes_per_block}}};
}

CallOutput AttentionReplay::bind(Part& part, const json& in) {
  if (kv_ != nullptr) fail("'bind' comes twice");
  if (bytes_per_block_ == 0) fail("'bind' comes before 'kv_layout'");
  dims_ = from_json<mortise_model_dims>(member(in, "dims"), bound_);
  mortise_attention_bind_args args{};
  args.struct_size = sizeof args;
  args.dims = &dims_;
  args.kv_dtype = read_number<std::int32_t>(member(in, "kv_dtype"), "kv_dtype");
  args.block_size = read_number<std::int32_t>(member(in, "block_size"), "block_size");
  args.num_blocks = read_number<std::int32_t>(member(in, "num_blocks"), "num_blocks");
  if (args.num_blocks <= 0 ||
      __builtin_mul_overflow(static_cast<std::uint64_t>(args.num_blocks), bytes_per_block_, &args.kv_bytes)) {
    fail("'num_blocks' is {}", args.num_blocks);
  }
  device_.perform("allocate", [&](mortise_error* error) {
    return access_.table->allocate(access_.device, args.kv_bytes, &kv_, error);
  });
  args.kv = kv_;
  const Answer answer =
      part.call("bind", [&](mortise_error* error) { return table_of(part).bind(self_of(part), &args, error); });
  return {answer.status, json::object()};
}

CallOutput AttentionReplay::plan(Part& part, const json& in) {
  planned_ = std::make_unique<ReadOnlyCopies>();
  batch_ = from_json<mortise_batch>(in, *planned_);
  batch_.device_token_ids = batch_.token_ids;
  batch_.device_positions = batch_.positions;
  batch_.device_cu_seqlens_q = batch_.cu_seqlens_q;
  batch_.device_seq_lens = batch_.seq_lens;
  batch_.device_block_table = batch_.block_table;
  batch_.device_slot_mapping = batch_.slot_mapping;
  batch_.device_logit_rows = batch_.logit_rows;
  step_ = {};
  step_.struct_size = sizeof step_;
  step_.batch = &batch_;
  step_.device = access_.device;
  step_.device_table = access_.table;
  step_.attention = self_of(part);
  step_.attention_table = &table_of(part);
  step_.world = 1;
  const Answer answer =
      part.call("plan", [&](mortise_error* error) { return table_of(part).plan(self_of(part), &step_, error); });
  return {answer.status, json::object()};
}

AttentionReplay::Heads::Heads(std::vector<std::byte> given, std::int64_t rows, std::int64_t heads,
                              std::int64_t head_dim, std::int32_t dtype)
    : bytes(std::span<const std::byte>(given)) {
  tensor.struct_size = sizeof tensor;
  tensor.data = bytes.data();
  tensor.dtype = dtype;
  tensor.ndim = 3;
  const std::int64_t shape[] = {rows, heads, head_dim, 1}, stride[] = {heads * head_dim, head_dim, 1, 1};
  std::copy_n(shape, 4, tensor.shape);
  std::copy_n(stride, 4, tensor.stride);
  tensor.bytes = bytes.size();
}

std::int32_t AttentionReplay::dtype_of(const json& in) const {
  if (planned_ == nullptr) fail("a step comes before 'plan'");
  const auto dtype = read_number<std::int32_t>(member(in, "dtype"), "dtype");
  if (dtype != MORTISE_BF16 && dtype != MORTISE_F32) fail("'dtype' is {}", dtype);
  return dtype;
}

AttentionReplay::Heads AttentionReplay::heads_of(const json& in, const char* name, std::int32_t num_heads,
                                                 std::int32_t dtype) const {
  const std::int64_t row = std::int64_t{num_heads} * dims_.head_dim, rows = batch_.num_tokens;
  if (num_heads < 0 || dims_.head_dim < 0 || rows < 0 || row > kMaxLength || row * rows > kMaxLength) {
    fail("'{}' would have {} rows of {} numbers", name, rows, row);
  }
  return {read_bytes(in, name, static_cast<std::uint64_t>(row * rows * dtype_bytes(dtype))), rows, num_heads,
          dims_.head_dim, dtype};
}

// Returns the whole table, with the recorded rows at the positions of the batch.
std::vector<float> AttentionReplay::rope_table(const json& in, const char* name, std::int32_t half) const {
  const std::int64_t rows = batch_.num_tokens;
  const std::vector<std::byte> bytes =
      read_bytes(in, name, static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(half) * sizeof(float));
  if (rows > 0 && batch_.positions == nullptr) fail("'positions' is missing");
  const std::span<const std::int32_t> positions(batch_.positions, static_cast<std::size_t>(rows));
  const std::int64_t last = rows == 0 ? 0 : *std::ranges::max_element(positions);
  if (std::ranges::any_of(positions, [](std::int32_t p) { return p < 0; }) || (last + 1) * half > kMaxLength) {
    fail("'positions' are out of range");
  }
  std::vector<float> table(static_cast<std::size_t>((last + 1) * half));
  for (std::size_t row = 0; row < positions.size(); ++row) {
    const std::size_t size = static_cast<std::size_t>(half) * sizeof(float);
    if (size > 0) std::memcpy(table.data() + std::int64_t{positions[row]} * half, bytes.data() + row * size, size);
  }
  return table;
}

mortise_weight* AttentionReplay::weight_of(const json& in, const char* name) {
  const json& given = member(in, name);
  if (given.is_null()) return nullptr;
  const auto dtype = read_number<std::int32_t>(member(given, "dtype"), "dtype");
  if (dtype != MORTISE_BF16 && dtype != MORTISE_F32) fail("'dtype' is {}", dtype);
  std::vector<std::byte> bytes =
      read_bytes(given, "data", static_cast<std::uint64_t>(dims_.head_dim * dtype_bytes(dtype)));
  mortise_weight*& weight = weights_[given.dump()];
  if (weight != nullptr) return weight;
  mortise_tensor part{};
  part.struct_size = sizeof part;
  part.data = bytes.data();
  part.dtype = dtype;
  part.ndim = 1;
  std::fill_n(part.shape, 4, 1);
  std::fill_n(part.stride, 4, 1);
  part.shape[0] = dims_.head_dim;
  part.bytes = bytes.size();
  const mortise_tensor* const parts[] = {&part};
  mortise_weight_source source{};
  source.struct_size = sizeof source;
  source.use = MORTISE_WEIGHT_VECTOR;
  source.num_parts = 1;
  source.parts = parts;
  source.dtype = dtype;
  device_.perform("prepare_weight", [&](mortise_error* error) {
    return access_.table->prepare_weight(access_.device, &source, &weight, error);
  });
  return weight;
}

CallOutput AttentionReplay::append(Part& part, const json& in) {
  const std::int32_t dtype = dtype_of(in);
  Heads q = heads_of(in, "q", dims_.num_heads, dtype), k = heads_of(in, "k", dims_.num_kv_heads, dtype),
        v = heads_of(in, "v", dims_.num_kv_heads, dtype);
  mortise_append_args args{};
  args.struct_size = sizeof args;
  args.layer = read_number<std::int32_t>(member(in, "layer"), "layer");
  args.q = &q.tensor;
  args.k = &k.tensor;
  args.v = &v.tensor;
  args.q_norm = weight_of(in, "q_norm");
  args.k_norm = weight_of(in, "k_norm");
  args.norm_eps = read_number<float>(member(in, "norm_eps"), "norm_eps");
  ReadOnlyCopies copies;
  mortise_rope rope{};
  if (const json& given = member(in, "rope"); !given.is_null()) {
    rope.struct_size = sizeof rope;
    rope.rotary_dim = read_number<std::int32_t>(member(given, "rotary_dim"), "rotary_dim");
    rope.interleaved = read_number<std::int32_t>(member(given, "interleaved"), "interleaved");
    if (rope.rotary_dim < 0 || rope.rotary_dim > dims_.head_dim) fail("'rotary_dim' is {}", rope.rotary_dim);
    rope.cos = copies.copy(rope_table(given, "cos", rope.rotary_dim / 2));
    rope.sin = copies.copy(rope_table(given, "sin", rope.rotary_dim / 2));
    args.rope = &rope;
  }
  const Answer answer = part.call(
      "append", [&](mortise_error* error) { return table_of(part).append(self_of(part), &step_, &args, error); });
  if (!answer.ok()) return {answer.status, json::object()};
  return {answer.status, {{"q", bytes_text(q.bytes.span())}}};
}

CallOutput AttentionReplay::run(Part& part, const json& in) {
  const std::int32_t dtype = dtype_of(in);
  const Heads q = heads_of(in, "q", dims_.num_heads, dtype);
  const auto layer = read_number<std::int32_t>(member(in, "layer"), "layer");
  const Heads out(std::vector<std::byte>(q.bytes.size(), std::byte{0xff}), batch_.num_tokens, dims_.num_heads,
                  dims_.head_dim, dtype);
  const Answer answer = part.call("run", [&](mortise_error* error) {
    return table_of(part).run(self_of(part), &step_, layer, &q.tensor, &out.tensor, error);
  });
  if (!answer.ok()) return {answer.status, json::object()};
  return {answer.status, {{"out", bytes_text(out.bytes.span())}}};
}

CallOutput AttentionReplay::copy_blocks(Part& part, const json& in) {
  const auto count = read_number<std::int32_t>(member(in, "num_blocks"), "num_blocks");
  ReadOnlyCopies copies;
  const std::int32_t *from = nullptr, *to = nullptr;
  Reader reader(in, copies);
  reader.array("from", from, count);
  reader.array("to", to, count);
  const Answer answer = part.call("copy_blocks", [&](mortise_error* error) {
    return table_of(part).copy_blocks(self_of(part), nullptr, from, to, count, error);
  });
  return {answer.status, json::object()};
}

}  // namespace mortise::abi_record
