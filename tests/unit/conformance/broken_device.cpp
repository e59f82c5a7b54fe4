// tests/unit/conformance/broken_device.cpp: the device of the template in C, with one defect that an option names.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "defects.hpp"
#include "mortise/device.h"
#include "mortise/numerics.h"

// The template's entry, which is compiled into this file under another name.
extern "C" const mortise_module* sound_entry(const mortise_entry_args* args);

namespace {

using broken::Defect;

const mortise_component& sound() {
  return *sound_entry(nullptr)->components[0];
}
const mortise_device_table& table() {
  return *static_cast<const mortise_device_table*>(sound().table);
}

struct Device {
  Defect defect;
  void* inner = nullptr;
  std::string id;
  std::set<const mortise_weight*> quantized = {};

  mortise_device* handle() const { return static_cast<mortise_device*>(inner); }
};
Device& of(mortise_device* handle) {
  return *reinterpret_cast<Device*>(handle);
}
bool has(mortise_device* handle, const char* defect) {
  return of(handle).defect.is(defect);
}

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  return mortise::guard(error, "create", [&] {
    const auto given = mortise::known(args);
    if (given.option_reader == nullptr)
      throw mortise::Failure(MORTISE_FAILED_PRECONDITION, "create", "this host is too old");
    auto self = std::make_unique<Device>(Device{Defect(mortise::Options(given).get<std::string>("defect"))});
    mortise_error why = mortise::make_error();
    mortise::check(sound().create(host, args, &self->inner, &why), why);
    *instance = self.release();
  });
}
void destroy(void* instance) {
  auto* const self = static_cast<Device*>(instance);
  sound().destroy(self->inner);
  delete self;
}

mortise_status describe(mortise_device* device, mortise_device_info* info) {
  const mortise_status status = table().describe(of(device).handle(), info);
  if (has(device, "unnamed")) info->name[0] = '\0';
  return status;
}
const char* numerics_id(mortise_device* device, int32_t dtype) {
  Device& self = of(device);
  const char* const id = table().numerics_id(self.handle(), dtype);
  if (self.defect.is("false_class") && id != nullptr) return "cpu-bf16";
  if (self.defect.is("new_id_each_time") && id != nullptr) {
    std::string next = id;
    next.reserve(self.id.capacity() + 64);
    std::swap(self.id, next);
    return self.id.c_str();
  }
  if (self.defect.is("wrong_when_quantized") && dtype == MORTISE_I8) return "own-int8/1";
  return id;
}
mortise_status memory_info(mortise_device* device, uint64_t* free_bytes, uint64_t* total_bytes) {
  return table().memory_info(of(device).handle(), free_bytes, total_bytes);
}

mortise_status allocate(mortise_device* device, uint64_t bytes, void** memory, mortise_error* error) {
  if (has(device, "promises_memory") && bytes > (uint64_t{1} << 40)) bytes = 4096;
  const mortise_status status = table().allocate(of(device).handle(), bytes, memory, error);
  if (status == MORTISE_OK && has(device, "dirty_memory")) std::memset(*memory, 1, bytes);
  if (status == MORTISE_OK && has(device, "unaligned")) *memory = static_cast<char*>(*memory) + 16;
  return status;
}
void free_memory(mortise_device* device, void* memory) {
  if (memory != nullptr && has(device, "unaligned")) memory = static_cast<char*>(memory) - 16;
  table().free(of(device).handle(), memory);
}
mortise_status copy(mortise_device* device, mortise_stream* stream, void* to, const void* from, uint64_t bytes,
                    mortise_error* error) {
  if (has(device, "copies_words")) bytes = bytes / 4 * 4;
  return table().copy(of(device).handle(), stream, to, from, bytes, error);
}
mortise_status host_allocate(mortise_device* device, uint64_t bytes, void** memory, mortise_error* error) {
  if (has(device, "no_host_memory")) return *memory = nullptr, MORTISE_OK;
  return table().host_allocate(of(device).handle(), bytes, memory, error);
}
void host_free(mortise_device* device, void* memory) {
  table().host_free(of(device).handle(), memory);
}
mortise_status fill(mortise_device* device, mortise_stream* stream, void* memory, uint8_t value, uint64_t bytes,
                    mortise_error* error) {
  if (has(device, "loses_work") && value >= 100 && bytes == 1 << 20) return MORTISE_OK;
  return table().fill(of(device).handle(), stream, memory, value, bytes, error);
}
mortise_status stream_create(mortise_device* device, mortise_stream** stream, mortise_error* error) {
  return table().stream_create(of(device).handle(), stream, error);
}
void stream_destroy(mortise_device* device, mortise_stream* stream) {
  table().stream_destroy(of(device).handle(), stream);
}
mortise_status stream_synchronize(mortise_device* device, mortise_stream* stream, mortise_error* error) {
  return table().stream_synchronize(of(device).handle(), stream, error);
}
void* stream_native(mortise_device* device, mortise_stream* stream) {
  return table().stream_native(of(device).handle(), stream);
}
mortise_status event_create(mortise_device* device, mortise_event** event, mortise_error* error) {
  return table().event_create(of(device).handle(), event, error);
}
void event_destroy(mortise_device* device, mortise_event* event) {
  table().event_destroy(of(device).handle(), event);
}
mortise_status event_record(mortise_device* device, mortise_event* event, mortise_stream* stream,
                            mortise_error* error) {
  return table().event_record(of(device).handle(), event, stream, error);
}
mortise_status event_wait(mortise_device* device, mortise_event* event, mortise_stream* stream, mortise_error* error) {
  return table().event_wait(of(device).handle(), event, stream, error);
}
mortise_status event_synchronize(mortise_device* device, mortise_event* event, mortise_error* error) {
  return table().event_synchronize(of(device).handle(), event, error);
}

