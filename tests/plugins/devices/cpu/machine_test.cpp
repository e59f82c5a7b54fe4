// The limits of control groups, read from folders laid out as Linux lays them out.
#include "devices/cpu/machine.hpp"

#include <fstream>

#include "gtest/gtest.h"
#include "temp_folder.hpp"

namespace mortise::cpu {
namespace {

namespace fs = std::filesystem;

class Cgroups : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  CgroupLimits read() const { return read_cgroup_limits(root_ / "membership", root_ / "mount"); }

  const test::TempFolder temp_;
  const fs::path& root_ = temp_.path();
};

TEST_F(Cgroups, Version2TakesTheTightestLimitOfAGroupAndItsParents) {
  write("membership", "0::/a/b\n");
  write("mount/a/cpu.max", "150000 100000\n");
  write("mount/a/b/cpu.max", "max 100000\n");
  write("mount/a/memory.max", "1000000\n");
  write("mount/a/memory.current", "600000\n");
  write("mount/a/memory.stat", "anon 100\ninactive_file 200000\n");
  write("mount/a/b/memory.max", "max\n");
  const CgroupLimits limits = read();
  EXPECT_EQ(limits.cpus, 1.5);
  EXPECT_EQ(limits.memory_bytes, 1000000u);
  EXPECT_EQ(limits.used_bytes, 400000u);  // 600000: pages of files count although they can be dropped
}

TEST_F(Cgroups, Version1HasAHierarchyPerController) {
  write("membership", "4:memory:/job\n2:cpu,cpuacct:/job\n0::/\n");
  write("mount/cpu/job/cpu.cfs_quota_us", "200000\n");
  write("mount/cpu/job/cpu.cfs_period_us", "100000\n");
  write("mount/memory/job/memory.limit_in_bytes", "5000\n");
  write("mount/memory/job/memory.usage_in_bytes", "3000\n");
  write("mount/memory/job/memory.stat", "total_inactive_file 1000\n");
  const CgroupLimits limits = read();
  EXPECT_EQ(limits.cpus, 2.0);
  EXPECT_EQ(limits.memory_bytes, 5000u);
  EXPECT_EQ(limits.used_bytes, 2000u);
}

TEST_F(Cgroups, AGroupThatTheMountDoesNotShowFallsBackToItsRoot) {
  write("membership", "0::/host/name/of/the/container\n");
  write("mount/cpu.max", "400000 100000\n");
  EXPECT_EQ(read().cpus, 4.0);
}

TEST_F(Cgroups, NoLimitsAndNoFilesAreNoLimits) {
  EXPECT_FALSE(read().cpus.has_value());
  write("membership", "0::/\n2:cpu:/\n");
  write("mount/cpu.max", "max 100000\n");
  write("mount/cpu/cpu.cfs_quota_us", "-1\n");
  write("mount/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(read().cpus.has_value());
  EXPECT_FALSE(read().memory_bytes.has_value());
}

TEST(Machine, HasAProcessorAndMemory) {
  EXPECT_GE(usable_cpus(), 1);
  EXPECT_FALSE(cpu_name().empty());
  EXPECT_GT(machine_memory().total_bytes, 0u);
  EXPECT_LE(machine_memory().free_bytes, machine_memory().total_bytes);
}

}  // namespace
}  // namespace mortise::cpu
