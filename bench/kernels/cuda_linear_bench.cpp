// Products of the device cuda alone, at the shapes of an 8B model: bf16 beside quantised, FP8 and MXFP4 weights.
//   cuda_linear_bench [SHAPE | FORMAT | ROWS ...]      default: all, at 1 8 32 256 4096 rows
// A figure is the median time of one product in a graph of several over different weights, so that the L2 has none of
// them, divided by their number; each product may begin before the one before has ended, as in a step.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "devices/cuda/ops.hpp"
#include "loader/option_reader.hpp"
#include "mortise/plugin.hpp"

namespace {

constexpr int kProducts = 16, kRepeats = 15;
constexpr double kBytesOfWeights = 4e8;  // that a graph reads, at least, where there are as many products

void require(bool ok, const std::string& what) {
  if (ok) return;
  std::fprintf(stderr, "cuda_linear_bench: %s\n", what.c_str());
  std::exit(1);
}
void require(cudaError_t status, const char* what) {
  require(status == cudaSuccess, std::string(what) + ": " + cudaGetErrorString(status));
}

struct Format {
  const char* name;
  int bits, group;  // 0 bits: bf16
  std::int32_t value_type = 0;
  double bytes_of(std::int64_t n, std::int64_t k) const {
    const double values = static_cast<double>(n) * static_cast<double>(k) * (bits == 0 ? 16 : bits) / 8;
    const double groups = bits == 0 ? 0 : group == 0 ? 1 : static_cast<double>(k) / group;
    return values + static_cast<double>(n) * groups * (value_type == 0 ? 5 : value_type == MORTISE_F8_E4M3 ? 4 : 1);
  }
};
struct Shape {
  const char* name;
  std::int64_t n, k;
  bool gated = false;  // an activation follows
};
constexpr Format kFormats[] = {{"bf16", 0, 0},
                               {"int8", 8, 0},
                               {"int4-128", 4, 128},
                               {"int4-64", 4, 64},
                               {"int8-128", 8, 128},
                               {"fp8", 8, 0, MORTISE_F8_E4M3},
                               {"fp8-128", 8, 128, MORTISE_F8_E4M3},
                               {"mxfp4", 4, 32, MORTISE_F4_E2M1}};
// Whole, and what each of two and four ranks computes.
constexpr Shape kShapes[] = {{"qkv", 6144, 4096},
                             {"o", 4096, 4096},
                             {"gate+up", 28672, 4096},
                             {"down", 4096, 14336},
                             {"head", 128256, 4096},
                             {"qkv/2", 3072, 4096},
                             {"o/2", 2048, 4096},
                             {"gate+up/2", 14336, 4096},
                             {"down/2", 2048, 14336},
                             {"qkv/4", 1536, 4096},
                             {"o/4", 1024, 4096},
                             {"gate+up/4", 7168, 4096},
                             {"down/4", 1024, 14336},
                             {"gated", 28672, 4096, true},
                             {"gated/2", 14336, 4096, true},
                             {"gated/4", 7168, 4096, true}};

class Gpu {
 public:
  Gpu() : error_(mortise::make_error()) {
    auto args = mortise::sized<mortise_create_args>();
    const mortise::OptionReader options(nlohmann::json{{"tuning_cache", false}});
    options.give_to(args);
    args.world = 1;
    check(component().create(nullptr, &args, &instance_, &error_));
    const auto sizes = mortise::sized<mortise_activate_args>();
    check(component().activate(instance_, &sizes, &error_));
  }
  ~Gpu() {
    component().deactivate(instance_);
    component().destroy(instance_);
  }
  Gpu(const Gpu&) = delete;

