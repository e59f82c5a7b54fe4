// The device's memory, streams and graphs, weights, and what is said where something is missing.
// Covers: plugins/devices/cuda/{cuda_device,errors,memory,ops,reaper,row_uploader,streams,temporary,tuning_file}
// Covers: plugins/devices/cuda/{uploader,weight_memory,weights,workspace}
#include "device_fixture.hpp"
#include "gpu.hpp"

#include <filesystem>
#include <fstream>

#include "devices/cuda/errors.hpp"
#include "devices/cuda/tuning_file.hpp"
#include "devices/cuda/weight_memory.hpp"
#include "devices/cuda/workspace.hpp"
#include "temp_folder.hpp"

namespace mortise::cuda::plugin_test {
namespace {

class CudaDevice : public OnGpu {};

TEST(CudaDeviceWithoutGpu, SaysInOneLineWhatIsMissing) {
  if (device().status == MORTISE_OK) GTEST_SKIP() << "there is a GPU";
  EXPECT_TRUE(device().status == MORTISE_UNAVAILABLE || device().status == MORTISE_UNIMPLEMENTED);
  const std::string text = device().error.message;
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST_F(CudaDevice, DescribesItself) {
  auto info = sized<mortise_device_info>();
  expect_ok(table().describe(gpu(), &info));
  std::printf("  %s, %s, %.1f GiB\n", info.name, info.isa, static_cast<double>(info.memory_bytes) / (1 << 30));
  EXPECT_STREQ(info.isa, test::tests_sm_80() ? "sm_80" : "sm_90");
  EXPECT_EQ(info.host_memory, 0);
  EXPECT_GT(info.memory_bytes, uint64_t{1} << 30);
  EXPECT_EQ(std::string(table().numerics_id(gpu(), MORTISE_BF16)).rfind("cuda-bf16", 0), 0u);
  EXPECT_EQ(table().numerics_id(gpu(), MORTISE_F32), nullptr);
}

TEST_F(CudaDevice, AGpuThatIsNotThereIsNamed) {
  const Device other(R"({"device": 1000})");
  EXPECT_EQ(other.status, MORTISE_NOT_FOUND);
  EXPECT_NE(std::string(other.error.message).find("there is no GPU 1000"), std::string::npos) << other.error.message;
}

TEST_F(CudaDevice, MemoryComesZeroedAndWhatDoesNotFitIsToldWithTheNumbers) {
  {
    const Array<uint32_t> dirty(std::vector<uint32_t>(1 << 20, 7));
    dirty.get();
  }
  const Array<uint32_t> fresh(1 << 20);
  EXPECT_EQ(fresh.get(), std::vector<uint32_t>(1 << 20));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(fresh.data()) % 256, 0u);
  void* memory = nullptr;
  EXPECT_EQ(table().allocate(gpu(), uint64_t{1} << 45, &memory, error()), MORTISE_RESOURCE_EXHAUSTED);
  EXPECT_NE(std::string(error()->message).find("32768.00 GiB do not fit: "), std::string::npos) << error()->message;
}

TEST_F(CudaDevice, MemoryThatWasGivenBackCountsAsFree) {
  const auto free_bytes = [this] {
    uint64_t free = 0, total = 0;
    expect_ok(table().memory_info(gpu(), &free, &total));
    return free;
  };
  constexpr uint64_t kBytes = uint64_t{64} << 20;
  constexpr std::size_t kCount = 20;  // which takes the thread that frees a while
  const uint64_t before = free_bytes();
  std::vector<void*> blocks(kCount);
  for (void*& block : blocks) expect_ok(table().allocate(gpu(), kBytes, &block, error()));
  const uint64_t with_blocks = free_bytes();
  EXPECT_LT(with_blocks, before - kBytes * (kCount - 1));
  for (void* const block : blocks) table().free(gpu(), block);
  EXPECT_GT(free_bytes(), with_blocks + kBytes * (kCount - 1));
}

TEST_F(CudaDevice, CopiesThroughPinnedMemoryInOrder) {
  void* pinned = nullptr;
  expect_ok(table().host_allocate(gpu(), 4096, &pinned, error()));
  auto* const values = static_cast<int32_t*>(pinned);
  for (int i = 0; i < 1024; ++i) values[i] = i;
  const Array<int32_t> a(1024), b(1024);
  expect_ok(table().copy(gpu(), nullptr, a.data(), pinned, 4096, error()));
  expect_ok(table().copy(gpu(), nullptr, b.data(), a.data(), 4096, error()));
  device().synchronize();
  std::memset(pinned, 0, 4096);
  expect_ok(table().copy(gpu(), nullptr, pinned, b.data(), 4096, error()));
  device().synchronize();
  for (int i = 0; i < 1024; ++i) ASSERT_EQ(values[i], i);
  table().host_free(gpu(), pinned);
}

// A kernel copies up to 256 bytes.
TEST_F(CudaDevice, SmallDownloadsEndWhereTheyShouldAndFollowWhatIsQueued) {
  constexpr std::size_t kBytes = 512;
  void* pinned = nullptr;
  expect_ok(table().host_allocate(gpu(), kBytes, &pinned, error()));
  auto* const to = static_cast<uint8_t*>(pinned);
  std::vector<uint8_t> values(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) values[i] = static_cast<uint8_t>(i * 7 + 1);
  const Array<uint8_t> memory(values), filled(kBytes);
  for (const std::size_t bytes : {1, 4, 255, 256, 257}) {
    for (const std::size_t offset : {0, 3}) {
      std::memset(to, 0xee, kBytes);
      expect_ok(table().fill(gpu(), nullptr, filled.data(), 0x11, kBytes, error()));
      expect_ok(table().copy(gpu(), nullptr, filled.data(), memory.data(), kBytes, error()));
      expect_ok(table().copy(gpu(), nullptr, to + 1, filled.data() + offset, bytes, error()));
      device().synchronize();
      EXPECT_TRUE(std::equal(to + 1, to + 1 + bytes, values.begin() + static_cast<std::ptrdiff_t>(offset))) << bytes;
      EXPECT_EQ(to[0], 0xee);
      EXPECT_EQ(to[1 + bytes], 0xee) << bytes;
    }
  }
  table().host_free(gpu(), pinned);
}

TEST_F(CudaDevice, EventsOrderStreams) {
  mortise_stream* other = nullptr;
  mortise_event* event = nullptr;
  expect_ok(table().stream_create(gpu(), &other, error()));
  expect_ok(table().event_create(gpu(), &event, error()));
  const Array<uint8_t> memory(1 << 20);
  expect_ok(table().fill(gpu(), other, memory.data(), 3, memory.size(), error()));
  expect_ok(table().event_record(gpu(), event, other, error()));
  expect_ok(table().event_wait(gpu(), event, nullptr, error()));
  EXPECT_EQ(memory.get().back(), 3);
  expect_ok(table().event_synchronize(gpu(), event, error()));
  table().event_destroy(gpu(), event);
  table().stream_destroy(gpu(), other);
}

TEST_F(CudaDevice, WeightsOfAnyFloatTypeAndStrideBecomeBf16) {
  const std::vector<float> f32 = {1.0f, 0.1f, -3.0f, 1e-3f};
  const std::vector<Bf16> transposed = {cpu::float_to_bf16(1), cpu::float_to_bf16(3), cpu::float_to_bf16(2),
                                        cpu::float_to_bf16(4)};
  const std::vector<uint16_t> f16 = {0x3c00, 0x0001, 0xc000, 0x7bff};  // 1, 2^-24, -2, 65504
  mortise_tensor columns = host_part(transposed, 2, 2), halves = host_part(f16, 2, 2);
  columns.stride[0] = 1;
  columns.stride[1] = 2;
  halves.dtype = MORTISE_F16;
  const Weight weight(MORTISE_WEIGHT_EMBEDDING, {host_part(f32, 2, 2), columns, halves});
  ASSERT_EQ(weight.status, MORTISE_OK) << error()->message;
  const Array<int32_t> ids(std::vector<int32_t>{0, 1, 2, 3, 4, 5});
  const Array<Bf16> out(12);
  const mortise_tensor tensor = matrix(out, 6, 2);
  expect_ok(table().embed(gpu(), nullptr, ids.data(), weight.get(), &tensor, error()));
  std::vector<Bf16> expected;
  for (const float x : {1.0f, 0.1f, -3.0f, 1e-3f, 1.0f, 2.0f, 3.0f, 4.0f, 1.0f, 0x1p-24f, -2.0f, 65504.0f}) {
    expected.push_back(cpu::float_to_bf16(x));
  }
  EXPECT_TRUE(same_bits(expected, out.get()));
}

TEST_F(CudaDevice, VectorsLieInDeviceMemory) {
  const std::vector<Bf16> values = {1, 2, 3};
  const Weight weight(MORTISE_WEIGHT_VECTOR, {vector_part(values)});
  int64_t n = 0;
  int32_t dtype = 0;
  const void* data = table().vector_weight(gpu(), weight.get(), &n, &dtype);
  EXPECT_EQ(n, 3);
  EXPECT_EQ(dtype, MORTISE_BF16);
  std::vector<Bf16> back(3);
  expect_ok(table().copy(gpu(), nullptr, back.data(), data, 6, error()));
  device().synchronize();
  EXPECT_EQ(back, values);
}

TEST_F(CudaDevice, WhatItDoesNotServeIsRefusedWithAWayOut) {
  const std::vector<float> values(64);
  const Weight f32(MORTISE_WEIGHT_LINEAR, {host_part(values, 8, 8)}, MORTISE_F32);
  EXPECT_EQ(f32.status, MORTISE_UNIMPLEMENTED);
  EXPECT_NE(std::string(error()->message).find("set dtype = \"bf16\""), std::string::npos) << error()->message;
}

// A chain of operations, captured once, replayed on other inputs: the same bits as without a graph.
TEST_F(CudaDevice, AReplayedGraphGivesTheBitsOfTheOperations) {
  const std::size_t m = 4, k = 256, n = 512;
  std::mt19937 rng(9);
  const Weight weight(MORTISE_WEIGHT_LINEAR, {host_part(random_values<Bf16>(rng, n * k), n, k)});
  const Weight norm(MORTISE_WEIGHT_VECTOR, {vector_part(random_values<Bf16>(rng, k))});
  Array<Bf16> x(m * k), hidden(m * k), out(m * n / 2);
  const mortise_tensor x_tensor = matrix(x, m, k), hidden_tensor = matrix(hidden, m, k),
                       out_tensor = matrix(out, m, n / 2);
  const auto run = [&] {
    auto norm_args = sized<mortise_norm_args>();
    norm_args.x = &x_tensor;
    norm_args.out = &hidden_tensor;
    norm_args.weight = norm.get();
    norm_args.eps = 1e-5f;
    expect_ok(table().rms_norm(gpu(), nullptr, &norm_args, error()));
    auto args = sized<mortise_linear_args>();
    args.x = &hidden_tensor;
    args.weight = weight.get();
    args.out = &out_tensor;
    args.gate_activation = MORTISE_ACT_SILU;
    expect_ok(table().linear(gpu(), nullptr, &args, error()));
  };
  x.put(random_values<Bf16>(rng, m * k));
  run();
  mortise_graph* graph = nullptr;
  expect_ok(device().graphs().begin(gpu(), nullptr, error()));
  run();
  expect_ok(device().graphs().end(gpu(), nullptr, &graph, error()));
  ASSERT_NE(graph, nullptr);
  for (int trial = 0; trial < 3; ++trial) {
    x.put(random_values<Bf16>(rng, m * k));
    run();
    const auto expected = out.get();
    out.put(std::vector<Bf16>(m * n / 2, 0x7fc1));
    expect_ok(device().graphs().replay(gpu(), nullptr, graph, error()));
    EXPECT_TRUE(same_bits(expected, out.get()));
  }
  device().graphs().destroy(gpu(), graph);
}

TEST_F(CudaDevice, WhatWouldTuneWhileItIsCapturedSaysSoAndTheStreamGoesOn) {
  const std::size_t k = 64, n = 192;
  const Weight weight(MORTISE_WEIGHT_LINEAR, {host_part(std::vector<Bf16>(n * k), n, k)});
  const Array<Bf16> x(k), y(n);
  const mortise_tensor x_tensor = matrix(x, 1, k), y_tensor = matrix(y, 1, n);
  auto args = sized<mortise_linear_args>();
  args.x = &x_tensor;
  args.weight = weight.get();
  args.out = &y_tensor;
  expect_ok(device().graphs().begin(gpu(), nullptr, error()));
  const mortise_status status = table().linear(gpu(), nullptr, &args, error());
  if (status != MORTISE_OK) {  // without cuBLASLt there is nothing to choose
    EXPECT_EQ(status, MORTISE_FAILED_PRECONDITION);
    EXPECT_NE(std::string(error()->message).find("run it once before it is captured"), std::string::npos);
  }
  mortise_graph* graph = nullptr;
  expect_ok(device().graphs().end(gpu(), nullptr, &graph, error()));
  device().graphs().destroy(gpu(), graph);
  expect_ok(table().linear(gpu(), nullptr, &args, error()));
  device().synchronize();
}

TEST(CudaErrors, MemoryThatIsNotThereIsToldWithWhatItWasForAndWhatMakesRoom) {
  EXPECT_EQ(no_memory_text("a workspace", 3ull << 30, 1ull << 29, 80ull << 30, "lower max_batched_tokens"),
            "a workspace of 3.00 GiB does not fit: 0.50 GiB of the GPU's 80.00 GiB are free; lower max_batched_tokens");
  EXPECT_EQ(no_memory_text("a matrix to try algorithms with", 1ull << 27, 0, 80ull << 30, ""),
            "a matrix to try algorithms with of 0.12 GiB does not fit: 0.00 GiB of the GPU's 80.00 GiB are free");
}

TEST_F(CudaDevice, AWeightOrWorkspaceThatDoesNotFitSaysWhatMakesRoom) {
  const auto told = [](auto ask) -> std::string {
    try {
      ask();
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code, MORTISE_RESOURCE_EXHAUSTED);
      return failure.message;
    }
    return "nothing";
  };
  EXPECT_NE(told([] { weight_memory(uint64_t{1} << 45); }).find("a weight of 32768.00 GiB does not fit: "),
            std::string::npos);
  EXPECT_NE(told([] {
              weight_memory(uint64_t{1} << 45);
            }).find("a smaller model needs less, and so do weights = \"int8\" or \"int4\" of it"),
            std::string::npos);
  EXPECT_NE(told([] {
              Workspace().reserve(uint64_t{1} << 45, nullptr, "linear");
            }).find("it grows with the rows of a step: lower max_batched_tokens of the scheduler"),
            std::string::npos);
  device().synchronize();
}

TEST(TuningFile, WhatIsWrittenIsRead) {
  const test::TempFolder folder;
  const auto path = folder.path() / "tuning.json";
  const TuningKey key = {"NVIDIA H200", 13000, 130100};
  const AlgorithmChoices choices = {{{4096, 288, true, false, 16}, LtConfig{66, 10, 35, 1, 0, 0, 3, 0, 2}},
                                    {{8, 8, false, true, 1}, std::nullopt}};
  write_tuning(path, key, choices);
  EXPECT_EQ(read_tuning(path, key), choices);
}

TEST(TuningFile, AFileOfOthersOrADamagedOneIsRefused) {
  const test::TempFolder folder;
  const auto path = folder.path() / "tuning.json";
  const TuningKey key = {"NVIDIA H200", 13000, 130100};
  write_tuning(path, {"NVIDIA H100", 13000, 130100}, {});
  EXPECT_THROW(read_tuning(path, key), std::runtime_error);
  const char* const bad[] = {
      "",
      "{",
      "[]",
      R"({"version":1,"gpu":"NVIDIA H200","driver":13000,"cublaslt":130100})",
      R"({"version":1,"gpu":"NVIDIA H200","driver":13000,"cublaslt":130100,"choices":[{}]})",
      R"({"version":1,"gpu":"NVIDIA H200","driver":13000,"cublaslt":130100,"choices":[{"n":0,"k":1,"f32_out":true,"bias":false,"rows":1,"algorithm":null}]})",
      R"({"version":1,"gpu":"NVIDIA H200","driver":13000,"cublaslt":130100,"choices":[{"n":1,"k":1,"f32_out":true,"bias":false,"rows":1,"algorithm":[1,2]}]})",
      R"({"version":1,"gpu":"NVIDIA H200","driver":13000,"cublaslt":130100,"choices":[{"n":1,"k":1,"f32_out":true,"bias":false,"rows":1,"algorithm":[66,-1,0,1,0,0,0,0,0]}]})",
  };
  for (const char* text : bad) {
    std::ofstream(path) << text;
    EXPECT_THROW(read_tuning(path, key), std::runtime_error) << text;
  }
  std::ofstream(path) << std::string((1 << 20) + 1, ' ');
  EXPECT_THROW(read_tuning(path, key), std::runtime_error);
  std::filesystem::remove(path);
  EXPECT_TRUE(read_tuning(path, key).empty());  // a missing file is no error
}

}  // namespace
}  // namespace mortise::cuda::plugin_test
