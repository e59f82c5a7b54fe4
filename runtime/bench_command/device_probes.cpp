#include "bench_command/device_probes.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "bench_command/random_model.hpp"
#include "error.hpp"
#include "execution/rank_group.hpp"

namespace mortise::bench {
namespace {

constexpr std::int64_t kPatternRows = 64;  // rows of random numbers, repeated until the matrix is full
constexpr std::int64_t kBf16Bytes = 2;
constexpr std::uint64_t kUploadBytes = std::uint64_t{64} << 20;

mortise_tensor bf16_matrix(void* data, std::int64_t rows, std::int64_t columns) {
  mortise_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  tensor.data = data;
  tensor.dtype = MORTISE_BF16;
  tensor.ndim = 2;
  tensor.shape[0] = rows, tensor.shape[1] = columns, tensor.shape[2] = tensor.shape[3] = 1;
  tensor.stride[0] = columns, tensor.stride[1] = tensor.stride[2] = tensor.stride[3] = 1;
  tensor.bytes = static_cast<std::uint64_t>(rows * columns * kBf16Bytes);
  return tensor;
}

}  // namespace

std::unique_ptr<ProbedDevice> ProbedDevice::open(const PipelineDescription& description) {
  const PartChoice& choice = description.device.select(description.query());
  PartInstance instance(*choice.component, choice.options, CreateContext{});
  auto* const self = instance.handle<mortise_device>();
  const auto& table = *instance.table<mortise_device_table>();
  mortise_device_info info{};
  info.struct_size = sizeof info;
  table.describe(self, &info);
  if (info.host_memory != 0 || table.numerics_id(self, MORTISE_BF16) == nullptr) return nullptr;
  instance.activate();
  return std::make_unique<ProbedDevice>(std::move(instance));
}

ProbedDevice::ProbedDevice(PartInstance instance)
    : instance_(std::move(instance)),
      self_(instance_.handle<mortise_device>()),
      table_(*instance_.table<mortise_device_table>()) {}

mortise_device_info ProbedDevice::info() const {
  mortise_device_info info{};
  info.struct_size = sizeof info;
  table_.describe(self_, &info);
  return info;
}

std::int32_t ProbedDevice::num_ranks() const {
  return num_ranks_of(instance_.active_part<mortise_device, mortise_device_table>());
}

ProbedDevice::Memory ProbedDevice::allocate(std::uint64_t bytes) {
  mortise_error error = empty_error();
  void* memory = nullptr;
  instance_.check(table_.allocate(self_, bytes, &memory, &error), error, "allocate");
  return {memory, [this](void* p) { table_.free(self_, p); }};
}

ProbedDevice::Memory ProbedDevice::host_allocate(std::uint64_t bytes) {
  mortise_error error = empty_error();
  void* memory = nullptr;
  instance_.check(table_.host_allocate(self_, bytes, &memory, &error), error, "host_allocate");
  return {memory, [this](void* p) { table_.host_free(self_, p); }};
}

void ProbedDevice::copy(void* to, const void* from, std::uint64_t bytes) {
  mortise_error error = empty_error();
  instance_.check(table_.copy(self_, nullptr, to, from, bytes, &error), error, "copy");
}

mortise_weight* ProbedDevice::prepare_weight(const mortise_weight_source& source) {
  mortise_error error = empty_error();
  mortise_weight* weight = nullptr;
  instance_.check(table_.prepare_weight(self_, &source, &weight, &error), error, "prepare_weight");
  return weight;
}

void ProbedDevice::linear(const mortise_linear_args& args) {
  mortise_error error = empty_error();
  instance_.check(table_.linear(self_, nullptr, &args, &error), error, "linear");
}

void ProbedDevice::wait() {
  mortise_error error = empty_error();
  instance_.check(table_.stream_synchronize(self_, nullptr, &error), error, "stream_synchronize");
}

double ProbedDevice::seconds_of(const std::function<void()>& enqueue) {
  const std::size_t repeats = repeats_of_sample([&] {
    enqueue();
    wait();
  });
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < repeats; ++i) enqueue();
  wait();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return seconds.count() / static_cast<double>(repeats);
}

