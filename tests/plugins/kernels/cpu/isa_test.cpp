// Which instruction sets the tests of this program run on, and how one is chosen.
// Covers: plugins/kernels/cpu/{kernel_table,kernels,table}
#include "kernel_test.hpp"

namespace mortise::cpu {
namespace {

using testing::Environment;

class PrintInstructionSets : public Environment {
 public:
  void SetUp() override {
    std::string run, skipped;
    for (Isa isa : {Isa::kPortable, Isa::kNeon, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
      const auto& found = available_isas();
      (std::find(found.begin(), found.end(), isa) != found.end() ? run : skipped) += std::string(" ") + isa_name(isa);
    }
    std::printf("instruction sets run:%s\n", run.c_str());
    std::printf("instruction sets NOT run, because this machine lacks them:%s\n",
                skipped.empty() ? " none" : skipped.c_str());
  }
};
const auto* const kPrint = testing::AddGlobalTestEnvironment(new PrintInstructionSets);

TEST(KernelsIsa, UnsetOrEmptyChoosesTheBest) {
  std::string error;
  EXPECT_EQ(choose_isa(nullptr, error), available_isas().back());
  EXPECT_EQ(choose_isa("", error), available_isas().back());
}

TEST(KernelsIsa, EachAvailableNameForcesItsSet) {
  std::string error;
  for (Isa isa : available_isas()) EXPECT_EQ(choose_isa(isa_name(isa), error), isa);
  EXPECT_EQ(available_isas().front(), Isa::kPortable);  // anything else: a machine without vectors would be refused
}

TEST(KernelsIsa, UnknownNameIsRefusedWithWhatTheMachineHas) {
  std::string error;
  EXPECT_EQ(choose_isa("avx1024", error), std::nullopt);
  EXPECT_NE(error.find("MORTISE_ISA=avx1024: no such instruction set"), std::string::npos) << error;
  EXPECT_NE(error.find("portable"), std::string::npos) << error;
}

TEST(KernelsIsa, NameOfASetThatTheMachineLacksIsRefused) {
  for (Isa isa : {Isa::kNeon, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    const auto& found = available_isas();
    if (std::find(found.begin(), found.end(), isa) != found.end()) continue;
    std::string error;
    EXPECT_EQ(choose_isa(isa_name(isa), error), std::nullopt);
    EXPECT_NE(error.find("this machine does not have"), std::string::npos) << error;
  }
}

TEST(KernelsIsa, DenormalsAreOffInTheScopeAndBackAfterIt) {
  volatile float denormal = float_of(0x00400000);
  EXPECT_NE(denormal * 1.5f, 0.0f);
  {
    DenormalsOff off;
#if defined(__x86_64__) || defined(__aarch64__)
    EXPECT_EQ(denormal * 1.5f, 0.0f);  // elsewhere the kernels flush by themselves
#endif
  }
  EXPECT_NE(denormal * 1.5f, 0.0f);
}

}  // namespace
}  // namespace mortise::cpu
