#include "execution/populate_pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace mortise {
namespace {

constexpr std::size_t kBytes = 8 << 20;
const std::size_t kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

class PopulatePages : public ::testing::Test {
 protected:
  void SetUp() override {
    void* data = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(data, MAP_FAILED);
    memory_ = {static_cast<std::byte*>(data), kBytes};
  }
  void TearDown() override { munmap(memory_.data(), memory_.size()); }

  std::size_t num_resident() const {
    std::vector<unsigned char> pages(kBytes / kPage);
    EXPECT_EQ(mincore(memory_.data(), memory_.size(), pages.data()), 0);
    return static_cast<std::size_t>(
        std::count_if(pages.begin(), pages.end(), [](auto page) { return (page & 1) != 0; }));
  }

  std::span<std::byte> memory_;
};

TEST_F(PopulatePages, AllPagesComeAndKeepWhatStandsInThem) {
  memory_[5 * kPage] = std::byte{7};
  populate_pages(memory_, {}, [] { return false; });
  EXPECT_EQ(num_resident(), kBytes / kPage);
  EXPECT_EQ(memory_[5 * kPage], std::byte{7});
  EXPECT_EQ(memory_[6 * kPage], std::byte{0});
}

TEST_F(PopulatePages, NoneCameWhenMemoryIsScarceOrAStopIsAskedFor) {
  populate_pages(memory_, {}, [] { return true; });
  std::stop_source stop;
  stop.request_stop();
  populate_pages(memory_, stop.get_token(), [] { return false; });
  EXPECT_EQ(num_resident(), 0u);
}

TEST_F(PopulatePages, PagesOutsideAreLeftAlone) {
  populate_pages(memory_.subspan(kPage / 2, 2 * kPage), {}, [] { return false; });
  EXPECT_EQ(num_resident(), 1u);  // 3: half a page belongs to others
}

}  // namespace
}  // namespace mortise
