// Memory that runs out while a file of packed weights is opened or written costs the file, not the model. This replaces
// the program's operator new, so that any one allocation of a thread can be made to fail.
#include <cstdlib>
#include <limits>
#include <new>

#include "weight_cache_fixture.hpp"

namespace {

constexpr int kNever = std::numeric_limits<int>::max();
thread_local int allocations_left = kNever;  // that succeed before one fails; then all do again

void* allocate(std::size_t bytes) noexcept {
  if (allocations_left != kNever && allocations_left-- == 0) {
    allocations_left = kNever;
    return nullptr;
  }
  return std::malloc(bytes == 0 ? 1 : bytes);
}

// Not inlined: the compiler would see free() of what operator new returned, and not that it is the one above.
[[gnu::noinline]] void release(void* memory) noexcept {
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) {
  void* const memory = allocate(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes);
}
void* operator new[](std::size_t bytes) {
  return ::operator new(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes);
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  release(memory);
}
void operator delete[](void* memory) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  release(memory);
}

namespace mortise::cpu {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class WeightCacheMemory : public WeightCacheFile {
 protected:
  // Whether an allocation of `action` was made to fail: the one after `num_before` others.
  template <typename F>
  static bool fails_after(int num_before, F&& action) {
    allocations_left = num_before;
    action();
    const bool failed = allocations_left == kNever;
    allocations_left = kNever;
    return failed;
  }

  // Without the file there was none, so there is one at most: what is kept is that of this model.
  void expect_starts() {
    mortise_weight* const weight = prepare("a", MORTISE_WEIGHT_LINEAR, MORTISE_BF16);
    ASSERT_NE(weight, nullptr);
    EXPECT_EQ(std::string(static_cast<const char*>(weight->data), bytes_of(*weight)), expected_);
    device_.cache.close(true, device_.pool);
    free_weight(&device_, weight);
  }
  void SetUp() override {
    open();
    mortise_weight* const weight = prepare("a", MORTISE_WEIGHT_LINEAR, MORTISE_BF16);
    expected_.assign(static_cast<const char*>(weight->data), bytes_of(*weight));
    device_.cache.close(true, device_.pool);
    free_weight(&device_, weight);
    good_ = contents();
    ASSERT_FALSE(good_.empty());
  }

  std::string expected_, good_;
};

TEST_F(WeightCacheMemory, OpenGoesOnWithoutTheFileWhicheverAllocationFails) {
  int num_before = 0;
  for (bool failed = true; failed; ++num_before) {
    host_.warnings.clear();
    auto args = sized<mortise_weight_cache_args>();
    const std::string folder = folder_.string();
    args.folder = view(std::string_view(folder));
    args.format = view(std::string_view("test"));
    args.identity = view(std::string_view("a checkpoint"));
    failed = fails_after(num_before, [&] { device_.cache.open(args, device_.pool); });
    expect_starts();
    EXPECT_TRUE(contents() == good_) << num_before;
    EXPECT_THAT(host_.warnings, SizeIs(testing::Le(1u))) << num_before;
    EXPECT_THAT(host_.warnings, Each(HasSubstr("bad_alloc; "))) << num_before;
  }
  EXPECT_GT(num_before, 5);  // else: nothing was made to fail
}

TEST_F(WeightCacheMemory, CloseForgetsTheModelWhicheverAllocationFails) {
  int num_before = 0;
  for (bool failed = true; failed; ++num_before) {
    fs::remove(path());
    host_.warnings.clear();
    open();
    mortise_weight* const weight = prepare("a", MORTISE_WEIGHT_LINEAR, MORTISE_BF16);
    failed = fails_after(num_before, [&] { device_.cache.close(true, device_.pool); });
    free_weight(&device_, weight);
    EXPECT_EQ(fs::exists(path()), host_.warnings.empty()) << num_before;
    EXPECT_THAT(host_.warnings, Each(HasSubstr("; the next start packs the weights again"))) << num_before;
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), fs::exists(path()) ? 1 : 0) << num_before;
    device_.cache.close(true, device_.pool);  // writes the weight that is freed, if it still knows it
    EXPECT_EQ(fs::exists(path()), host_.warnings.empty()) << num_before;
  }
  EXPECT_GT(num_before, 5);
  EXPECT_TRUE(contents() == good_);
}

TEST_F(WeightCacheMemory, AnIdentityThatNoTextCanHoldIsAWarning) {
  auto args = sized<mortise_weight_cache_args>();
  const std::string folder = folder_.string();
  args.folder = view(std::string_view(folder));
  args.format = view(std::string_view("test"));
  args.identity = {"", std::numeric_limits<std::int64_t>::max()};
  device_.cache.open(args, device_.pool);
  EXPECT_THAT(host_.warnings, testing::ElementsAre(HasSubstr("; no file of packed weights is used")));
  expect_starts();
  EXPECT_TRUE(contents() == good_);
}

}  // namespace
}  // namespace mortise::cpu
