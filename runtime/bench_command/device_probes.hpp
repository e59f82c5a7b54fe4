// runtime/bench_command/device_probes.hpp: measures the limits of a device with its own memory (a GPU) through its
// table, that is, with the device's own operations on matrices that suit them best. (Processors are measured with loops
// that are written only for measuring.) docs/performance.md says what the difference means for the floors. Used by one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "bench_command/probes.hpp"
#include "loader/part_instance.hpp"
#include "mortise/device.h"
#include "pipeline/description.hpp"

namespace mortise::bench {

// A second instance of a pipeline's device, used only for measuring, so that its calls do not meet those of the
// engine's thread. Used by one thread. Invariant: the instance is active as long as this.
class ProbedDevice {
 public:
  using Memory = std::unique_ptr<void, std::function<void(void*)>>;

  // Returns nullptr if the device's memory is the host's (probes.hpp measures it then), or if the device does not
  // compute in bf16, so nothing can be measured. Throws an Error if the device does not open.
  static std::unique_ptr<ProbedDevice> open(const PipelineDescription& description);

  explicit ProbedDevice(PartInstance instance);
  ProbedDevice(const ProbedDevice&) = delete;
  ProbedDevice& operator=(const ProbedDevice&) = delete;

  mortise_device_info info() const;
  std::int32_t num_ranks() const;             // of the pipeline
  Memory allocate(std::uint64_t bytes);       // device memory
  Memory host_allocate(std::uint64_t bytes);  // page-locked
  void copy(void* to, const void* from, std::uint64_t bytes);
  mortise_weight* prepare_weight(const mortise_weight_source& source);
  void free_weight(mortise_weight* weight) { table_.free_weight(self_, weight); }
  void linear(const mortise_linear_args& args);

  // Returns the seconds of one run of the work that `enqueue` queues, measured over as many runs as a sample should
  // have.
  double seconds_of(const std::function<void()>& enqueue);

 private:
  void wait();

  PartInstance instance_;
  mortise_device* self_;
  const mortise_device_table& table_;
};

// The sizes of x [rows, k] times the transpose of a weight [n, k], all bf16 and random. (With zeros a GPU draws less
// power, and is faster than with real data.)
struct ProductSizes {
  // These sizes give 512 MiB of weights, and 128 MiB of x and of the product. That is large compared with caches, and
  // the time is long compared with starting a kernel.
  std::int64_t n = 16384, k = 16384, rows = 4096;
};

// Measures products on a device. Used by one thread. Invariant: the buffers have room for `sizes`.
class ProductProbe {
 public:
  // Allocates memory, and lets the device choose its algorithms. `device` outlives this object.
  // REQUIRES: n and rows are multiples of 64. Throws an Error if there is not enough memory.
  ProductProbe(ProbedDevice& device, const ProductSizes& sizes);
  ~ProductProbe();
  ProductProbe(const ProductProbe&) = delete;
  ProductProbe& operator=(const ProductProbe&) = delete;

  std::size_t weight_bytes() const;
  std::string name() const;   // "bf16 product 4096 x 16384 x 16384"
  double row_bytes_per_s();   // of a product with one row, which reads all weights
  double copy_bytes_per_s();  // from memory to memory: bytes read and bytes written
  double operations_per_s();  // of a product with all rows

 private:
  void product(std::int64_t rows);

  ProbedDevice& device_;
  ProductSizes sizes_;
  ProbedDevice::Memory x_, out_;
  mortise_weight* weight_ = nullptr;
};

// Repeats copies from page-locked host memory host memory to the device. Used by one thread. Invariant: both memories
// have bytes() bytes, and the host's are written, so that a copy takes no page fault.
class UploadProbe {
 public:
  explicit UploadProbe(ProbedDevice& device);  // `device` outlives this object

  static std::size_t bytes();
  double bytes_per_s();

 private:
  ProbedDevice& device_;
  ProbedDevice::Memory from_, to_;
};

// The limits of steps. Several ranks are GPUs of one kind, of which the first is measured. Created before the pipeline,
// whose KV cache may take all memory that is left. Used by one thread. Invariant: device_ outlives product_, which
// borrows it.
class DeviceStepProbes : public LimitProbes {
 public:
  DeviceStepProbes(std::unique_ptr<ProbedDevice> device, const ProductSizes& sizes);

  // Call it for models that compute in another type than bf16: their floors only count reading.
  void leave_out_products() { with_products_ = false; }

  Limits sample() override;
  std::string movement() const override { return "read"; }
  std::size_t working_set_bytes() const override { return product_.weight_bytes(); }
  std::optional<std::string> unit() const override;

 private:
  std::unique_ptr<ProbedDevice> device_;
  ProductProbe product_;
  bool with_products_ = true;
};

// The limits of a start, in which the weights come from the host's memory: to each of several ranks at once. Used by
// one thread. Invariant: device_ outlives upload_, which borrows it.
class UploadProbes : public LimitProbes {
 public:
  explicit UploadProbes(std::unique_ptr<ProbedDevice> device) : device_(std::move(device)), upload_(*device_) {}

  Limits sample() override { return {upload_.bytes_per_s(), std::nullopt}; }
  std::string movement() const override { return "upload"; }
  std::size_t working_set_bytes() const override { return UploadProbe::bytes(); }
  std::optional<std::string> unit() const override { return std::nullopt; }
  std::int32_t num_ranks() const override { return device_->num_ranks(); }

 private:
  std::unique_ptr<ProbedDevice> device_;
  UploadProbe upload_;
};

}  // namespace mortise::bench