mortise_status prepare_weight(mortise_device* device, const mortise_weight_source* source, mortise_weight** weight,
                              mortise_error* error) {
  Device& self = of(device);
  mortise_weight_source changed = *source;
  const mortise_tensor* reversed[8];
  if (self.defect.is("takes_any_bits") || self.defect.is("wrong_when_quantized")) changed.bits = 0;
  if (self.defect.is("joins_backwards") && source->num_parts > 1) {
    std::reverse_copy(source->parts, source->parts + source->num_parts, reversed);
    changed.parts = reversed;
  }
  const mortise_status status = table().prepare_weight(self.handle(), &changed, weight, error);
  if (status == MORTISE_OK && source->bits != 0) self.quantized.insert(*weight);
  return status;
}
void free_weight(mortise_device* device, mortise_weight* weight) {
  of(device).quantized.erase(weight);
  table().free_weight(of(device).handle(), weight);
}
const void* vector_weight(mortise_device* device, const mortise_weight* weight, int64_t* n, int32_t* dtype) {
  const void* const data = table().vector_weight(of(device).handle(), weight, n, dtype);
  return data == nullptr && has(device, "vector_of_anything") ? weight : data;
}

void flip(const mortise_tensor* out, int64_t row) {
  static_cast<uint8_t*>(out->data)[row * out->stride[0] * ((out->dtype & 0xff) / 8)] ^= 1;
}
bool has_nan(const mortise_tensor& x) {
  std::vector<float> row(static_cast<std::size_t>(x.shape[1]));
  for (int64_t m = 0; m < x.shape[0]; ++m) {
    mortise_load(static_cast<char*>(x.data) + m * x.stride[0] * ((x.dtype & 0xff) / 8), x.dtype, 1, x.shape[1],
                 row.data());
    if (std::any_of(row.begin(), row.end(), [](float value) { return std::isnan(value); })) return true;
  }
  return false;
}

