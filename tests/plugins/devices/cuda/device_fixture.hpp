// device_fixture.hpp: the CUDA device as a host sees it, through the plugin's entry and the device's table. Where there
// is no GPU that it serves, every test is skipped and says why.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernel_test.hpp"
#include "loader/option_reader.hpp"
#include "mortise/ext/graph.h"
#include "mortise/plugin.hpp"

namespace mortise::cuda {

using cpu::Bf16;
using cpu::DenormalsOff;
using cpu::kAllValues;
using cpu::random_values;
using cpu::same_bits;
using cpu::Values;

inline const mortise_component& cuda_component() {
  return *mortise_plugin_entry_v0(nullptr)->components[0];
}

// An instance, active if there is a GPU; `status` and `error` say what became of it.
class Device {
 public:
  explicit Device(const std::string& options = R"({"tuning_cache": false})", int rank = 0, int world = 1)
      : error(make_error()) {
    auto args = sized<mortise_create_args>();
    const OptionReader reader(nlohmann::json::parse(options));
    reader.give_to(args);
    args.rank = rank;
    args.world = world;
    status = cuda_component().create(nullptr, &args, &instance_, &error);
    if (status != MORTISE_OK) return;
    const auto sizes = sized<mortise_activate_args>();
    status = cuda_component().activate(instance_, &sizes, &error);
  }
  ~Device() {
    if (status == MORTISE_OK) cuda_component().deactivate(instance_);
    if (instance_ != nullptr) cuda_component().destroy(instance_);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  mortise_device* get() const { return static_cast<mortise_device*>(instance_); }
  const mortise_device_table& table() const {
    return *static_cast<const mortise_device_table*>(cuda_component().table);
  }
  const mortise_graph_table& graphs() const {
    return *static_cast<const mortise_graph_table*>(table().get_ext(get(), MORTISE_EXT_GRAPH));
  }
  void synchronize() { EXPECT_EQ(table().stream_synchronize(get(), nullptr, &error), MORTISE_OK) << error.message; }

  mortise_status status;
  mortise_error error;

 private:
  void* instance_ = nullptr;
};

inline std::unique_ptr<Device>& shared_device() {
  static std::unique_ptr<Device> value;
  return value;
}

// Tests of several ranks on one GPU need kernels that run beside each other. CUDA gives the streams of a process eight
// queues, and two streams in one queue would wait for each other; the devices of other tests have streams, too.
inline const int many_queues = ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);

// One device for all tests of the program: starting CUDA takes most of a second.
inline Device& device() {
  if (shared_device() == nullptr) shared_device() = std::make_unique<Device>();
  return *shared_device();
}

// Ends that device while the process still runs. When the process ends, cuBLASLt's own statics may end first, and the
// thread that loads its kernels in the background would use them.
class EndOfDevice : public testing::Environment {
  void TearDown() override { shared_device().reset(); }
};
inline testing::Environment* const end_of_device = testing::AddGlobalTestEnvironment(new EndOfDevice);

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    const mortise_status status = device().status;
    if (status == MORTISE_UNAVAILABLE || status == MORTISE_UNIMPLEMENTED) {
      GTEST_SKIP() << "no GPU to test on: " << device().error.message;
    }
    ASSERT_EQ(status, MORTISE_OK) << device().error.message;
  }
  const mortise_device_table& table() const { return device().table(); }
  mortise_device* gpu() const { return device().get(); }
  mortise_error* error() const { return &device().error; }
  void expect_ok(mortise_status status) const { EXPECT_EQ(status, MORTISE_OK) << device().error.message; }
  void expect_invalid(mortise_status status, const std::string& text) const {
    EXPECT_EQ(status, MORTISE_INVALID_ARGUMENT);
    EXPECT_NE(std::string(device().error.message).find(text), std::string::npos) << device().error.message;
  }
  DenormalsOff denormals_off_;
};

// An array in device memory. get() waits for what is queued.
template <typename T>
class Array {
 public:
  explicit Array(std::size_t count) : count_(count) {
    EXPECT_EQ(device().table().allocate(device().get(), count * sizeof(T), &data_, &device().error), MORTISE_OK)
        << device().error.message;
  }
  Array(const std::vector<T>& values) : Array(values.size()) { put(values); }  // NOLINT: an array of these
  ~Array() { device().table().free(device().get(), data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  T* data() const { return static_cast<T*>(data_); }
  void put(const std::vector<T>& values) {
    ASSERT_LE(values.size(), count_);
    EXPECT_EQ(device().table().copy(device().get(), nullptr, data_, values.data(), values.size() * sizeof(T),
                                    &device().error),
              MORTISE_OK)
        << device().error.message;
  }
  std::vector<T> get() const {
    std::vector<T> values(count_);
    EXPECT_EQ(device().table().copy(device().get(), nullptr, values.data(), data_, count_ * sizeof(T), &device().error),
              MORTISE_OK)
        << device().error.message;
    device().synchronize();
    return values;
  }
  std::size_t size() const { return count_; }

 private:
  std::size_t count_;
  void* data_ = nullptr;
};

template <typename T>
constexpr int32_t dtype_of() {
  return sizeof(T) == 2 ? int32_t{MORTISE_BF16} : int32_t{MORTISE_F32};
}

template <typename T>
mortise_tensor matrix(const Array<T>& data, std::size_t rows, std::size_t columns, std::size_t stride = 0,
                      std::size_t first = 0) {
  mortise_tensor tensor =
      make_tensor(data.data() + first, dtype_of<T>(), static_cast<int64_t>(rows), static_cast<int64_t>(columns));
  if (stride > 0) tensor.stride[0] = static_cast<int64_t>(stride);
  tensor.bytes = (data.size() - first) * sizeof(T);
  return tensor;
}

// A matrix, or with one column of a vector a vector, in host memory.
template <typename T>
mortise_tensor host_part(const std::vector<T>& data, std::size_t rows, std::size_t columns) {
  return make_tensor(const_cast<T*>(data.data()), dtype_of<T>(), static_cast<int64_t>(rows),
                     static_cast<int64_t>(columns));
}
template <typename T>
mortise_tensor vector_part(const std::vector<T>& data) {
  mortise_tensor tensor = host_part(data, data.size(), 1);
  tensor.ndim = 1;
  return tensor;
}

// A prepared weight, freed with this object.
class Weight {
 public:
  Weight(int32_t use, const std::vector<mortise_tensor>& parts, int32_t dtype = MORTISE_BF16, int32_t bits = 0) {
    std::vector<const mortise_tensor*> pointers;
    for (const mortise_tensor& part : parts) pointers.push_back(&part);
    auto source = sized<mortise_weight_source>();
    source.use = use;
    source.dtype = dtype;
    source.bits = bits;
    source.num_parts = static_cast<int32_t>(pointers.size());
    source.parts = pointers.data();
    status = device().table().prepare_weight(device().get(), &source, &weight_, &device().error);
  }
  ~Weight() { device().table().free_weight(device().get(), weight_); }
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;
  const mortise_weight* get() const { return weight_; }

  mortise_status status;

 private:
  mortise_weight* weight_ = nullptr;
};

}  // namespace mortise::cuda
