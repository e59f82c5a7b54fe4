// limits: measures the limits of the machine, without an engine.
#include <algorithm>

#include "bench_command/machine.hpp"
#include "bench_command/scenarios.hpp"
#include "error.hpp"

namespace mortise::bench {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

struct Place {
  std::string name;
  std::size_t bytes;  // read by all threads together
};

// Returns the sizes for reading from each cache and from memory. Half of a cache is read, since other data is in it,
// too. Of a cache that all processors share, more is read than the smaller caches hold.
std::vector<Place> places(std::size_t num_threads) {
  std::vector<Place> out;
  std::size_t below = 0, last = 0;
  for (const Cache& cache : read_caches("/sys/devices/system/cpu/cpu0/cache")) {
    const bool shared = cache.level >= 3;
    const std::size_t half = cache.bytes / 2;
    const std::size_t bytes =
        shared ? std::clamp(4 * below * num_threads, std::min(16 * kMiB, half), half) : half * num_threads;
    out.push_back({fmt::format("L{} ({} KiB)", cache.level, cache.bytes >> 10), bytes});
    below = cache.bytes;
    last = cache.bytes;
  }
  out.push_back({"memory", std::clamp(4 * last, 256 * kMiB, 1024 * kMiB)});
  return out;
}

std::vector<std::size_t> thread_counts() {
  const std::size_t most = usable_processors();
  std::vector<std::size_t> counts;
  for (std::size_t n = 1; n < most; n *= 2) counts.push_back(n);
  counts.push_back(most);
  return counts;
}

Figure figure_of(std::string name, const char* unit, int repeats, const std::function<double()>& sample) {
  Figure figure;
  figure.name = std::move(name);
  figure.unit = unit;
  for (int i = 0; i < repeats; ++i) figure.samples.push_back(sample() * 1e-9);
  figure.value = median(figure.samples);
  return figure;
}

bool is_integer(Unit unit) {
  return unit == Unit::kAmxInt8 || unit == Unit::kAvx512Int8 || unit == Unit::kAvx2Int8 || unit == Unit::kNeonInt8;
}

}  // namespace

std::vector<Figure> measure_limits(int repeats) {
  std::vector<Figure> figures;
  for (const std::size_t threads : thread_counts()) {
    const std::string on = fmt::format(", {} thread{}", threads, threads == 1 ? "" : "s");
    for (const Place& place : places(threads)) {
      ReadProbe probe(place.bytes, threads);
      figures.push_back(figure_of("read " + place.name + on, "GB/s", repeats, [&] { return probe.bytes_per_s(); }));
    }
    for (const Unit unit : available_units()) {
      figures.push_back(figure_of(unit_name(unit) + on, is_integer(unit) ? "GOP/s" : "GFLOP/s", repeats,
                                  [&] { return unit_operations_per_s(unit, threads); }));
    }
  }
  return figures;
}

std::vector<Figure> measure_limits(int repeats, ProbedDevice& device, const ProductSizes& sizes) {
  ProductProbe product(device, sizes);
  UploadProbe upload(device);
  const auto figure = [&](std::string name, const char* unit, const std::function<double()>& sample) {
    return figure_of(std::move(name), unit, repeats, sample);
  };
  return {figure("read memory, a product with 1 row", "GB/s", [&] { return product.row_bytes_per_s(); }),
          figure("copy memory, read and written", "GB/s", [&] { return product.copy_bytes_per_s(); }),
          figure("upload, from page-locked memory", "GB/s", [&] { return upload.bytes_per_s(); }),
          figure(product.name(), "GFLOP/s", [&] { return product.operations_per_s(); })};
}

}  // namespace mortise::bench
