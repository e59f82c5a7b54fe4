// The choice of an algorithm: choices that come with the program or from an earlier start serve only with the right
// bits, and whatever is chosen, the bits are the same.
// Covers: plugins/devices/cuda/{algorithm,algorithm_trial,cublaslt,known_algorithms,linear_plans,lt_matmul}
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "device_fixture.hpp"
#include "devices/cuda/algorithm_trial.hpp"
#include "devices/cuda/cuda_device.hpp"
#include "devices/cuda/known_algorithms.hpp"
#include "devices/cuda/lt_matmul.hpp"
#include "kernels/cuda/reference/linear.hpp"

namespace mortise::cuda::algorithm_search_test {
namespace {

constexpr int kMeasuredMultiprocessors = 132;
constexpr std::size_t kMeasuredCublasLt = 130100;
constexpr LinearShape kDown8B = {4096, 14336, false, false, 64};
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

TEST(ShippedChoices, AreKnownAlgorithmsWithoutSplitK) {
  const AlgorithmChoices choices = shipped_choices(kMeasuredMultiprocessors, kMeasuredCublasLt);
  EXPECT_TRUE(choices.contains(kDown8B));
  const auto known = known_algorithms();
  for (const auto& [shape, choice] : choices) {
    ASSERT_TRUE(choice.has_value());
    EXPECT_NE(std::find(known.begin(), known.end(), *choice), known.end());
    EXPECT_FALSE(splits_k(*choice));
    EXPECT_EQ(LinearPlans::bucket(shape.rows), shape.rows);
  }
}

TEST(ShippedChoices, AreNoneForAnotherGpuOrAnotherCublasLt) {
  EXPECT_TRUE(shipped_choices(kMeasuredMultiprocessors - 18, kMeasuredCublasLt).empty());
  EXPECT_TRUE(shipped_choices(kMeasuredMultiprocessors, kMeasuredCublasLt + 1).empty());
}

class CudaAlgorithms : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    if (device().get()->linear == nullptr) GTEST_SKIP() << "the device multiplies without cuBLASLt";
    std::string reason;
    lt_ = load_cublaslt(reason);
    if (lt_ == nullptr) GTEST_SKIP() << "no cuBLASLt to test: " << reason;
    ASSERT_EQ(lt_->cublasLtCreate(&handle_), CUBLAS_STATUS_SUCCESS);
    cudaDeviceProp properties = {};
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    multiprocessors_ = properties.multiProcessorCount;
    host_.log = [](const mortise_host* host, int32_t level, mortise_string_view text) {
      if (level == MORTISE_LOG_WARNING) static_cast<const Host*>(host)->warnings.emplace_back(view(text));
    };
  }
  void TearDown() override {
    if (handle_ != nullptr) lt_->cublasLtDestroy(handle_);
  }

  static LinearArgs args_of(const LinearShape& shape) {
    LinearArgs args = {};
    args.y_type = shape.f32_out ? ElementType::kF32 : ElementType::kBf16;
    args.x_stride = args.w_stride = args.k = shape.k;
    args.y_stride = args.n = shape.n;
    args.m = shape.rows;
    return args;
  }

  cudaStream_t stream() const { return static_cast<cudaStream_t>(table().stream_native(gpu(), nullptr)); }

  // The plans' bits for this shape, which must be the reference's.
  void expect_reference_bits(LinearPlans& plans, const LinearShape& shape) {
    std::mt19937 rng(5);
    const auto m = static_cast<std::size_t>(shape.rows), n = static_cast<std::size_t>(shape.n),
               k = static_cast<std::size_t>(shape.k);
    const Array<Bf16> x(random_values<Bf16>(rng, m * k)), w(random_values<Bf16>(rng, n * k));
    const Array<Bf16> y(m * n), expected(m * n);
    LinearArgs args = args_of(shape);
    args.x = x.data();
    args.w = w.data();
    args.y = expected.data();
    EXPECT_EQ(reference::launch_linear(args, stream()), cudaSuccess);
    args.y = y.data();
    plans.run(args, {}, stream());
    EXPECT_TRUE(same_bits(expected.get(), y.get()));
  }

