#include "execution/device_memory.hpp"

#include <fmt/format.h>

#include <string>

#include "loader/component.hpp"
#include "mortise/plugin.hpp"

namespace mortise {
namespace {

// Allocates, and extends the PartError of a failure by advice on how to use less memory.
template <typename Allocate>
void* allocate_for_step(const DevicePart& device, const char* function, const Allocate& allocate) {
  void* data = nullptr;
  CallResult result = allocate(&data);
  if (result.status == MORTISE_RESOURCE_EXHAUSTED) {
    const std::string told = plugin_text(result.error.message, sizeof result.error.message);
    const auto end = fmt::format_to_n(result.error.message, sizeof result.error.message - 1,
                                      "{}: arrays of a step grow with the scheduler's max_batched_tokens and "
                                      "max_num_seqs; lower these, or lower kv_cache.memory to leave more memory free",
                                      told);
    *end.out = '\0';
  }
  if (!result.ok()) throw PartError(device.name, function, result.status, result.error);
  return data;
}

}  // namespace

mortise_tensor matrix(void* data, std::int32_t dtype, std::int64_t rows, std::int64_t columns) {
  mortise_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.ndim = 2;
  tensor.shape[0] = rows;
  tensor.shape[1] = columns;
  tensor.shape[2] = tensor.shape[3] = 1;
  tensor.stride[0] = columns;
  tensor.stride[1] = tensor.stride[2] = tensor.stride[3] = 1;
  tensor.bytes = static_cast<std::uint64_t>(rows * columns) * static_cast<std::uint64_t>(dtype_bytes(dtype));
  return tensor;
}

void* DeviceBuffer::reserve(std::uint64_t bytes) {
  if (bytes <= bytes_) return data_;
  device_.tell<&mortise_device_table::free>("free", data_);
  data_ = nullptr;
  bytes_ = 0;
  data_ = allocate_for_step(device_, "allocate", [&](void** data) {
    return device_.try_call<&mortise_device_table::allocate>("allocate", bytes, data);
  });
  bytes_ = bytes;
  return data_;
}

HostBuffer::~HostBuffer() {
  if (data_ != nullptr) device_.tell<&mortise_device_table::host_free>("host_free", data_);
}

void* HostBuffer::reserve(std::uint64_t bytes) {
  if (bytes <= bytes_) return data_;
  if (data_ != nullptr) device_.tell<&mortise_device_table::host_free>("host_free", data_);
  data_ = nullptr;
  bytes_ = 0;
  data_ = allocate_for_step(device_, "host_allocate", [&](void** data) {
    return device_.try_call<&mortise_device_table::host_allocate>("host_allocate", bytes, data);
  });
  bytes_ = bytes;
  return data_;
}

bool shares_host_memory(const DevicePart& device) {
  mortise_device_info info{};
  info.struct_size = sizeof info;
  const mortise_status status =
      device.value<&mortise_device_table::describe>("describe", mortise_status{MORTISE_INTERNAL}, &info);
  return status == MORTISE_OK && info.host_memory != 0;
}

PackedUpload::PackedUpload(const DevicePart& device, UploadOrder order)
    : device_(device),
      shared_(shares_host_memory(device)),
      order_(order),
      buffer_(device),
      stages_{Stage(device), Stage(device)} {}

PackedUpload::~PackedUpload() {
  for (Stage& stage : stages_) {
    if (stage.sent == nullptr) continue;
    // The stage's memory is freed next, so the copy from it must have ended. After a failed wait the device is not
    // called again.
    if (device_.try_call<&mortise_device_table::event_synchronize>("event_synchronize", stage.sent).ok()) {
      device_.tell<&mortise_device_table::event_destroy>("event_destroy", stage.sent);
    }
  }
  if (stream_ != nullptr) device_.tell<&mortise_device_table::stream_destroy>("stream_destroy", stream_);
}

void PackedUpload::upload() {
  if (shared_) {
    device_base_ = bytes_.data();
    return;
  }
  Stage& stage = stages_[next_stage_];
  next_stage_ = 1 - next_stage_;
  if (stage.sent == nullptr) {
    device_.call<&mortise_device_table::event_create>("event_create", &stage.sent);
  } else {
    device_.call<&mortise_device_table::event_synchronize>("event_synchronize", stage.sent);
  }
  device_base_ = static_cast<std::byte*>(buffer_.reserve(bytes_.size()));
  void* const staged = stage.memory.reserve(bytes_.size());
  if (!bytes_.empty()) std::memcpy(staged, bytes_.data(), bytes_.size());
  const bool beside = order_ == UploadOrder::kBesideQueued;
  if (beside && stream_ == nullptr) device_.call<&mortise_device_table::stream_create>("stream_create", &stream_);
  device_.call<&mortise_device_table::copy>("copy", stream_, device_base_, staged, bytes_.size());
  device_.call<&mortise_device_table::event_record>("event_record", stage.sent, stream_);
  if (beside) device_.call<&mortise_device_table::event_wait>("event_wait", stage.sent, nullptr);
}

Download::Download(const DevicePart& device) : device_(device), shared_(shares_host_memory(device)), memory_(device) {}

void Download::start_bytes(const void* from, std::uint64_t bytes) {
  bytes_ = bytes;
  data_ = from;
  if (shared_ || bytes == 0) return;
  void* const to = memory_.reserve(bytes);
  device_.call<&mortise_device_table::copy>("copy", nullptr, to, from, bytes);
  data_ = to;
}

}  // namespace mortise
