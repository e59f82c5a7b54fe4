// runtime/conformance/device_cases.cpp: rules of a device's memory, streams and weights. device_linear_cases,
// device_row_cases and device_logit_cases have those of its operations.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "conformance/device_matrix.hpp"
#include "conformance/subject.hpp"
#include "mortise/plugin.hpp"

namespace mortise::conformance {
namespace {

std::vector<std::uint8_t> draw_bytes(Subject& subject, std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(subject.random()());
  return bytes;
}

void synchronize(const DeviceAccess& device, mortise_stream* stream) {
  device.perform("stream_synchronize",
                 [&](mortise_error* error) { return device.table->stream_synchronize(device.device, stream, error); });
}

void describes_the_machine(Subject& subject) {
  const auto part = subject.make_active();
  const DeviceAccess device(*part);
  mortise_device_info info{};
  info.struct_size = sizeof info;
  device.perform("describe", [&](mortise_error*) { return device.table->describe(device.device, &info); });
  expect(info.struct_size == sizeof info, "describe changes struct_size");
  for (const auto* text : {info.name, info.isa}) {
    expect(std::memchr(text, '\0', sizeof info.name) != nullptr && text[0] != '\0',
           "the name or isa is empty or not NUL-terminated");
  }
  expect(info.host_memory == 0 || info.host_memory == 1, "host_memory is {}; expected 0 or 1", info.host_memory);
  expect(info.num_threads >= 0, "num_threads is {}", info.num_threads);
  expect(info.memory_bytes > 0, "memory_bytes is 0");
  std::uint64_t free_bytes = 0, total_bytes = 0;
  device.perform("memory_info",
                 [&](mortise_error*) { return device.table->memory_info(device.device, &free_bytes, &total_bytes); });
  expect(free_bytes > 0 && free_bytes <= total_bytes, "memory_info says {} free bytes of {}", free_bytes, total_bytes);
}

void names_its_arithmetic(Subject& subject) {
  const auto part = subject.make_active();
  const DeviceAccess device(*part);
  const auto id = [&](std::int32_t dtype) {
    const char* text = nullptr;
    device.perform("numerics_id",
                   [&](mortise_error*) { return text = device.table->numerics_id(device.device, dtype), MORTISE_OK; });
    return text;
  };
  expect(id(MORTISE_BF16) != nullptr || id(MORTISE_F32) != nullptr, "numerics_id is NULL for bf16 and for f32");
  for (const std::int32_t dtype :
       {MORTISE_BF16, MORTISE_F32, MORTISE_I8, MORTISE_F8_E4M3, MORTISE_F4_E2M1, MORTISE_I8_BLOCK32}) {
    const char* const text = id(dtype);
    if (text == nullptr) continue;
    expect(text == id(dtype), "numerics_id returns a different address at each call; its text must be static");
    expect(std::strchr(text, '/') != nullptr, "the numerics id '{}' has no version, as in \"cpu-bf16/1\"", text);
  }
  expect(id(0x7777) == nullptr, "numerics_id is not NULL for a type that does not exist");
}

void allocates_zeroed_memory(Subject& subject) {
  const auto part = subject.make_active();
  const DeviceAccess device(*part);
  std::vector<void*> all;
  for (int round = 0; round < 2; ++round) {  // memory that was used before is zeroed, too
    for (const std::uint64_t bytes : {1u, 255u, 4096u, 1'000'000u}) {
      void* memory = nullptr;
      device.perform("allocate", [&](mortise_error* error) {
        return device.table->allocate(device.device, bytes, &memory, error);
      });
      expect(memory != nullptr, "allocate returns OK and leaves the memory NULL");
      expect(reinterpret_cast<std::uintptr_t>(memory) % 256 == 0, "memory of allocate is not 256-byte aligned");
      std::vector<std::uint8_t> contents(bytes, 1);
      device.perform("copy", [&](mortise_error* error) {
        return device.table->copy(device.device, nullptr, contents.data(), memory, bytes, error);
      });
      synchronize(device, nullptr);
      expect(std::ranges::count(contents, 0) == static_cast<std::ptrdiff_t>(bytes),
             "memory of allocate is not zero-filled");
      device.perform("fill", [&](mortise_error* error) {
        return device.table->fill(device.device, nullptr, memory, 0xff, bytes, error);
      });
      all.push_back(memory);
    }
    for (void* const memory : all) device.table->free(device.device, memory);
    all.clear();
  }
  device.table->free(device.device, nullptr);
}

void refuses_too_much_memory(Subject& subject) {
  const auto part = subject.make_active();
  const auto& table = part->table<mortise_device_table>();
  for (const std::uint64_t bytes : {std::uint64_t{1} << 60, UINT64_MAX, UINT64_MAX - 255}) {
    void* memory = nullptr;
    const Answer answer = part->call("allocate", [&](mortise_error* error) {
      return table.allocate(part->handle<mortise_device>(), bytes, &memory, error);
    });
    expect(answer.status == MORTISE_RESOURCE_EXHAUSTED && memory == nullptr,
           "allocate of {} bytes answers {}, expected RESOURCE_EXHAUSTED", bytes, answer.text());
  }
}

void copies_bytes(Subject& subject) {
  const auto part = subject.make_active();
  const DeviceAccess device(*part);
  const std::vector<std::uint8_t> bytes = draw_bytes(subject, 100'003);
  const DeviceBuffer first = on_device(device, bytes);
  const DeviceBuffer second(device, bytes.size());
  const auto copy = [&](void* to, const void* from, std::uint64_t count) {
    device.perform("copy", [&](mortise_error* error) {
      return device.table->copy(device.device, nullptr, to, from, count, error);
    });
  };
  copy(second.data(), first.data(), bytes.size());
  expect(second.read() == bytes, "copies from the host, within the device and to the host change bytes");
  copy(second.data<std::uint8_t>() + 7, first.data<std::uint8_t>() + 3, 1001);
  std::vector<std::uint8_t> expected = bytes;
  std::copy_n(bytes.begin() + 3, 1001, expected.begin() + 7);
  expect(second.read() == expected, "a copy of 1001 bytes at odd addresses is wrong");
  copy(second.data(), first.data(), 0);
  device.perform("fill", [&](mortise_error* error) {
    return device.table->fill(device.device, nullptr, second.data<std::uint8_t>() + 11, 0x42, 77, error);
  });
  std::fill_n(expected.begin() + 11, 77, std::uint8_t{0x42});
  expect(second.read() == expected, "fill of 77 bytes at an odd address is wrong");
  second.expect_guards("the target of a copy");
}

void has_host_memory_for_copies(Subject& subject) {
  const auto part = subject.make_active();
  const DeviceAccess device(*part);
  void* memory = nullptr;
  device.perform("host_allocate", [&](mortise_error* error) {
    return device.table->host_allocate(device.device, 5000, &memory, error);
  });
  expect(memory != nullptr, "host_allocate returns OK and leaves the memory NULL");
  const std::vector<std::uint8_t> bytes = draw_bytes(subject, 5000);
  std::memcpy(memory, bytes.data(), bytes.size());
  const DeviceBuffer buffer(device, bytes.size());
  device.perform("copy", [&](mortise_error* error) {
    return device.table->copy(device.device, nullptr, buffer.data(), memory, bytes.size(), error);
  });
  synchronize(device, nullptr);
  expect(buffer.read() == bytes, "a copy from memory of host_allocate changes bytes");
  device.table->host_free(device.device, memory);
  device.table->host_free(device.device, nullptr);
}

void streams_keep_their_order(Subject& subject) {
  const auto part = subject.make_active();
  const DeviceAccess device(*part);
  const auto& table = *device.table;
  mortise_stream *one = nullptr, *other = nullptr;
  mortise_event* event = nullptr;
  device.perform("stream_create",
                 [&](mortise_error* error) { return table.stream_create(device.device, &one, error); });
  device.perform("stream_create",
                 [&](mortise_error* error) { return table.stream_create(device.device, &other, error); });
  device.perform("event_create",
                 [&](mortise_error* error) { return table.event_create(device.device, &event, error); });
  const DeviceBuffer buffer(device, 1 << 20);
  for (int i = 0; i < 20; ++i) {
    const auto fill = [&](mortise_stream* stream, int value) {
      device.perform("fill", [&](mortise_error* error) {
        return table.fill(device.device, stream, buffer.data(), static_cast<std::uint8_t>(value), buffer.size(), error);
      });
    };
    const auto hand_over = [&](mortise_stream* from, mortise_stream* to) {
      device.perform("event_record",
                     [&](mortise_error* error) { return table.event_record(device.device, event, from, error); });
      device.perform("event_wait",
                     [&](mortise_error* error) { return table.event_wait(device.device, event, to, error); });
    };
    fill(one, i);
    hand_over(one, other);
    fill(other, i + 100);
    device.perform("event_record",
                   [&](mortise_error* error) { return table.event_record(device.device, event, other, error); });
    device.perform("event_synchronize",
                   [&](mortise_error* error) { return table.event_synchronize(device.device, event, error); });
    const std::vector<std::uint8_t> found = buffer.read();
    expect(std::ranges::count(found, static_cast<std::uint8_t>(i + 100)) == static_cast<std::ptrdiff_t>(found.size()),
           "work of a stream does not come after the event that it waits for");
    hand_over(other, one);
  }
  synchronize(device, one);
  device.perform("stream_native", [&](mortise_error*) { return table.stream_native(device.device, one), MORTISE_OK; });
  table.event_destroy(device.device, event);
  table.event_destroy(device.device, nullptr);
  table.stream_destroy(device.device, one);
  table.stream_destroy(device.device, other);
  table.stream_destroy(device.device, nullptr);
}

void vectors_can_be_read(Subject& subject) {
  const auto part = subject.make_active();
  const DeviceAccess device(*part);
  for (const std::int32_t dtype : {MORTISE_BF16, MORTISE_F32}) {
    if (device.table->numerics_id(device.device, dtype) == nullptr) continue;
    const Matrix values = draw_matrix(subject.random(), dtype, 1, 77);
    const DeviceWeight weight = prepare_vector(device, values);
    std::int64_t n = 0;
    std::int32_t found_dtype = 0;
    const void* const data = device.table->vector_weight(device.device, weight.get(), &n, &found_dtype);
    expect(data != nullptr && n == 77 && found_dtype == dtype,
           "vector_weight gives {} elements of type {:#x} for 77 of type {:#x}", n, found_dtype, dtype);
    Matrix found = zeros(dtype, 1, 77);
    std::vector<std::uint8_t> bytes(77 * static_cast<std::size_t>(dtype_bytes(dtype)));
    device.perform("copy", [&](mortise_error* error) {
      return device.table->copy(device.device, nullptr, bytes.data(), data, bytes.size(), error);
    });
    synchronize(device, nullptr);
    std::vector<std::uint8_t> expected(bytes.size());
    const DeviceMatrix stored(device, values);
    device.perform("copy", [&](mortise_error* error) {
      return device.table->copy(device.device, nullptr, expected.data(), stored.tensor()->data, expected.size(), error);
    });
    synchronize(device, nullptr);
    expect(bytes == expected, "vector_weight does not give the elements of the vector");
    const DeviceWeight matrix =
        prepare(device, {MORTISE_WEIGHT_LINEAR, dtype}, {draw_matrix(subject.random(), dtype, 8, 64)});
    expect(device.table->vector_weight(device.device, matrix.get(), &n, &found_dtype) == nullptr,
           "vector_weight is not NULL for a matrix");
  }
  device.table->free_weight(device.device, nullptr);
}

void bad_weights_are_refused(Subject& subject) {
  const auto part = subject.make_active();
  const DeviceAccess device(*part);
  std::vector<float> numbers(64 * 64);
  mortise_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  tensor.data = numbers.data();
  tensor.dtype = MORTISE_F32;
  tensor.ndim = 2;
  tensor.shape[0] = tensor.shape[1] = tensor.stride[0] = 64;
  tensor.shape[2] = tensor.shape[3] = tensor.stride[1] = tensor.stride[2] = tensor.stride[3] = 1;
  tensor.bytes = numbers.size() * sizeof(float);
  mortise_tensor narrow = tensor;
  narrow.shape[1] = 32;
  const mortise_tensor* parts[] = {&tensor, &narrow};
  const auto refused = [&](const char* what, const auto& change) {
    mortise_weight_source source{};
    source.struct_size = sizeof source;
    source.use = MORTISE_WEIGHT_LINEAR;
    source.num_parts = 1;
    source.parts = parts;
    source.dtype = device.table->numerics_id(device.device, MORTISE_BF16) != nullptr ? MORTISE_BF16 : MORTISE_F32;
    change(source);
    mortise_weight* weight = nullptr;
    const Answer answer = part->call("prepare_weight", [&](mortise_error* error) {
      return device.table->prepare_weight(device.device, &source, &weight, error);
    });
    expect(!answer.ok() && weight == nullptr, "prepare_weight accepts a weight with {}", what);
    expect(answer.status != MORTISE_INTERNAL, "prepare_weight answers INTERNAL to a weight with {}: {}", what,
           answer.text());
  };
  refused("3 bits", [](auto& source) { source.bits = 3; });
  refused("no use", [](auto& source) { source.use = 0; });
  refused("the type int32 to compute in", [](auto& source) { source.dtype = MORTISE_I32; });
  refused("parts of different widths", [](auto& source) { source.num_parts = 2; });
  refused("no parts", [](auto& source) { source.num_parts = 0; });
  tensor.dtype = MORTISE_I64;
  refused("elements of type int64", [](auto&) {});
}

constexpr Case kDeviceCases[] = {
    {"device.describe", "describe and memory_info describe the device.", kOfDevice, describes_the_machine},
    {"device.numerics", "numerics_id gives a static id for each type that the device computes in.", kOfDevice,
     names_its_arithmetic},
    {"device.allocate", "allocate gives aligned memory full of zeros, every time.", kOfDevice, allocates_zeroed_memory},
    {"device.no_memory", "Too much memory is refused with RESOURCE_EXHAUSTED.", kOfDevice, refuses_too_much_memory},
    {"device.copy", "copy and fill move bytes of any number and alignment.", kOfDevice, copies_bytes, true},
    {"device.host_memory", "Memory of host_allocate can be copied from.", kOfDevice, has_host_memory_for_copies, true},
    {"device.streams", "Work runs in the order that streams and events ask for.", kOfDevice, streams_keep_their_order},
    {"device.vectors", "vector_weight gives the elements of a vector, and NULL for a matrix.", kOfDevice,
     vectors_can_be_read, true},
    {"device.bad_weights", "prepare_weight refuses weights that make no sense.", kOfDevice, bad_weights_are_refused},
};

}  // namespace

std::span<const Case> device_cases() {
  return kDeviceCases;
}

}  // namespace mortise::conformance