  struct Host : mortise_host {
    mutable std::vector<std::string> warnings;
  };
  Host host_{};
  const CublasLt* lt_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
  int multiprocessors_ = 0;
};

TEST_F(CudaAlgorithms, ShippedChoicesHaveTheBits) {
  const AlgorithmChoices choices = shipped_choices(multiprocessors_, lt_->cublasLtGetVersion());
  if (choices.empty()) GTEST_SKIP() << "no algorithms come with the program for this GPU or cuBLASLt";
  const Array<std::uint8_t> workspace(kWorkspaceBytes);
  int num_checked = 0;
  for (const auto& [shape, choice] : choices) {
    if (shape.n * shape.k > 1 << 24 || shape.rows > 512) continue;  // the start checks the others when it takes them
    SCOPED_TRACE(testing::Message() << shape.rows << " rows, n " << shape.n << ", k " << shape.k);
    LtMatmul matmul(*lt_, handle_, shape);
    AlgorithmTrial trial(matmul, shape, args_of(shape), workspace.data(), kWorkspaceBytes, stream());
    EXPECT_TRUE(trial.equal_bits(*choice));
    ++num_checked;
  }
  std::printf("  %d choices\n", num_checked);
}

// With split-K cuBLASLt has kernels whose bits are others: the trial must see them.
TEST_F(CudaAlgorithms, ATrialSeesOtherBits) {
  const LinearShape shape = {512, 4096, false, false, 64};
  const Array<std::uint8_t> workspace(kWorkspaceBytes);
  LtMatmul matmul(*lt_, handle_, shape);
  AlgorithmTrial trial(matmul, shape, args_of(shape), workspace.data(), kWorkspaceBytes, stream());
  int num_split = 0;
  for (LtConfig config : known_algorithms()) {
    config[kConfigSplitK] = 4;
    config[kConfigReduction] = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    if (trial.time(config, 1) == std::numeric_limits<float>::infinity()) continue;
    EXPECT_FALSE(trial.equal_bits(config));
    ++num_split;
  }
  if (num_split == 0) GTEST_SKIP() << "this cuBLASLt splits K with none of the known algorithms";
}

TEST_F(CudaAlgorithms, AShippedChoiceServesWithoutASearch) {
  const LinearShape shape = {512, 4096, false, false, 64};
  LinearPlans plans("a GPU", multiprocessors_, &host_, {false, {}});
  plans.set_shipped({{shape, known_algorithms()[2]}});  // 64 x 64: takes any shape
  expect_reference_bits(plans, shape);
  EXPECT_EQ(plans.num_searched(), 0);
  EXPECT_NE(plans.describe(shape), "linear_mma");
}

TEST_F(CudaAlgorithms, AShippedChoiceThatDoesNotFitIsToldAndAnotherServes) {
  const LinearShape shape = {512, 4096, false, false, 64};
  LtConfig split = known_algorithms()[0], unknown = known_algorithms()[0];
  split[kConfigSplitK] = 4;
  split[kConfigReduction] = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  unknown[1] = 60000;  // no tile has this number
  for (const LtConfig& wrong : {split, unknown}) {
    host_.warnings.clear();
    LinearPlans plans("a GPU", multiprocessors_, &host_, {false, {}});
    plans.set_shipped({{shape, wrong}});
    expect_reference_bits(plans, shape);
    EXPECT_EQ(plans.num_searched(), 1);
    EXPECT_NE(plans.describe(shape), "linear_mma");
    ASSERT_EQ(host_.warnings.size(), 1u);
    EXPECT_NE(host_.warnings[0].find("does not give the right bits here"), std::string::npos) << host_.warnings[0];
  }
}

}  // namespace
}  // namespace mortise::cuda::algorithm_search_test
