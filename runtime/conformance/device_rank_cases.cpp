// runtime/conformance/device_rank_cases.cpp: rules of a device that several ranks are made of
// (mortise/ext/collective.h).
#include <array>
#include <exception>
#include <memory>
#include <thread>

#include "conformance/device_matrix.hpp"
#include "conformance/subject.hpp"
#include "mortise/ext/collective.h"

namespace mortise::conformance {
namespace {

constexpr int kWorld = 2;

// Two instances that are connected, each with a thread for its calls. Used by one thread.
class Ranks {
 public:
  // Throws NotApplicable if the device has no collective extension.
  explicit Ranks(Subject& subject) {
    std::array<mortise_device*, kWorld> handles{};
    for (int rank = 0; rank < kWorld; ++rank) {
      PartSetup setup = subject.setup();
      setup.rank = rank;
      setup.world = kWorld;
      parts_.push_back(subject.make_active(std::move(setup)));
      handles[static_cast<std::size_t>(rank)] = parts_.back()->handle<mortise_device>();
    }
    table_ = static_cast<const mortise_collective_table*>(parts_.front()->get_ext(MORTISE_EXT_COLLECTIVE));
    if (table_ == nullptr) throw NotApplicable("it has no extension " MORTISE_EXT_COLLECTIVE);
    const std::int32_t wanted = table_->num_ranks(handles[0]);
    expect(wanted >= 1, "num_ranks returns {}; expected at least 1", wanted);
    parts_.front()->perform("create of the collective extension", [&](mortise_error* error) {
      return table_->create(handles.data(), kWorld, communicators_.data(), error);
    });
    for (const mortise_communicator* communicator : communicators_) {
      expect(communicator != nullptr, "create of the collective extension returns OK and leaves a communicator NULL");
    }
  }
  ~Ranks() {
    for (mortise_communicator* communicator : communicators_) {
      if (table_ != nullptr) table_->destroy(communicator);
    }
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  DeviceAccess device(int rank) const { return DeviceAccess(*parts_[static_cast<std::size_t>(rank)]); }
  void abort(int rank) const { table_->abort(communicators_[static_cast<std::size_t>(rank)]); }
  // Exchanges columns and waits for them. Returns the first failure of the two calls.
  mortise_status gather(int rank, const mortise_tensor& x, const std::vector<std::int64_t>& columns) const {
    const DeviceAccess access = device(rank);
    mortise_error error = empty_error();
    const mortise_status status =
        table_->all_gather(communicators_[static_cast<std::size_t>(rank)], nullptr, &x, columns.data(), &error);
    return status != MORTISE_OK ? status : access.table->stream_synchronize(access.device, nullptr, &error);
  }

 private:
  std::vector<std::unique_ptr<Part>> parts_;
  const mortise_collective_table* table_ = nullptr;
  std::array<mortise_communicator*, kWorld> communicators_{};
};

// Returns the matrix with the numbers of the columns below `begin` and from `end` on replaced.
Matrix only_columns(const Matrix& whole, std::int64_t begin, std::int64_t end) {
  Matrix part = whole;
  for (std::int64_t r = 0; r < whole.rows; ++r) {
    for (std::int64_t c = 0; c < whole.columns; ++c) {
      if (c < begin || c >= end) part.row(r)[c] = 7;
    }
  }
  return part;
}

void ranks_get_all_columns(Subject& subject) {
  const Ranks ranks(subject);
  for (const std::int32_t dtype : {MORTISE_BF16, MORTISE_F32}) {
    // The last ones are many enough for several threads; in the second one a rank has no columns.
    for (const auto& [rows, columns, middle] :
         {std::array<std::int64_t, 3>{1, 64, 32}, {5, 40, 40}, {3, 33, 10}, {700, 1024, 512}}) {
      const Matrix whole = draw_matrix(subject.random(), dtype, rows, columns);
      const std::vector<std::int64_t> bounds = {0, middle, columns};
      std::vector<std::unique_ptr<DeviceMatrix>> x;
      for (int rank = 0; rank < kWorld; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        x.push_back(std::make_unique<DeviceMatrix>(ranks.device(rank), only_columns(whole, bounds[r], bounds[r + 1]),
                                                   /*gap=*/16));
      }
      std::array<mortise_status, kWorld> statuses{};
      {
        const std::jthread other([&] { statuses[1] = ranks.gather(1, *x[1]->tensor(), bounds); });
        statuses[0] = ranks.gather(0, *x[0]->tensor(), bounds);
      }
      for (int rank = 0; rank < kWorld; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        expect(statuses[r] == MORTISE_OK, "all_gather of rank {} answers {}", rank, status_name(statuses[r]));
        expect_equal(whole, x[r]->read(), "all_gather");
      }
    }
  }
}

void abort_ends_a_rank_that_waits(Subject& subject) {
  const Ranks ranks(subject);
  const DeviceMatrix x(ranks.device(0), zeros(MORTISE_F32, 1, 64));
  mortise_status status = MORTISE_OK;
  {
    const std::jthread waiting([&] { status = ranks.gather(0, *x.tensor(), {0, 32, 64}); });
    ranks.abort(1);
  }
  expect(status == MORTISE_CANCELLED, "a rank whose exchange another one aborts answers {}; expected CANCELLED",
         status_name(status));
}

constexpr Case kDeviceRankCases[] = {
    {"device.ranks", "all_gather of " MORTISE_EXT_COLLECTIVE " gives each rank the columns of all, bit for bit.",
     kOfDevice, ranks_get_all_columns},
    {"device.ranks_abort", "abort ends a rank that waits for another one.", kOfDevice, abort_ends_a_rank_that_waits},
};

}  // namespace

std::span<const Case> device_rank_cases() {
  return kDeviceRankCases;
}

}  // namespace mortise::conformance
