// tests/e2e/plugins/flip/device.cpp: the processors as a device, but that one bit of one operation is wrong in the rows
// of one token. It is another component of the name cpu, which attention asks for, and its options tell it from the
// right one. The handle that the host holds is the CPU device's, so that its extensions work on it.
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "loader/option_reader.hpp"
#include "mortise/device.h"
#include "mortise/plugin.hpp"

// plugins/devices/cpu/plugin.cpp is compiled in with its entry renamed.
MORTISE_EXTERN_C const mortise_module* mortise_cpu_entry();

namespace {

const mortise_component& cpu_component() {
  return *mortise_cpu_entry()->components[0];
}
const mortise_device_table& cpu() {
  return *static_cast<const mortise_device_table*>(cpu_component().table);
}

constexpr const char* kSchema = R"({
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "flip": {"title": "the operation that is wrong", "enum": ["linear", "rms_norm", "head"], "default": "linear"},
    "number": {"title": "which of them of a forward, from 0", "type": "integer", "default": 0},
    "token": {"title": "in the rows of which token", "type": "integer", "default": -1},
    "element": {"title": "in which element of the row", "type": "integer", "default": 0}
  }
})";

struct Flip {
  std::string operation;
  int number, token, element;
  std::vector<int32_t> tokens = {};  // of the forward that runs
  std::map<std::string, int> counts = {};
};

std::map<void*, Flip>& flips() {
  static std::map<void*, Flip> all;
  return all;
}

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  const mortise::Options options(mortise::known(args));
  mortise_create_args inner = *args;
  const mortise::OptionReader none(nlohmann::json::object());
  none.give_to(inner);
  const mortise_status status = cpu_component().create(host, &inner, instance, error);
  if (status != MORTISE_OK) return status;
  flips().insert_or_assign(*instance, Flip{options.get<std::string>("flip"), options.get<int>("number"),
                                           options.get<int>("token"), options.get<int>("element")});
  return status;
}
void destroy(void* instance) {
  flips().erase(instance);
  cpu_component().destroy(instance);
}

// After each operation of this name.
void spoil(mortise_device* device, const char* operation, const mortise_tensor& out) {
  Flip& flip = flips().at(device);
  const bool is_forward = static_cast<std::size_t>(out.shape[0]) == flip.tokens.size();
  if (flip.operation != operation || !is_forward || flip.counts[operation]++ != flip.number) return;
  for (std::size_t row = 0; row < flip.tokens.size(); ++row) {
    if (flip.tokens[row] != flip.token) continue;
    const int64_t element = static_cast<int64_t>(row) * out.stride[0] + flip.element;
    static_cast<uint8_t*>(out.data)[element * ((out.dtype & 0xff) / 8)] ^= 1;
  }
}

mortise_status embed(mortise_device* device, mortise_stream* stream, const int32_t* ids, const mortise_weight* weight,
                     const mortise_tensor* out, mortise_error* error) {
  Flip& flip = flips().at(device);
  flip.tokens.assign(ids, ids + out->shape[0]);
  flip.counts.clear();
  return cpu().embed(device, stream, ids, weight, out, error);
}
mortise_status linear(mortise_device* device, mortise_stream* stream, const mortise_linear_args* args,
                      mortise_error* error) {
  const mortise_status status = cpu().linear(device, stream, args, error);
  if (status != MORTISE_OK) return status;
  if (args->out->dtype == MORTISE_F32 && flips().at(device).operation == "head") {
    static_cast<uint8_t*>(args->out->data)[flips().at(device).element * 4] ^= 1;
  }
  spoil(device, "linear", *args->out);
  return status;
}
mortise_status rms_norm(mortise_device* device, mortise_stream* stream, const mortise_norm_args* args,
                        mortise_error* error) {
  const mortise_status status = cpu().rms_norm(device, stream, args, error);
  if (status == MORTISE_OK) spoil(device, "rms_norm", *args->out);
  return status;
}

const mortise_component* component() {
  static const mortise_device_table table = [] {
    mortise_device_table value = cpu();
    value.embed = embed;
    value.linear = linear;
    value.rms_norm = rms_norm;
    return value;
  }();
  static const mortise_component value = [] {
    mortise_component c = cpu_component();
    c.summary = "the processors of this machine, with a wrong bit";
    c.options_schema = kSchema;
    c.table = &table;
    c.create = create;
    c.destroy = destroy;
    return c;
  }();
  return &value;
}

}  // namespace

MORTISE_PLUGIN("test.flip_device", "Tests", "1.0.0", "Apache-2.0", component())
