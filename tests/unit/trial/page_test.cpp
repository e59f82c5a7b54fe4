#include "trial/page.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "error.hpp"

namespace mortise {
namespace {

TEST(TrialPage, WhatOneProcessWritesTheOtherReads) {
  const std::string_view order("the order\0 with a zero", 22);
  SharedPage here(order);
  SharedPage there((FileDescriptor(::dup(here.descriptor()))));
  EXPECT_EQ(there.order(), order);
  EXPECT_EQ(there->state, TrialState::kRuns);
  there->has_candidate = true;
  there->end(TrialState::kRefused, "no such plugin", 3);
  EXPECT_TRUE(here->has_candidate);
  EXPECT_EQ(here->state, TrialState::kRefused);
  EXPECT_EQ(here->code, 3);
  EXPECT_EQ(here->read_text(), "no such plugin");
}

TEST(TrialPage, AnOrderMayBeEmptyOrLong) {
  EXPECT_EQ(SharedPage("").order(), "");
  const std::string order(1 << 20, 'x');
  EXPECT_EQ(SharedPage(order).order(), order);
}

TEST(TrialPage, ATextIsCutToItsRoom) {
  SharedPage page("");
  page->end(TrialState::kPassed, std::string(1 << 20, 'x'));
  EXPECT_EQ(page->read_text(), std::string(sizeof page->text - 1, 'x'));
  page->end(TrialState::kPassed, "short");
  EXPECT_EQ(page->read_text(), "short");
}

// A plugin that is tried may write anywhere, so the text may lack its end.
TEST(TrialPage, ATextWithoutAnEndIsReadToTheEndOfItsRoom) {
  SharedPage page("order");
  for (char& c : page->text) c = 'x';
  EXPECT_EQ(page->read_text(), std::string(sizeof page->text, 'x'));
}

TEST(TrialPage, WhatIsNoPageIsRefused) {
  EXPECT_THROW(SharedPage{FileDescriptor()}, Error);
  EXPECT_THROW(SharedPage(FileDescriptor(::open("/dev/null", O_RDWR | O_CLOEXEC))), Error);
  FileDescriptor small(::memfd_create("small", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(small.get(), sizeof(TrialPage) - 1), 0);
  EXPECT_THROW(SharedPage(std::move(small)), Error);
}

}  // namespace
}  // namespace mortise
