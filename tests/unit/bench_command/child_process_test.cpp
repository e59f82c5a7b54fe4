#include "bench_command/child_process.hpp"

#include "test_support.hpp"

namespace mortise::bench {
namespace {

using namespace test;

class BenchChildProcess : public testing::Test {
 protected:
  double run(const std::string& script) { return seconds_to_first_output("/bin/sh", {"-c", script}, dir_.path()); }
  std::string failure(const std::string& script) {
    return error_of([&] { run(script); });
  }

  TempFolder dir_;
};

TEST_F(BenchChildProcess, TheFirstByteStopsTheClockAndTheRestIsAwaited) {
  const fs::path marker = dir_.path() / "marker";
  EXPECT_GT(run("echo first; head -c 200000 /dev/zero; touch " + marker.string()), 0);  // more than a pipe holds
  EXPECT_TRUE(fs::exists(marker));
}

TEST_F(BenchChildProcess, AProcessWithoutOutputIsTimedToItsEnd) {
  EXPECT_GT(run("exit 0"), 0);
}

TEST_F(BenchChildProcess, StandardInputIsEmpty) {
  EXPECT_GT(run("test -z \"$(cat)\""), 0);
}

TEST_F(BenchChildProcess, AFailureIsToldInItsOwnLastWords) {
  EXPECT_EQ(failure("echo first >&2; echo the reason >&2; exit 3"), "bench: `mortise -c` failed: the reason");
  EXPECT_EQ(failure("kill -9 $$"), "bench: `mortise -c` failed: ");
}

TEST_F(BenchChildProcess, ThePeakOfItsMemoryCounts) {
  const auto peak = [&](const std::string& command) { return peak_bytes("/bin/sh", {"-c", command}, dir_.path()); };
  const std::uint64_t small = peak("exit 0");
  const std::uint64_t large = peak("head -c 40000000 /dev/zero | tail -c 30000000 >/dev/null; exit 0");
  EXPECT_GT(small, 100'000u);
  EXPECT_GT(large, small + 20'000'000);  // tail keeps it all
}

TEST_F(BenchChildProcess, AProgramThatIsNotThereIsNamed) {
  EXPECT_EQ(error_of([&] { seconds_to_first_output("/no/program", {}, dir_.path()); }),
            "/no/program: cannot be started: No such file or directory");
}

}  // namespace
}  // namespace mortise::bench
