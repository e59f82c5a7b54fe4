// Ranks of the CUDA device that exchange columns: on two GPUs if there are two, otherwise both on the one GPU.
// Covers: plugins/devices/cuda/collective plugins/kernels/cuda/rank_gather
#include "mortise/ext/collective.h"

#include <gmock/gmock.h>

#include <array>
#include <thread>

#include "device_fixture.hpp"

namespace mortise::cuda::collective_test {
namespace {

using testing::HasSubstr;

// Device memory of one rank, freed with this object.
class Memory {
 public:
  Memory(Device& owner, std::size_t bytes) : owner_(owner), bytes_(bytes) {
    EXPECT_EQ(owner.table().allocate(owner.get(), bytes, &data_, &owner.error), MORTISE_OK) << owner.error.message;
  }
  ~Memory() { owner_.table().free(owner_.get(), data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* data() const { return data_; }
  void put(const void* from) { copy(data_, from); }
  void get(void* to) { copy(to, data_); }

 private:
  void copy(void* to, const void* from) {
    EXPECT_EQ(owner_.table().copy(owner_.get(), nullptr, to, from, bytes_, &owner_.error), MORTISE_OK);
    owner_.synchronize();
  }

  Device& owner_;
  const std::size_t bytes_;
  void* data_ = nullptr;
};

class CudaCollective : public OnGpu {
 protected:
  static constexpr int kWorld = 2;

  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    const Device second(R"({"device": 1, "tuning_cache": false})");
    const std::string devices = second.status == MORTISE_OK ? "[0, 1]" : "[0, 0]";
    std::printf("  devices %s\n", devices.c_str());
    std::array<mortise_device*, kWorld> handles{};
    for (int rank = 0; rank < kWorld; ++rank) {
      ranks_.push_back(
          std::make_unique<Device>(R"({"tuning_cache": false, "devices": )" + devices + "}", rank, kWorld));
      ASSERT_EQ(ranks_.back()->status, MORTISE_OK) << ranks_.back()->error.message;
      handles[static_cast<std::size_t>(rank)] = ranks_.back()->get();
    }
    collective_ = static_cast<const mortise_collective_table*>(
        ranks_.front()->table().get_ext(ranks_.front()->get(), MORTISE_EXT_COLLECTIVE));
    EXPECT_EQ(collective_->num_ranks(handles[0]), kWorld);
    ASSERT_EQ(collective_->create(handles.data(), kWorld, communicators_.data(), &ranks_.front()->error), MORTISE_OK)
        << ranks_.front()->error.message;
  }
  void TearDown() override {
    for (mortise_communicator* communicator : communicators_) {
      if (collective_ != nullptr) collective_->destroy(communicator);
    }
  }

  // Calls body(rank) on a thread for each rank.
  template <typename Body>
  void run(Body body) {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kWorld; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  }
  mortise_status gather(int rank, const mortise_tensor& x, const std::vector<std::int64_t>& columns) {
    Device& device = *ranks_[static_cast<std::size_t>(rank)];
    return collective_->all_gather(communicators_[static_cast<std::size_t>(rank)], nullptr, &x, columns.data(),
                                   &device.error);
  }

  // Exchanges random columns several times, in new numbers each time, and compares all elements.
  template <typename T>
  void expect_all_columns(std::size_t rows, std::size_t columns, std::size_t stride,
                          const std::vector<std::int64_t>& bounds) {
    constexpr int kTurns = 5;
    std::array<std::unique_ptr<Memory>, kWorld> memory;
    for (int rank = 0; rank < kWorld; ++rank) {
      memory[static_cast<std::size_t>(rank)] =
          std::make_unique<Memory>(*ranks_[static_cast<std::size_t>(rank)], rows * stride * sizeof(T));
    }
    std::array<std::size_t, kWorld> wrong{};
    run([&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      for (int turn = 0; turn < kTurns; ++turn) {
        const auto value = [&](std::size_t i) { return static_cast<T>(i * 7 + static_cast<std::size_t>(turn)); };
        std::vector<T> own(rows * stride, static_cast<T>(9));
        for (std::size_t i = 0; i < own.size(); ++i) {
          const auto n = static_cast<std::int64_t>(i % stride);
          if (n >= bounds[r] && n < bounds[r + 1]) own[i] = value(i);
        }
        memory[r]->put(own.data());
        mortise_tensor x =
            make_tensor(memory[r]->data(), dtype_of<T>(), static_cast<int64_t>(rows), static_cast<int64_t>(columns));
        x.stride[0] = static_cast<int64_t>(stride);
        x.bytes = rows * stride * sizeof(T);
        EXPECT_EQ(gather(rank, x, bounds), MORTISE_OK) << ranks_[r]->error.message;
        memory[r]->get(own.data());
        for (std::size_t i = 0; i < own.size(); ++i) {
          wrong[r] += own[i] != (i % stride < columns ? value(i) : static_cast<T>(9)) ? 1 : 0;
        }
      }
    });
    EXPECT_EQ(wrong, (std::array<std::size_t, kWorld>{}));
  }

  std::vector<std::unique_ptr<Device>> ranks_;
  const mortise_collective_table* collective_ = nullptr;
  std::array<mortise_communicator*, kWorld> communicators_{};
};

TEST_F(CudaCollective, EveryRankGetsTheColumnsOfTheOther) {
  expect_all_columns<std::uint16_t>(1, 64, 64, {0, 32, 64});
  expect_all_columns<std::uint16_t>(7, 34, 40, {0, 17, 34});             // not in units of 16 bytes
  expect_all_columns<float>(33, 1000, 1024, {0, 0, 1000});               // one rank has none
  expect_all_columns<std::uint16_t>(3000, 4096, 4096, {0, 2048, 4096});  // many thread blocks
}

TEST_F(CudaCollective, AbortEndsARankThatWaits) {
  Memory memory(*ranks_[0], 64 * sizeof(float));
  const mortise_tensor x = make_tensor(memory.data(), MORTISE_F32, 1, 64);
  ASSERT_EQ(gather(0, x, {0, 32, 64}), MORTISE_OK);  // queued; rank 1 never comes
  collective_->abort(communicators_[1]);
  Device& device = *ranks_[0];
  EXPECT_EQ(device.table().stream_synchronize(device.get(), nullptr, &device.error), MORTISE_CANCELLED);
  EXPECT_THAT(std::string(device.error.message), HasSubstr("another rank has failed"));
}

TEST_F(CudaCollective, AnotherConnectionOfTheDevicesDoesNotHideTheFirst) {
  std::array<mortise_communicator*, kWorld> others{};
  std::array<mortise_device*, kWorld> handles = {ranks_[0]->get(), ranks_[1]->get()};
  Device& device = *ranks_[0];
  ASSERT_EQ(collective_->create(handles.data(), kWorld, others.data(), &device.error), MORTISE_OK);
  collective_->abort(communicators_[1]);
  EXPECT_EQ(device.table().stream_synchronize(device.get(), nullptr, &device.error), MORTISE_CANCELLED);
  for (mortise_communicator* other : others) collective_->destroy(other);
  EXPECT_EQ(device.table().stream_synchronize(device.get(), nullptr, &device.error), MORTISE_CANCELLED);
}

TEST_F(CudaCollective, ARankThatDoesNotComeIsNamed) {
  Memory memory(*ranks_[1], 64 * sizeof(float));
  const mortise_tensor x = make_tensor(memory.data(), MORTISE_F32, 1, 64);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(gather(1, x, {0, 32, 64}), MORTISE_OK);  // the later ones do not wait again
  Device& device = *ranks_[1];
  EXPECT_EQ(device.table().stream_synchronize(device.get(), nullptr, &device.error), MORTISE_UNAVAILABLE);
  EXPECT_THAT(std::string(device.error.message), HasSubstr("rank 0 did not come within 10 seconds"));
}

TEST_F(CudaCollective, WrongColumnsAreRefused) {
  Memory memory(*ranks_[0], 64 * sizeof(float));
  const mortise_tensor x = make_tensor(memory.data(), MORTISE_F32, 1, 64);
  EXPECT_EQ(gather(0, x, {0, 32, 60}), MORTISE_INVALID_ARGUMENT);
  EXPECT_THAT(std::string(ranks_[0]->error.message), HasSubstr("columns must ascend from 0 to the 64 columns"));
}

}  // namespace
}  // namespace mortise::cuda::collective_test
