#include "bisect/step_tap.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <numeric>

#include "mortise/plugin.hpp"

namespace mortise {
namespace {

// The elements of a row; below, the bytes from the first element to the end of the last.
std::vector<std::int64_t> row_shape(const mortise_tensor& tensor) {
  return {tensor.shape + 1, tensor.shape + std::max(tensor.ndim, 1)};
}

}  // namespace

// The functions in the tables that the tap provides. Each instance that they get is a StepTap.
struct TapCalls {
  template <typename Handle>
  static StepTap& tap(Handle* self) {
    return *reinterpret_cast<StepTap*>(self);
  }
  static mortise_device* device(StepTap& tap) { return tap.parts_.device.self; }
  static const mortise_device_table& api(StepTap& tap) { return *tap.parts_.device.api; }

  // Passes a call on to the device unchanged.
  template <auto Slot>
  struct Passed;
  template <typename R, typename... Args, R (*mortise_device_table::*Slot)(mortise_device*, Args...)>
  struct Passed<Slot> {
    static R call(mortise_device* self, Args... args) { return (api(tap(self)).*Slot)(device(tap(self)), args...); }
  };

  // Runs `body` and turns exceptions into a status, because none may cross the calling plugin.
  template <typename Body>
  static mortise_status guarded(mortise_error* error, Body&& body) noexcept {
    try {
      return body();
    } catch (const std::exception& exception) {
      if (error != nullptr) {
        error->code = MORTISE_INTERNAL;
        std::snprintf(error->message, sizeof error->message, "tracing a step: %s", exception.what());
      }
      return MORTISE_INTERNAL;
    }
  }
  // Makes a call, then records its output.
  template <typename Call, typename Record>
  static mortise_status traced(mortise_error* error, Call&& call, Record&& record) {
    const mortise_status status = call();
    return status != MORTISE_OK ? status : guarded(error, record);
  }