  mortise_weight* prepare(const std::vector<std::uint16_t>& values, const Shape& shape, const Format& format) {
    mortise_tensor part =
        mortise::make_tensor(const_cast<std::uint16_t*>(values.data()), MORTISE_BF16, shape.n, shape.k);
    const mortise_tensor* pointer = &part;
    auto source = mortise::sized<mortise_weight_source>();
    source.use = MORTISE_WEIGHT_LINEAR;
    source.dtype = MORTISE_BF16;
    source.bits = format.bits;
    source.group_size = format.group;
    source.num_parts = 1;
    source.parts = &pointer;
    source.value_type = format.value_type;
    const mortise_quantized_matrix blocks = blocks_of(values, shape);
    const mortise_quantized_matrix* const quantized = &blocks;
    if (format.value_type == MORTISE_F8_E4M3 && format.group != 0) source.quantized = &quantized;
    mortise_weight* weight = nullptr;
    check(table().prepare_weight(device(), &source, &weight, &error_));
    return weight;
  }
  void free(mortise_weight* weight) { table().free_weight(device(), weight); }

  void multiply(const mortise_weight* weight, void* x, void* y, std::int64_t m, const Shape& shape) {
    const mortise_tensor in = mortise::make_tensor(x, MORTISE_BF16, m, shape.k);
    const mortise_tensor out = mortise::make_tensor(y, MORTISE_BF16, m, shape.gated ? shape.n / 2 : shape.n);
    auto args = mortise::sized<mortise_linear_args>();
    if (shape.gated) args.gate_activation = MORTISE_ACT_SILU;
    args.x = &in;
    args.weight = weight;
    args.out = &out;
    check(table().linear(device(), nullptr, &args, &error_));
  }
  cudaStream_t stream() { return static_cast<cudaStream_t>(table().stream_native(device(), nullptr)); }

 private:
  // The bytes of `values` as E4M3 numbers with a scale for 128 columns, as a checkpoint would hand them in.
  static mortise_quantized_matrix blocks_of(const std::vector<std::uint16_t>& values, const Shape& shape) {
    auto matrix = mortise::sized<mortise_quantized_matrix>();
    matrix.n = shape.n;
    matrix.k = shape.k;
    matrix.bits = 8;
    matrix.group_size = 128;
    matrix.value_type = MORTISE_F8_E4M3;
    matrix.context = const_cast<std::uint16_t*>(values.data());
    matrix.read = [](void* context, int64_t n0, int64_t n1, uint8_t* out, float* scales, uint8_t*) {
      const auto* const bits = static_cast<const std::uint16_t*>(context);
      const std::int64_t rows = n1 - n0;
      for (std::int64_t i = 0; i < rows * columns; ++i) {
        out[i] = static_cast<std::uint8_t>((bits[i] >> 8 & 0x80u) | (0x30u + (bits[i] & 0xfu)));
      }
      std::fill(scales, scales + rows * ((columns + 127) / 128), 0.5f);
    };
    columns = shape.k;
    return matrix;
  }
  static inline std::int64_t columns = 0;  // of the matrix that is read
  static const mortise_component& component() { return *mortise_plugin_entry_v0(nullptr)->components[0]; }
  static const mortise_device_table& table() { return *static_cast<const mortise_device_table*>(component().table); }
  mortise_device* device() const { return static_cast<mortise_device*>(instance_); }
  void check(mortise_status status) const { require(status == MORTISE_OK, error_.message); }

