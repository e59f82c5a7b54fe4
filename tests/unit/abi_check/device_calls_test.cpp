// Covers: runtime/abi_check/{device_state,graph_calls,operation_calls}
#include <thread>

#include "fake_world.hpp"
#include "mortise/ext/graph.h"
#include "mortise/ext/rejection.h"

namespace mortise::device_calls_test {
namespace {

using namespace fake;

class CheckedDevice : public CheckedStep {
 public:
  std::string allocate(std::uint64_t bytes = 64) {
    return on_device([&](mortise_error* error) { return devices().allocate(step.device, bytes, &memory, error); });
  }
  // What a call logs that returns no status, or no message.
  template <typename Body>
  std::string told(Body&& body) {
    const auto part = device.active_part<mortise_device, mortise_device_table>();
    return log_of([&] { part.value_of("call", 0, [&] { return body(), 0; }); });
  }
  std::string prepare() {
    const mortise_tensor part = tensor(numbers, {4, 4});
    const mortise_tensor* const parts[] = {&part};
    mortise_weight_source source{};
    source.struct_size = sizeof source;
    source.use = use;
    source.num_parts = 1;
    source.parts = parts;
    source.dtype = MORTISE_F32;
    return on_device(
        [&](mortise_error* error) { return devices().prepare_weight(step.device, &source, &weight, error); });
  }
  std::string linear() {
    mortise_linear_args args{};
    args.struct_size = sizeof args;
    args.x = &x;
    args.weight = weight;
    args.out = &out;
    return on_device([&](mortise_error* error) { return devices().linear(step.device, nullptr, &args, error); });
  }
  std::string add() {
    return on_device([&](mortise_error* error) { return devices().add(step.device, nullptr, &x, &x, &out, error); });
  }
  const mortise_graph_table& graph() {
    static const mortise_graph_table real = {
        sizeof real,
        0,
        [](auto*, auto*, auto*) { return kOk; },
        [](auto*, auto*, mortise_graph** made, auto*) { return world.graph_end(made); },
        [](auto*, auto*, auto*, auto*) { return kOk; },
        [](auto*, mortise_graph* gone) { delete reinterpret_cast<int*>(gone); }};
    life.get_ext = [](const char*) -> const void* { return &real; };
    return *static_cast<const mortise_graph_table*>(device.get_ext(MORTISE_EXT_GRAPH));
  }

