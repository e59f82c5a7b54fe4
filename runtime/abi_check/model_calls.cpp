// runtime/abi_check/model_calls.cpp: the checks of mortise/model.h. The shape of hidden rows is not here: the engine
// checks it (execution/step_graphs).
#include <cstring>
#include <memory>
#include <optional>

#include "abi_check/attention_state.hpp"
#include "abi_check/kinds.hpp"
#include "abi_check/memory.hpp"
#include "abi_check/step_rules.hpp"
#include "mortise/struct_sizes.h"

namespace mortise::abi_check {
namespace {

constexpr const char* kHeader = "mortise/model.h";
constexpr Function kDims = {"dims", Tag::kAny};
constexpr Function kLoad = {"load", Tag::kControl, State::kCreated};
constexpr Function kForward = {"forward", Tag::kStep, State::kActive};
constexpr Function kHead = {"head", Tag::kStep, State::kActive};
constexpr std::int32_t kColumns = 64;  // bounds of the head's columns are multiples of it

struct Model;

// A reader that notes when the model uses it after load. It lives as long as the model.
struct Reader {
  mortise_weight_reader abi{};
  const mortise_weight_reader* real = nullptr;  // NULL unless load runs
  Model* model = nullptr;
};

struct Model : Instance {
  using Instance::Instance;

