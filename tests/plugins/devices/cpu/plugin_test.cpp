// Options, description and memory of the CPU device.
// Covers: plugins/devices/cpu/{cpu_device,memory,ops,pages} plugins/devices/checks/environment
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "device_fixture.hpp"
#include "variables.hpp"

namespace mortise::cpu {
namespace {

class PrintInstructionSets : public testing::Environment {
 public:
  void SetUp() override {
    std::string names;
    for (const Isa isa : available_isas()) names += std::string(" ") + isa_name(isa);
    std::printf("instruction sets run:%s\n", names.c_str());
  }
};
const auto* const kPrint = testing::AddGlobalTestEnvironment(new PrintInstructionSets);

// The name of an instruction set that this machine lacks, or null.
const char* missing_isa() {
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    const auto& found = available_isas();
    if (std::find(found.begin(), found.end(), isa) == found.end()) return isa_name(isa);
  }
  return nullptr;
}

TEST(CpuDevice, DescribesItself) {
  Device device(Isa::kPortable, 3);
  auto info = sized<mortise_device_info>();
  EXPECT_EQ(device.table().describe(device.get(), &info), MORTISE_OK);
  EXPECT_STREQ(info.isa, "portable");
  EXPECT_EQ(info.num_threads, 3);
  EXPECT_EQ(info.host_memory, 1);
  EXPECT_GT(info.memory_bytes, 0u);
  EXPECT_STRNE(info.name, "");
}

TEST(CpuDevice, WritesNoMoreOfADescriptionThanTheCallerKnows) {
  Device device(Isa::kPortable, 1);
  auto info = sized<mortise_device_info>();
  info.struct_size = offsetof(mortise_device_info, num_threads);
  info.num_threads = -5;
  EXPECT_EQ(device.table().describe(device.get(), &info), MORTISE_OK);
  EXPECT_EQ(info.num_threads, -5);
  EXPECT_EQ(info.struct_size, offsetof(mortise_device_info, num_threads));
}

TEST(CpuDevice, TheNumericsIdDependsOnTheTypeAndTheOrderAlone) {
  for (const Isa isa : available_isas()) {
    for (const SumOrder order : {SumOrder::kTiles, SumOrder::kPairs}) {
      Device device(isa, 1, order);
      EXPECT_STREQ(device.table().numerics_id(device.get(), MORTISE_BF16),
                   order == SumOrder::kTiles ? "cpu-bf16/1" : "cpu-bf16-pairs/1");
      EXPECT_STREQ(device.table().numerics_id(device.get(), MORTISE_F32), "cpu-f32/1");
      EXPECT_STREQ(device.table().numerics_id(device.get(), MORTISE_I8), "cpu-int8/1");
      EXPECT_STREQ(device.table().numerics_id(device.get(), MORTISE_I8_BLOCK32), "cpu-int8-block32/1");
      EXPECT_EQ(device.table().numerics_id(device.get(), MORTISE_F16), nullptr);
    }
  }
}

TEST(CpuDevice, AutoTakesTheOrderOfTheMachineWhateverTheInstructionSet) {
  const char* const expected = preferred_order() == SumOrder::kTiles ? "cpu-bf16/1" : "cpu-bf16-pairs/1";
  for (const Isa isa : available_isas()) {
    Device device(R"({"isa": ")" + std::string(isa_name(isa)) + R"("})");
    EXPECT_STREQ(device.table().numerics_id(device.get(), MORTISE_BF16), expected);
  }
}

TEST(CpuDevice, TakesTheBestInstructionSetAndAllProcessorsByDefault) {
  for (const char* options : {"{}", R"({"threads": 0, "isa": "auto"})"}) {
    Device device{std::string(options)};
    EXPECT_STREQ(device.parallel().isa(device.get()), isa_name(available_isas().back()));
    EXPECT_GE(device.parallel().num_threads(device.get()), 1);
  }
}

TEST(CpuDevice, TheEnvironmentVariableBeatsTheOption) {
  test::set_variable("MORTISE_ISA", "portable");
  void* instance = nullptr;
  mortise_error error = make_error();
  const std::string best = isa_name(available_isas().back());
  ASSERT_EQ(create_device(R"({"threads": 1, "isa": ")" + best + "\"}", &instance, &error), MORTISE_OK);
  test::set_variable("MORTISE_ISA", std::nullopt);
  auto* device = static_cast<mortise_device*>(instance);
  const auto& table = *static_cast<const mortise_device_table*>(cpu_component().table);
  auto info = sized<mortise_device_info>();
  table.describe(device, &info);
  EXPECT_STREQ(info.isa, "portable");
  cpu_component().destroy(instance);
}

