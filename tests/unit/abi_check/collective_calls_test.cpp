// Covers: runtime/abi_check/collective_calls
#include "fake_world.hpp"
#include "mortise/ext/collective.h"

namespace mortise::collective_calls_test {
namespace {

using namespace fake;

// Two ranks of a device, whose communicators a test may break.
class CheckedCollective : public CheckedStep {
 protected:
  CheckedCollective() {
    static const mortise_collective_table real = {
        sizeof real,
        0,
        [](auto*) { return ranks; },
        [](auto*, std::int32_t world, mortise_communicator** made, auto*) {
          static char objects[64];
          static std::size_t next = 0;
          for (std::int32_t i = 0; i < world; ++i) {
            made[i] = i < given ? reinterpret_cast<mortise_communicator*>(&objects[next++]) : nullptr;
          }
          return kOk;
        },
        [](auto*) {},
        [](auto*, auto*, auto*, auto*, auto*) { return kOk; },
        [](auto*) { ++aborts; }};
    life.get_ext = [](const char*) -> const void* { return &real; };
    ranks = given = 2;
    aborts = 0;
    begin();
    other.activate(sizes());
    handles = {step.device, other.handle<mortise_device>()};
  }
  ~CheckedCollective() override {
    for (mortise_communicator* communicator : communicators) {
      if (communicator != nullptr) call([&] { table().destroy(communicator); });
    }
  }
  // A call of the host without a status. Returns what it logs.
  template <typename Body>
  std::string call(Body&& body) {
    const auto part = device.active_part<mortise_device, mortise_device_table>();
    return log_of([&] { part.value_of("call", 0, [&] { return body(), 0; }); });
  }
  const mortise_collective_table& table() {
    return *static_cast<const mortise_collective_table*>(device.get_ext(MORTISE_EXT_COLLECTIVE));
  }
  std::string create() {
    other.get_ext(MORTISE_EXT_COLLECTIVE);
    return on_device([&](mortise_error* error) {
      return table().create(handles.data(), static_cast<std::int32_t>(handles.size()), communicators.data(), error);
    });
  }
  std::string gather() {
    return on_device(
        [&](mortise_error* error) { return table().all_gather(communicators[0], nullptr, &x, columns.data(), error); });
  }

  static inline std::int32_t ranks = 0, given = 0, aborts = 0;
  PartInstance other = instance(device_component());
  std::vector<mortise_device*> handles;
  std::array<mortise_communicator*, 2> communicators = {};
  std::array<std::int64_t, 3> columns = {0, 2, 4};
  float numbers[8] = {};
  mortise_tensor x = tensor(numbers, {2, 4});
};

TEST_F(CheckedCollective, SoundCallsAreLeftAlone) {
  EXPECT_EQ(call([&] { EXPECT_EQ(table().num_ranks(step.device), 2); }), "");
  EXPECT_EQ(create(), "");
  EXPECT_EQ(gather(), "");
  columns = {0, 0, 4};  // a rank may have no columns
  EXPECT_EQ(gather(), "");
  EXPECT_EQ(call([&] { table().abort(communicators[0]); }), "");
  EXPECT_EQ(aborts, 1);
}

TEST_F(CheckedCollective, ThereIsAtLeastOneRank) {
  ranks = 0;
  EXPECT_THAT(call([&] { table().num_ranks(step.device); }), HasSubstr("num_ranks returns 0"));
}

TEST_F(CheckedCollective, DevicesAreDifferent) {
  handles[1] = handles[0];
  EXPECT_THAT(create(),
              HasSubstr("the host breaks mortise/ext/collective.h, \"one for each rank\": devices[0] is there "
                        "twice"));
}

TEST_F(CheckedCollective, DevicesAreActive) {
  const PartInstance idle = instance(device_component());
  handles[1] = idle.handle<mortise_device>();
  EXPECT_THAT(create(), HasSubstr("\"all active and of this component\": devices[1] is not"));
}

TEST_F(CheckedCollective, EveryRankGetsACommunicator) {
  given = 1;
  EXPECT_THAT(create(), HasSubstr("breaks mortise/ext/collective.h, \"writes one communicator for each rank\": "
                                  "communicators[1] is NULL, or in use"));
}

TEST_F(CheckedCollective, ColumnsAscendFromZeroToThoseOfX) {
  ASSERT_EQ(create(), "");
  columns = {0, 3, 2};
  EXPECT_THAT(gather(), HasSubstr("\"columns [world + 1] ascends from 0 to N\": columns is 0, 3, 2 where x has 4"));
}

TEST_F(CheckedCollective, XIsAMatrixThatMayBeWritten) {
  ASSERT_EQ(create(), "");
  x.flags = MORTISE_TENSOR_READ_ONLY;
  EXPECT_THAT(gather(), HasSubstr("x is read-only"));
  x = tensor(numbers, {2, 2, 2});
  EXPECT_NE(gather(), "");
}

TEST_F(CheckedCollective, ADestroyedCommunicatorIsRefused) {
  ASSERT_EQ(create(), "");
  EXPECT_EQ(call([&] { table().destroy(communicators[0]); }), "");
  EXPECT_NE(gather(), "");
  communicators[0] = nullptr;
}

}  // namespace
}  // namespace mortise::collective_calls_test
