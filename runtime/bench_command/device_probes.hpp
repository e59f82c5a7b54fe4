// runtime/bench_command/device_probes.hpp: the limits of a device with memory of its own (a GPU), measured through its
// table and so with its own operations: what they reach on matrices that suit them best. There is no loop that does
// nothing else, as there is for processors; docs/performance.md tells what that means for the floors.
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

// A pipeline's device opened once more, for measuring alone: so no call meets one of the engine's thread.
class ProbedDevice {
 public:
  using Memory = std::unique_ptr<void, std::function<void(void*)>>;

  // nullptr: its memory is the host's, so that probes.hpp measures it, or it does not compute in bf16, and nothing is
  // known of it. Throws an Error when it does not open.
  static std::unique_ptr<ProbedDevice> open(const PipelineDescription& description);

  explicit ProbedDevice(PartInstance instance);
  ProbedDevice(const ProbedDevice&) = delete;
  ProbedDevice& operator=(const ProbedDevice&) = delete;

  mortise_device_info info() const;
  Memory allocate(std::uint64_t bytes);       // of the device
  Memory host_allocate(std::uint64_t bytes);  // page-locked
  void copy(void* to, const void* from, std::uint64_t bytes);
  mortise_weight* prepare_weight(const mortise_weight_source& source);
  void free_weight(mortise_weight* weight) { table_.free_weight(self_, weight); }
  void linear(const mortise_linear_args& args);

  // Seconds of one run of what `enqueue` queues, over about as many as one sample should have.
  double seconds_of(const std::function<void()>& enqueue);

 private:
  void wait();

  PartInstance instance_;
  mortise_device* self_;
  const mortise_device_table& table_;
};

// x [rows, k] times the transpose of a weight [n, k], all bf16 and random: with zeros a GPU draws less power, and is
// faster than it can be at work.
struct ProductSizes {
  // 512 MiB of weights and 128 MiB of x and of the product: what a cache keeps and what starting a kernel costs are
  // small beside them.
  std::int64_t n = 16384, k = 16384, rows = 4096;
};

class ProductProbe {
 public:
  // Takes its memory, and lets the device choose its algorithms. `device` outlives this. REQUIRES: n is a multiple of
  // 64, rows too. Throws an Error when there is not that much memory.
  ProductProbe(ProbedDevice& device, const ProductSizes& sizes);
  ~ProductProbe();
  ProductProbe(const ProductProbe&) = delete;
  ProductProbe& operator=(const ProductProbe&) = delete;

  std::size_t weight_bytes() const;
  std::string name() const;   // "bf16 product 4096 x 16384 x 16384"
  double row_bytes_per_s();   // of a product with one row, which reads all weights
  double copy_bytes_per_s();  // from memory to memory: those read and those written
  double operations_per_s();  // of a product with all rows

 private:
  void product(std::int64_t rows);

  ProbedDevice& device_;
  ProductSizes sizes_;
  ProbedDevice::Memory x_, out_;
  mortise_weight* weight_ = nullptr;
};

// Copies from page-locked memory of the host to the device's, again and again.
class UploadProbe {
 public:
  explicit UploadProbe(ProbedDevice& device);  // `device` outlives this

  static std::size_t bytes();
  double bytes_per_s();

 private:
  ProbedDevice& device_;
  ProbedDevice::Memory from_, to_;
};

// What steps run into. Made before the pipeline is, whose KV cache may be told to take all memory that is left.
class DeviceStepProbes : public LimitProbes {
 public:
  DeviceStepProbes(std::unique_ptr<ProbedDevice> device, const ProductSizes& sizes);

  // For models that compute in another type than bf16: floors are of reading alone.
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

// What a start runs into: weights have to come from the host's memory.
class UploadProbes : public LimitProbes {
 public:
  explicit UploadProbes(std::unique_ptr<ProbedDevice> device) : device_(std::move(device)), upload_(*device_) {}

  Limits sample() override { return {upload_.bytes_per_s(), std::nullopt}; }
  std::string movement() const override { return "upload"; }
  std::size_t working_set_bytes() const override { return UploadProbe::bytes(); }
  std::optional<std::string> unit() const override { return std::nullopt; }

 private:
  std::unique_ptr<ProbedDevice> device_;
  UploadProbe upload_;
};

}  // namespace mortise::bench