  std::optional<mortise_model_dims> dims;  // the first answer
  bool is_loaded = false;
  Reader reader;
};

const mortise_model_table& table_of(const Model& self) {
  return self.table<mortise_model_table>();
}

mortise_status dims(mortise_model* handle, mortise_model_dims* dims, mortise_error* error) {
  return checked<Model>(handle, kDims, error, [&](Call& call, Model& self) {
    call.check_struct(dims, MORTISE_SIZE_0_5(mortise_model_dims), "dims");
    const std::uint32_t size = dims->struct_size;
    const mortise_status status =
        call.make(error, [&](mortise_error* own) { return table_of(self).dims(handle, dims, own); });
    if (status != MORTISE_OK) return status;
    call.part_must(dims->struct_size == size, "mortise/abi.h", "the struct_size that the caller set",
                   "dims changes it to {}", dims->struct_size);
    const std::string problem = dims_problem(*dims);
    call.part_must(problem.empty(), "mortise/batch.h", "Dimensions of a model", "dims says {}", problem);
    if (!self.dims) self.dims = *dims;
    call.part_must(std::memcmp(&*self.dims, dims, std::min<std::size_t>(size, sizeof *dims)) == 0, kHeader,
                   "Fills `dims` from the configuration alone", "dims gives another answer than before");
    return status;
  });
}

// Returns whether load runs. The rule is to keep nothing of `reader`: a call after load is a breach, and finds no
// tensor.
bool may_read(const Reader& reader) {
  if (reader.real != nullptr) return true;
  reader.model->add_pending("mortise/model.h, \"Keep nothing of `reader`\": the reader is used after load");
  return false;
}

mortise_status read_tensor(void* context, mortise_string_view name, mortise_tensor* tensor) {
  const Reader& reader = *static_cast<const Reader*>(context);
  return may_read(reader) ? reader.real->get(reader.real->context, name, tensor) : MORTISE_NOT_FOUND;
}

mortise_status read_quantized(void* context, mortise_string_view name, mortise_quantized_matrix* matrix,
                              mortise_error* error) {
  const Reader& reader = *static_cast<const Reader*>(context);
  if (!may_read(reader)) return MORTISE_NOT_FOUND;
  return reader.real->get_quantized(reader.real->context, name, matrix, error);
}

mortise_status load(mortise_model* handle, const mortise_weight_reader* reader, mortise_error* error) {
  return checked<Model>(handle, kLoad, error, [&](Call& call, Model& self) {
    call.check_struct(reader, MORTISE_SIZE_0_5(mortise_weight_reader), "reader");
    call.caller_must(!self.is_loaded, kHeader, "Reads and prepares all weights, once", "load is called twice");
    self.reader = {*reader, reader, &self};
    self.reader.abi.context = &self.reader;
    self.reader.abi.get = read_tensor;
    replace(self.reader.abi.get_quantized, &read_quantized);
    const std::shared_ptr<void> ends(nullptr, [&](void*) { self.reader.real = nullptr; });
    const mortise_status status =
        call.make(error, [&](mortise_error* own) { return table_of(self).load(handle, &self.reader.abi, own); });
    self.is_loaded = status == MORTISE_OK;
    return status;
  });
}

mortise_status forward(mortise_model* handle, const mortise_step* step, mortise_tensor* hidden, mortise_error* error) {
  return checked<Model>(handle, kForward, error, [&](Call& call, Model& self) {
    check_step(call, step);
    call.caller_must(hidden != nullptr, kHeader, "Fills `hidden` with a view of the head's input", "hidden is NULL");
    call.caller_must(self.is_loaded, kHeader, "Reads and prepares all weights, once, before activate",
                     "forward comes before load");
    Inputs inputs;
    inputs.add("step", step, 1);
    inputs.add("batch", step->batch, 1);
    const mortise_status status =
        call.make(error, [&](mortise_error* own) { return table_of(self).forward(handle, step, hidden, own); });
    inputs.check(call);
    if (status != MORTISE_OK) return status;
    const auto device = Device::find(step->device);
    const std::string problem = tensor_problem(device.get(), hidden);
    call.part_must(problem.empty(), kHeader, "in the model's device memory", "hidden {}", problem);
    const auto attention = std::dynamic_pointer_cast<Attention>(Instance::find(step->attention));
    if (attention != nullptr) {
      const auto layers = static_cast<std::size_t>(attention->dims.num_layers);
      call.part_must(attention->has_run.size() == layers, kHeader, "Runs all layers",
                     "forward runs the attention of {} of {} layers", attention->has_run.size(), layers);
    }
    return status;
  });
}

mortise_status head(mortise_model* handle, const mortise_step* step, const mortise_tensor* hidden, std::int32_t begin,
                    std::int32_t end, const mortise_tensor* logits, mortise_error* error) {
  return checked<Model>(handle, kHead, error, [&](Call& call, Model& self) {
    check_step(call, step);
    const auto device = Device::find(step->device);
    check_tensor(call, device.get(), "hidden", hidden);
    const std::int32_t vocab = self.dims ? self.dims->vocab_size : end;
    call.caller_must(
        begin >= 0 && begin < end && end <= vocab && begin % kColumns == 0 && (end % kColumns == 0 || end == vocab),
        kHeader, "The bounds follow the rule of mortise_linear_args.column_begin", "columns {} to {} of {}", begin, end,
        vocab);
    call.caller_must(hidden->shape[0] <= self.sizes.max_logit_rows, kHeader, "R <= max_logit_rows",
                     "{} rows, and max_logit_rows is {}", hidden->shape[0], self.sizes.max_logit_rows);
    const std::int64_t shape[] = {hidden->shape[0], end - begin};
    check_tensor(call, device.get(), "logits", logits, shape, MORTISE_F32);
    Inputs inputs;
    inputs.add("hidden", hidden, 1);
    inputs.add("logits", logits, 1);
    inputs.add_numbers("the numbers of hidden", device.get(), *hidden);
    const mortise_status status = call.make(
        error, [&](mortise_error* own) { return table_of(self).head(handle, step, hidden, begin, end, logits, own); });
    inputs.check(call);
    return status;
  });
}

}  // namespace

std::shared_ptr<Instance> make_model(const Component& real) {
  return std::make_shared<Model>(real);
}

void check_table(mortise_model_table& table) {
  replace(table.dims, &dims);
  replace(table.load, &load);
  replace(table.forward, &forward);
  replace(table.head, &head);
}

}  // namespace mortise::abi_check