  float numbers[64] = {};
  mortise_tensor x = tensor(numbers, {2, 4}), out = tensor(numbers, {2, 4});
  std::int32_t use = MORTISE_WEIGHT_LINEAR;
  void* memory = nullptr;
  mortise_weight* weight = nullptr;
};

TEST_F(CheckedDevice, ASoundOneIsLeftAlone) {
  EXPECT_EQ(allocate(), "");
  EXPECT_EQ(told([&] { devices().free(step.device, memory); }), "");
  EXPECT_EQ(prepare(), "");
  EXPECT_EQ(linear(), "");
  EXPECT_EQ(add(), "");
  EXPECT_EQ(told([&] { devices().free_weight(step.device, weight); }), "");
}

TEST_F(CheckedDevice, MemoryIsAligned) {
  alignas(256) static char pool[512];
  world.allocate = [](std::uint64_t, void** made, mortise_error*) { return *made = pool + 8, kOk; };
  EXPECT_THAT(allocate(), HasSubstr("breaks mortise/device.h, \"256-byte aligned\": allocate returns"));
}

TEST_F(CheckedDevice, MemoryIsZero) {
  world.allocate = [](std::uint64_t bytes, void** made, mortise_error*) {
    *made = std::memset(aligned_zeros(bytes), 1, bytes);
    return kOk;
  };
  EXPECT_THAT(allocate(),
              HasSubstr("\"Allocates zero-filled device memory\": allocate returns memory with other numbers"));
}

TEST_F(CheckedDevice, MemoryIsHandedOutOnce) {
  static void* const same = aligned_zeros(256);
  world.allocate = [](std::uint64_t, void** made, mortise_error*) { return *made = same, kOk; };
  EXPECT_EQ(allocate(), "");
  EXPECT_THAT(allocate(), HasSubstr("allocate returns NULL, or memory that is in use"));
}

TEST_F(CheckedDevice, AFailureLeavesNoAddress) {
  world.allocate = [](std::uint64_t, void** made, mortise_error* error) -> mortise_status {
    std::strcpy(error->message, "none left");
    *made = error;
    return MORTISE_RESOURCE_EXHAUSTED;
  };
  EXPECT_THAT(allocate(), HasSubstr("\"On failure the out-handle is NULL\": allocate fails and leaves an address"));
}

TEST_F(CheckedDevice, MemoryIsFreedOnce) {
  ASSERT_EQ(allocate(), "");
  EXPECT_EQ(told([&] { devices().free(step.device, memory); }), "");
  EXPECT_THAT(
      told([&] { devices().free(step.device, memory); }),
      HasSubstr(
          "the host breaks mortise/abi.h, \"A handle lives until the function that destroys it\": free gets memory "
          "that the device did not hand out, or that was returned before"));
}

TEST_F(CheckedDevice, NumericsStayTheSame) {
  const auto ask = [&] { return told([&] { devices().numerics_id(step.device, MORTISE_F32); }); };
  EXPECT_EQ(ask(), "");
  world.numerics_id = [](std::int32_t) { return "fake/2"; };
  EXPECT_THAT(ask(), HasSubstr("numerics_id(0x220) gives another answer than before"));
}

TEST_F(CheckedDevice, TheSliceIsFixed) {
  const auto ask = [&] { return told([&] { devices().vocab_slice(step.device); }); };
  EXPECT_EQ(ask(), "");
  world.vocab_slice = [] { return 128; };
  EXPECT_THAT(ask(), HasSubstr("breaks mortise/device.h, \"Returns the width of the slices of "
                               "mortise_head_reduce_args\": vocab_slice returns 128"));
}

TEST_F(CheckedDevice, NoMoreMemoryIsFreeThanThereIs) {
  world.memory_info = [](std::uint64_t* free, std::uint64_t* total) { return *free = 2, *total = 1, kOk; };
  std::uint64_t free_bytes, total_bytes;
  EXPECT_THAT(told([&] { EXPECT_EQ(devices().memory_info(step.device, &free_bytes, &total_bytes), MORTISE_INTERNAL); }),
              HasSubstr("\"the free and total bytes\": memory_info says that 2 of 1 bytes are free"));
}

TEST_F(CheckedDevice, ItsDescriptionHasEnds) {
  world.describe = [](mortise_device_info* info) {
    std::memset(info->isa, 'x', sizeof info->isa);
    return kOk;
  };
  mortise_device_info info{};
  info.struct_size = sizeof info;
  EXPECT_THAT(told([&] { EXPECT_EQ(devices().describe(step.device, &info), MORTISE_INTERNAL); }),
              HasSubstr("describe gives a text without an end"));
}

TEST_F(CheckedDevice, ItsMemoryIsTheHostsOrNot) {
  world.describe = [](mortise_device_info* info) { return info->host_memory = 2, kOk; };
  mortise_device_info info{};
  info.struct_size = sizeof info;
  EXPECT_THAT(told([&] { EXPECT_EQ(devices().describe(step.device, &info), MORTISE_INTERNAL); }),
              HasSubstr("\"1: device pointers are host pointers\": host_memory is 2"));
}

TEST_F(CheckedDevice, AWeightIsMade) {
  world.prepare = [](auto*, auto** made) { return *made = nullptr, kOk; };
  EXPECT_THAT(prepare(), HasSubstr("prepare_weight returns NULL, or a weight that is in use"));
}

TEST_F(CheckedDevice, AWeightHasAUse) {
  use = 8;
  EXPECT_THAT(prepare(), HasSubstr("the host breaks mortise/device.h, \"mask of MORTISE_WEIGHT_*\": use is 8"));
}

TEST_F(CheckedDevice, AWeightIsUsedWhileItLives) {
  ASSERT_EQ(prepare(), "");
  ASSERT_EQ(linear(), "");
  EXPECT_EQ(told([&] { devices().free_weight(step.device, weight); }), "");
  EXPECT_THAT(linear(), HasSubstr("linear gets a weight that the device did not hand out, or that was destroyed"));
}

TEST_F(CheckedDevice, TensorsAreWithinTheirAllocation) {
  ASSERT_EQ(allocate(64), "");
  x = tensor(memory, {2, 16});
  EXPECT_THAT(
      add(),
      HasSubstr("the host breaks mortise/tensor.h, \"accessible bytes, starting at data\": a takes 128 bytes where "
                "its allocation has 64 left"));
}

TEST_F(CheckedDevice, TensorsAreInDeviceMemoryOfAGpu) {
  world.describe = [](mortise_device_info* info) { return info->host_memory = 0, kOk; };
  mortise_device_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(on_device([&](mortise_error*) { return devices().describe(step.device, &info); }), "");
  EXPECT_THAT(add(), HasSubstr("a is in no memory that the device allocated"));
}

TEST_F(CheckedDevice, TensorsHaveAType) {
  x.dtype = 5;
  EXPECT_THAT(add(), HasSubstr("a has the dtype 0x5"));
}
TEST_F(CheckedDevice, TensorsHaveDimensions) {
  x.ndim = 5;
  EXPECT_THAT(add(), HasSubstr("a has 5 dimensions"));
}
TEST_F(CheckedDevice, TensorsHaveData) {
  x.data = nullptr;
  EXPECT_THAT(add(), HasSubstr("a has no data"));
}
TEST_F(CheckedDevice, TensorsAscend) {
  x.stride[0] = -4;
  EXPECT_THAT(add(), HasSubstr("a has stride[0] = -4"));
}
TEST_F(CheckedDevice, TensorsHaveASize) {
  x.struct_size = 0;
  EXPECT_THAT(add(), HasSubstr("a has the struct_size 0"));
}
TEST_F(CheckedDevice, OutputsAreWritable) {
  out.flags = MORTISE_TENSOR_READ_ONLY;
  EXPECT_THAT(add(), HasSubstr("breaks mortise/tensor.h, \"writing may crash\": out is read-only"));
}

TEST_F(CheckedDevice, ActivationsAreKnown) {
  EXPECT_THAT(
      on_device([&](mortise_error* error) { return devices().activation(step.device, nullptr, 9, &x, &out, error); }),
      HasSubstr("\"`activation` is MORTISE_ACT_*\": activation is 9"));
}

TEST_F(CheckedDevice, RowsExist) {
  const std::int32_t rows[] = {0, 2};
  EXPECT_THAT(on_device([&](mortise_error* error) {
                return devices().gather_rows(step.device, nullptr, &x, rows, &out, error);
              }),
              HasSubstr("rows[1] is 2 of 2 rows"));
}

TEST_F(CheckedDevice, CopiesAreWithinTheirAllocation) {
  ASSERT_EQ(allocate(16), "");
  EXPECT_THAT(
      on_device([&](mortise_error* error) { return devices().copy(step.device, nullptr, memory, numbers, 17, error); }),
      HasSubstr("the copy takes 17 bytes where its allocation has 16 left"));
}

TEST_F(CheckedDevice, FillsAreWithinTheirAllocation) {
  ASSERT_EQ(allocate(16), "");
  EXPECT_THAT(
      on_device([&](mortise_error* error) { return devices().fill(step.device, nullptr, memory, 0, 17, error); }),
      HasSubstr("\"Sets `bytes` bytes of device memory\": the memory takes 17 bytes"));
}

TEST_F(CheckedDevice, StreamsAndEventsAreUsedWhileTheyLive) {
  mortise_event* event = nullptr;
  ASSERT_EQ(on_device([&](mortise_error* error) { return devices().event_create(step.device, &event, error); }), "");
  EXPECT_EQ(on_device([&](mortise_error* error) { return devices().event_record(step.device, event, nullptr, error); }),
            "");
  EXPECT_EQ(told([&] { devices().event_destroy(step.device, event); }), "");
  EXPECT_THAT(
      on_device([&](mortise_error* error) { return devices().event_record(step.device, event, nullptr, error); }),
      HasSubstr("event_record gets an event that the device did not hand out, or that was destroyed"));
}

TEST_F(CheckedDevice, MaxAndSumComeTogether) {
  mortise_head_reduce_args args{};
  args.struct_size = sizeof args;
  args.logits = &x;
  args.max = numbers;
  EXPECT_THAT(
      on_device([&](mortise_error* error) { return devices().head_reduce(step.device, nullptr, &args, error); }),
      HasSubstr("\"wanted together with sum\": only one of max and sum is given"));
}

TEST_F(CheckedDevice, SampledTokensAreOfTheVocabulary) {
  std::int32_t ints[2] = {}, tokens_out[2] = {};
  float floats[2] = {};
  std::uint64_t keys[2] = {};
  std::int64_t longs[2] = {};
  mortise_sample_args args{};
  args.struct_size = sizeof args;
  args.logits = &x;
  args.temperatures = args.top_ps = args.min_ps = floats;
  args.top_ks = ints;
  args.keys = keys;
  args.positions = longs;
  args.tokens = tokens_out;
  const auto sample = [&] {
    return on_device([&](mortise_error* error) { return devices().sample(step.device, nullptr, &args, error); });
  };
  EXPECT_EQ(sample(), "");
  world.sample = [](const mortise_sample_args* given) { return given->tokens[1] = -1, kOk; };
  EXPECT_EQ(sample(), "");  // all logits of the row are NaN
  world.sample = [](const mortise_sample_args* given) { return given->tokens[1] = 4, kOk; };
  EXPECT_THAT(sample(), HasSubstr("breaks mortise/device.h, \"Picks one token per row\": tokens[1] is 4 of 4 tokens"));
}

// A call of verify_drafts with two rows of four tokens, of which the first has a draft.
class CheckedRejection : public CheckedDevice {
 protected:
  CheckedRejection() {
    static const mortise_rejection_table real = {sizeof real, 0,
                                                 [](auto*, auto*, const mortise_verify_drafts_args* given, auto*) {
                                                   given->rows->tokens[0] = answer;
                                                   return kOk;
                                                 }};
    life.get_ext = [](const char*) -> const void* { return &real; };
    answer = 0;
    rows.struct_size = sizeof rows;
    rows.logits = &x;
    rows.temperatures = rows.top_ps = rows.min_ps = floats;
    rows.top_ks = ints;
    rows.keys = keys;
    rows.positions = longs;
    rows.tokens = tokens_out;
    args.struct_size = sizeof args;
    args.rows = &rows;
    args.drafts = drafts;
    args.distributions = &distributions;
    args.distribution_rows = distribution_rows;
  }
  std::string verify() {
    const auto& table = *static_cast<const mortise_rejection_table*>(device.get_ext(MORTISE_EXT_REJECTION));
    return on_device([&](mortise_error* error) { return table.verify_drafts(step.device, nullptr, &args, error); });
  }

