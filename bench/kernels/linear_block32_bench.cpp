// linear_block32_bench: speed of linear with weights and activations in blocks of 32, in the formats of GGUF.
// usage: linear_block32_bench [threads] [isa ...]   (without: 1 thread, all that the machine has but portable)
// Each product walks through copies of its weights that together exceed the caches, as layers do. The time includes the
// quantisation of x. Times are those of the fastest of many calls; `of read` is the share of the speed at which memory
// can be read, and `x` how many times faster the product is than in bf16.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "isas.hpp"
#include "kernels/cpu/kernels.hpp"
#include "kernels/cpu/linear_block32/pack.hpp"
#include "limits.hpp"
#include "linear_input.hpp"

namespace {

using namespace mortise;
using bench::Shape;

constexpr Shape kShapes[] = {{2304, 768}, {6144, 768}, {768, 3072}, {4096, 4096}};
constexpr std::size_t kRows[] = {1, 2, 4, 8, 16, 32, 128, 1024};
constexpr double kSeconds = 0.1;  // of each product

struct Named {
  const char* name;
  cpu::Block32Format format;
};
constexpr Named kFormats[] = {{"Q8_0", {8, 32, 128, false, true}},
                              {"Q4_0", {4, 32, 8, false, true}},
                              {"Q4_1", {4, 32, 0, true, true}},
                              {"Q4_K", {4, 32, 0, true, false}},
                              {"Q6_K", {8, 16, 32, false, false}}};

// Weights of a product, several copies.
struct Weights {
  Weights(Shape s, std::size_t m, const cpu::Block32Format& f)
      : format(f),
        value_bytes(cpu::packed_bytes_int(s.n, s.k, f.bits)),
        factor_bytes(cpu::packed_factor_bytes(s.n, cpu::groups_of(s.k, f.group_size), f.half_scales)),
        copies(bench::copies_of(value_bytes, m)) {
    values = bench::aligned<std::uint8_t>(value_memory, copies * value_bytes);
    scales = bench::aligned<char>(scale_memory, copies * factor_bytes);
    minima = bench::aligned<char>(minimum_memory, copies * factor_bytes);
    for (std::size_t i = 0; i < copies * value_bytes; ++i) values[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
    std::fill_n(scales, copies * factor_bytes, '\x11');  // ordinary numbers of f16 and of f32
    std::fill_n(minima, copies * factor_bytes, '\x11');
  }
  double bytes() const { return static_cast<double>(value_bytes + factor_bytes * (format.has_minima ? 2 : 1)); }

  cpu::Block32Format format;
  std::size_t value_bytes, factor_bytes, copies;
  std::vector<char> value_memory, scale_memory, minimum_memory;
  std::uint8_t* values;
  char *scales, *minima;
};

double measure(const cpu::LinearBlock32Kernels& kernels, Shape s, std::size_t m, std::size_t threads,
               const Weights& weights) {
  const bench::Input in(s, m);
  const bench::Scratch scratch(kernels.scratch_bytes(m, s.k), threads);
  const std::size_t each = bench::columns_per_thread(s.n, threads);
  return bench::fastest_round(threads, kSeconds, [&](std::size_t t, std::size_t round) {
    const std::size_t copy = round % weights.copies;
    cpu::LinearBlock32Args args = {};
    args.x = in.x, args.x_stride = s.k, args.m = m, args.n = s.n, args.k = s.k, args.y = in.y, args.y_stride = s.n;
    args.format = weights.format;
    args.values = weights.values + copy * weights.value_bytes;
    args.scales = weights.scales + copy * weights.factor_bytes;
    args.minima = weights.format.has_minima ? weights.minima + copy * weights.factor_bytes : nullptr;
    args.scratch = scratch.of(t);
    kernels.prepare_bf16(args, 0, m);
    kernels.to_bf16(args, {0, m, std::min(t * each, s.n), std::min((t + 1) * each, s.n)});
  });
}

void run(cpu::Isa isa, std::size_t threads, double bandwidth) {
  std::printf("\n%s, %zu thread%s, reads %.1f GB/s\n%12s %6s %10s", cpu::isa_name(isa), threads,
              threads == 1 ? "" : "s", bandwidth * 1e-9, "N x K", "M", "bf16 us");
  for (const Named& named : kFormats) std::printf(" | %7s us %8s %7s %5s", named.name, "GOP/s", "of read", "x");
  std::printf("\n");
  for (const Shape& s : kShapes) {
    for (const std::size_t m : kRows) {
      const double bf16 =
          bench::measure_bf16(cpu::bf16_kernels(isa, cpu::preferred_order()).linear.to_bf16, s, m, threads, kSeconds);
      char name[32];
      std::snprintf(name, sizeof name, "%zu x %zu", s.n, s.k);
      std::printf("%12s %6zu %10.1f", name, m, bf16 * 1e6);
      for (const Named& named : kFormats) {
        const Weights weights(s, m, named.format);
        const double seconds = measure(cpu::kernels(isa).linear_block32, s, m, threads, weights);
        std::printf(" | %10.1f %8.1f %7.2f %5.2f", seconds * 1e6, 2e-9 * static_cast<double>(m * s.n * s.k) / seconds,
                    weights.bytes() / seconds / bandwidth, bf16 / seconds);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t threads = argc > 1 ? static_cast<std::size_t>(std::max(1, std::atoi(argv[1]))) : 1;
  const auto isas = bench::isas_named({argv + std::min(argc, 2), argv + argc});
  if (!isas) return 1;
  const double bandwidth = bench::memory_read_bytes_per_s(threads);
  for (const cpu::Isa isa : *isas) run(isa, threads, bandwidth);
}
