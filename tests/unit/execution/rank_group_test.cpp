// Ranks run at the same time, and an error of one ends the run on all.
#include "execution/rank_group.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <latch>
#include <memory>
#include <thread>

#include "fake_parts.hpp"

namespace mortise::test {
namespace {

using testing::HasSubstr;

class RankGroupTest : public testing::Test {
 protected:
  std::vector<DevicePart> devices(int world) {
    std::vector<DevicePart> list;
    for (int rank = 0; rank < world; ++rank) {
      worlds_.push_back(std::make_unique<FakeWorld>(EngineLimits{}));
      list.push_back(worlds_.back()->parts().device);
    }
    return list;
  }
  std::int64_t num_connections() const {
    std::int64_t sum = 0;
    for (const auto& world : worlds_) sum += world->num_connections;
    return sum;
  }

  std::vector<std::unique_ptr<FakeWorld>> worlds_;
};

PartError error_of(mortise_status status, const char* text) {
  mortise_error error = empty_error();
  std::snprintf(error.message, sizeof error.message, "%s", text);
  return PartError("model 'fake'", "forward", status, error);
}

TEST_F(RankGroupTest, OneRankHasNeitherThreadNorCommunicator) {
  RankGroup ranks(devices(1));
  EXPECT_EQ(ranks.world(), 1);
  EXPECT_EQ(num_ranks_of(devices(1).front()), 1);
  EXPECT_EQ(ranks.communicator(0), nullptr);
  EXPECT_EQ(ranks.table(), nullptr);
  std::thread::id thread;
  ranks.run([&](std::int32_t) { thread = std::this_thread::get_id(); });
  EXPECT_EQ(thread, std::this_thread::get_id());
}

TEST_F(RankGroupTest, AllRanksRunAtTheSameTimeEachOnAThreadOfItsOwn) {
  RankGroup ranks(devices(3));
  EXPECT_EQ(num_connections(), 3);
  std::array<std::thread::id, 3> first, again;
  std::barrier meeting(3);  // no rank gets past it alone
  for (std::array<std::thread::id, 3>* threads : {&first, &again}) {
    ranks.run([&](std::int32_t rank) {
      meeting.arrive_and_wait();
      (*threads)[static_cast<std::size_t>(rank)] = std::this_thread::get_id();
    });
  }
  EXPECT_EQ(first, again);
  EXPECT_EQ(first[0], std::this_thread::get_id());
  EXPECT_NE(first[1], first[2]);
  EXPECT_EQ(ranks.communicator(2), reinterpret_cast<mortise_communicator*>(worlds_[2].get()));
}

TEST_F(RankGroupTest, AnErrorOfOneRankEndsAllAndConnectsThemAnew) {
  std::vector<DevicePart> list = devices(3);
  std::latch given_up(1);
  worlds_[1]->abort = [&] { given_up.count_down(); };
  RankGroup ranks(std::move(list));
  try {
    ranks.run([&](std::int32_t rank) {
      if (rank == 1) throw error_of(MORTISE_RESOURCE_EXHAUSTED, "no memory");
      given_up.wait();  // as an exchange that the device ends
      throw error_of(MORTISE_CANCELLED, "another rank has failed");
    });
    FAIL() << "no error";
  } catch (const PartError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no memory"));  // the cause, although rank 0 has failed, too
  }
  EXPECT_EQ(num_connections(), 3);
  std::atomic<int> count = 0;
  ranks.run([&](std::int32_t) { ++count; });  // and steps go on
  EXPECT_EQ(count, 3);
}

TEST_F(RankGroupTest, ADeviceThatHasFailedIsNotConnectedAgain) {
  std::vector<DevicePart> list = devices(2);
  const DevicePart broken = list[1];
  RankGroup ranks(std::move(list));
  EXPECT_THAT(
      [&] {
        ranks.run([&](std::int32_t rank) {
          if (rank == 1) broken.health->fail("it broke");
          throw error_of(rank == 1 ? MORTISE_INTERNAL : MORTISE_CANCELLED, rank == 1 ? "it broke" : "the other one");
        });
      },
      testing::ThrowsMessage<PartError>(HasSubstr("it broke")));
  EXPECT_EQ(worlds_[0]->num_connections, 0);
  EXPECT_EQ(worlds_[1]->num_connections, 1);  // it is not called to give it back either
  EXPECT_THAT([&] { ranks.run([](std::int32_t) {}); },
              testing::ThrowsMessage<Error>(HasSubstr("a rank has failed, so no step can run")));
}

TEST_F(RankGroupTest, ARankThatDoesNotComeBackIsNamedAndItsDeviceHasFailed) {
  std::vector<DevicePart> list = devices(2);
  const std::shared_ptr<PartHealth> health = list[1].health;
  static std::latch end(1);  // outlives the hung thread
  auto ranks = std::make_unique<RankGroup>(std::move(list), std::chrono::milliseconds(20));
  try {
    ranks->run([](std::int32_t rank) {
      if (rank == 0) throw error_of(MORTISE_UNAVAILABLE, "rank 1 did not come");
      end.wait();
    });
    FAIL() << "no error";
  } catch (const PartError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 of 2 hangs"));
  }
  EXPECT_TRUE(health->failed());
  EXPECT_THAT([&] { ranks->run([](std::int32_t) {}); },
              testing::ThrowsMessage<Error>(HasSubstr("a rank hangs, so no step can run")));
  ranks.reset();  // does not wait for it
  end.count_down();
}

TEST_F(RankGroupTest, DevicesThatCannotExchangeRowsAreRefused) {
  std::vector<DevicePart> list = devices(2);
  static mortise_device_table alone = *list.front().api;
  alone.get_ext = [](mortise_device*, const char*) -> const void* { return nullptr; };
  for (DevicePart& device : list) device.api = &alone;
  EXPECT_THAT([&] { RankGroup{std::move(list)}; },
              testing::ThrowsMessage<Error>(HasSubstr("cannot exchange rows between 2 devices")));
}

}  // namespace
}  // namespace mortise::test