  static inline std::int32_t answer = 0;
  std::int32_t ints[2] = {}, tokens_out[2] = {}, drafts[2] = {3, -1}, distribution_rows[2] = {0, -1};
  float floats[2] = {};
  std::uint64_t keys[2] = {};
  std::int64_t longs[2] = {};
  mortise_tensor distributions = tensor(numbers, {1, 4});
  mortise_sample_args rows{};
  mortise_verify_drafts_args args{};
};

TEST_F(CheckedRejection, ASoundCallIsLeftAlone) {
  EXPECT_EQ(verify(), "");
  args.distributions = nullptr;
  args.distribution_rows = nullptr;
  EXPECT_EQ(verify(), "");
}

TEST_F(CheckedRejection, TokensAreOfTheVocabulary) {
  answer = 4;
  EXPECT_THAT(verify(),
              HasSubstr("breaks mortise/ext/rejection.h, \"Verifies at most one draft per row\": tokens[0] is "
                        "4 of 4 tokens"));
}

TEST_F(CheckedRejection, DraftsAreOfTheVocabulary) {
  drafts[0] = 4;
  EXPECT_THAT(verify(),
              HasSubstr("the host breaks mortise/ext/rejection.h, \"a token of the vocabulary\": drafts[0] is "
                        "4 of 4"));
}

TEST_F(CheckedRejection, DraftsHaveADistributionThatIsThere) {
  distribution_rows[0] = 1;
  EXPECT_THAT(verify(), HasSubstr("distribution_rows[0] is 1 of 1"));
}

TEST_F(CheckedDevice, NothingIsAllocatedWhileWorkIsCaptured) {
  const mortise_graph_table& graphs = graph();
  ASSERT_EQ(on_device([&](mortise_error* error) { return graphs.begin(step.device, nullptr, error); }), "");
  EXPECT_THAT(
      allocate(),
      HasSubstr("the host breaks mortise/ext/graph.h, \"allocation and tuning cannot be captured\": allocate is "
                "called while work is captured"));
}

TEST_F(CheckedDevice, NobodyWaitsWhileWorkIsCaptured) {
  const mortise_graph_table& graphs = graph();
  ASSERT_EQ(on_device([&](mortise_error* error) { return graphs.begin(step.device, nullptr, error); }), "");
  EXPECT_THAT(
      on_device([&](mortise_error* error) { return devices().stream_synchronize(step.device, nullptr, error); }),
      HasSubstr("\"Captured operations do not run\": stream_synchronize waits while work is captured"));
}

TEST_F(CheckedDevice, OnlyPartsThatCanBeCapturedAreCaptured) {
  begin();
  ASSERT_EQ(plan(), "");
  static CheckedDevice* test;
  test = this;
  world.forward = [](const mortise_step* shown, mortise_tensor*, mortise_error* error) {
    return shown->device_table->add(shown->device, nullptr, &test->x, &test->x, &test->out, error);
  };
  const mortise_graph_table& graphs = graph();
  ASSERT_EQ(on_device([&](mortise_error* error) { return graphs.begin(step.device, nullptr, error); }), "");
  EXPECT_THAT(
      forward(),
      HasSubstr("model 'fake' (fake.so): forward: breaks mortise/ext/graph.h, \"only functions of components with "
                "MORTISE_CAP_CAPTURE may be called on the stream\": add is called while work is captured"));
}

TEST_F(CheckedDevice, ACaptureEndsOnce) {
  const mortise_graph_table& graphs = graph();
  mortise_graph* made = nullptr;
  EXPECT_THAT(on_device([&](mortise_error* error) { return graphs.end(step.device, nullptr, &made, error); }),
              HasSubstr("\"Ends the capture\": no capture runs"));
}

TEST_F(CheckedDevice, ACaptureGivesAGraph) {
  const mortise_graph_table& graphs = graph();
  mortise_graph* made = nullptr;
  ASSERT_EQ(on_device([&](mortise_error* error) { return graphs.begin(step.device, nullptr, error); }), "");
  EXPECT_EQ(on_device([&](mortise_error* error) { return graphs.end(step.device, nullptr, &made, error); }), "");
  EXPECT_EQ(on_device([&](mortise_error* error) { return graphs.replay(step.device, nullptr, made, error); }), "");
  EXPECT_EQ(told([&] { graphs.destroy(step.device, made); }), "");
  EXPECT_THAT(on_device([&](mortise_error* error) { return graphs.replay(step.device, nullptr, made, error); }),
              HasSubstr("graph replay gets a graph that the device did not hand out, or that was destroyed"));
}

TEST_F(CheckedDevice, ACaptureWithoutAGraphHasFailed) {
  const mortise_graph_table& graphs = graph();
  mortise_graph* made = nullptr;
  ASSERT_EQ(on_device([&](mortise_error* error) { return graphs.begin(step.device, nullptr, error); }), "");
  world.graph_end = [](mortise_graph** to) { return *to = nullptr, kOk; };
  EXPECT_THAT(on_device([&](mortise_error* error) { return graphs.end(step.device, nullptr, &made, error); }),
              HasSubstr("breaks mortise/ext/graph.h, \"On a failure *graph is NULL\""));
}

TEST_F(CheckedDevice, AThreadOfAPluginMayNotCallIt) {
  mortise_error error = empty_error();
  mortise_status status = MORTISE_OK;
  std::thread([&] { status = devices().add(step.device, nullptr, &x, &x, &out, &error); }).join();
  EXPECT_EQ(status, MORTISE_INTERNAL);
  EXPECT_THAT(error.message, HasSubstr("a thread of a plugin breaks mortise/host.h, \"A plugin creates no threads\": "
                                       "add is called on a thread that the host "
                                       "did not call a part on"));
}

}  // namespace
}  // namespace mortise::device_calls_test
