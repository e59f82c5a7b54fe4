// Ranks of the CPU device: threads that exchange columns of rows in memory.
#include "devices/cpu/collective.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "device_fixture.hpp"

namespace mortise::cpu {
namespace {

using testing::HasSubstr;

const mortise_collective_table& collective(Device& device) {
  return *static_cast<const mortise_collective_table*>(device.table().get_ext(device.get(), MORTISE_EXT_COLLECTIVE));
}

// Devices that are connected, with a thread for each.
class Ranks {
 public:
  explicit Ranks(int world) : communicators_(static_cast<std::size_t>(world)) {
    std::vector<mortise_device*> handles;
    for (int rank = 0; rank < world; ++rank) {
      devices_.push_back(std::make_unique<Device>(Isa::kPortable, 2));
      handles.push_back(devices_.back()->get());
    }
    table_ = &collective(*devices_.front());
    EXPECT_EQ(table_->create(handles.data(), world, communicators_.data(), &devices_.front()->error), MORTISE_OK);
  }
  ~Ranks() {
    for (mortise_communicator* communicator : communicators_) table_->destroy(communicator);
  }

  int world() const { return static_cast<int>(communicators_.size()); }
  // Calls body(rank) on a thread for each rank.
  template <typename Body>
  void run(Body body) const {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < world(); ++rank) threads.emplace_back([&body, rank] { body(rank); });
  }
  mortise_status gather(int rank, const mortise_tensor& x, const std::vector<std::int64_t>& columns,
                        std::string* message = nullptr) const {
    mortise_error error = make_error();
    const mortise_status status =
        table_->all_gather(communicators_[static_cast<std::size_t>(rank)], nullptr, &x, columns.data(), &error);
    if (message != nullptr) *message = error.message;
    return status;
  }
  void abort(int rank) const { table_->abort(communicators_[static_cast<std::size_t>(rank)]); }