ProductProbe::ProductProbe(ProbedDevice& device, const ProductSizes& sizes) : device_(device), sizes_(sizes) {
  std::vector<std::uint16_t> pattern = random_bf16(static_cast<std::size_t>(kPatternRows * sizes.k));
  const mortise_tensor part = bf16_matrix(pattern.data(), kPatternRows, sizes.k);
  x_ = device.allocate(part.bytes * static_cast<std::uint64_t>(sizes.rows / kPatternRows));
  for (std::int64_t row = 0; row < sizes.rows; row += kPatternRows) {
    device.copy(static_cast<std::uint16_t*>(x_.get()) + row * sizes.k, part.data, part.bytes);
  }
  // The memory for the product also serves for copies of x.
  out_ = device.allocate(static_cast<std::uint64_t>(sizes.rows * std::max(sizes.n, sizes.k) * kBf16Bytes));
  const std::vector<const mortise_tensor*> parts(static_cast<std::size_t>(sizes.n / kPatternRows), &part);
  mortise_weight_source source{};
  source.struct_size = sizeof source;
  source.use = MORTISE_WEIGHT_LINEAR;
  source.num_parts = static_cast<std::int32_t>(parts.size());
  source.parts = parts.data();
  source.dtype = MORTISE_BF16;
  weight_ = device.prepare_weight(source);
  try {
    // The first run of an operation at a size chooses its algorithm and is slow.
    for (const std::int64_t rows : {std::int64_t{1}, sizes.rows}) product(rows);
  } catch (...) {
    device.free_weight(weight_);
    throw;
  }
}

ProductProbe::~ProductProbe() {
  device_.free_weight(weight_);
}

std::size_t ProductProbe::weight_bytes() const {
  return static_cast<std::size_t>(sizes_.n * sizes_.k * kBf16Bytes);
}

std::string ProductProbe::name() const {
  return fmt::format("bf16 product {} x {} x {}", sizes_.rows, sizes_.n, sizes_.k);
}

void ProductProbe::product(std::int64_t rows) {
  const mortise_tensor x = bf16_matrix(x_.get(), rows, sizes_.k), out = bf16_matrix(out_.get(), rows, sizes_.n);
  mortise_linear_args args{};
  args.struct_size = sizeof args;
  args.x = &x;
  args.weight = weight_;
  args.out = &out;
  device_.linear(args);
}

double ProductProbe::row_bytes_per_s() {
  return static_cast<double>(weight_bytes()) / device_.seconds_of([&] { product(1); });
}

double ProductProbe::copy_bytes_per_s() {
  const auto bytes = static_cast<std::uint64_t>(sizes_.rows * sizes_.k * kBf16Bytes);
  return 2 * static_cast<double>(bytes) / device_.seconds_of([&] { device_.copy(out_.get(), x_.get(), bytes); });
}

double ProductProbe::operations_per_s() {
  const double operations = 2.0 * static_cast<double>(sizes_.rows) * static_cast<double>(sizes_.n * sizes_.k);
  return operations / device_.seconds_of([&] { product(sizes_.rows); });
}

UploadProbe::UploadProbe(ProbedDevice& device)
    : device_(device), from_(device.host_allocate(kUploadBytes)), to_(device.allocate(kUploadBytes)) {
  // Writes the pages, so that they exist.
  std::fill_n(static_cast<std::byte*>(from_.get()), kUploadBytes, std::byte{1});
}

std::size_t UploadProbe::bytes() {
  return kUploadBytes;
}

double UploadProbe::bytes_per_s() {
  const double seconds = device_.seconds_of([&] { device_.copy(to_.get(), from_.get(), kUploadBytes); });
  return static_cast<double>(kUploadBytes) / seconds;
}

DeviceStepProbes::DeviceStepProbes(std::unique_ptr<ProbedDevice> device, const ProductSizes& sizes)
    : device_(std::move(device)), product_(*device_, sizes) {}

// Uses the memory's bandwidth in two ways. Either may leave some of it unused, so the better one is closer to the
// limit.
Limits DeviceStepProbes::sample() {
  Limits limits;
  limits.read_bytes_per_s = std::max(product_.row_bytes_per_s(), product_.copy_bytes_per_s());
  if (with_products_) limits.operations_per_s = product_.operations_per_s();
  return limits;
}

std::optional<std::string> DeviceStepProbes::unit() const {
  if (!with_products_) return std::nullopt;
  return product_.name();
}

}  // namespace mortise::bench
