// Which GPU gets which kernels and classes, and that the kernels of compute capability 8 give the bits of the others.
#include "devices/cuda/gpu_class.hpp"

#include "device_fixture.hpp"
#include "gpu.hpp"
#include "variables.hpp"

namespace mortise::cuda::gpu_class_test {
namespace {

std::string refusal(int major, int minor) {
  try {
    gpu_class("a GPU", major, minor, "auto");
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code, MORTISE_UNIMPLEMENTED);
    return failure.message;
  }
  return "none";
}

TEST(CudaGpuClass, FollowsTheGpuAndNotTheKernels) {
  const GpuClass a100 = gpu_class("A100", 8, 0, "auto"), l4 = gpu_class("L4", 8, 9, "auto");
  EXPECT_EQ(a100.kernels, KernelSet::kMma);
  EXPECT_STREQ(a100.bf16, "cuda-bf16-sm80/1");
  EXPECT_STREQ(a100.fp8, "cuda-fp8-sm80/1");
  EXPECT_STREQ(a100.isa(), "sm_80");
  EXPECT_EQ(l4.kernels, KernelSet::kMma);
  EXPECT_STREQ(l4.bf16, "cuda-bf16-sm89/1");
  EXPECT_STREQ(gpu_class("A10", 8, 6, "auto").fp8, "cuda-fp8-sm86/1");
  const GpuClass h100 = gpu_class("H100", 9, 0, "auto"), forced = gpu_class("H100", 9, 0, "sm_80");
  EXPECT_EQ(h100.kernels, KernelSet::kHopper);
  EXPECT_STREQ(h100.isa(), "sm_90");
  EXPECT_EQ(forced.kernels, KernelSet::kMma);
  EXPECT_STREQ(forced.isa(), "sm_80");
  EXPECT_STREQ(forced.bf16, h100.bf16);
}

TEST(CudaGpuClass, OtherGpusAreRefusedByTheirCapability) {
  EXPECT_EQ(refusal(7, 5),
            "a GPU has compute capability 7.5; this build has kernels only for 8.0, 8.6, 8.9 and 9.0 (A100, A10, L4, "
            "L40S, H100, H200); use another GPU or the device cpu");
  EXPECT_EQ(refusal(12, 0).substr(0, 60), "a GPU has compute capability 12.0; this build has kernels on");
}

TEST(CudaGpuClass, AVariableThatNamesNoKernelsIsRefused) {
  const test::ScopedVariable forced("MORTISE_CUDA_ISA", "sm_70");
  const Device other;
  EXPECT_EQ(other.status, MORTISE_FAILED_PRECONDITION);
  EXPECT_STREQ(other.error.message, "'sm_70' is unknown; use auto or sm_80");
}

class CudaKernelSets : public OnGpu {
 protected:
  // y = x w^T on a device, with `bits` of the weights.
  std::vector<Bf16> product(Device& on, const std::vector<Bf16>& x, const std::vector<Bf16>& w, std::size_t m,
                            std::size_t n, std::size_t k, int32_t bits) {
    const mortise_tensor part = host_part(w, n, k);
    const mortise_tensor* const parts[] = {&part};
    auto source = sized<mortise_weight_source>();
    source.use = MORTISE_WEIGHT_LINEAR;
    source.dtype = MORTISE_BF16;
    source.bits = bits;
    source.num_parts = 1;
    source.parts = parts;
    mortise_weight* weight = nullptr;
    EXPECT_EQ(on.table().prepare_weight(on.get(), &source, &weight, &on.error), MORTISE_OK) << on.error.message;
    const Array<Bf16> in(x), out(m * n);
    const mortise_tensor in_tensor = matrix(in, m, k), out_tensor = matrix(out, m, n);
    auto args = sized<mortise_linear_args>();
    args.x = &in_tensor;
    args.weight = weight;
    args.out = &out_tensor;
    device().synchronize();
    EXPECT_EQ(on.table().linear(on.get(), nullptr, &args, &on.error), MORTISE_OK) << on.error.message;
    on.synchronize();
    on.table().free_weight(on.get(), weight);
    return out.get();
  }
};

TEST_F(CudaKernelSets, GiveTheSameBitsOnOneGpu) {
  Device mma(R"({"isa": "sm_80"})");
  ASSERT_EQ(mma.status, MORTISE_OK) << mma.error.message;
  auto info = sized<mortise_device_info>();
  ASSERT_EQ(mma.table().describe(mma.get(), &info), MORTISE_OK);
  EXPECT_STREQ(info.isa, "sm_80");
  if (test::tests_sm_80()) GTEST_SKIP() << "both devices have the kernels of compute capability 8";
  EXPECT_STREQ(mma.table().numerics_id(mma.get(), MORTISE_BF16), table().numerics_id(gpu(), MORTISE_BF16));
  std::mt19937 rng(7);
  for (const std::size_t m : {1, 5, 16, 40, 300}) {
    for (const std::size_t k : {64, 192, 1024}) {
      for (const int32_t bits : {0, 8}) {
        const std::size_t n = 8 + rng() % 500;
        const auto x = random_values<Bf16>(rng, m * k), w = random_values<Bf16>(rng, n * k);
        EXPECT_TRUE(same_bits(product(device(), x, w, m, n, k, bits), product(mma, x, w, m, n, k, bits)))
            << m << " x " << n << " x " << k << ", " << bits << " bits";
      }
    }
  }
}

}  // namespace
}  // namespace mortise::cuda::gpu_class_test