  static mortise_status linear(mortise_device* self, mortise_stream* stream, const mortise_linear_args* args,
                               mortise_error* error) {
    StepTap& t = tap(self);
    return traced(
        error, [&] { return api(t).linear(device(t), stream, args, error); },
        [&] { return t.record_forward("linear", "out", stream, *args->out, error); });
  }
  static mortise_status embed(mortise_device* self, mortise_stream* stream, const std::int32_t* ids,
                              const mortise_weight* weight, const mortise_tensor* out, mortise_error* error) {
    StepTap& t = tap(self);
    return traced(
        error, [&] { return api(t).embed(device(t), stream, ids, weight, out, error); },
        [&] { return t.record_forward("embed", "out", stream, *out, error); });
  }
  template <auto Slot>
  static mortise_status norm(mortise_device* self, mortise_stream* stream, const mortise_norm_args* args,
                             mortise_error* error) {
    StepTap& t = tap(self);
    const char* const name = Slot == &mortise_device_table::rms_norm ? "rms_norm" : "layer_norm";
    return traced(
        error, [&] { return (api(t).*Slot)(device(t), stream, args, error); },
        [&] {
          mortise_status status = MORTISE_OK;
          if (args->residual != nullptr) status = t.record_forward(name, "residual", stream, *args->residual, error);
          return status != MORTISE_OK ? status : t.record_forward(name, "out", stream, *args->out, error);
        });
  }
  template <auto Slot>
  static mortise_status activation(mortise_device* self, mortise_stream* stream, std::int32_t activation,
                                   const mortise_tensor* x, const mortise_tensor* out, mortise_error* error) {
    StepTap& t = tap(self);
    const char* const name = Slot == &mortise_device_table::activation ? "activation" : "gated_activation";
    return traced(
        error, [&] { return (api(t).*Slot)(device(t), stream, activation, x, out, error); },
        [&] { return t.record_forward(name, "out", stream, *out, error); });
  }
  static mortise_status add(mortise_device* self, mortise_stream* stream, const mortise_tensor* a,
                            const mortise_tensor* b, const mortise_tensor* out, mortise_error* error) {
    StepTap& t = tap(self);
    return traced(
        error, [&] { return api(t).add(device(t), stream, a, b, out, error); },
        [&] { return t.record_forward("add", "out", stream, *out, error); });
  }
  static mortise_status gather_rows(mortise_device* self, mortise_stream* stream, const mortise_tensor* x,
                                    const std::int32_t* rows, const mortise_tensor* out, mortise_error* error) {
    StepTap& t = tap(self);
    return traced(
        error, [&] { return api(t).gather_rows(device(t), stream, x, rows, out, error); },
        [&] {
          if (t.phase_ != StepTap::Phase::kElsewhere)
            return t.record_forward("gather_rows", "out", stream, *out, error);
          return t.note_selected(stream, *out, rows, error);
        });
  }
  static mortise_status sample(mortise_device* self, mortise_stream* stream, const mortise_sample_args* args,
                               mortise_error* error) {
    StepTap& t = tap(self);
    return traced(
        error, [&] { return api(t).sample(device(t), stream, args, error); },
        [&] {
          const auto rows = t.rows_of(t.logits_, *args->logits);
          return t.record_rows("sample", "token", stream, args->tokens, MORTISE_I32, 1, rows, error);
        });
  }
  static mortise_status head_reduce(mortise_device* self, mortise_stream* stream, const mortise_head_reduce_args* args,
                                    mortise_error* error) {
    StepTap& t = tap(self);
    return traced(
        error, [&] { return api(t).head_reduce(device(t), stream, args, error); },
        [&] { return record_reduced(t, stream, *args, error); });
  }
  // Records all outputs. Logits of targets are left out if only one of several slices writes them; they are among the
  // logits.
  static mortise_status record_reduced(StepTap& t, mortise_stream* stream, const mortise_head_reduce_args& args,
                                       mortise_error* error) {
    const auto rows = t.rows_of(t.logits_, *args.logits);
    const std::int64_t columns = args.logits->shape[1];
    const std::string name =
        fmt::format("head_reduce of tokens {} to {}", args.vocab_begin, args.vocab_begin + columns);
    const bool whole = args.vocab_begin == 0 && columns == t.parts_.vocab_size;
    struct Array {
      const char* name;
      const void* data;
      std::int32_t dtype;
      std::int64_t columns;
    };
    for (const Array& array :
         {Array{"max", args.max, MORTISE_F32, 1}, Array{"sum", args.sum, MORTISE_F32, 1},
          Array{"lse", args.lse, MORTISE_F32, 1},
          Array{"target_logits", whole ? args.target_logits : nullptr, MORTISE_F32, 1},
          Array{"ranks", args.ranks, MORTISE_I32, 1}, Array{"top_ids", args.top_ids, MORTISE_I32, args.top_n},
          Array{"top_logits", args.top_logits, MORTISE_F32, args.top_n}}) {
      if (array.data == nullptr || array.columns == 0) continue;
      const mortise_status status =
          t.record_rows(name, array.name, stream, array.data, array.dtype, array.columns, rows, error);
      if (status != MORTISE_OK) return status;
    }
    return MORTISE_OK;
  }

  static const void* get_ext(mortise_device*, const char*) { return nullptr; }

  static mortise_attention* attention(StepTap& t) { return t.parts_.attention.self; }
  static const mortise_attention_table& attention_api(StepTap& t) { return *t.parts_.attention.api; }

  static mortise_status plan(mortise_attention* self, const mortise_step* step, mortise_error* error) {
    StepTap& t = tap(self);
    const mortise_status status = guarded(error, [&] {
      t.trace_.begin_step(*step->batch);
      t.selected_ = t.logits_ = {};
      t.all_rows_.resize(static_cast<std::size_t>(step->batch->num_tokens));
      std::iota(t.all_rows_.begin(), t.all_rows_.end(), 0);
      return mortise_status{MORTISE_OK};
    });
    return status != MORTISE_OK ? status : attention_api(t).plan(attention(t), t.own_step(step), error);
  }
  static mortise_status append(mortise_attention* self, const mortise_step* step, const mortise_append_args* args,
                               mortise_error* error) {
    StepTap& t = tap(self);
    return traced(
        error, [&] { return attention_api(t).append(attention(t), t.own_step(step), args, error); },
        [&] { return record_attention(t, "attention append", "q", args->layer, step->stream, *args->q, error); });
  }
  static mortise_status run(mortise_attention* self, const mortise_step* step, std::int32_t layer,
                            const mortise_tensor* q, const mortise_tensor* out, mortise_error* error) {
    StepTap& t = tap(self);
    return traced(
        error, [&] { return attention_api(t).run(attention(t), t.own_step(step), layer, q, out, error); },
        [&] { return record_attention(t, "attention run", "out", layer, step->stream, *out, error); });
  }
  static mortise_status record_attention(StepTap& t, const char* name, const char* output, std::int32_t layer,
                                         mortise_stream* stream, const mortise_tensor& tensor, mortise_error* error) {
    ++t.stretch_;
    t.counts_.clear();
    if (!t.trace_.sees_step() || tensor.shape[0] != t.trace_.num_tokens()) return MORTISE_OK;
    TracedOp op = t.op_of(name, output, tensor);
    op.key = fmt::format("{} of layer {}", name, layer);
    op.layer = layer;
    op.is_anchor = true;
    return t.record(op, stream, tensor, t.all_rows_, error);
  }
  static mortise_status kv_layout(mortise_attention* self, const mortise_model_dims* dims, std::int32_t kv_dtype,
                                  std::int32_t block_size, mortise_kv_layout* layout, mortise_error* error) {
    StepTap& t = tap(self);
    return attention_api(t).kv_layout(attention(t), dims, kv_dtype, block_size, layout, error);
  }
  static mortise_status bind(mortise_attention* self, const mortise_attention_bind_args* args, mortise_error* error) {
    StepTap& t = tap(self);
    return attention_api(t).bind(attention(t), args, error);
  }
  static mortise_status copy_blocks(mortise_attention* self, mortise_stream* stream, const std::int32_t* from,
                                    const std::int32_t* to, std::int32_t num_blocks, mortise_error* error) {
    StepTap& t = tap(self);
    return attention_api(t).copy_blocks(attention(t), stream, from, to, num_blocks, error);
  }

