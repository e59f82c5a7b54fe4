#include "cli/repl/console.hpp"

#include <gtest/gtest.h>

namespace mortise {
namespace {

TEST(Harmless, ControlCharactersCannotCommandATerminal) {
  EXPECT_EQ(harmless("a\n\tb"), "a\n\tb");
  EXPECT_EQ(harmless("\033[2J\r\a\x7f"), "^[[2J^M^G^?");
  EXPECT_EQ(harmless("\u009b2J"), "\uFFFD2J");  // CSI of eight bits
  EXPECT_EQ(harmless("é 中 😀 \u00a0"), "é 中 😀 \u00a0");
  EXPECT_EQ(harmless("\xc2"), "\xc2");
}

}  // namespace
}  // namespace mortise
