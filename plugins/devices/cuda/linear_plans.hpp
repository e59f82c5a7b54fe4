// linear_plans.hpp: which algorithm multiplies what. Few rows go to linear_stream.hpp, which gives the bits of
// linear_mma.hpp. Other products [M, N] of K run on an algorithm of cuBLASLt that gives those bits, or on linear_mma
// itself. The choice is made once for each shape and bucket of M, by running what cuBLASLt offers without split-K:
// those with other bits are dropped, the fastest of the rest is kept. So M changes the algorithm and no bit.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <string>

#include "devices/cuda/algorithm.hpp"
#include "devices/cuda/tuning_file.hpp"
#include "devices/cuda/workspace.hpp"
#include "kernels/cuda/linear_mma.hpp"
#include "mortise/host.h"

namespace mortise::cuda {

// A bias as both of its readers want it.
struct Bias {
  const void* bf16 = nullptr;  // cuBLASLt's epilogue
  const float* f32 = nullptr;  // linear_mma
};

class LinearPlans {
 public:
  // With `use_file` choices are read from and written to the tuning file. `host` takes warnings; may be null.
  LinearPlans(const std::string& gpu, const mortise_host* host, bool use_file);
  ~LinearPlans();
  LinearPlans(const LinearPlans&) = delete;
  LinearPlans& operator=(const LinearPlans&) = delete;

  // y = x w^T (+ bias); args.bias is bias.f32. Throws Failure. At the first call of a shape's bucket it tunes, which
  // allocates, waits, and cannot be captured.
  void run(const LinearArgs& args, const Bias& bias, cudaStream_t stream);

  // For tests: what serves this shape, after it has run once.
  std::string describe(const LinearShape& shape) const;
  // The bucket that `rows` are served by.
  static std::int64_t bucket(std::int64_t rows);

 private:
  struct Lt;
  struct Plan;
  Plan& plan_for(const LinearArgs& args, bool bias, cudaStream_t stream);
  Choice tune(const LinearShape& shape, const LinearArgs& args, cudaStream_t stream);
  void warn(const std::string& text) const;
  void save();

  const mortise_host* host_;
  std::unique_ptr<Lt> lt_;  // null: no cuBLASLt, linear_mma serves everything
  TuningKey key_;
  std::optional<std::filesystem::path> file_;
  Choices from_file_, chosen_;
  std::map<LinearShape, std::unique_ptr<Plan>> plans_;
};

}  // namespace mortise::cuda
