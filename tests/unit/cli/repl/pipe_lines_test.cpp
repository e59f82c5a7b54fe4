// Covers: runtime/cli/interrupt
#include "cli/repl/pipe_lines.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "cli/interrupt.hpp"
#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::ElementsAre;

// A pipe that another thread fills.
class Pipe {
 public:
  explicit Pipe(const std::string& text) {
    if (::pipe(ends_) != 0) throw std::runtime_error("pipe");
    writer_ = std::thread([this, text] {
      for (std::size_t at = 0; at < text.size();) {
        const ssize_t n = ::write(ends_[1], text.data() + at, text.size() - at);
        if (n <= 0) break;
        at += static_cast<std::size_t>(n);
      }
      ::close(ends_[1]);
    });
  }
  ~Pipe() {
    ::close(ends_[0]);
    writer_.join();
  }
  int out() const { return ends_[0]; }

 private:
  int ends_[2];
  std::thread writer_;
};

std::vector<std::string> lines_of(const std::string& text) {
  const Pipe pipe(text);
  PipeLines lines(pipe.out());
  std::vector<std::string> all;
  while (const auto line = lines.read("> ")) all.push_back(line->text);
  return all;
}

TEST(PipeLines, AreThoseOfTheText) {
  EXPECT_THAT(lines_of("a\n\nb\r\nc"), ElementsAre("a", "", "b", "c"));
  EXPECT_THAT(lines_of(""), ElementsAre());
  EXPECT_THAT(lines_of("\n"), ElementsAre(""));
  EXPECT_THAT(lines_of(std::string("nul\0in\n", 7)), ElementsAre(std::string("nul\0in", 6)));
}

TEST(PipeLines, MayBeLong) {
  const std::string line(5'000'000, 'x');
  EXPECT_THAT(lines_of(line + "\nshort\n" + line), ElementsAre(line, "short", line));
}

TEST(PipeLines, ThatNeverEndAreAnErrorAndTheNextIsRead) {
  const Pipe pipe(std::string(40'000'000, 'x') + "\nnext\n");
  PipeLines lines(pipe.out());
  EXPECT_EQ(error_of([&] { lines.read(""); }), "is longer than 16 MiB; no model accepts such a long prompt");
  EXPECT_EQ(lines.where(), "line 1: ");
  EXPECT_EQ(lines.read("")->text, "next");
  EXPECT_EQ(lines.where(), "line 2: ");
  EXPECT_EQ(lines.read(""), std::nullopt);
}

TEST(PipeLines, ReplaceWhatIsNotUtf8AndCountIt) {
  const Pipe pipe("a\xff\xc3(b\n\xef\xbf\xbd\n");
  PipeLines lines(pipe.out());
  const auto broken = lines.read("");
  EXPECT_EQ(broken->text, "a\uFFFD\uFFFD(b");
  EXPECT_EQ(broken->num_replaced, 2u);
  const auto written = lines.read("");
  EXPECT_EQ(written->text, "\uFFFD");
  EXPECT_EQ(written->num_replaced, 0u);  // 1: a U+FFFD in the input was counted as a mistake
}

TEST(PipeLines, EndAtCtrlC) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const InterruptGuard guard;
  PipeLines lines(ends[0]);
  std::thread key([] { ::kill(::getpid(), SIGINT); });
  EXPECT_EQ(lines.read(""),
            std::nullopt);  // never returns: the signal came between look and wait, or to another thread
  EXPECT_TRUE(InterruptGuard::interrupted());
  key.join();
  InterruptGuard::clear();
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(PipeLines, AFolderIsAnError) {
  const int folder = ::open("/", O_RDONLY);
  PipeLines lines(folder);
  EXPECT_EQ(error_of([&] { lines.read(""); }), "standard input cannot be read: Is a directory");
  EXPECT_EQ(lines.read(""), std::nullopt);
  ::close(folder);
}

}  // namespace
}  // namespace mortise
