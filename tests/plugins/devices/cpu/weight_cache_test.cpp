// Packed weights in a file: the same bytes with and without it.
#include "weight_cache_fixture.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mortise::cpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(WeightCacheFile, LaterStartsTakeTheSameBytesFromIt) {
  const std::string packed = load();
  EXPECT_EQ(from_file_, 0);
  for (int start = 0; start < 2; ++start) {
    EXPECT_TRUE(load() == packed);
    EXPECT_EQ(from_file_, kWeights);
  }
  EXPECT_THAT(host_.warnings, IsEmpty());
}

// Who changes an order in memory has to change kLayout in weight_cache.cpp, or old files are taken for new ones. This
// hash is of the bytes that "cpu-pack/1" stands for: change both together.
TEST_F(WeightCacheFile, TheLayoutIsTheOneThatItsIdStandsFor) {
  const std::string packed = load();
  EXPECT_EQ(XXH3_64bits(packed.data(), packed.size()), 18444457319310844403u);
}

TEST_F(WeightCacheFile, AnotherCheckpointsOrVersionsFileIsNotTaken) {
  load();
  load("another checkpoint");
  EXPECT_EQ(from_file_, 0);
  EXPECT_THAT(host_.warnings, ElementsAre(HasSubstr("was made from other weights, or by another version")));
  load("another checkpoint");
  EXPECT_EQ(from_file_, kWeights);  // else: it was not made anew
}

TEST_F(WeightCacheFile, AnOrderThatIsNotTheCheckpointsIsNotTaken) {
  const std::string packed = load();
  std::iota(quantized_.order.begin(), quantized_.order.end(), 0);  // another permutation under the same name
  EXPECT_FALSE(load() == packed);
  EXPECT_EQ(from_file_, kWeights - 1);
}

TEST_F(WeightCacheFile, WhereItCannotBeWrittenTheWeightsArePackedEachTime) {
  fs::remove_all(folder_);
  const std::string packed = load();
  EXPECT_THAT(host_.warnings,
              ElementsAre(HasSubstr(path().string() + ": cannot be written: No such file or directory; the "
                                                      "next start packs the weights again (packed_cache = "
                                                      "false: never keep them)")));
  fs::create_directories(path());  // a folder where the file should be
  host_.warnings.clear();
  EXPECT_TRUE(load() == packed);
  EXPECT_THAT(host_.warnings,
              ElementsAre(HasSubstr(path().string() +
                                    ": cannot be opened as a file; it is not used; a new one will be written"),
                          HasSubstr(": cannot be written: Is a directory")));
}

TEST_F(WeightCacheFile, KeepsNamedWeightsOfAModelThatLoaded) {
  open();
  mortise_weight* const named = prepare("a", MORTISE_WEIGHT_LINEAR, MORTISE_BF16);
  device_.cache.close(false, device_.pool);
  EXPECT_TRUE(fs::is_empty(folder_));  // close(false) says that the model could not be loaded
  free_weight(&device_, named);

  open();
  mortise_weight* const nameless = prepare("", MORTISE_WEIGHT_LINEAR, MORTISE_BF16);
  free_weight(&device_, prepare("freed", MORTISE_WEIGHT_LINEAR, MORTISE_BF16));
  mortise_weight* const kept = prepare("kept", MORTISE_WEIGHT_LINEAR, MORTISE_BF16);
  device_.cache.close(true, device_.pool);
  free_weight(&device_, nameless);
  free_weight(&device_, kept);

  open();
  for (const std::string name : {"", "freed", "kept"}) {
    mortise_weight* const weight = prepare(name, MORTISE_WEIGHT_LINEAR, MORTISE_BF16);
    EXPECT_EQ(weight->file != nullptr, name == "kept") << name;
    free_weight(&device_, weight);
  }
  device_.cache.close(false, device_.pool);
}

TEST_F(WeightCacheFile, OneNameInTwoFormsIsTwoWeights) {
  for (int start = 0; start < 2; ++start) {
    open();
    mortise_weight* const matrix = prepare("a", MORTISE_WEIGHT_LINEAR, MORTISE_BF16);
    mortise_weight* const integers = prepare("a", MORTISE_WEIGHT_LINEAR, MORTISE_BF16, 8);
    device_.cache.close(true, device_.pool);
    EXPECT_EQ(matrix->bits, 0);
    EXPECT_EQ(integers->bits, 8);
    EXPECT_NE(matrix->data, integers->data);
    EXPECT_EQ(matrix->file != nullptr && integers->file != nullptr, start == 1);
    free_weight(&device_, matrix);
    free_weight(&device_, integers);
  }
}

TEST(WeightCache, IsOffUnlessTheOptionAsksForIt) {
  for (const bool enabled : {false, true}) {
    Device device(enabled ? R"({"packed_cache": true})" : "{}");
    const auto* table =
        static_cast<const mortise_weight_cache_table*>(device.table().get_ext(device.get(), MORTISE_EXT_WEIGHT_CACHE));
    ASSERT_NE(table, nullptr);
    EXPECT_EQ(table->enabled(device.get()), enabled ? 1 : 0);
  }
}

}  // namespace
}  // namespace mortise::cpu
