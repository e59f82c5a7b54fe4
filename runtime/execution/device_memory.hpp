// runtime/execution/device_memory.hpp: moves the arrays of a step to the device's memory and back. On a device that
// shares the host's memory (mortise_device_info.host_memory) nothing is copied: both sides see the same bytes. On any
// other device, copies pass through host memory that the device allocates (host_allocate). The host never reads through
// an address of device memory there. The classes are not thread-safe: the thread that runs steps uses them.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "execution/parts.hpp"

namespace mortise {

// Returns whether device addresses are host addresses.
bool shares_host_memory(const DevicePart& device);

// Waits for everything that is queued on the device's default stream.
inline void synchronize(const DevicePart& device) {
  device.call<&mortise_device_table::stream_synchronize>("stream_synchronize", nullptr);
}

// Owns device memory that only grows; the destructor frees it. Invariant: data_ has bytes_ bytes. Used by the thread
// that runs steps.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(const DevicePart& device) : device_(device) {}
  ~DeviceBuffer() { device_.tell<&mortise_device_table::free>("free", data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  // Returns memory of at least `bytes`. The contents are lost when it grows.
  void* reserve(std::uint64_t bytes);

 private:
  const DevicePart& device_;
  void* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// Owns host memory that the device copies from and to at full speed. Invariant: data_ has bytes_ bytes. Used by the
// thread that runs steps.
class HostBuffer {
 public:
  explicit HostBuffer(const DevicePart& device) : device_(device) {}
  ~HostBuffer();
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  // Returns memory of at least `bytes`. The contents are lost when it grows. REQUIRES: no copy from or to it is under
  // way.
  void* reserve(std::uint64_t bytes);

 private:
  const DevicePart& device_;
  void* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// Where an upload is queued.
enum class UploadOrder {
  kAfterQueued,   // behind everything on the default stream, which may still read the arrays of the previous upload
  kBesideQueued,  // beside it; only what is queued later waits. REQUIRES: nothing queued reads the previous arrays
};

// Packs host arrays into one buffer, so that a step costs one upload. Use: put() all arrays, upload() once, then ask
// for addresses. Invariant: a stage is packed again only after its previous upload has ended. Used by the thread that
// runs steps.
class PackedUpload {
 public:
  explicit PackedUpload(const DevicePart& device, UploadOrder order = UploadOrder::kAfterQueued);
  ~PackedUpload();
  PackedUpload(const PackedUpload&) = delete;
  PackedUpload& operator=(const PackedUpload&) = delete;

  // Reserves device memory for `bytes`. Equal layouts then have equal addresses, as long as no upload is larger.
  void reserve(std::uint64_t bytes) {
    if (!shared_) buffer_.reserve(bytes);
  }
  void clear() { bytes_.clear(); }
  // Copies the values into the buffer. The result identifies the array in host() and device() until clear().
  template <typename T>
  std::size_t put(std::span<const T> values) {
    const std::size_t offset = (bytes_.size() + 63) / 64 * 64;
    bytes_.resize(offset + values.size_bytes());
    if (!values.empty()) std::memcpy(bytes_.data() + offset, values.data(), values.size_bytes());
    return offset;
  }
  void upload();
  template <typename T>
  const T* host(std::size_t offset) const {
    return reinterpret_cast<const T*>(bytes_.data() + offset);
  }
  template <typename T>
  T* device(std::size_t offset) {
    return reinterpret_cast<T*>(device_base_ + offset);
  }

 private:
  // Host memory of one upload. There are two, so that packing need not wait for the previous upload.
  struct Stage {
    explicit Stage(const DevicePart& device) : memory(device) {}
    HostBuffer memory;
    mortise_event* sent = nullptr;  // null: not used yet
  };

  const DevicePart& device_;
  const bool shared_;
  const UploadOrder order_;
  mortise_stream* stream_ = nullptr;  // of kBesideQueued, created by the first upload; otherwise the default stream
  std::vector<std::byte> bytes_;
  DeviceBuffer buffer_;
  std::array<Stage, 2> stages_;
  std::size_t next_stage_ = 0;
  std::byte* device_base_ = nullptr;
};

// Copies results to the host. start() queues the copy; data() is valid once the device's default stream has been
// synchronised. Invariant: data() refers to the result of the last start(). Used by the thread that runs steps.
class Download {
 public:
  explicit Download(const DevicePart& device);

  // data() stays valid until the next start(). On a device that shares the host's memory it is valid until something
  // writes to `from`.
  template <typename T>
  void start(const T* from, std::size_t count) {
    start_bytes(from, count * sizeof(T));
  }
  template <typename T>
  std::span<const T> data() const {
    return {static_cast<const T*>(data_), bytes_ / sizeof(T)};
  }
  // Calls start(), waits for all work queued on the default stream, and returns data().
  template <typename T>
  std::span<const T> fetch(const T* from, std::size_t count) {
    start(from, count);
    synchronize(device_);
    return data<T>();
  }

 private:
  void start_bytes(const void* from, std::uint64_t bytes);

  const DevicePart& device_;
  const bool shared_;
  HostBuffer memory_;
  const void* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// Returns a dense row-major 2-D tensor over device memory.
mortise_tensor matrix(void* data, std::int32_t dtype, std::int64_t rows, std::int64_t columns);

}  // namespace mortise
