#include "trace/trace_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "error.hpp"
#include "temp_folder.hpp"

namespace mortise {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TraceFileTest : public ::testing::Test {
 protected:
  nlohmann::json read() const {
    std::ifstream file(path());
    std::ostringstream text;
    text << file.rdbuf();
    return nlohmann::json::parse(text.str(), nullptr, /*allow_exceptions=*/false);
  }
  std::string path() const { return (folder / "trace.json").string(); }

  const test::TempFolder temp;
  const fs::path& folder = temp.path();
};

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(TraceFileTest, TheFileIsValidJsonFromTheBeginningAndAfterEveryFlush) {
  TraceFile trace(path());
  EXPECT_EQ(read(), nlohmann::json::array());
  trace.add(R"({"a":1})");
  trace.flush();
  EXPECT_EQ(read(), nlohmann::json::parse(R"([{"a":1}])"));
  trace.add("{\"b\":2},\n{\"c\":3}");
  trace.flush();
  trace.flush();
  EXPECT_EQ(read(), nlohmann::json::parse(R"([{"a":1},{"b":2},{"c":3}])"));
  trace.close();
  EXPECT_EQ(read().size(), 3u);
}

TEST_F(TraceFileTest, MuchIsWrittenWithoutBeingAskedTo) {
  TraceFile trace(path());
  for (int i = 0; i < 20000; ++i) trace.add(R"({"name":"an event of some length"})");
  EXPECT_GT(fs::file_size(path()), 500'000u);  // small: events pile up in memory until the end
  EXPECT_GT(read().size(), 15'000u);
}

TEST_F(TraceFileTest, ProcessesGetAPidEachAndTheirNames) {
  TraceFile trace(path());
  EXPECT_EQ(trace.add_process("a \"quoted\" name", "engine"), 1);
  EXPECT_EQ(trace.add_process("broken \xff", "engine"), 2);
  trace.close();
  const nlohmann::json events = read();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0]["args"]["name"], "a \"quoted\" name");
  EXPECT_EQ(events[0]["name"], "process_name");
  EXPECT_EQ(events[1]["name"], "thread_name");
  EXPECT_EQ(events[2]["pid"], 2);
}

TEST_F(TraceFileTest, ThreadsMayAddAtTheSameTime) {
  TraceFile trace(path());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 1000; ++k)
        trace.add(R"({"x":1},)"
                  "\n"
                  R"({"y":2})");
    });
  }
  for (std::thread& thread : threads) thread.join();
  trace.close();
  EXPECT_EQ(read().size(), 8000u);
}

TEST_F(TraceFileTest, APipeGetsTheClosingBracketAtTheEnd) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  nlohmann::json events;
  std::thread reader([&] { events = read(); });
  TraceFile trace(path());
  trace.add("{}");
  trace.flush();
  trace.add("{}");
  trace.close();
  reader.join();
  EXPECT_EQ(events, nlohmann::json::parse("[{},{}]"));
}

TEST_F(TraceFileTest, AFileThatWasThereIsReplaced) {
  std::ofstream(path()) << std::string(1000, 'x');
  TraceFile(path()).close();
  EXPECT_EQ(read(), nlohmann::json::array());
}

TEST_F(TraceFileTest, APathThatCannotBeWrittenIsNamed) {
  const std::string missing = (folder / "none" / "t.json").string();
  EXPECT_EQ(error_of([&] { TraceFile trace(missing); }),
            missing + ": the trace cannot be written: No such file or directory; name a file in an existing folder");
  EXPECT_THAT(error_of([&] { TraceFile trace(folder.string()); }), HasSubstr("Is a directory"));
}

TEST_F(TraceFileTest, AFullDiskIsReportedAtTheEnd) {
  TraceFile trace("/dev/full");
  trace.add("{}");
  EXPECT_EQ(error_of([&] { trace.close(); }),
            "/dev/full: the trace could not be written: No space left on device; it is incomplete");
}

}  // namespace
}  // namespace mortise
