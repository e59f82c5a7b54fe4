// head_bench: the cost of a score beside prefill, kernel by kernel: 2048 rows through a head of 32000 x 768 (class
// cpu-bf16/1) in slices of the vocabulary, each thread half of the rows.
// usage: head_bench [isa ...]   (without: all that the machine has but portable)
//   products     of all slices, logits `row bytes` apart; `ahead`: a slice asks for the weights of the next one
//   reductions   log-sum-exp and rank of each row, of all slices; `ahead`: a row asks for the next one
// Milliseconds of the fastest of some rounds, with two threads.
#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "isas.hpp"
#include "kernels/cpu/kernels.hpp"
#include "limits.hpp"
#include "linear_input.hpp"

namespace {

using namespace mortise;

constexpr std::size_t kRows = 2048, kVocabulary = 32000, kHidden = 768, kThreads = 2;
constexpr double kSeconds = 1.5;  // of each line

class Head {
 public:
  explicit Head(cpu::Isa isa)
      : kernels_(cpu::kernels(isa)),
        linear_(cpu::bf16_kernels(isa, cpu::preferred_order()).linear.to_f32),
        in_({kStrides[1], kHidden}, kRows),
        scratch_(scratch_bytes(), kThreads) {
    weights_ = bench::aligned<cpu::Bf16>(weight_memory_, cpu::packed_bytes_bf16(kVocabulary, kHidden) / 2);
    bench::fill(weights_, cpu::packed_bytes_bf16(kVocabulary, kHidden) / 2);
  }

  // Floats: a slice as it is, and a cache line more.
  static constexpr std::size_t kStrides[] = {cpu::kVocabSlice, cpu::kVocabSlice + 16};

  double products(std::size_t stride, bool ahead) {
    return milliseconds([&](std::size_t thread, std::size_t m0, std::size_t m1, std::size_t n0, std::size_t n1) {
      cpu::LinearArgs args = {};
      args.x = in_.x, args.x_stride = kHidden, args.m = kRows, args.n = kVocabulary, args.k = kHidden;
      args.w = weights_, args.y_stride = stride, args.scratch = scratch_.of(thread);
      // The kernel counts columns from the weight's first, y from the slice's.
      args.y = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(in_.y) - n0 * sizeof(float));
      if (n0 == 0) linear().prepare(args, m0, m1);
      linear().run(args, {m0, m1, n0, n1, ahead ? kVocabulary - n1 : 0});
    });
  }

  double reductions(std::size_t stride, bool ahead) {
    return milliseconds([&](std::size_t thread, std::size_t m0, std::size_t m1, std::size_t n0, std::size_t n1) {
      float max = 0, sum = 1;
      std::int32_t rank = 0;
      for (std::size_t m = m0; m < m1; ++m) {
        const float* const row = in_.y + m * stride;
        kernels_.head.log_sum_exp(row, n1 - n0, ahead && m + 1 < m1 ? row + stride : row, &max, &sum);
        rank += kernels_.head.count_before(row, n1 - n0, static_cast<std::int32_t>(n0), 0, 0.5f);
      }
      sinks_[thread] = static_cast<float>(rank) + sum;
    });
  }

 private:
  const cpu::LinearKernel& linear() const { return linear_; }
  std::size_t scratch_bytes() const { return linear().scratch_bytes(kRows, kHidden); }

  // Returns the time of f(thread, m0, m1, n0, n1), called for each thread's rows and each slice.
  template <class F>
  static double milliseconds(F f) {
    return 1e3 * bench::fastest_round(kThreads, kSeconds, [&](std::size_t thread, std::size_t) {
             const std::size_t m0 = kRows / kThreads * thread;
             for (std::size_t n = 0; n < kVocabulary; n += cpu::kVocabSlice) {
               f(thread, m0, m0 + kRows / kThreads, n, std::min(n + cpu::kVocabSlice, kVocabulary));
             }
           });
  }

  const cpu::KernelTable& kernels_;
  const cpu::LinearKernel& linear_;
  bench::Input in_;
  bench::Scratch scratch_;
  std::vector<char> weight_memory_;
  cpu::Bf16* weights_ = nullptr;
  volatile float sinks_[kThreads] = {};  // so that nothing is left out
};

void run(cpu::Isa isa) {
  Head head(isa);
  std::printf("\n%s, %zu rows, %zu threads\n%10s %6s %10s %11s\n", cpu::isa_name(isa), kRows, kThreads, "row bytes",
              "ahead", "products", "reductions");
  for (const std::size_t stride : Head::kStrides) {
    for (const bool ahead : {false, true}) {
      const double products = head.products(stride, ahead);
      std::printf("%10zu %6s %10.1f %11.1f\n", stride * sizeof(float), ahead ? "yes" : "no", products,
                  head.reductions(stride, ahead));
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto isas = bench::isas_named({argv + 1, argv + argc});
  if (!isas) return 1;
  for (const cpu::Isa isa : *isas) run(isa);
}