mortise_status linear(mortise_device* device, mortise_stream* stream, const mortise_linear_args* args,
                      mortise_error* error) {
  const Device& self = of(device);
  const mortise_status status = table().linear(self.handle(), stream, args, error);
  if (status != MORTISE_OK) return self.defect.is("takes_any_product") ? MORTISE_OK : status;
  const auto is = [&](const char* name) { return self.defect.is(name); };
  bool shows = is("one_bit");
  shows |= is("depends_on_rows") && args->x->shape[0] > 40;
  shows |= is("depends_on_columns") && args->column_begin > 0;
  shows |= is("needs_dense_rows") && args->x->stride[0] != args->x->shape[1];
  shows |= is("gates_otherwise") && args->gate_activation != 0;
  shows |= is("wrong_when_quantized") && self.quantized.contains(args->weight) && args->x->shape[0] > 20;
  shows |= is("spreads_nan") && has_nan(*args->x);
  if (shows) flip(args->out, 0);
  if (is("changes_x")) flip(args->x, 0);
  return status;
}
mortise_status embed(mortise_device* device, mortise_stream* stream, const int32_t* ids, const mortise_weight* weight,
                     const mortise_tensor* out, mortise_error* error) {
  const int32_t zeros[16] = {};
  return table().embed(of(device).handle(), stream, has(device, "embeds_zero") ? zeros : ids, weight, out, error);
}
mortise_status norm(mortise_device* device, mortise_stream* stream, const mortise_norm_args* args, bool is_layer_norm,
                    mortise_error* error) {
  mortise_norm_args changed = *args;
  if (has(device, "forgets_bias")) changed.bias = nullptr;
  const auto call = is_layer_norm ? table().layer_norm : table().rms_norm;
  const mortise_status status = call(of(device).handle(), stream, &changed, error);
  if (has(device, "spreads_nan_in_norms") && status == MORTISE_OK && has_nan(*args->x)) flip(args->out, 0);
  if (has(device, "not_in_place") && args->out->data == args->x->data && status == MORTISE_OK) flip(args->out, 0);
  return status;
}
mortise_status rms_norm(mortise_device* device, mortise_stream* stream, const mortise_norm_args* args,
                        mortise_error* error) {
  return norm(device, stream, args, false, error);
}
mortise_status layer_norm(mortise_device* device, mortise_stream* stream, const mortise_norm_args* args,
                          mortise_error* error) {
  return norm(device, stream, args, true, error);
}
mortise_status gated_activation(mortise_device* device, mortise_stream* stream, int32_t activation,
                                const mortise_tensor* x, const mortise_tensor* out, mortise_error* error) {
  return table().gated_activation(of(device).handle(), stream, activation, x, out, error);
}
mortise_status activation(mortise_device* device, mortise_stream* stream, int32_t activation, const mortise_tensor* x,
                          const mortise_tensor* out, mortise_error* error) {
  if (has(device, "one_gelu") && activation == MORTISE_ACT_GELU_TANH) activation = MORTISE_ACT_GELU;
  return table().activation(of(device).handle(), stream, activation, x, out, error);
}
mortise_status add(mortise_device* device, mortise_stream* stream, const mortise_tensor* a, const mortise_tensor* b,
                   const mortise_tensor* out, mortise_error* error) {
  if (has(device, "adds_any_shape") && a->shape[1] != b->shape[1]) return MORTISE_OK;
  const mortise_status status = table().add(of(device).handle(), stream, a, b, out, error);
  if (has(device, "writes_past_out")) static_cast<uint8_t*>(out->data)[out->bytes] = 7;
  return status;
}
mortise_status gather_rows(mortise_device* device, mortise_stream* stream, const mortise_tensor* x, const int32_t* rows,
                           const mortise_tensor* out, mortise_error* error) {
  return table().gather_rows(of(device).handle(), stream, x, rows, out, error);
}
mortise_status scatter_rows(mortise_device* device, mortise_stream* stream, const mortise_tensor* x,
                            const int32_t* rows, const mortise_tensor* out, mortise_error* error) {
  const mortise_status status = table().scatter_rows(of(device).handle(), stream, x, rows, out, error);
  if (has(device, "scatters_more")) flip(out, 1);
  return status;
}
mortise_status head_reduce(mortise_device* device, mortise_stream* stream, const mortise_head_reduce_args* args,
                           mortise_error* error) {
  const mortise_status status = table().head_reduce(of(device).handle(), stream, args, error);
  if (has(device, "swaps_tops") && args->top_ids != nullptr) std::swap(args->top_ids[0], args->top_ids[1]);
  if (has(device, "sums_otherwise") && args->lse != nullptr) args->lse[0] = std::nextafter(args->lse[0], 100.0f);
  return status;
}
mortise_status sample(mortise_device* device, mortise_stream* stream, const mortise_sample_args* args,
                      mortise_error* error) {
  mortise_sample_args changed = *args;
  std::vector<int32_t> none(static_cast<std::size_t>(args->logits->shape[0]));
  std::vector<uint64_t> keys(args->keys, args->keys + args->logits->shape[0]);
  if (has(device, "ignores_top_k")) changed.top_ks = none.data();
  if (has(device, "key_of_the_row")) {
    for (std::size_t r = 0; r < keys.size(); ++r) keys[r] += r;
    changed.keys = keys.data();
  }
  return table().sample(of(device).handle(), stream, &changed, error);
}
int32_t vocab_slice(mortise_device* device) {
  return table().vocab_slice(of(device).handle());
}
const void* get_ext(mortise_device*, const char*) {
  return nullptr;
}
mortise_status supports(const mortise_query*, mortise_error*) {
  return MORTISE_OK;
}

const mortise_device_table kTable = {sizeof kTable,
                                     0,
                                     describe,
                                     numerics_id,
                                     memory_info,
                                     allocate,
                                     free_memory,
                                     copy,
                                     fill,
                                     stream_create,
                                     stream_destroy,
                                     stream_synchronize,
                                     stream_native,
                                     event_create,
                                     event_destroy,
                                     event_record,
                                     event_wait,
                                     event_synchronize,
                                     prepare_weight,
                                     free_weight,
                                     linear,
                                     embed,
                                     rms_norm,
                                     layer_norm,
                                     gated_activation,
                                     activation,
                                     add,
                                     gather_rows,
                                     head_reduce,
                                     sample,
                                     vocab_slice,
                                     get_ext,
                                     host_allocate,
                                     host_free,
                                     vector_weight,
                                     scatter_rows};

const mortise_component kComponent = {
    sizeof kComponent,
    0,
    MORTISE_KIND_DEVICE,
    0,
    MORTISE_CAP_EXACT,
    "broken_device",
    "does one thing wrong",
    R"({"type": "object", "additionalProperties": false, "properties": {"defect": {"title": "what it does wrong", "type": "string", "default": "none"}}})",
    nullptr,
    &kTable,
    supports,
    create,
    destroy,
    nullptr,
    nullptr,
    nullptr};

}  // namespace

MORTISE_PLUGIN("org.example.broken", "tests", "1", "Apache-2.0", &kComponent)
