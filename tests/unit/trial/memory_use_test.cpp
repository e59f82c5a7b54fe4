#include "trial/memory_use.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace mortise {
namespace {

constexpr std::size_t kBytes = std::size_t{64} << 20;
constexpr std::uint64_t kSlack = std::uint64_t{8} << 20;  // of what else the process does meanwhile

TEST(ProcessMemory, GrowsByWhatIsTouchedAndNotByWhatIsReserved) {
  const std::uint64_t before = process_memory(::getpid());
  EXPECT_GT(before, 0u);
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_LT(process_memory(::getpid()), before + kSlack);
  std::memset(memory, 1, kBytes);
  EXPECT_GE(process_memory(::getpid()) + kSlack, before + kBytes);
  ::munmap(memory, kBytes);
  EXPECT_LT(process_memory(::getpid()), before + kSlack);
}

TEST(ProcessMemory, OfNoProcessIsNone) {
  EXPECT_EQ(process_memory(-1), 0u);
  EXPECT_EQ(process_memory(0), 0u);
}

}  // namespace
}  // namespace mortise