 private:
  std::vector<std::unique_ptr<Device>> devices_;
  const mortise_collective_table* table_ = nullptr;
  std::vector<mortise_communicator*> communicators_;
};

// What element (m, n) is in exchange `turn`.
float element(int turn, std::size_t m, std::size_t n) {
  return static_cast<float>(turn * 100000) + static_cast<float>(m * 1000 + n);
}

template <typename T>
void expect_all_columns(const Ranks& ranks, std::size_t rows, std::size_t columns, std::size_t stride,
                        const std::vector<std::int64_t>& bounds) {
  constexpr int kTurns = 20;
  std::vector<std::vector<T>> x(static_cast<std::size_t>(ranks.world()), std::vector<T>(rows * stride));
  std::vector<int> wrong(x.size());
  const auto value = [](int turn, std::size_t m, std::size_t n) { return static_cast<T>(element(turn % 3, m % 7, n)); };
  ranks.run([&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    for (int turn = 0; turn < kTurns; ++turn) {
      std::vector<T>& own = x[r];
      std::fill(own.begin(), own.end(), static_cast<T>(99));
      for (std::size_t m = 0; m < rows; ++m) {
        for (auto n = static_cast<std::size_t>(bounds[r]); n < static_cast<std::size_t>(bounds[r + 1]); ++n) {
          own[m * stride + n] = value(turn, m, n);
        }
      }
      EXPECT_EQ(ranks.gather(rank, matrix(own, rows, columns, stride), bounds), MORTISE_OK);
      for (std::size_t m = 0; m < rows; ++m) {
        for (std::size_t n = 0; n < stride; ++n) {
          const T expected = n < columns ? value(turn, m, n) : static_cast<T>(99);
          wrong[r] += own[m * stride + n] != expected ? 1 : 0;
        }
      }
    }
  });
  EXPECT_EQ(wrong, std::vector<int>(wrong.size(), 0));
}

TEST(CpuCollective, EveryRankGetsTheColumnsOfAllOthers) {
  const Ranks two(2), three(3);
  expect_all_columns<float>(two, 5, 12, 12, {0, 6, 12});
  expect_all_columns<std::uint16_t>(two, 300, 640, 672, {0, 320, 640});  // several tasks
  expect_all_columns<float>(three, 4, 10, 11, {0, 3, 3, 10});            // one rank has none
  expect_all_columns<float>(three, 0, 10, 11, {0, 3, 6, 10});
}

TEST(CpuCollective, ARankThatFailsEndsTheOthers) {
  const Ranks ranks(3);
  std::vector<float> x(3 * 6);
  std::vector<std::string> messages(3);
  std::vector<mortise_status> statuses(3, MORTISE_OK);
  ranks.run([&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (rank == 1) return ranks.abort(rank);
    std::vector<float> own(6);
    statuses[r] = ranks.gather(rank, matrix(own, 1, 6), {0, 2, 4, 6}, &messages[r]);
  });
  EXPECT_EQ(statuses, (std::vector<mortise_status>{MORTISE_CANCELLED, MORTISE_OK, MORTISE_CANCELLED}));
  EXPECT_THAT(messages[0], HasSubstr("another rank has failed"));
  std::vector<float> own(6);
  EXPECT_EQ(ranks.gather(1, matrix(own, 1, 6), {0, 2, 4, 6}), MORTISE_CANCELLED);  // later, too
}

TEST(CpuCollective, WrongColumnsAndUnequalRowsAreRefused) {
  const Ranks ranks(2);
  std::vector<float> x(6);
  std::string message;
  EXPECT_EQ(ranks.gather(0, matrix(x, 1, 6), {0, 3, 5}, &message), MORTISE_INVALID_ARGUMENT);
  EXPECT_THAT(message, HasSubstr("columns must ascend from 0 to the 6 columns"));
  EXPECT_EQ(ranks.gather(0, matrix(x, 1, 6), {0, 7, 6}), MORTISE_INVALID_ARGUMENT);
  std::vector<mortise_status> statuses(2);
  ranks.run([&](int rank) {
    std::vector<float> own(12);
    statuses[static_cast<std::size_t>(rank)] =
        ranks.gather(rank, matrix(own, static_cast<std::size_t>(rank) + 1, 6), {0, 3, 6});
  });
  EXPECT_EQ(statuses, std::vector<mortise_status>(2, MORTISE_INVALID_ARGUMENT));
}

TEST(CpuCollective, ARankThatDoesNotComeIsNamed) {
  MeetingPlace place(3, std::chrono::milliseconds(50));
  std::vector<MeetingPlace::Outcome> outcomes(3);
  {
    const std::jthread first([&] { outcomes[0] = place.meet(0); }), second([&] { outcomes[1] = place.meet(1); });
  }
  EXPECT_EQ(outcomes[0], MeetingPlace::Outcome::kLate);
  EXPECT_EQ(outcomes[1], MeetingPlace::Outcome::kLate);
  EXPECT_EQ(place.late_rank(), 2);
  place.meet(2);                                              // too late: it completes this meeting ..
  EXPECT_EQ(place.meet(2), MeetingPlace::Outcome::kAborted);  // .. and the next one never takes place
}

TEST(CpuCollective, ShardsDivideTheThreads) {
  const auto threads = [](const std::string& options, int rank, int world) {
    auto args = sized<mortise_create_args>();
    const OptionReader reader(nlohmann::json::parse(options));
    reader.give_to(args);
    args.rank = rank;
    args.world = world;
    void* instance = nullptr;
    mortise_error error = make_error();
    EXPECT_EQ(cpu_component().create(nullptr, &args, &instance, &error), MORTISE_OK) << error.message;
    auto* const device = static_cast<mortise_device*>(instance);
    const auto& table =
        *static_cast<const mortise_parallel_table*>(cpu_component().get_ext(instance, MORTISE_EXT_PARALLEL));
    const int count = table.num_threads(device);
    cpu_component().destroy(instance);
    return count;
  };
  EXPECT_EQ(threads(R"({"threads": 5})", 0, 2), 3);
  EXPECT_EQ(threads(R"({"threads": 5})", 1, 2), 2);
  EXPECT_EQ(threads(R"({"threads": 1})", 3, 4), 1);
  Device device(R"({"shards": 4, "threads": 1})");
  EXPECT_EQ(collective(device).num_ranks(device.get()), 4);
  Device one(R"({"threads": 1})");
  EXPECT_EQ(collective(one).num_ranks(one.get()), 1);
}

}  // namespace
}  // namespace mortise::cpu
