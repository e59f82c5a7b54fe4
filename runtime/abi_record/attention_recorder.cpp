// runtime/abi_record/attention_recorder.cpp: the functions of a recorded attention. Its device computes in host memory,
// so everything that it reads and writes can be read here.
#include "abi_record/attention_fields.hpp"
#include "abi_record/recorded_instance.hpp"
#include "mortise/plugin.hpp"

namespace mortise::abi_record {
namespace {

mortise_status kv_layout(mortise_attention* handle, const mortise_model_dims* dims, std::int32_t kv_dtype,
                         std::int32_t block_size, mortise_kv_layout* layout, mortise_error* error) {
  const auto self = instance_of(handle);
  return recorded(
      *self, "kv_layout", error,
      [&] {
        return json{{"dims", to_json(*dims)}, {"kv_dtype", kv_dtype}, {"block_size", block_size}};
      },
      [&] {
        return self->table<mortise_attention_table>().kv_layout(handle, dims, kv_dtype, block_size, layout, error);
      },
      [&] {
        return json{{"layout_id", plugin_text(layout->layout_id, sizeof layout->layout_id)},
                    {"bytes_per_block", layout->bytes_per_block}};
      });
}

mortise_status bind(mortise_attention* handle, const mortise_attention_bind_args* args, mortise_error* error) {
  const auto self = instance_of(handle);
  return recorded(
      *self, "bind", error,
      [&] {
        return json{{"dims", to_json(*args->dims)},
                    {"kv_dtype", args->kv_dtype},
                    {"block_size", args->block_size},
                    {"num_blocks", args->num_blocks}};
      },
      [&] { return self->table<mortise_attention_table>().bind(handle, args, error); }, nothing);
}

mortise_status plan(mortise_attention* handle, const mortise_step* step, mortise_error* error) {
  const auto self = instance_of(handle);
  return recorded(
      *self, "plan", error, [&] { return to_json(*step->batch); },
      [&] { return self->table<mortise_attention_table>().plan(handle, step, error); }, nothing);
}

// Returns only those rows of the cos and sin tables that the batch reads. Whole tables have a row for each position of
// the model's context, which would make the record far larger.
json rope_rows(const mortise_rope* rope, const mortise_batch& batch) {
  if (rope == nullptr) return {};
  const auto half = static_cast<std::size_t>(rope->rotary_dim / 2);
  const auto rows_of = [&](const float* table) {
    std::vector<float> rows;
    for (std::int32_t row = 0; row < batch.num_tokens; ++row) {
      const float* const first = table + static_cast<std::size_t>(batch.positions[row]) * half;
      rows.insert(rows.end(), first, first + half);
    }
    return bytes_text(std::as_bytes(std::span(rows)));
  };
  return {{"rotary_dim", rope->rotary_dim},
          {"interleaved", rope->interleaved},
          {"cos", rows_of(rope->cos)},
          {"sin", rows_of(rope->sin)}};
}

// Returns what the weight holds; nullopt if the device does not tell.
std::optional<json> norm_weight(const mortise_step& step, const mortise_weight* weight) {
  if (weight == nullptr) return json();
  std::int64_t n = 0;
  std::int32_t dtype = 0;
  const void* const data = MORTISE_HAS(step.device_table, vector_weight)
                               ? step.device_table->vector_weight(step.device, weight, &n, &dtype)
                               : nullptr;
  if (data == nullptr) return std::nullopt;
  const auto bytes = static_cast<std::size_t>(n) * static_cast<std::size_t>(dtype_bytes(dtype));
  return json{{"dtype", dtype}, {"data", bytes_text({static_cast<const std::byte*>(data), bytes})}};
}

json tensor_bytes(const mortise_tensor& tensor) {
  return bytes_text(dense_bytes(tensor));
}

mortise_status append(mortise_attention* handle, const mortise_step* step, const mortise_append_args* args,
                      mortise_error* error) {
  const auto self = instance_of(handle);
  const auto& table = self->table<mortise_attention_table>();
  if (!self->is_recorded) return table.append(handle, step, args, error);
  const std::optional<json> q_norm = norm_weight(*step, args->q_norm), k_norm = norm_weight(*step, args->k_norm);
  if (!q_norm || !k_norm) return refuse_call(error, "--record-abi cannot read the norm weights of this device");
  return recorded(
      *self, "append", error,
      [&] {
        return json{
            {"layer", args->layer},        {"dtype", args->q->dtype},     {"q", tensor_bytes(*args->q)},
            {"k", tensor_bytes(*args->k)}, {"v", tensor_bytes(*args->v)}, {"rope", rope_rows(args->rope, *step->batch)},
            {"q_norm", *q_norm},           {"k_norm", *k_norm},           {"norm_eps", number(args->norm_eps)}};
      },
      [&] { return table.append(handle, step, args, error); },
      [&] {
        return json{{"q", tensor_bytes(*args->q)}};
      });
}

mortise_status run(mortise_attention* handle, const mortise_step* step, std::int32_t layer, const mortise_tensor* q,
                   const mortise_tensor* out, mortise_error* error) {
  const auto self = instance_of(handle);
  return recorded(
      *self, "run", error,
      [&] {
        return json{{"layer", layer}, {"dtype", q->dtype}, {"q", tensor_bytes(*q)}};
      },
      [&] { return self->table<mortise_attention_table>().run(handle, step, layer, q, out, error); },
      [&] {
        return json{{"out", tensor_bytes(*out)}};
      });
}

mortise_status copy_blocks(mortise_attention* handle, mortise_stream* stream, const std::int32_t* from,
                           const std::int32_t* to, std::int32_t num_blocks, mortise_error* error) {
  const auto self = instance_of(handle);
  return recorded(
      *self, "copy_blocks", error,
      [&] {
        return json{{"num_blocks", num_blocks},
                    {"from", std::vector<std::int32_t>(from, from + num_blocks)},
                    {"to", std::vector<std::int32_t>(to, to + num_blocks)}};
      },
      [&] { return self->table<mortise_attention_table>().copy_blocks(handle, stream, from, to, num_blocks, error); },
      nothing);
}

}  // namespace

mortise_attention_table recorded_attention() {
  return {sizeof(mortise_attention_table), 0, kv_layout, bind, plan, append, run, copy_blocks};
}

}  // namespace mortise::abi_record
