// linear_plans.hpp: which algorithm multiplies what. Few rows go to linear_stream.hpp, which gives the bits of
// linear_mma.hpp. Other products [M, N] of K run on an algorithm of cuBLASLt that gives those bits, or on linear_mma
// itself. The choice is made once for each shape and bucket of M: one that comes with the program or that an earlier
// start made, if it gives the right bits here; else the fastest with the right bits that a search finds. So M changes
// the algorithm and no bit.
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

// A bias as both of its readers want it.
struct Bias {
  const void* bf16 = nullptr;  // cuBLASLt's epilogue
  const float* f32 = nullptr;  // linear_mma
};

class LinearPlans {
 public:
  // `gpu` is its name. `host` takes messages; may be null.
  LinearPlans(const std::string& gpu, int multiprocessors, const mortise_host* host, const TuningOption& tuning);
  ~LinearPlans();
  LinearPlans(const LinearPlans&) = delete;
  LinearPlans& operator=(const LinearPlans&) = delete;

  // y = x w^T (+ bias); args.bias is bias.f32. Throws Failure. At the first call of a shape's bucket it tunes, which
  // allocates, waits, and cannot be captured.
  void run(const LinearArgs& args, const Bias& bias, cudaStream_t stream);

  // The folder of the checkpoint whose products come next, as a place for choices.
  void add_checkpoint(const std::filesystem::path& folder);

  // Whether the kernels for few rows serve this product, so that no algorithm is chosen for it.
  static bool is_streamed(const LinearArgs& args);
  // The bucket that `rows` are served by.
  static std::int64_t bucket(std::int64_t rows);
  // For tests: what serves this shape, after it has run once; how many products were searched for; other choices in
  // the place of those that come with the program.
  std::string describe(const LinearShape& shape) const;
  int num_searched() const { return num_searched_; }
  void set_shipped(Choices choices) { shipped_ = std::move(choices); }

 private:
  struct Lt;
  struct Plan;
  Plan& plan_for(const LinearArgs& args, bool bias, cudaStream_t stream);
  // Whether linear_mma is to serve this product until cuBLASLt is loaded.
  bool comes_too_early(const LinearArgs& args, bool bias, cudaStream_t stream);
  Choice choose(const LinearShape& shape, const LinearArgs& args, cudaStream_t stream);
  // The choice that comes with the program or from an earlier start, if it gives the right bits.
  std::optional<Choice> known_choice(const LinearShape& shape, AlgorithmTrial& trial);
  void tell_search();
  void log(std::int32_t level, const std::string& text) const;

  const mortise_host* host_;
  std::unique_ptr<Lt> lt_;  // null: no cuBLASLt, linear_mma serves everything
  std::unique_ptr<TuningCache> cache_;
  Choices shipped_;
  int num_searched_ = 0;
  std::map<LinearShape, std::unique_ptr<Plan>> plans_;
  std::vector<std::pair<LinearArgs, bool>> early_;  // products that came too early, with or without a bias
};

}  // namespace mortise::cuda
