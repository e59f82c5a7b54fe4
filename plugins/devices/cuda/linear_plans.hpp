// plugins/devices/cuda/linear_plans.hpp: chooses the algorithm of each product. Few rows go to linear_stream.hpp, which
// gives the bits of linear_mma.hpp. Other products [M, N] of K run on an algorithm of cuBLASLt that gives those bits,
// or on linear_mma itself. So M changes the algorithm, but no bit.
//
// The choice is made at the first product of a shape (N, K, output type, bias) in a bucket of M (1, 2, 4 .. 8192). The
// engine makes these products for up to 512 rows when it starts, or in `mortise run` when it is idle. The first of
// these that gives the bits of linear_mma serves from then on:
//   1. the shipped choice (known_algorithms.hpp)
//   2. the choice of an earlier start (tuning_cache.hpp)
//   3. the fastest in a search (algorithm_search.hpp)
// Bits are compared at the bucket's rows and at about half of them, in about a millisecond. A trial takes up to 0.5 GiB
// for a moment. linear_mma serves if no algorithm passes, if K or N is not a multiple of 8, and without cuBLASLt. It
// also serves a large batch that comes before cuBLASLt has loaded its kernels, which happens beside the weights.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "devices/cuda/algorithm.hpp"
#include "devices/cuda/tuning_cache.hpp"
#include "devices/cuda/workspace.hpp"
#include "kernels/cuda/linear_mma.hpp"
#include "mortise/host.h"

namespace mortise::cuda {

class AlgorithmTrial;

// A bias in both forms.
struct Bias {
  const void* bf16 = nullptr;  // cuBLASLt's epilogue
  const float* f32 = nullptr;  // linear_mma
};

// Chooses and runs the algorithms of one device. Invariant: every algorithm in use gave the bits of linear_mma on this
// GPU. Used by the thread that runs steps.
class LinearPlans {
 public:
  // `gpu` is the name of the GPU. `host` takes messages; it may be null.
  LinearPlans(const std::string& gpu, int multiprocessors, const mortise_host* host, const TuningOption& tuning);
  ~LinearPlans();
  LinearPlans(const LinearPlans&) = delete;
  LinearPlans& operator=(const LinearPlans&) = delete;

  // Computes y = x w^T (+ bias); args.bias is bias.f32. Throws Failure. The first call for a bucket of a shape chooses
  // the algorithm: it allocates, waits, and cannot be captured.
  void run(const LinearArgs& args, const Bias& bias, cudaStream_t stream);

  // Adds the folder of the checkpoint whose products come next: choices are read from there and stored there.
  void add_checkpoint(const std::filesystem::path& folder);

  // Returns whether the kernels for few rows serve this product, so that no algorithm is chosen for it.
  static bool is_streamed(const LinearArgs& args);
  // Returns the bucket that serves `rows` rows.
  static std::int64_t bucket(std::int64_t rows);
  // For tests: the algorithm of a shape that has run; the number of searches; a replacement for the shipped choices.
  std::string describe(const LinearShape& shape) const;
  int num_searched() const { return num_searched_; }
  void set_shipped(AlgorithmChoices choices) { shipped_ = std::move(choices); }

 private:
  struct Lt;
  struct Plan;
  Plan& plan_for(const LinearArgs& args, bool bias, cudaStream_t stream);
  // Returns whether linear_mma serves this product because cuBLASLt is not loaded yet.
  bool comes_too_early(const LinearArgs& args, bool bias, cudaStream_t stream);
  AlgorithmChoice choose(const LinearShape& shape, const LinearArgs& args, cudaStream_t stream);
  // Returns the shipped choice, or the choice of an earlier start, if its bits are right.
  std::optional<AlgorithmChoice> known_choice(const LinearShape& shape, AlgorithmTrial& trial);
  void tell_search();
  void log(std::int32_t level, const std::string& text) const;

  const mortise_host* host_;
  std::unique_ptr<Lt> lt_;  // null: no cuBLASLt, linear_mma serves everything
  std::unique_ptr<TuningCache> cache_;
  AlgorithmChoices shipped_;
  int num_searched_ = 0;
  std::map<LinearShape, std::unique_ptr<Plan>> plans_;
  // Products that ran before cuBLASLt was loaded, with or without a bias.
  std::vector<std::pair<LinearArgs, bool>> early_;
};

}  // namespace mortise::cuda
