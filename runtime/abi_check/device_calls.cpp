// runtime/abi_check/device_calls.cpp: the checks of mortise/device.h that hold for memory, streams, events and weights.
#include <array>
#include <cstring>

#include "abi_check/device_state.hpp"
#include "abi_check/kinds.hpp"
#include "abi_check/step_rules.hpp"
#include "mortise/struct_sizes.h"

namespace mortise::abi_check {
namespace {

constexpr const char* kHeader = "mortise/device.h";
constexpr const char* kAbi = "mortise/abi.h";
constexpr const char* kGraph = "mortise/ext/graph.h";
constexpr std::uintptr_t kAlignment = 256;
using Kind = Device::Kind;

const mortise_device_table& table_of(const Device& self) {
  return self.table<mortise_device_table>();
}

// Checks that the call is made outside of steps and captures, because a captured step cannot contain [control]
// functions.
void check_control(const Call& call, const Device& self) {
  const bool is_step_of_part = call.is_within_step() && (call.caller()->instance().real.kind == PartKind::kModel ||
                                                         call.caller()->instance().real.kind == PartKind::kAttention);
  call.caller_must(!is_step_of_part, "mortise/plugin.h", "activate (all allocation and tuning)",
                   "the device's {} is called in a step; it is a [control] call", call.function().name);
  call.caller_must(self.num_captures == 0, kGraph, "allocation and tuning cannot be captured",
                   "{} is called while work is captured", call.function().name);
}

mortise_status describe(mortise_device* handle, mortise_device_info* info) {
  static constexpr Function kFunction = {"describe", Tag::kAny};
  return checked<Device>(handle, kFunction, nullptr, [&](Call& call, Device& self) {
    call.check_struct(info, MORTISE_SIZE_0_5(mortise_device_info), "info");
    mortise_status status = MORTISE_OK;
    call.make([&] { status = table_of(self).describe(handle, info); });
    if (status != MORTISE_OK) return status;
    const auto is_text = [](const auto& text) { return std::memchr(text, '\0', sizeof text) != nullptr; };
    call.part_must(is_text(info->name) && is_text(info->isa), kAbi, "`const char*` is NUL-terminated",
                   "describe gives a text without an end");
    call.part_must(info->host_memory == 0 || info->host_memory == 1, kHeader, "1: device pointers are host pointers",
                   "host_memory is {}", info->host_memory);
    self.set_host_memory(info->host_memory == 1);
    return status;
  });
}

const char* numerics_id(mortise_device* handle, std::int32_t dtype) {
  static constexpr Function kFunction = {"numerics_id", Tag::kAny};
  return checked_value<Device>(handle, kFunction, static_cast<const char*>(nullptr), [&](Call& call, Device& self) {
    const char* id = nullptr;
    call.make([&] { id = table_of(self).numerics_id(handle, dtype); });
    const auto now = id == nullptr ? std::nullopt : std::optional<std::string>(id);
    call.part_must(self.first_numerics(dtype, now) == now, kHeader, "Returns the id of the arithmetic for a dtype",
                   "numerics_id({:#x}) gives another answer than before", dtype);
    return id;
  });
}

mortise_status memory_info(mortise_device* handle, std::uint64_t* free_bytes, std::uint64_t* total_bytes) {
  static constexpr Function kFunction = {"memory_info", Tag::kAny};
  return checked<Device>(handle, kFunction, nullptr, [&](Call& call, Device& self) {
    mortise_status status = MORTISE_OK;
    call.make([&] { status = table_of(self).memory_info(handle, free_bytes, total_bytes); });
    call.part_must(status != MORTISE_OK || *free_bytes <= *total_bytes, kHeader, "the free and total bytes",
                   "memory_info says that {} of {} bytes are free", *free_bytes, *total_bytes);
    return status;
  });
}

// Returns whether memory that was just allocated is zero-filled, as far as a look at both ends can tell.
bool is_zero(const void* memory, std::uint64_t bytes) {
  constexpr std::uint64_t kLook = 64;
  const auto* const data = static_cast<const unsigned char*>(memory);
  const auto zeros = [&](std::uint64_t from, std::uint64_t to) {
    return std::all_of(data + from, data + to, [](unsigned char byte) { return byte == 0; });
  };
  return zeros(0, std::min(bytes, kLook)) && zeros(bytes - std::min(bytes, kLook), bytes);
}

template <auto Slot>
mortise_status allocate_by(mortise_device* handle, const Function& function, Kind kind, std::uint64_t bytes,
                           void** memory, mortise_error* error) {
  return checked<Device>(handle, function, error, [&](Call& call, Device& self) {
    check_control(call, self);
    call.caller_must(memory != nullptr, kAbi, "The caller provides the memory for results", "memory is NULL");
    void* made = nullptr;
    const mortise_status status =
        call.make(error, [&](mortise_error* own) { return (table_of(self).*Slot)(handle, bytes, &made, own); });
    *memory = made;
    call.part_must(status == MORTISE_OK || made == nullptr, kAbi, "On failure the out-handle is NULL",
                   "{} fails and leaves an address", function.name);
    if (status != MORTISE_OK || bytes == 0) return status;
    call.part_must(made != nullptr && self.add(kind, made, call.caller(), bytes), kHeader, "Allocates",
                   "{} returns NULL, or memory that is in use", function.name);
    if (kind != Kind::kMemory) return status;
    call.part_must(reinterpret_cast<std::uintptr_t>(made) % kAlignment == 0, kHeader, "256-byte aligned",
                   "allocate returns {}", fmt::ptr(made));
    call.part_must(!self.is_host_memory() || is_zero(made, bytes), kHeader, "Allocates zero-filled device memory",
                   "allocate returns memory with other numbers");
    return status;
  });
}

mortise_status allocate(mortise_device* handle, std::uint64_t bytes, void** memory, mortise_error* error) {
  static constexpr Function kFunction = {"allocate", Tag::kControl};
  return allocate_by<&mortise_device_table::allocate>(handle, kFunction, Kind::kMemory, bytes, memory, error);
}

mortise_status host_allocate(mortise_device* handle, std::uint64_t bytes, void** memory, mortise_error* error) {
  static constexpr Function kFunction = {"host_allocate", Tag::kControl};
  return allocate_by<&mortise_device_table::host_allocate>(handle, kFunction, Kind::kHostMemory, bytes, memory, error);
}

void free_memory(mortise_device* handle, void* memory) {
  static constexpr Function kFunction = {"free", Tag::kControl};
  checked_value<Device>(handle, kFunction, 0, [&](Call& call, Device& self) {
    check_control(call, self);
    check_return(call, self, Kind::kMemory, memory, "memory");
    call.make([&] { table_of(self).free(handle, memory); });
    return 0;
  });
}

void host_free(mortise_device* handle, void* memory) {
  static constexpr Function kFunction = {"host_free", Tag::kControl};
  checked_value<Device>(handle, kFunction, 0, [&](Call& call, Device& self) {
    check_control(call, self);
    check_return(call, self, Kind::kHostMemory, memory, "memory");
    call.make([&] { table_of(self).host_free(handle, memory); });
    return 0;
  });
}

mortise_status copy(mortise_device* handle, mortise_stream* stream, void* to, const void* from, std::uint64_t bytes,
                    mortise_error* error) {
  static constexpr Function kFunction = {"copy", Tag::kStep};
  return checked<Device>(handle, kFunction, error, [&](Call& call, Device& self) {
    check_live(call, self, Kind::kStream, stream, "a stream");
    call.caller_must(bytes == 0 || (to != nullptr && from != nullptr), kHeader, "Copies between host and device memory",
                     "an address is NULL");
    const std::string problem = bytes == 0 ? "" : self.overrun(to, bytes) + self.overrun(from, bytes);
    call.caller_must(problem.empty(), kHeader, "Copies between host and device memory", "the copy {}", problem);
    return call.make(error,
                     [&](mortise_error* own) { return table_of(self).copy(handle, stream, to, from, bytes, own); });
  });
}

mortise_status fill(mortise_device* handle, mortise_stream* stream, void* memory, std::uint8_t value,
                    std::uint64_t bytes, mortise_error* error) {
  static constexpr Function kFunction = {"fill", Tag::kStep};
  return checked<Device>(handle, kFunction, error, [&](Call& call, Device& self) {
    check_live(call, self, Kind::kStream, stream, "a stream");
    const std::string problem = bytes == 0 ? "" : self.memory_problem(memory, bytes);
    call.caller_must(problem.empty() && (bytes == 0 || memory != nullptr), kHeader,
                     "Sets `bytes` bytes of device memory", "the memory {}", problem);
    return call.make(
        error, [&](mortise_error* own) { return table_of(self).fill(handle, stream, memory, value, bytes, own); });
  });
}

// Serves stream_create and event_create. A device with synchronous streams hands out NULL.
template <auto Slot, typename Object>
mortise_status create_by(mortise_device* handle, const Function& function, Kind kind, Object** object,
                         mortise_error* error) {
  return checked<Device>(handle, function, error, [&](Call& call, Device& self) {
    Object* made = nullptr;
    const mortise_status status =
        call.make(error, [&](mortise_error* own) { return (table_of(self).*Slot)(handle, &made, own); });
    *object = made;
    call.part_must(status == MORTISE_OK || made == nullptr, kAbi, "On failure the out-handle is NULL",
                   "{} fails and leaves a handle", function.name);
    if (made != nullptr) {
      call.part_must(self.add(kind, made, call.caller()), kHeader, "the caller destroys it",
                     "{} returns a handle that is in use", function.name);
    }
    return status;
  });
}

mortise_status stream_create(mortise_device* handle, mortise_stream** stream, mortise_error* error) {
  static constexpr Function kFunction = {"stream_create", Tag::kControl};
  return create_by<&mortise_device_table::stream_create>(handle, kFunction, Kind::kStream, stream, error);
}

mortise_status event_create(mortise_device* handle, mortise_event** event, mortise_error* error) {
  static constexpr Function kFunction = {"event_create", Tag::kAny};
  return create_by<&mortise_device_table::event_create>(handle, kFunction, Kind::kEvent, event, error);
}

void stream_destroy(mortise_device* handle, mortise_stream* stream) {
  static constexpr Function kFunction = {"stream_destroy", Tag::kAny};
  checked_value<Device>(handle, kFunction, 0, [&](Call& call, Device& self) {
    check_return(call, self, Kind::kStream, stream, "a stream");
    call.make([&] { table_of(self).stream_destroy(handle, stream); });
    return 0;
  });
}

void event_destroy(mortise_device* handle, mortise_event* event) {
  static constexpr Function kFunction = {"event_destroy", Tag::kAny};
  checked_value<Device>(handle, kFunction, 0, [&](Call& call, Device& self) {
    check_return(call, self, Kind::kEvent, event, "an event");
    call.make([&] { table_of(self).event_destroy(handle, event); });
    return 0;
  });
}

void check_no_wait(const Call& call, const Device& self) {
  call.caller_must(self.num_captures == 0, kGraph, "Captured operations do not run", "{} waits while work is captured",
                   call.function().name);
}

mortise_status stream_synchronize(mortise_device* handle, mortise_stream* stream, mortise_error* error) {
  static constexpr Function kFunction = {"stream_synchronize", Tag::kAny};
  return checked<Device>(handle, kFunction, error, [&](Call& call, Device& self) {
    check_live(call, self, Kind::kStream, stream, "a stream");
    check_no_wait(call, self);
    return call.make(error, [&](mortise_error* own) { return table_of(self).stream_synchronize(handle, stream, own); });
  });
}

void* stream_native(mortise_device* handle, mortise_stream* stream) {
  static constexpr Function kFunction = {"stream_native", Tag::kAny};
  return checked_value<Device>(handle, kFunction, static_cast<void*>(nullptr), [&](Call& call, Device& self) {
    check_live(call, self, Kind::kStream, stream, "a stream");
    void* native = nullptr;
    call.make([&] { native = table_of(self).stream_native(handle, stream); });
    return native;
  });
}

mortise_status event_record(mortise_device* handle, mortise_event* event, mortise_stream* stream,
                            mortise_error* error) {
  static constexpr Function kFunction = {"event_record", Tag::kAny};
  return checked<Device>(handle, kFunction, error, [&](Call& call, Device& self) {
    check_live(call, self, Kind::kEvent, event, "an event");
    check_live(call, self, Kind::kStream, stream, "a stream");
    return call.make(error,
                     [&](mortise_error* own) { return table_of(self).event_record(handle, event, stream, own); });
  });
}

mortise_status event_wait(mortise_device* handle, mortise_event* event, mortise_stream* stream, mortise_error* error) {
  static constexpr Function kFunction = {"event_wait", Tag::kAny};
  return checked<Device>(handle, kFunction, error, [&](Call& call, Device& self) {
    check_live(call, self, Kind::kEvent, event, "an event");
    check_live(call, self, Kind::kStream, stream, "a stream");
    return call.make(error, [&](mortise_error* own) { return table_of(self).event_wait(handle, event, stream, own); });
  });
}

mortise_status event_synchronize(mortise_device* handle, mortise_event* event, mortise_error* error) {
  static constexpr Function kFunction = {"event_synchronize", Tag::kAny};
  return checked<Device>(handle, kFunction, error, [&](Call& call, Device& self) {
    check_live(call, self, Kind::kEvent, event, "an event");
    check_no_wait(call, self);
    return call.make(error, [&](mortise_error* own) { return table_of(self).event_synchronize(handle, event, own); });
  });
}

void check_source(const Call& call, const mortise_weight_source& source) {
  constexpr std::int32_t kUses = MORTISE_WEIGHT_LINEAR | MORTISE_WEIGHT_EMBEDDING | MORTISE_WEIGHT_VECTOR;
  call.caller_must(source.use != 0 && (source.use & ~kUses) == 0, kHeader, "mask of MORTISE_WEIGHT_*", "use is {}",
                   source.use);
  call.caller_must(source.num_parts > 0 && (source.parts != nullptr || source.quantized != nullptr), kHeader,
                   "parts are concatenated along dimension 0", "{} parts", source.num_parts);
  for (std::int32_t i = 0; i < source.num_parts && source.quantized == nullptr; ++i) {
    mortise_tensor part = source.parts[i] == nullptr ? mortise_tensor{} : *source.parts[i];
    const std::string problem = tensor_problem(nullptr, source.parts[i] == nullptr ? nullptr : &part);
    call.caller_must(problem.empty(), "mortise/tensor.h", "accessible bytes, starting at data", "part {} {}", i,
                     problem);
  }
}

mortise_status prepare_weight(mortise_device* handle, const mortise_weight_source* source, mortise_weight** weight,
                              mortise_error* error) {
  static constexpr Function kFunction = {"prepare_weight", Tag::kControl};
  return checked<Device>(handle, kFunction, error, [&](Call& call, Device& self) {
    check_control(call, self);
    call.check_struct(source, MORTISE_SIZE_0_5(mortise_weight_source), "source");
    check_source(call, *source);
    mortise_weight* made = nullptr;
    const mortise_status status =
        call.make(error, [&](mortise_error* own) { return table_of(self).prepare_weight(handle, source, &made, own); });
    *weight = made;
    call.part_must(status == MORTISE_OK || made == nullptr, kAbi, "On failure the out-handle is NULL",
                   "prepare_weight fails and leaves a weight");
    call.part_must(status != MORTISE_OK || (made != nullptr && self.add(Kind::kWeight, made, call.caller())), kHeader,
                   "the caller returns it with free_weight", "prepare_weight returns NULL, or a weight that is in use");
    return status;
  });
}

void free_weight(mortise_device* handle, mortise_weight* weight) {
  static constexpr Function kFunction = {"free_weight", Tag::kControl};
  checked_value<Device>(handle, kFunction, 0, [&](Call& call, Device& self) {
    check_control(call, self);
    check_return(call, self, Kind::kWeight, weight, "a weight");
    call.make([&] { table_of(self).free_weight(handle, weight); });
    return 0;
  });
}

std::int32_t vocab_slice(mortise_device* handle) {
  static constexpr Function kFunction = {"vocab_slice", Tag::kAny};
  return checked_value<Device>(handle, kFunction, 0, [&](Call& call, Device& self) {
    std::int32_t slice = 0;
    call.make([&] { slice = table_of(self).vocab_slice(handle); });
    call.part_must(slice > 0 && self.first_slice(slice) == slice, kHeader,
                   "Returns the width of the slices of mortise_head_reduce_args", "vocab_slice returns {}", slice);
    return slice;
  });
}

const void* get_ext(mortise_device* handle, const char* id) {
  static constexpr Function kFunction = {"get_ext", Tag::kAny};
  return checked_value<Device>(handle, kFunction, static_cast<const void*>(nullptr), [&](Call& call, Device& self) {
    call.caller_must(id != nullptr, kAbi, "`const char*` is NUL-terminated", "get_ext is called with NULL");
    const void* table = nullptr;
    call.make([&] { table = table_of(self).get_ext(handle, id); });
    call.part_must(self.first_answer(id, table) == table, kHeader, "Returns the same as the component's get_ext",
                   "get_ext(\"{}\") returns another table than before", id);
    return checked_device_extension(self, id, table);
  });
}

const void* vector_weight(mortise_device* handle, const mortise_weight* weight, std::int64_t* n, std::int32_t* dtype) {
  static constexpr Function kFunction = {"vector_weight", Tag::kAny};
  return checked_value<Device>(handle, kFunction, static_cast<const void*>(nullptr), [&](Call& call, Device& self) {
    check_live(call, self, Kind::kWeight, weight, "a weight");
    const void* data = nullptr;
    call.make([&] { data = table_of(self).vector_weight(handle, weight, n, dtype); });
    return data;
  });
}

}  // namespace

std::shared_ptr<Instance> make_device(const Component& real) {
  return std::make_shared<Device>(real);
}

void check_table(mortise_device_table& table) {
  replace(table.describe, &describe);
  replace(table.numerics_id, &numerics_id);
  replace(table.memory_info, &memory_info);
  replace(table.allocate, &allocate);
  replace(table.free, &free_memory);
  replace(table.copy, &copy);
  replace(table.fill, &fill);
  replace(table.stream_create, &stream_create);
  replace(table.stream_destroy, &stream_destroy);
  replace(table.stream_synchronize, &stream_synchronize);
  replace(table.stream_native, &stream_native);
  replace(table.event_create, &event_create);
  replace(table.event_destroy, &event_destroy);
  replace(table.event_record, &event_record);
  replace(table.event_wait, &event_wait);
  replace(table.event_synchronize, &event_synchronize);
  replace(table.prepare_weight, &prepare_weight);
  replace(table.free_weight, &free_weight);
  replace(table.vocab_slice, &vocab_slice);
  replace(table.get_ext, &get_ext);
  replace(table.host_allocate, &host_allocate);
  replace(table.host_free, &host_free);
  replace(table.vector_weight, &vector_weight);
  check_operations(table);
}

}  // namespace mortise::abi_check
