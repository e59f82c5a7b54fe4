// runtime/abi_check/operation_calls.cpp: the checks of the operations of mortise/device.h. Shapes that do not fit
// together are the device's to refuse; a tensor that is larger than its memory is the caller's mistake.
#include <initializer_list>
#include <utility>

#include "abi_check/device_state.hpp"
#include "abi_check/kinds.hpp"
#include "abi_check/memory.hpp"
#include "abi_check/step_rules.hpp"
#include "mortise/struct_sizes.h"

namespace mortise::abi_check {
namespace {

constexpr const char *kHeader = "mortise/device.h", *kRejection = "mortise/ext/rejection.h";
using Kind = Device::Kind;
using Tensors = std::initializer_list<std::pair<const char*, const mortise_tensor*>>;

const mortise_device_table& table_of(const Device& self) {
  return self.table<mortise_device_table>();
}

void check_weight(const Call& call, const Device& self, const mortise_weight* weight) {
  call.caller_must(weight != nullptr, kHeader, "out[m] = weight[ids[m]]", "{} gets no weight", call.function().name);
  check_live(call, self, Kind::kWeight, weight, "a weight");
}

// Checks what holds for all operations: the stream lives, tensors lie within their memory, and `out` is not read-only.
void check_operation(const Call& call, const Device& self, mortise_stream* stream, Tensors tensors,
                     const mortise_tensor* out) {
  check_live(call, self, Kind::kStream, stream, "a stream");
  const bool may_be_captured =
      call.caller() == nullptr || (call.caller()->instance().real.capabilities & MORTISE_CAP_CAPTURE) != 0;
  call.caller_must(self.num_captures == 0 || may_be_captured, "mortise/ext/graph.h",
                   "only functions of components with MORTISE_CAP_CAPTURE may be called on the stream",
                   "{} is called while work is captured", call.function().name);
  for (const auto& [name, tensor] : tensors) check_tensor(call, &self, name, tensor);
  if (out == nullptr) return;
  check_tensor(call, &self, "out", out);
  call.caller_must((out->flags & MORTISE_TENSOR_READ_ONLY) == 0, "mortise/tensor.h", "writing may crash",
                   "out is read-only");
}

void check_activation(const Call& call, std::int32_t activation) {
  call.caller_must(activation >= MORTISE_ACT_SILU && activation <= MORTISE_ACT_RELU, kHeader,
                   "`activation` is MORTISE_ACT_*", "activation is {}", activation);
}

// Calls an operation, after `check(call, self)`.
template <typename Check, typename Body>
mortise_status operate(mortise_device* handle, const Function& function, mortise_error* error, Check&& check,
                       Body&& body) {
  return checked<Device>(handle, function, error, [&](Call& call, Device& self) {
    check(call, self);
    return call.make(error, [&](mortise_error* own) { return body(table_of(self), own); });
  });
}

mortise_status linear(mortise_device* handle, mortise_stream* stream, const mortise_linear_args* args,
                      mortise_error* error) {
  static constexpr Function kFunction = {"linear", Tag::kStep};
  return checked<Device>(handle, kFunction, error, [&](Call& call, Device& self) {
    call.check_struct(args, MORTISE_SIZE_0_5(mortise_linear_args), "args");
    check_operation(call, self, stream, {{"x", args->x}}, args->out);
    check_weight(call, self, args->weight);
    if (args->bias != nullptr) check_weight(call, self, args->bias);
    if (args->gate_activation != 0) {
      check_activation(call, args->gate_activation);
      call.caller_must(args->column_begin == 0 && args->column_end == 0, kHeader,
                       "column_begin and column_end must be 0", "they are {} and {}", args->column_begin,
                       args->column_end);
    }
    Inputs inputs;
    inputs.add("args", args, 1);
    inputs.add_numbers("x", &self, *args->x);
    const mortise_status status =
        call.make(error, [&](mortise_error* own) { return table_of(self).linear(handle, stream, args, own); });
    inputs.check(call);
    return status;
  });
}

mortise_status embed(mortise_device* handle, mortise_stream* stream, const std::int32_t* ids,
                     const mortise_weight* weight, const mortise_tensor* out, mortise_error* error) {
  static constexpr Function kFunction = {"embed", Tag::kStep};
  return operate(
      handle, kFunction, error,
      [&](const Call& call, const Device& self) {
        check_operation(call, self, stream, {}, out);
        call.check_array(ids, out->shape[0], kHeader, "ids");
        check_weight(call, self, weight);
      },
      [&](const auto& table, mortise_error* own) { return table.embed(handle, stream, ids, weight, out, own); });
}

template <auto Slot>
mortise_status normalise(mortise_device* handle, const Function& function, mortise_stream* stream,
                         const mortise_norm_args* args, mortise_error* error) {
  return operate(
      handle, function, error,
      [&](const Call& call, const Device& self) {
        call.check_struct(args, MORTISE_SIZE_0_5(mortise_norm_args), "args");
        check_operation(call, self, stream, {{"x", args->x}}, args->out);
        if (args->residual != nullptr) check_tensor(call, &self, "residual", args->residual);
        check_weight(call, self, args->weight);
        if (args->bias != nullptr) check_weight(call, self, args->bias);
      },
      [&](const auto& table, mortise_error* own) { return (table.*Slot)(handle, stream, args, own); });
}

mortise_status rms_norm(mortise_device* handle, mortise_stream* stream, const mortise_norm_args* args,
                        mortise_error* error) {
  static constexpr Function kFunction = {"rms_norm", Tag::kStep};
  return normalise<&mortise_device_table::rms_norm>(handle, kFunction, stream, args, error);
}

mortise_status layer_norm(mortise_device* handle, mortise_stream* stream, const mortise_norm_args* args,
                          mortise_error* error) {
  static constexpr Function kFunction = {"layer_norm", Tag::kStep};
  return normalise<&mortise_device_table::layer_norm>(handle, kFunction, stream, args, error);
}

template <auto Slot>
mortise_status activate_by(mortise_device* handle, const Function& function, mortise_stream* stream,
                           std::int32_t activation, const mortise_tensor* x, const mortise_tensor* out,
                           mortise_error* error) {
  return operate(
      handle, function, error,
      [&](const Call& call, const Device& self) {
        check_operation(call, self, stream, {{"x", x}}, out);
        check_activation(call, activation);
      },
      [&](const auto& table, mortise_error* own) { return (table.*Slot)(handle, stream, activation, x, out, own); });
}

mortise_status gated_activation(mortise_device* handle, mortise_stream* stream, std::int32_t activation,
                                const mortise_tensor* x, const mortise_tensor* out, mortise_error* error) {
  static constexpr Function kFunction = {"gated_activation", Tag::kStep};
  return activate_by<&mortise_device_table::gated_activation>(handle, kFunction, stream, activation, x, out, error);
}

mortise_status activation(mortise_device* handle, mortise_stream* stream, std::int32_t activation,
                          const mortise_tensor* x, const mortise_tensor* out, mortise_error* error) {
  static constexpr Function kFunction = {"activation", Tag::kStep};
  return activate_by<&mortise_device_table::activation>(handle, kFunction, stream, activation, x, out, error);
}

mortise_status add(mortise_device* handle, mortise_stream* stream, const mortise_tensor* a, const mortise_tensor* b,
                   const mortise_tensor* out, mortise_error* error) {
  static constexpr Function kFunction = {"add", Tag::kStep};
  return operate(
      handle, kFunction, error,
      [&](const Call& call, const Device& self) {
        check_operation(call, self, stream, {{"a", a}, {"b", b}}, out);
      },
      [&](const auto& table, mortise_error* own) { return table.add(handle, stream, a, b, out, own); });
}

// Serves gather_rows and scatter_rows. The tensor with a row for each index is `dense`, the other one is `all`.
template <auto Slot>
mortise_status move_rows(mortise_device* handle, const Function& function, mortise_stream* stream,
                         const mortise_tensor* x, const std::int32_t* rows, const mortise_tensor* out, bool gathers,
                         mortise_error* error) {
  return operate(
      handle, function, error,
      [&](const Call& call, const Device& self) {
        check_operation(call, self, stream, {{"x", x}}, out);
        const mortise_tensor& dense = gathers ? *out : *x;
        const mortise_tensor& all = gathers ? *x : *out;
        call.check_array(rows, dense.shape[0], kHeader, "rows");
        if (!self.is_host_memory()) return;
        for (std::int64_t r = 0; r < dense.shape[0]; ++r) {
          call.caller_must(rows[r] >= 0 && rows[r] < all.shape[0], kHeader, "rows i32 [R] in device memory",
                           "rows[{}] is {} of {} rows", r, rows[r], all.shape[0]);
        }
      },
      [&](const auto& table, mortise_error* own) { return (table.*Slot)(handle, stream, x, rows, out, own); });
}

mortise_status gather_rows(mortise_device* handle, mortise_stream* stream, const mortise_tensor* x,
                           const std::int32_t* rows, const mortise_tensor* out, mortise_error* error) {
  static constexpr Function kFunction = {"gather_rows", Tag::kStep};
  return move_rows<&mortise_device_table::gather_rows>(handle, kFunction, stream, x, rows, out, /*gathers=*/true,
                                                       error);
}

mortise_status scatter_rows(mortise_device* handle, mortise_stream* stream, const mortise_tensor* x,
                            const std::int32_t* rows, const mortise_tensor* out, mortise_error* error) {
  static constexpr Function kFunction = {"scatter_rows", Tag::kStep};
  return move_rows<&mortise_device_table::scatter_rows>(handle, kFunction, stream, x, rows, out, /*gathers=*/false,
                                                        error);
}

mortise_status head_reduce(mortise_device* handle, mortise_stream* stream, const mortise_head_reduce_args* args,
                           mortise_error* error) {
  static constexpr Function kFunction = {"head_reduce", Tag::kStep};
  return operate(
      handle, kFunction, error,
      [&](const Call& call, const Device& self) {
        call.check_struct(args, MORTISE_SIZE_0_5(mortise_head_reduce_args), "args");
        check_operation(call, self, stream, {{"logits", args->logits}}, nullptr);
        call.caller_must((args->max == nullptr) == (args->sum == nullptr), kHeader, "wanted together with sum",
                         "only one of max and sum is given");
        call.caller_must(args->lse == nullptr || args->max != nullptr, kHeader, "needs max and sum",
                         "lse is wanted alone");
        call.caller_must(args->top_n <= 0 || (args->top_ids != nullptr && args->top_logits != nullptr), kHeader,
                         "that order top_ids and top_logits get", "top_n is {}, and an array is NULL", args->top_n);
      },
      [&](const auto& table, mortise_error* own) { return table.head_reduce(handle, stream, args, own); });
}

void check_rows_to_sample(const Call& call, const Device& self, mortise_stream* stream,
                          const mortise_sample_args* args) {
  call.check_struct(args, MORTISE_SIZE_0_5(mortise_sample_args), "args");
  check_operation(call, self, stream, {{"logits", args->logits}}, nullptr);
  const std::pair<const void*, const char*> arrays[] = {{args->temperatures, "temperatures"},
                                                        {args->top_ks, "top_ks"},
                                                        {args->top_ps, "top_ps"},
                                                        {args->min_ps, "min_ps"},
                                                        {args->keys, "keys"},
                                                        {args->positions, "positions"},
                                                        {args->tokens, "tokens"}};
  for (const auto& [array, name] : arrays) call.check_array(array, args->logits->shape[0], kHeader, name);
}

// Checks the tokens that a device with host memory wrote.
void check_tokens(const Call& call, const Device& self, const mortise_sample_args& args, const char* header,
                  const char* rule) {
  if (!self.is_host_memory()) return;
  for (std::int64_t r = 0; r < args.logits->shape[0]; ++r) {
    call.part_must(args.tokens[r] >= -1 && args.tokens[r] < args.logits->shape[1], header, rule,
                   "tokens[{}] is {} of {} tokens", r, args.tokens[r], args.logits->shape[1]);
  }
}

mortise_status sample(mortise_device* handle, mortise_stream* stream, const mortise_sample_args* args,
                      mortise_error* error) {
  static constexpr Function kFunction = {"sample", Tag::kStep};
  return checked<Device>(handle, kFunction, error, [&](Call& call, Device& self) {
    check_rows_to_sample(call, self, stream, args);
    const mortise_status status =
        call.make(error, [&](mortise_error* own) { return table_of(self).sample(handle, stream, args, own); });
    if (status == MORTISE_OK) check_tokens(call, self, *args, kHeader, "Picks one token per row");
    return status;
  });
}

// Checks that each of the indices is -1 or below `end`.
void check_indices(const Call& call, const Device& self, const std::int32_t* indices, std::int64_t rows,
                   std::int64_t end, const char* rule, const char* name) {
  call.check_array(indices, rows, kRejection, name);
  if (!self.is_host_memory()) return;
  for (std::int64_t r = 0; r < rows; ++r) {
    call.caller_must(indices[r] >= -1 && indices[r] < end, kRejection, rule, "{}[{}] is {} of {}", name, r, indices[r],
                     end);
  }
}

mortise_status verify_drafts(mortise_device* handle, mortise_stream* stream, const mortise_verify_drafts_args* args,
                             mortise_error* error) {
  static constexpr Function kFunction = {"verify_drafts", Tag::kStep};
  return checked<Device>(handle, kFunction, error, [&](Call& call, Device& self) {
    call.check_struct(args, MORTISE_SIZE_0_6(mortise_verify_drafts_args), "args");
    check_rows_to_sample(call, self, stream, args->rows);
    const std::int64_t rows = args->rows->logits->shape[0], vocab_size = args->rows->logits->shape[1];
    check_indices(call, self, args->drafts, rows, vocab_size, "a token of the vocabulary", "drafts");
    if (args->distributions != nullptr) check_tensor(call, &self, "distributions", args->distributions);
    if (args->distribution_rows != nullptr) {
      const std::int64_t num_distributions = args->distributions == nullptr ? 0 : args->distributions->shape[0];
      check_indices(call, self, args->distribution_rows, rows, num_distributions, "each draft's row of `distributions`",
                    "distribution_rows");
    }
    const mortise_status status = call.make(
        error, [&](mortise_error* own) { return self.rejection.load()->verify_drafts(handle, stream, args, own); });
    if (status == MORTISE_OK) check_tokens(call, self, *args->rows, kRejection, "Verifies at most one draft per row");
    return status;
  });
}

}  // namespace

constinit const mortise_rejection_table kCheckedRejection = {sizeof(mortise_rejection_table), 0, verify_drafts};

void check_operations(mortise_device_table& table) {
  replace(table.linear, &linear);
  replace(table.embed, &embed);
  replace(table.rms_norm, &rms_norm);
  replace(table.layer_norm, &layer_norm);
  replace(table.gated_activation, &gated_activation);
  replace(table.activation, &activation);
  replace(table.add, &add);
  replace(table.gather_rows, &gather_rows);
  replace(table.scatter_rows, &scatter_rows);
  replace(table.head_reduce, &head_reduce);
  replace(table.sample, &sample);
}

}  // namespace mortise::abi_check