  static mortise_model* model(StepTap& t) { return t.parts_.model.self; }
  static const mortise_model_table& model_api(StepTap& t) { return *t.parts_.model.api; }

  static mortise_status dims(mortise_model* self, mortise_model_dims* dims, mortise_error* error) {
    return model_api(tap(self)).dims(model(tap(self)), dims, error);
  }
  static mortise_status load(mortise_model* self, const mortise_weight_reader* reader, mortise_error* error) {
    return model_api(tap(self)).load(model(tap(self)), reader, error);
  }
  static mortise_status forward(mortise_model* self, const mortise_step* step, mortise_tensor* hidden,
                                mortise_error* error) {
    StepTap& t = tap(self);
    t.phase_ = StepTap::Phase::kForward;
    t.stretch_ = 0;
    t.counts_.clear();
    const mortise_status status = model_api(t).forward(model(t), step, hidden, error);
    t.phase_ = StepTap::Phase::kElsewhere;
    if (status != MORTISE_OK || !t.trace_.sees_step()) return status;
    return guarded(error, [&] {
      TracedOp op = t.op_of("hidden rows", "out", *hidden);
      op.key = op.name;
      op.is_anchor = true;
      return t.record(op, step->stream, *hidden, t.all_rows_, error);
    });
  }
  static mortise_status head(mortise_model* self, const mortise_step* step, const mortise_tensor* hidden,
                             std::int32_t vocab_begin, std::int32_t vocab_end, const mortise_tensor* logits,
                             mortise_error* error) {
    StepTap& t = tap(self);
    t.phase_ = StepTap::Phase::kHead;
    const mortise_status status = model_api(t).head(model(t), step, hidden, vocab_begin, vocab_end, logits, error);
    t.phase_ = StepTap::Phase::kElsewhere;
    if (status != MORTISE_OK) return status;
    return guarded(error, [&]() -> mortise_status {
      t.logits_ = {static_cast<const std::byte*>(logits->data), logits->stride[0] * dtype_bytes(logits->dtype),
                   t.rows_of(t.selected_, *hidden)};
      if (t.logits_.rows.empty()) return MORTISE_OK;
      TracedOp op = t.op_of("head", "logits", *logits);
      op.stretch = -1;
      op.key = fmt::format("head of tokens {} to {}", vocab_begin, vocab_end);
      op.is_anchor = true;
      return t.record(op, step->stream, *logits, t.logits_.rows, error);
    });
  }
};

StepTap::StepTap(const Parts& parts, RowTrace& trace) : parts_(parts), trace_(trace) {
// Callers check whether the device has a function, so the tap must lack what the device lacks.
#define MORTISE_IF_THERE(slot, function) .slot = MORTISE_HAS(&device, slot) ? function : nullptr
#define MORTISE_PASS(slot) MORTISE_IF_THERE(slot, (TapCalls::Passed<&mortise_device_table::slot>::call))
  const mortise_device_table& device = *parts_.device.api;
  device_table_ = {
      .struct_size = sizeof device_table_,
      .flags = parts_.device.api->flags,
      MORTISE_PASS(describe),
      MORTISE_PASS(numerics_id),
      MORTISE_PASS(memory_info),
      MORTISE_PASS(allocate),
      MORTISE_PASS(free),
      MORTISE_PASS(copy),
      MORTISE_PASS(fill),
      MORTISE_PASS(stream_create),
      MORTISE_PASS(stream_destroy),
      MORTISE_PASS(stream_synchronize),
      MORTISE_PASS(stream_native),
      MORTISE_PASS(event_create),
      MORTISE_PASS(event_destroy),
      MORTISE_PASS(event_record),
      MORTISE_PASS(event_wait),
      MORTISE_PASS(event_synchronize),
      MORTISE_PASS(prepare_weight),
      MORTISE_PASS(free_weight),
      MORTISE_IF_THERE(linear, (TapCalls::linear)),
      MORTISE_IF_THERE(embed, (TapCalls::embed)),
      MORTISE_IF_THERE(rms_norm, (TapCalls::norm<&mortise_device_table::rms_norm>)),
      MORTISE_IF_THERE(layer_norm, (TapCalls::norm<&mortise_device_table::layer_norm>)),
      MORTISE_IF_THERE(gated_activation, (TapCalls::activation<&mortise_device_table::gated_activation>)),
      MORTISE_IF_THERE(activation, (TapCalls::activation<&mortise_device_table::activation>)),
      MORTISE_IF_THERE(add, (TapCalls::add)),
      MORTISE_IF_THERE(gather_rows, (TapCalls::gather_rows)),
      MORTISE_IF_THERE(head_reduce, (TapCalls::head_reduce)),
      MORTISE_IF_THERE(sample, (TapCalls::sample)),
      MORTISE_PASS(vocab_slice),
      .get_ext = TapCalls::get_ext,
      MORTISE_PASS(host_allocate),
      MORTISE_PASS(host_free),
      MORTISE_PASS(vector_weight),
      MORTISE_PASS(scatter_rows),
  };
#undef MORTISE_PASS
#undef MORTISE_IF_THERE
  attention_table_ = {sizeof attention_table_, parts_.attention.api->flags,
                      TapCalls::kv_layout,     TapCalls::bind,
                      TapCalls::plan,          TapCalls::append,
                      TapCalls::run,           TapCalls::copy_blocks};
  model_table_ = {sizeof model_table_, parts_.model.api->flags, TapCalls::dims,
                  TapCalls::load,      TapCalls::forward,       TapCalls::head};
}

Parts StepTap::parts() {
  Parts parts = parts_;
  parts.device.self = reinterpret_cast<mortise_device*>(this);
  parts.device.api = &device_table_;
  parts.attention.self = reinterpret_cast<mortise_attention*>(this);
  parts.attention.api = &attention_table_;
  parts.model.self = reinterpret_cast<mortise_model*>(this);
  parts.model.api = &model_table_;
  parts.graphs = nullptr;
  parts.rejection = nullptr;  // the host verifies drafts, with the same tokens
  return parts;
}

const mortise_step* StepTap::own_step(const mortise_step* step) {
  own_step_ = *step;
  own_step_.device = parts_.device.self;
  own_step_.device_table = parts_.device.api;
  own_step_.attention = parts_.attention.self;
  own_step_.attention_table = parts_.attention.api;
  return &own_step_;
}

// Copies to pageable host memory: the copy is complete when the device's call returns.
mortise_status StepTap::read(mortise_stream* stream, const void* from, std::uint64_t bytes, mortise_error* error) {
  buffer_.resize(bytes);
  return parts_.device.api->copy(parts_.device.self, stream, buffer_.data(), from, bytes, error);
}

TracedOp StepTap::op_of(const std::string& name, const char* output, const mortise_tensor& tensor) {
  return {.key = "",
          .name = name,
          .output = output,
          .stretch = stretch_,
          .layer = -1,
          .is_anchor = false,
          .dtype = tensor.dtype,
          .row = row_shape(tensor)};
}

mortise_status StepTap::record_forward(const char* name, const char* output, mortise_stream* stream,
                                       const mortise_tensor& tensor, mortise_error* error) {
  if (phase_ != Phase::kForward) return MORTISE_OK;
  TracedOp op = op_of(name, output, tensor);
  const std::string looks = fmt::format("{} {} [{}] {}", name, output, fmt::join(op.row, ", "), op.dtype);
  op.key = fmt::format("{}: {} #{}", stretch_, looks, ++counts_[looks]);
  if (!trace_.sees_step() || tensor.shape[0] != trace_.num_tokens()) return MORTISE_OK;
  return record(op, stream, tensor, all_rows_, error);
}

mortise_status StepTap::record_rows(const std::string& name, const char* output, mortise_stream* stream,
                                    const void* data, std::int32_t dtype, std::int64_t columns,
                                    const std::vector<std::int32_t>& rows, mortise_error* error) {
  if (rows.empty() || data == nullptr) return MORTISE_OK;
  mortise_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  tensor.data = const_cast<void*>(data);
  tensor.dtype = dtype;
  tensor.ndim = 2;
  std::fill(tensor.shape, tensor.shape + 4, 1);
  std::fill(tensor.stride, tensor.stride + 4, 1);
  tensor.shape[0] = static_cast<std::int64_t>(rows.size());
  tensor.shape[1] = tensor.stride[0] = columns;
  TracedOp op = op_of(name, output, tensor);
  op.stretch = -1;
  op.key = fmt::format("{}: {} [{}]", name, output, columns);
  return record(op, stream, tensor, rows, error);
}

mortise_status StepTap::record(const TracedOp& op, mortise_stream* stream, const mortise_tensor& tensor,
                               const std::vector<std::int32_t>& rows, mortise_error* error) {
  // Reads from the first to the last traced row with one copy, including rows in between.
  const std::vector<std::int32_t>& traced = trace_.batch_rows();
  const auto is_traced = [&](std::int32_t row) { return std::ranges::binary_search(traced, row); };
  std::size_t first = 0, end = rows.size();
  while (first < end && !is_traced(rows[first])) ++first;
  while (end > first && !is_traced(rows[end - 1])) --end;
  if (first == end) return MORTISE_OK;

  const std::int64_t size = dtype_bytes(tensor.dtype);
  OutputRows output{};
  output.row_stride = tensor.stride[0] * size;
  output.inner_bytes = size;
  std::int64_t row_bytes = size;
  if (tensor.ndim == 2) {
    output.inner_bytes = row_bytes = tensor.shape[1] * size;
  } else if (tensor.ndim == 3) {
    output.outer = tensor.shape[1];
    output.outer_stride = tensor.stride[1] * size;
    output.inner_bytes = tensor.shape[2] * size;
    row_bytes = (output.outer - 1) * output.outer_stride + output.inner_bytes;
  }
  const auto* const begin =
      static_cast<const std::byte*>(tensor.data) + static_cast<std::int64_t>(first) * output.row_stride;
  const auto num_bytes =
      static_cast<std::uint64_t>(static_cast<std::int64_t>(end - first - 1) * output.row_stride + row_bytes);
  const mortise_status status = read(stream, begin, num_bytes, error);
  if (status != MORTISE_OK) return status;
  output.data = buffer_.data();
  trace_.record(op, output, std::span(rows).subspan(first, end - first));
  return MORTISE_OK;
}

// Returns an empty list if the tensor is elsewhere.
std::vector<std::int32_t> StepTap::rows_of(const KnownRows& known, const mortise_tensor& tensor) const {
  const auto* const at = static_cast<const std::byte*>(tensor.data);
  if (known.stride <= 0 || at < known.begin) return {};
  const auto first = static_cast<std::size_t>((at - known.begin) / known.stride);
  const auto count = static_cast<std::size_t>(tensor.shape[0]);
  if (first + count > known.rows.size()) return {};
  return {known.rows.begin() + static_cast<std::ptrdiff_t>(first),
          known.rows.begin() + static_cast<std::ptrdiff_t>(first + count)};
}

mortise_status StepTap::note_selected(mortise_stream* stream, const mortise_tensor& out, const std::int32_t* rows,
                                      mortise_error* error) {
  selected_ = {};
  if (!trace_.sees_step()) return MORTISE_OK;
  const auto count = static_cast<std::size_t>(out.shape[0]);
  const mortise_status status = read(stream, rows, count * sizeof(std::int32_t), error);
  if (status != MORTISE_OK) return status;
  const auto* const numbers = reinterpret_cast<const std::int32_t*>(buffer_.data());
  selected_ = {
      static_cast<const std::byte*>(out.data), out.stride[0] * dtype_bytes(out.dtype), {numbers, numbers + count}};
  return MORTISE_OK;
}

}  // namespace mortise
