#include "bench_command/machine.hpp"

#include "test_support.hpp"

namespace mortise::bench {
namespace {

using namespace test;

void write_cache(const fs::path& folder, const std::string& name, const std::string& level, const std::string& type,
                 const std::string& size) {
  fs::create_directories(folder / name);
  write_text(folder / name / "level", level + "\n");
  write_text(folder / name / "type", type + "\n");
  write_text(folder / name / "size", size + "\n");
}

TEST(BenchMachine, CachesAreReadByLevelWithoutThoseOfInstructions) {
  const TempFolder dir;
  write_cache(dir.path(), "index3", "3", "Unified", "320M");
  write_cache(dir.path(), "index0", "1", "Data", "48K");
  write_cache(dir.path(), "index1", "1", "Instruction", "32K");
  write_cache(dir.path(), "index2", "2", "Unified", "2048K");
  fs::create_directory(dir.path() / "power");
  const std::vector<Cache> caches = read_caches(dir.path());
  ASSERT_EQ(caches.size(), 3u);
  EXPECT_EQ(caches[0].level, 1);
  EXPECT_EQ(caches[0].bytes, 48u << 10);
  EXPECT_EQ(caches[1].bytes, 2048u << 10);
  EXPECT_EQ(caches[2].level, 3);
  EXPECT_EQ(caches[2].bytes, 320u << 20);
}

TEST(BenchMachine, WhatIsMissingOrStrangeIsLeftOut) {
  const TempFolder dir;
  EXPECT_TRUE(read_caches(dir.path() / "none").empty());
  write_cache(dir.path(), "index0", "one", "Data", "48K");
  write_cache(dir.path(), "index1", "2", "Unified", "48Q");
  write_cache(dir.path(), "index2", "3", "Unified", "99999999999999999999999");
  EXPECT_TRUE(read_caches(dir.path()).empty());
}

// A device whose memory a control group limits says so; /proc/meminfo knows nothing of it.
TEST(BenchMachine, AvailableMemoryIsWhatTheDeviceHasFree) {
  const TempFolder dir;
  std::ofstream(dir.path() / "meminfo") << "MemAvailable:   23262044 kB\n";
  mortise_device_table table{};
  table.memory_info = [](mortise_device*, std::uint64_t* free_bytes, std::uint64_t* total_bytes) {
    *free_bytes = 1000, *total_bytes = 3000;
    return mortise_status{MORTISE_OK};
  };
  EXPECT_EQ(available_memory(nullptr, table, dir.path() / "meminfo"), 1000u);
}

TEST(BenchMachine, AvailableMemoryOfADeviceThatCannotSayIsThatOfMeminfo) {
  const TempFolder dir;
  mortise_device_table table{};
  table.memory_info = [](mortise_device*, std::uint64_t*, std::uint64_t*) {
    return mortise_status{MORTISE_UNIMPLEMENTED};
  };
  const auto available = [&](const char* name) { return available_memory(nullptr, table, dir.path() / name); };
  std::ofstream(dir.path() / "meminfo") << "MemTotal:       24683520 kB\nMemFree:  1 kB\nMemAvailable:   23262044 kB\n";
  EXPECT_EQ(available("meminfo"), std::uint64_t{23262044} << 10);
  std::ofstream(dir.path() / "old") << "MemTotal: 24683520 kB\n";
  EXPECT_EQ(available("old"), std::nullopt);
  EXPECT_EQ(available("none"), std::nullopt);
}

TEST(BenchMachine, ThereIsAProcessor) {
  EXPECT_GE(usable_processors(), 1u);
  EXPECT_FALSE(processor_name().empty());
}

}  // namespace
}  // namespace mortise::bench
