// device_fixture.hpp: the CPU device as a host sees it, through the plugin's entry and the device's table.
#pragma once

#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include "kernel_test.hpp"
#include "loader/option_reader.hpp"
#include "mortise/ext/parallel.h"
#include "mortise/plugin.hpp"
#include "variables.hpp"

namespace mortise::cpu {

inline const mortise_component& cpu_component() {
  return *mortise_plugin_entry_v0(nullptr)->components[0];
}

inline mortise_status create_device(const std::string& options, void** instance, mortise_error* error) {
  auto args = sized<mortise_create_args>();
  const OptionReader reader(nlohmann::json::parse(options));
  reader.give_to(args);
  args.world = 1;
  return cpu_component().create(nullptr, &args, instance, error);
}

// A device that lives as long as this object. Every call checks that it succeeds.
class Device {
 public:
  explicit Device(const std::string& options) : error(make_error()) {
    test::set_variable("MORTISE_ISA", std::nullopt);  // these tests choose for themselves
    void* instance = nullptr;
    EXPECT_EQ(create_device(options, &instance, &error), MORTISE_OK) << error.message;
    device_ = static_cast<mortise_device*>(instance);
  }
  Device(Isa isa, int threads, SumOrder order = SumOrder::kTiles)
      : Device(R"({"isa": ")" + std::string(isa_name(isa)) + R"(", "numerics": ")" +
               (order == SumOrder::kTiles ? "tiles" : "pairs") + R"(", "threads": )" + std::to_string(threads) + "}") {}
  ~Device() { cpu_component().destroy(device_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  mortise_device* get() const { return device_; }
  const mortise_device_table& table() const { return *static_cast<const mortise_device_table*>(cpu_component().table); }
  const mortise_parallel_table& parallel() const {
    return *static_cast<const mortise_parallel_table*>(table().get_ext(device_, MORTISE_EXT_PARALLEL));
  }

  mortise_error error;

 private:
  mortise_device* device_ = nullptr;
};

template <typename T>
constexpr int32_t dtype_of() {
  return sizeof(T) == 2 ? int32_t{MORTISE_BF16} : int32_t{MORTISE_F32};
}

// A matrix over `data`, rows `stride` elements apart.
template <typename T>
mortise_tensor matrix(const std::vector<T>& data, std::size_t rows, std::size_t columns, std::size_t stride = 0) {
  mortise_tensor tensor = make_tensor(const_cast<T*>(data.data()), dtype_of<T>(), static_cast<int64_t>(rows),
                                      static_cast<int64_t>(columns));
  if (stride > 0) tensor.stride[0] = static_cast<int64_t>(stride);
  tensor.bytes = data.size() * sizeof(T);
  return tensor;
}

inline mortise_tensor with_dtype(mortise_tensor tensor, int32_t dtype) {
  tensor.dtype = dtype;
  return tensor;
}

// A prepared weight, freed with this object.
class Weight {
 public:
  Weight(Device& device, int32_t use, int32_t dtype, const std::vector<mortise_tensor>& parts) : device_(device) {
    std::vector<const mortise_tensor*> pointers;
    for (const mortise_tensor& part : parts) pointers.push_back(&part);
    auto source = sized<mortise_weight_source>();
    source.use = use;
    source.dtype = dtype;
    source.num_parts = static_cast<int32_t>(pointers.size());
    source.parts = pointers.data();
    status = device.table().prepare_weight(device.get(), &source, &weight_, &device.error);
  }
  ~Weight() { device_.table().free_weight(device_.get(), weight_); }
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;
  const mortise_weight* get() const { return weight_; }

  mortise_status status;

 private:
  Device& device_;
  mortise_weight* weight_ = nullptr;
};

template <typename T>
mortise_tensor vector_part(const std::vector<T>& data) {
  mortise_tensor tensor = matrix(data, data.size(), 1);
  tensor.ndim = 1;
  tensor.stride[0] = 1;
  return tensor;
}

// A test case per instruction set of this machine and thread count.
class OnEachDevice : public testing::TestWithParam<std::tuple<Isa, int>> {
 protected:
  explicit OnEachDevice(SumOrder order = SumOrder::kTiles)
      : device_(std::get<0>(GetParam()), std::get<1>(GetParam()), order) {}
  const mortise_device_table& table() const { return device_.table(); }
  void expect_ok(mortise_status status) const { EXPECT_EQ(status, MORTISE_OK) << device_.error.message; }

  Device device_;
};

inline std::string device_case_name(const testing::TestParamInfo<std::tuple<Isa, int>>& info) {
  std::string name = isa_name(std::get<0>(info.param));
  name += '_';
  name += std::to_string(std::get<1>(info.param));
  return name;
}

#define MORTISE_ON_EACH_DEVICE(fixture)                                                                              \
  INSTANTIATE_TEST_SUITE_P(                                                                                          \
      Isa, fixture, testing::Combine(testing::ValuesIn(::mortise::cpu::available_isas()), testing::Values(1, 2, 3)), \
      ::mortise::cpu::device_case_name)

// A device for tests of what does not depend on the instruction set.
class OneDevice : public testing::Test {
 protected:
  const mortise_device_table& table() const { return device_.table(); }
  void expect_invalid(mortise_status status, const std::string& text) const {
    EXPECT_EQ(status, MORTISE_INVALID_ARGUMENT);
    EXPECT_NE(std::string(device_.error.message).find(text), std::string::npos) << device_.error.message;
  }

  Device device_{available_isas().back(), 2};
};

}  // namespace mortise::cpu