TEST(CpuDevice, AnInstructionSetThatTheMachineLacksIsRefusedWithWhatThereIs) {
  const char* const missing = missing_isa();
  if (missing == nullptr) GTEST_SKIP() << "this machine has all of them";
  void* instance = nullptr;
  mortise_error error = make_error();
  test::set_variable("MORTISE_ISA", std::nullopt);
  EXPECT_EQ(create_device(R"({"isa": ")" + std::string(missing) + "\"}", &instance, &error),
            MORTISE_FAILED_PRECONDITION);
  EXPECT_STREQ(error.where, "isa");
  EXPECT_NE(std::string(error.message).find("it has portable"), std::string::npos) << error.message;
  test::set_variable("MORTISE_ISA", missing);
  EXPECT_EQ(create_device("{}", &instance, &error), MORTISE_FAILED_PRECONDITION);
  EXPECT_STREQ(error.where, "MORTISE_ISA");
  test::set_variable("MORTISE_ISA", std::nullopt);
}

TEST(CpuDevice, MemoryIsZeroAndAligned) {
  Device device(Isa::kPortable, 1);
  for (const std::uint64_t bytes : {0ull, 1ull, 5000ull, 10ull << 20}) {
    void* memory = nullptr;
    ASSERT_EQ(device.table().allocate(device.get(), bytes, &memory, &device.error), MORTISE_OK);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0u);
    auto* const first = static_cast<unsigned char*>(memory);
    EXPECT_TRUE(std::all_of(first, first + bytes, [](unsigned char byte) { return byte == 0; }));
    device.table().free(device.get(), memory);
  }
  device.table().free(device.get(), nullptr);
}

TEST(CpuDevice, MoreMemoryThanThereIsIsRefusedWithTheNumbers) {
  Device device(Isa::kPortable, 1);
  void* memory = nullptr;
  for (const std::uint64_t bytes : {1ull << 60, ~0ull}) {
    EXPECT_EQ(device.table().allocate(device.get(), bytes, &memory, &device.error), MORTISE_RESOURCE_EXHAUSTED);
    EXPECT_NE(std::string(device.error.message).find(std::to_string(bytes) + " bytes do not fit the "),
              std::string::npos)
        << device.error.message;
  }
}

TEST(CpuDevice, CopiesAndFills) {
  Device device(Isa::kPortable, 1);
  std::vector<std::uint8_t> a(1000), b(1000, 1);
  EXPECT_EQ(device.table().fill(device.get(), nullptr, a.data(), 7, 1000, nullptr), MORTISE_OK);
  EXPECT_EQ(device.table().copy(device.get(), nullptr, b.data(), a.data(), 999, nullptr), MORTISE_OK);
  EXPECT_EQ(b[998], 7);
  EXPECT_EQ(b[999], 1);
}

// Threads of this process by their ids. One that was joined may be listed for a moment more: its last step, which wakes
// the joining thread, comes before the kernel takes it off the list.
std::set<std::string> threads() {
  std::set<std::string> ids;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) ids.insert(task.path().filename());
  return ids;
}

TEST(CpuDevice, LeavesNoThreadBehind) {
  std::thread([] {}).join();  // a sanitizer starts one of its own with the first
  const auto before = threads();
  const auto num_new = [&before] {
    const auto now = threads();
    return std::count_if(now.begin(), now.end(), [&before](const std::string& id) { return !before.contains(id); });
  };
  {
    Device device(Isa::kPortable, 4);
    EXPECT_EQ(num_new(), 3);
  }
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (num_new() > 0 && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  EXPECT_EQ(num_new(), 0);
}

}  // namespace
}  // namespace mortise::cpu
