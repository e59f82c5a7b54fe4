// tests/unit/conformance/broken_cpu.cpp: the built-in device of the CPU (CPU_FILE), which has quantised weights and
// threads, with one defect that an option names. Instances are those of the CPU device; the defect is that of the
// newest instance.
#include <thread>

#include "defects.hpp"
#include "mortise/device.h"
#include "mortise/ext/collective.h"
#include "mortise/ext/parallel.h"
#include "mortise/ext/rejection.h"

namespace {

using broken::Defect;

const mortise_component& cpu() {
  return broken::component_of(CPU_FILE);
}
const mortise_device_table& inner() {
  return *static_cast<const mortise_device_table*>(cpu().table);
}

Defect& defect() {
  static Defect current("none");
  return current;
}
bool is(const char* name) {
  return defect().is(name);
}

void flip(const mortise_tensor* out) {
  if (out->shape[0] > 0) *static_cast<uint8_t*>(out->data) ^= 1;
}

// `bits` of the weight that was prepared last, 9 for FP8, 10 for MXFP4, 24 and 28 for 4 and 8 bits in blocks of 32.
int& last_bits() {
  static int bits = 0;
  return bits;
}

mortise_status prepare_weight(mortise_device* device, const mortise_weight_source* source, mortise_weight** weight,
                              mortise_error* error) {
  last_bits() = source->value_type == MORTISE_F8_E4M3      ? 9
                : source->value_type == MORTISE_F4_E2M1    ? 10
                : source->value_type == MORTISE_I8_BLOCK32 ? 20 + source->bits
                                                           : source->bits;
  return inner().prepare_weight(device, source, weight, error);
}
void free_weight(mortise_device* device, mortise_weight* weight) {
  if (!is("leaks_weights")) inner().free_weight(device, weight);
}

mortise_status linear(mortise_device* device, mortise_stream* stream, const mortise_linear_args* args,
                      mortise_error* error) {
  static const std::thread::id first_thread = std::this_thread::get_id();
  if (is("refuses_no_rows") && args->x->shape[0] == 0) {
    return mortise::set_error(error, MORTISE_INVALID_ARGUMENT, "linear", "no rows");
  }
  const mortise_status status = inner().linear(device, stream, args, error);
  if (status != MORTISE_OK) return status;
  bool shows = is("one_bit");
  shows |= is("wrong_int8") && last_bits() == 8;
  shows |= is("wrong_int4") && last_bits() == 4;
  shows |= is("wrong_int8_block32") && last_bits() == 28;
  shows |= is("wrong_int4_block32") && last_bits() == 24;
  shows |= is("wrong_fp8") && last_bits() == 9;
  shows |= is("wrong_mxfp4") && last_bits() == 10;
  shows |= is("depends_on_thread") && std::this_thread::get_id() != first_thread;
  if (shows) flip(args->out);
  return status;
}

mortise_status add(mortise_device* device, mortise_stream* stream, const mortise_tensor* a, const mortise_tensor* b,
                   const mortise_tensor* out, mortise_error* error) {
  const mortise_status status = inner().add(device, stream, a, b, out, error);
  if (status != MORTISE_OK || !is("odd_nan") || out->dtype != MORTISE_BF16) return status;
  auto* const numbers = static_cast<uint16_t*>(out->data);
  for (int64_t i = 0; i < out->shape[0] * out->stride[0]; ++i) {
    if (numbers[i] == 0x7fc0) numbers[i] = 0xffc0;
  }
  return status;
}

int32_t num_threads(mortise_device*) {
  return 2;
}
void run_twice(mortise_device*, int32_t num_tasks, mortise_task task, void* context) {
  for (int32_t i = 0; i < 2 * num_tasks; ++i) task(context, i / 2, 0);
}
const char* isa(mortise_device*) {
  return "portable";
}
constexpr mortise_parallel_table kParallel = {sizeof kParallel, 0, num_threads, run_twice, isa};

mortise_status gather_all_but_one(mortise_communicator* communicator, mortise_stream* stream, const mortise_tensor* x,
                                  const int64_t* columns, mortise_error* error) {
  const auto& inner_table =
      *static_cast<const mortise_collective_table*>(inner().get_ext(nullptr, MORTISE_EXT_COLLECTIVE));
  auto& first = *static_cast<uint8_t*>(x->data);
  const uint8_t before = first;
  const mortise_status status = inner_table.all_gather(communicator, stream, x, columns, error);
  first = before;
  return status;
}

const mortise_collective_table* broken_collective() {
  static const mortise_collective_table table = [] {
    auto copy = *static_cast<const mortise_collective_table*>(inner().get_ext(nullptr, MORTISE_EXT_COLLECTIVE));
    copy.all_gather = gather_all_but_one;
    return copy;
  }();
  return &table;
}

mortise_status verify_drafts_as_certain(mortise_device* device, mortise_stream* stream,
                                        const mortise_verify_drafts_args* args, mortise_error* error) {
  mortise_verify_drafts_args changed = *args;
  changed.distribution_rows = nullptr;
  const void* const table = inner().get_ext(device, MORTISE_EXT_REJECTION);
  return static_cast<const mortise_rejection_table*>(table)->verify_drafts(device, stream, &changed, error);
}
constexpr mortise_rejection_table kRejection = {sizeof kRejection, 0, verify_drafts_as_certain};

const void* get_ext(mortise_device* device, const char* id) {
  if (is("gathers_all_but_one") && std::strcmp(id, MORTISE_EXT_COLLECTIVE) == 0) return broken_collective();
  if (is("forgets_distributions") && std::strcmp(id, MORTISE_EXT_REJECTION) == 0) return &kRejection;
  if (is("runs_twice") && std::strcmp(id, MORTISE_EXT_PARALLEL) == 0) return &kParallel;
  return inner().get_ext(device, id);
}

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  return mortise::guard(error, "create", [&] {
    defect() = Defect(mortise::Options(*args).get<std::string>("defect"));
    mortise_error why = mortise::make_error();
    mortise::check(cpu().create(host, args, instance, &why), why);
  });
}
void destroy(void* instance) {
  if (is("clears_at_the_end")) defect() = Defect("one_bit");
  cpu().destroy(instance);
}
mortise_status activate(void* instance, const mortise_activate_args* args, mortise_error* error) {
  return cpu().activate == nullptr ? MORTISE_OK : cpu().activate(instance, args, error);
}
void deactivate(void* instance) {
  if (cpu().deactivate != nullptr) cpu().deactivate(instance);
}
mortise_status supports(const mortise_query*, mortise_error*) {
  return MORTISE_OK;
}

// The functions that are not spoilt are those of the CPU device.
mortise_device_table make_table() {
  mortise_device_table table = inner();
  table.prepare_weight = prepare_weight;
  table.free_weight = free_weight;
  table.linear = linear;
  table.add = add;
  table.get_ext = get_ext;
  return table;
}
const mortise_device_table kTable = make_table();

const mortise_component kComponent = {
    sizeof kComponent,
    0,
    MORTISE_KIND_DEVICE,
    0,
    MORTISE_CAP_EXACT,
    "broken_cpu",
    "does one thing wrong",
    R"({"type": "object", "properties": {
        "defect": {"title": "what it does wrong", "type": "string", "default": "none"},
        "threads": {"title": "of the device of the CPU", "type": "integer", "default": 2},
        "isa": {"title": "of the device of the CPU", "type": "string", "default": "auto"},
        "packed_cache": {"title": "of the device of the CPU", "type": "boolean", "default": false}}})",
    nullptr,
    &kTable,
    supports,
    create,
    destroy,
    activate,
    deactivate,
    [](void* instance, const char* id) { return get_ext(static_cast<mortise_device*>(instance), id); }};

}  // namespace

MORTISE_PLUGIN("org.example.broken", "tests", "1", "Apache-2.0", &kComponent)