  void* instance_ = nullptr;
  mortise_error error_;
};

// Numbers of both signs between 1/2 and 2, times a power of two. Weights are small, so that sums are around 1, as a
// model's are: SiLU of large numbers is slower. Otherwise speed depends little on the numbers, but zeros would be
// faster.
std::vector<std::uint16_t> random_bf16(std::size_t count, int power) {
  const auto exponent = static_cast<std::uint32_t>(0x3f00 + (power << 7));
  std::vector<std::uint16_t> values(count);
  std::uint64_t state = 1;
  for (std::uint16_t& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto r = static_cast<std::uint32_t>(state >> 40);
    value = static_cast<std::uint16_t>((r & 0x8000u) | (exponent + (r & 0xffu)));
  }
  return values;
}

// Microseconds of a product.
double measure(Gpu& gpu, const std::vector<mortise_weight*>& weights, void* x, void* y, std::int64_t m,
               const Shape& shape) {
  gpu.multiply(weights[0], x, y, m, shape);  // workspaces, the choice of an algorithm
  cudaGraph_t graph;
  cudaGraphExec_t run;
  require(cudaStreamSynchronize(gpu.stream()), "product");
  require(cudaStreamBeginCapture(gpu.stream(), cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < kProducts; ++i) {
    gpu.multiply(weights[static_cast<std::size_t>(i) % weights.size()], x, y, m, shape);
  }
  require(cudaStreamEndCapture(gpu.stream(), &graph), "capture");
  require(cudaGraphInstantiate(&run, graph, 0), "graph");
  cudaEvent_t begin, end;
  require(cudaEventCreate(&begin), "event");
  require(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = 0; i < kRepeats + 2; ++i) {
    require(cudaEventRecord(begin, gpu.stream()), "event");
    require(cudaGraphLaunch(run, gpu.stream()), "graph");
    require(cudaEventRecord(end, gpu.stream()), "event");
    require(cudaEventSynchronize(end), "products");
    float ms = 0;
    require(cudaEventElapsedTime(&ms, begin, end), "time");
    if (i >= 2) times.push_back(ms);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(run);
  cudaGraphDestroy(graph);
  std::nth_element(times.begin(), times.begin() + kRepeats / 2, times.end());
  return static_cast<double>(times[kRepeats / 2]) * 1e3 / kProducts;
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::int64_t> rows;
  std::vector<std::string> names;
  for (int i = 1; i < count; ++i) {
    if (const std::int64_t m = std::atoll(arguments[i]); m > 0) {
      rows.push_back(m);
    } else {
      names.push_back(arguments[i]);
    }
  }
  // The named shapes and formats; all if none is named.
  const auto wanted = [&](const auto& all, const char* name) {
    const auto named = [&](const std::string& other) {
      return std::find(names.begin(), names.end(), other) != names.end();
    };
    return named(name) ||
           std::none_of(std::begin(all), std::end(all), [&](const auto& one) { return named(one.name); });
  };
  if (rows.empty()) rows = {1, 8, 32, 256, 4096};
  const std::int64_t most = *std::max_element(rows.begin(), rows.end());
  Gpu gpu;
  cudaDeviceProp properties = {};
  require(cudaGetDeviceProperties(&properties, 0), "device");
  std::printf("%s; microseconds a product, GB/s of weights, TFLOP/s\n%-9s %-9s", properties.name, "", "");
  for (const std::int64_t m : rows) std::printf(" | %9lld rows          ", static_cast<long long>(m));
  std::printf("\n");
  for (const Shape& shape : kShapes) {
    if (!wanted(kShapes, shape.name)) continue;
    const auto elements = static_cast<std::size_t>(shape.n * shape.k);
    const std::vector<std::uint16_t> values = random_bf16(elements, -6);
    const std::vector<std::uint16_t> xs = random_bf16(static_cast<std::size_t>(most * shape.k), 0);
    void *x = nullptr, *y = nullptr;
    require(cudaMalloc(&x, xs.size() * 2), "x");
    require(cudaMalloc(&y, static_cast<std::size_t>(most * shape.n) * 2), "y");
    require(cudaMemcpy(x, xs.data(), xs.size() * 2, cudaMemcpyHostToDevice), "x");
    for (const Format& format : kFormats) {
      if (!wanted(kFormats, format.name)) continue;
      const double bytes = format.bytes_of(shape.n, shape.k);
      const int copies = std::clamp(static_cast<int>(kBytesOfWeights / bytes) + 1, 2, kProducts);
      std::vector<mortise_weight*> weights;
      for (int i = 0; i < copies; ++i) weights.push_back(gpu.prepare(values, shape, format));
      std::printf("%-9s %-9s", shape.name, format.name);
      for (const std::int64_t m : rows) {
        const double us = measure(gpu, weights, x, y, m, shape);
        const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(elements);
        std::printf(" | %8.1f %5.0f %6.1f", us, bytes / us * 1e-3, flops / us * 1e-6);
        std::fflush(stdout);
      }
      std::printf("\n");
      for (mortise_weight* weight : weights) gpu.free(weight);
    }
    cudaFree(x);
    cudaFree(y);
  }
  return 0;
}
