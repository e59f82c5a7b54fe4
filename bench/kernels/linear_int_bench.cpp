// linear_int_bench: speed of linear with quantised weights beside the same product in bf16.
// usage: linear_int_bench [threads] [isa ...]   (without: 1 thread, all that the machine has but portable)
// Each product walks through copies of its weights that together exceed the caches, as layers do. The time includes the
// quantisation of x. Times are those of the fastest of many calls; `x` is how many times faster than bf16.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernels/cpu/kernels.hpp"
#include "kernels/cpu/linear_int_pack.hpp"
#include "limits.hpp"

namespace {

using namespace mortise;

struct Shape {
  std::size_t n, k;
};
constexpr Shape kShapes[] = {{3072, 768}, {4096, 4096}};
constexpr std::size_t kRows[] = {1, 2, 4, 8, 16, 32, 128, 1024};
constexpr std::size_t kWeightBytes = std::size_t{192} << 20;  // beyond the caches

template <class T>
T* aligned(std::vector<char>& memory, std::size_t count) {
  memory.resize(count * sizeof(T) + 64);
  return reinterpret_cast<T*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 63) / 64 * 64);
}

void fill(cpu::Bf16* p, std::size_t n) {
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    p[i] = static_cast<cpu::Bf16>(0x3f80u ^ (state >> 16 & 0x807fu));  // +-[1, 2)
  }
}

struct Input {
  Input(Shape s, std::size_t m) {
    x = aligned<cpu::Bf16>(x_memory, m * s.k);
    y = aligned<cpu::Bf16>(y_memory, m * s.n);
    fill(x, m * s.k);
  }
  cpu::Bf16 *x, *y;
  std::vector<char> x_memory, y_memory;
};

std::size_t copies_of(std::size_t bytes, std::size_t m) {
  return m <= 32 ? std::max<std::size_t>(2, kWeightBytes / bytes) : 2;
}
std::size_t columns_per_thread(std::size_t n, std::size_t threads) {
  return (n / 16 + threads - 1) / threads * 16;
}

double measure_bf16(const cpu::LinearKernel& kernel, Shape s, std::size_t m, std::size_t threads) {
  Input in(s, m);
  const std::size_t bytes = cpu::packed_bytes_bf16(s.n, s.k), copies = copies_of(bytes, m);
  std::vector<char> weight_memory, scratch_memory;
  auto* weights = aligned<cpu::Bf16>(weight_memory, copies * bytes / 2);
  fill(weights, copies * bytes / 2);
  const std::size_t scratch = (kernel.scratch_bytes(m, s.k) + 63) / 64 * 64, each = columns_per_thread(s.n, threads);
  auto* memory = aligned<char>(scratch_memory, scratch * threads);
  return bench::fastest_round(threads, 0.1, [&](std::size_t t, std::size_t round) {
    cpu::LinearArgs args = {};
    args.x = in.x, args.x_stride = s.k, args.m = m, args.n = s.n, args.k = s.k, args.y = in.y, args.y_stride = s.n;
    args.scratch = memory + t * scratch;
    args.w = weights + round % copies * bytes / 2;
    kernel.prepare(args, 0, m);
    kernel.run(args, {0, m, std::min(t * each, s.n), std::min((t + 1) * each, s.n)});
  });
}

double measure_int(const cpu::LinearIntKernels& kernels, Shape s, std::size_t m, std::size_t threads,
                   cpu::IntFormat format) {
  Input in(s, m);
  const std::size_t bytes = cpu::packed_bytes_int(s.n, s.k, format.bits), copies = copies_of(bytes, m);
  const std::size_t entries = s.n * cpu::groups_of(s.k, format.group_size);
  std::vector<char> value_memory, scale_memory, zero_memory, scratch_memory;
  auto* values = aligned<std::uint8_t>(value_memory, copies * bytes);
  auto* scales = aligned<float>(scale_memory, copies * entries);
  auto* zeros = aligned<std::uint8_t>(zero_memory, copies * entries);
  for (std::size_t i = 0; i < copies * bytes; ++i) values[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
  std::fill_n(scales, copies * entries, 0.01f);
  std::fill_n(zeros, copies * entries, format.bits == 4 ? std::uint8_t{7} : std::uint8_t{128});
  const std::size_t scratch = (kernels.scratch_bytes(m, s.k, format.group_size) + 63) / 64 * 64;
  const std::size_t each = columns_per_thread(s.n, threads);
  auto* memory = aligned<char>(scratch_memory, scratch * threads);
  return bench::fastest_round(threads, 0.1, [&](std::size_t t, std::size_t round) {
    cpu::LinearIntArgs args = {};
    args.x = in.x, args.x_stride = s.k, args.m = m, args.n = s.n, args.k = s.k, args.y = in.y, args.y_stride = s.n;
    args.format = format;
    args.scratch = memory + t * scratch;
    args.values = values + round % copies * bytes;
    args.scales = scales + round % copies * entries;
    args.zeros = zeros + round % copies * entries;
    kernels.prepare_bf16(args, 0, m);
    kernels.to_bf16(args, {0, m, std::min(t * each, s.n), std::min((t + 1) * each, s.n)});
  });
}

void run(cpu::Isa isa, std::size_t threads, double bandwidth) {
  std::printf("\n%s, %zu thread%s, reads %.1f GB/s\n", cpu::isa_name(isa), threads, threads == 1 ? "" : "s",
              bandwidth * 1e-9);
  std::printf("%12s %6s %10s | %10s %7s %6s | %10s %7s %6s | %10s %7s %6s\n", "N x K", "M", "bf16 us", "int8 us",
              "GB/s", "x", "int4/64 us", "GB/s", "x", "int4/128", "GB/s", "x");
  constexpr std::size_t kRow = 32768;
  const cpu::IntFormat formats[] = {{8, kRow}, {4, 64}, {4, 128}};
  for (const Shape& s : kShapes) {
    for (const std::size_t m : kRows) {
      const double bf16 = measure_bf16(cpu::kernels(isa).linear_bf16.to_bf16, s, m, threads);
      char name[32];
      std::snprintf(name, sizeof name, "%zu x %zu", s.n, s.k);
      std::printf("%12s %6zu %10.1f", name, m, bf16 * 1e6);
      for (const cpu::IntFormat& format : formats) {
        const double seconds = measure_int(cpu::kernels(isa).linear_int, s, m, threads, format);
        const double bytes = static_cast<double>(cpu::packed_bytes_int(s.n, s.k, format.bits) +
                                                 5 * s.n * cpu::groups_of(s.k, format.group_size));
        std::printf(" | %10.1f %7.1f %6.2f", seconds * 1e6, bytes / seconds * 1e-9, bf16 / seconds);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t threads = argc > 1 ? static_cast<std::size_t>(std::max(1, std::atoi(argv[1]))) : 1;
  std::vector<cpu::Isa> isas;
  for (int i = 2; i < argc; ++i) {
    std::string error;
    const auto isa = cpu::choose_isa(argv[i], error);
    if (!isa) {
      std::fprintf(stderr, "%s\n", error.c_str());
      return 1;
    }
    isas.push_back(*isa);
  }
  for (cpu::Isa isa : cpu::available_isas()) {
    if (argc <= 2 && isa != cpu::Isa::kPortable) isas.push_back(isa);
  }
  const double bandwidth = bench::memory_read_bytes_per_s(threads);
  for (const cpu::Isa isa : isas) run(isa, threads, bandwidth);
}
