#include "file_descriptor.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <utility>

namespace mortise {
namespace {

FileDescriptor open_null() {
  return FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

TEST(FileDescriptor, IsClosedByItsOwnerAlone) {
  int number = -1;
  {
    const FileDescriptor fd = open_null();
    ASSERT_TRUE(fd);
    number = fd.get();
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
  EXPECT_FALSE(FileDescriptor());
  FileDescriptor().reset();  // closes nothing
}

TEST(FileDescriptor, AMoveLeavesOneOwner) {
  FileDescriptor first = open_null(), second = open_null();
  ASSERT_TRUE(first && second);
  const int kept = first.get(), replaced = second.get();
  second = std::move(first);
  EXPECT_EQ(second.get(), kept);
  EXPECT_FALSE(is_open(replaced));
  FileDescriptor& same = second;
  second = std::move(same);
  EXPECT_TRUE(is_open(kept));  // false: it closed what it was about to keep
  FileDescriptor third(std::move(second));
  EXPECT_EQ(third.get(), kept);
  EXPECT_TRUE(is_open(kept));
}

TEST(FileDescriptor, WhatIsReleasedIsTheCallersToClose) {
  FileDescriptor fd = open_null();
  const int number = fd.release();
  EXPECT_FALSE(fd);
  fd.reset();
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

}  // namespace
}  // namespace mortise
