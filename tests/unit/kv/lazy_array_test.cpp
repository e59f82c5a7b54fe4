#include "kv/lazy_array.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace mortise {
namespace {

// Bytes of memory that the process has touched.
std::size_t resident_bytes() {
  std::size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(LazyArray, ElementsAreZeroAndKeepWhatIsWritten) {
  LazyArray<std::int32_t> array(1000);
  EXPECT_EQ(array.size(), 1000u);
  for (std::size_t i = 0; i < array.size(); ++i) ASSERT_EQ(array[i], 0);
  array[999] = 7;
  EXPECT_EQ(array.data()[999], 7);
}

TEST(LazyArray, OfNoElements) {
  EXPECT_EQ(LazyArray<std::int32_t>(0).size(), 0u);
}

TEST(LazyArray, TakesMemoryOnlyForWhatIsTouched) {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  const std::size_t before = resident_bytes();
  LazyArray<std::uint8_t> array(kBytes);
  array[kBytes / 2] = 1;
  EXPECT_LT(resident_bytes(), before + kBytes / 4);  // more: the constructor wrote to all of it
}

}  // namespace
}  // namespace mortise
