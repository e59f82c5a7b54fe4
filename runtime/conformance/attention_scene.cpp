#include "conformance/attention_scene.hpp"

#include <algorithm>
#include <cstring>

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

DeviceWeight prepare_norm(const DeviceAccess& device, const AttentionShape& shape, Projection projection) {
  return prepare_vector(device, {shape.dtype, 1, shape.head_dim, norm_weight(shape, projection)});
}

// Returns columns of a dense matrix with rows of `row_bytes`, as [rows, heads, head_dim].
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
      sequences_(device, shape_.block_size, num_blocks),
      cos_(device, std::span<const float>(rope_table(shape_, false))),
      sin_(device, std::span<const float>(rope_table(shape_, true))) {
  if (!shape_.has_norms) return;
  q_norm_ = prepare_norm(device, shape_, Projection::kQuery);
  k_norm_ = prepare_norm(device, shape_, Projection::kKey);
}

void AttentionScene::copy_blocks(std::size_t sequence) {
  const std::vector<std::int32_t> from = sequences_.replace_blocks(sequence);
  ReadOnlyCopies copies;
  part_.perform("copy_blocks", [&](mortise_error* error) {
    return part_.table<mortise_attention_table>().copy_blocks(
        part_.handle<mortise_attention>(), nullptr, copies.copy(from), copies.copy(sequences_.blocks(sequence)),
        static_cast<std::int32_t>(from.size()), error);
  });
}

void AttentionScene::fill_heads(std::vector<std::uint8_t>& matrix, std::size_t row_bytes, std::size_t offset,
                                Projection projection, std::int32_t layer, const std::vector<SceneRun>& runs) const {
  const std::int32_t heads = projection == Projection::kQuery ? shape_.num_heads : shape_.num_kv_heads;
  std::uint8_t* at = matrix.data() + offset;
  for (const SceneRun& run : runs) {
    for (std::int32_t position = run.first; position < run.first + run.count; ++position, at += row_bytes) {
      const std::int32_t token = sequences_.tokens(run.sequence)[static_cast<std::size_t>(position)];
      std::uint8_t* head_at = at;
      for (std::int32_t head = 0; head < heads; ++head) {
        const auto bytes = stored(shape_, head_values(shape_, projection, token, position, layer, head));
        head_at = std::ranges::copy(bytes, head_at).out;
      }
    }
  }
}

std::vector<std::uint8_t> AttentionScene::run_layer(const Part& part, const mortise_step& step, std::int32_t layer,
                                                    const std::vector<SceneRun>& runs, bool has_packed_qkv) {
  const auto rows = static_cast<std::size_t>(step.batch->num_tokens);
  const auto head_bytes = static_cast<std::size_t>(shape_.head_dim) * shape_.element_bytes();
  const std::size_t q_bytes = head_bytes * static_cast<std::size_t>(shape_.num_heads),
                    kv_bytes = head_bytes * static_cast<std::size_t>(shape_.num_kv_heads);
  // q, k and v lie in one matrix if the step has packed rows, else in a matrix each.
  const std::size_t qkv_bytes = q_bytes + 2 * kv_bytes;
  const auto matrix = [&](Projection projection, std::size_t columns) {
    std::vector<std::uint8_t> bytes(rows * columns);
    fill_heads(bytes, columns, 0, projection, layer, runs);
    return bytes;
  };
  std::vector<std::uint8_t> all(has_packed_qkv ? rows * qkv_bytes : 0);
  if (has_packed_qkv) {
    fill_heads(all, qkv_bytes, 0, Projection::kQuery, layer, runs);
    fill_heads(all, qkv_bytes, q_bytes, Projection::kKey, layer, runs);
    fill_heads(all, qkv_bytes, q_bytes + kv_bytes, Projection::kValue, layer, runs);
  }
  const auto upload = [&](Projection projection, std::size_t columns) {
    const std::vector<std::uint8_t> bytes = has_packed_qkv ? std::vector<std::uint8_t>() : matrix(projection, columns);
    return DeviceBuffer(device_, std::span<const std::uint8_t>(bytes));
  };
  const DeviceBuffer together(device_, std::span<const std::uint8_t>(all));
  const DeviceBuffer q_alone = upload(Projection::kQuery, q_bytes), k_alone = upload(Projection::kKey, kv_bytes),
                     v_alone = upload(Projection::kValue, kv_bytes);
  const DeviceBuffer out_memory(device_, rows * q_bytes, kUnwritten);
  const auto tensor = [&](const DeviceBuffer& alone, std::size_t bytes, std::size_t offset, std::int32_t heads) {
    return has_packed_qkv ? heads_at(shape_, together, qkv_bytes, offset, heads)
                          : heads_at(shape_, alone, bytes, 0, heads);
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
  if (!has_packed_qkv) expect(v_alone.read() == matrix(Projection::kValue, kv_bytes), "append changes v");
  return bytes;
}

std::string AttentionScene::device_numerics() const {
  const char* id = nullptr;
  device_.perform("numerics_id", [&](mortise_error*) {
    id = device_.table<mortise_device_table>()->numerics_id(device_.handle<mortise_device>(), shape_.dtype);
    return MORTISE_OK;
  });
  return id == nullptr ? "" : id;
}

OutputRows AttentionScene::step_with(const Part& part, const std::vector<SceneRun>& runs, const StepStyle& style) {
  const auto batch = sequences_.batch_of(runs, style);
  auto step = sized<mortise_step>();
  step.batch = batch->batch;
  step.device = device_.handle<mortise_device>();
  step.device_table = device_.table<mortise_device_table>();
  step.attention = part.handle<mortise_attention>();
  step.attention_table = &part.table<mortise_attention_table>();
  step.world = 1;
  part.perform("plan", [&](mortise_error* error) { return step.attention_table->plan(step.attention, &step, error); });
  OutputRows rows;
  const std::size_t row_bytes = shape_.element_bytes() * static_cast<std::size_t>(shape_.num_heads * shape_.head_dim);
  for (std::int32_t layer = 0; layer < shape_.num_layers; ++layer) {
    const std::vector<std::uint8_t> bytes = run_layer(part, step, layer, runs, style.has_packed_qkv);
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
