#include "devices/cpu/collective.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "devices/checks/matrix.hpp"
#include "devices/cpu/cpu_device.hpp"
#include "devices/cpu/matrix.hpp"
#include "mortise/device.hpp"

// The communicator of one rank. Used by the thread of its rank, except for `place`.
struct mortise_communicator {
  mortise_device* device;
  std::int32_t rank;
  std::shared_ptr<mortise::cpu::MeetingPlace> place;
  std::shared_ptr<std::vector<mortise::cpu::Matrix>> rows;  // by rank: its x of the running exchange
};

namespace mortise::cpu {
namespace {

constexpr char kWhere[] = "all_gather";
// Ranks do the same work at the same time, so one that is so late has hung.
constexpr std::chrono::seconds kPatience{60};
// A rank that waits spins for a while, because small models exchange rows every few microseconds.
constexpr auto kSpin = std::chrono::microseconds(100);
constexpr std::size_t kTaskBytes = 65536;  // a thread copies them in the time it takes to wake another thread

void check_outcome(const MeetingPlace& place, MeetingPlace::Outcome outcome) {
  if (outcome == MeetingPlace::Outcome::kAborted) {
    throw Failure(MORTISE_CANCELLED, kWhere, "another rank has failed, so this one does not go on");
  }
  if (outcome == MeetingPlace::Outcome::kLate) {
    throw Failure(MORTISE_UNAVAILABLE, kWhere,
                  "rank " + std::to_string(place.late_rank()) + " did not come within " +
                      std::to_string(kPatience.count()) + " seconds; it hangs, or this machine is far too busy");
  }
}

void check_alike(std::int32_t rank, const std::vector<Matrix>& rows) {
  const Matrix& own = rows[static_cast<std::size_t>(rank)];
  for (const Matrix& other : rows) {
    if (other.rows == own.rows && other.columns == own.columns && other.dtype == own.dtype) continue;
    throw Failure(MORTISE_INVALID_ARGUMENT, kWhere, "x has another shape or type on another rank");
  }
}

// Copies the columns of all other ranks into the rank's own rows.
void copy_columns(mortise_device& device, std::int32_t rank, const std::vector<Matrix>& rows, const int64_t* columns) {
  const Matrix& own = rows[static_cast<std::size_t>(rank)];
  const auto element = static_cast<std::size_t>(dtype_bytes(own.dtype));
  const std::size_t wanted = own.rows * own.row_bytes() / kTaskBytes;
  const std::size_t most = static_cast<std::size_t>(device.pool.num_threads()) * 2;
  const std::size_t tasks = std::max<std::size_t>(1, std::min({wanted, most, own.rows}));
  device.pool.for_each(static_cast<std::int32_t>(tasks), [&](std::int32_t task, std::int32_t) {
    const auto i = static_cast<std::size_t>(task);
    for (std::size_t m = own.rows * i / tasks; m < own.rows * (i + 1) / tasks; ++m) {
      for (std::size_t other = 0; other < rows.size(); ++other) {
        if (other == static_cast<std::size_t>(rank)) continue;
        const auto begin = static_cast<std::size_t>(columns[other]) * element;
        const auto end = static_cast<std::size_t>(columns[other + 1]) * element;
        std::memcpy(static_cast<std::byte*>(own.row(m)) + begin,
                    static_cast<const std::byte*>(rows[other].row(m)) + begin, end - begin);
      }
    }
  });
}

}  // namespace

MeetingPlace::MeetingPlace(std::int32_t world, std::chrono::milliseconds patience)
    : meetings_(static_cast<std::size_t>(world)), patience_(patience) {}

bool MeetingPlace::all_came(std::uint64_t meeting) const {
  return std::ranges::all_of(
      meetings_, [&](const Count& count) { return count.value.load(std::memory_order_seq_cst) >= meeting; });
}

// A rank that goes to sleep first increments sleeping_ and then looks once more. A rank that comes first counts itself
// and then looks for sleepers. Whichever is first is seen by the other, so no wake-up is lost.
MeetingPlace::Outcome MeetingPlace::meet(std::int32_t rank) {
  std::atomic<std::uint64_t>& own = meetings_[static_cast<std::size_t>(rank)].value;
  const std::uint64_t meeting = own.fetch_add(1, std::memory_order_seq_cst) + 1;
  if (sleeping_.load(std::memory_order_seq_cst) > 0) {
    const std::lock_guard lock(mutex_);
    wake_.notify_all();
  }
  const auto over = [&] { return closed_.load(std::memory_order_seq_cst) || all_came(meeting); };
  const auto begin = std::chrono::steady_clock::now();
  while (!over()) {
    if (std::chrono::steady_clock::now() - begin < kSpin) {
      sched_yield();
      continue;
    }
    std::unique_lock lock(mutex_);
    sleeping_.fetch_add(1, std::memory_order_seq_cst);
    const bool came = wake_.wait_until(lock, begin + patience_, over);
    sleeping_.fetch_sub(1, std::memory_order_seq_cst);
    if (came) break;
    for (std::int32_t other = 0; other < world(); ++other) {
      if (meetings_[static_cast<std::size_t>(other)].value.load() < meeting) late_rank_.store(other);
    }
    closed_.store(true);
    wake_.notify_all();
  }
  if (all_came(meeting)) return Outcome::kMet;
  return late_rank() >= 0 && late_rank() != rank ? Outcome::kLate : Outcome::kAborted;
}

void MeetingPlace::abort() noexcept {
  const std::lock_guard lock(mutex_);
  closed_.store(true);
  wake_.notify_all();
}

namespace {

int32_t num_ranks(mortise_device* device) {
  return device->num_shards;
}

mortise_status create(mortise_device* const* devices, int32_t world, mortise_communicator** communicators,
                      mortise_error* error) {
  return guard(error, "create", [&] {
    const auto place = std::make_shared<MeetingPlace>(world, kPatience);
    const auto rows = std::make_shared<std::vector<Matrix>>(static_cast<std::size_t>(world));
    std::vector<std::unique_ptr<mortise_communicator>> made;
    for (int32_t rank = 0; rank < world; ++rank) {
      made.push_back(std::make_unique<mortise_communicator>(mortise_communicator{devices[rank], rank, place, rows}));
    }
    for (int32_t rank = 0; rank < world; ++rank) communicators[rank] = made[static_cast<std::size_t>(rank)].release();
  });
}

void destroy(mortise_communicator* communicator) {
  delete communicator;
}

// The ranks meet twice: no rank reads columns before they are there, and none goes on, to overwrite its columns, before
// all have read them.
mortise_status all_gather(mortise_communicator* communicator, mortise_stream*, const mortise_tensor* x,
                          const int64_t* columns, mortise_error* error) {
  return guard(error, kWhere, [&] {
    check_matrix(x, kWhere, "x");
    MeetingPlace& place = *communicator->place;
    check_columns(*x, columns, place.world(), kWhere);
    (*communicator->rows)[static_cast<std::size_t>(communicator->rank)] = matrix_of(*x);
    check_outcome(place, place.meet(communicator->rank));
    check_alike(communicator->rank, *communicator->rows);
    copy_columns(*communicator->device, communicator->rank, *communicator->rows, columns);
    check_outcome(place, place.meet(communicator->rank));
  });
}

void abort(mortise_communicator* communicator) {
  communicator->place->abort();
}

}  // namespace

const mortise_collective_table kCollective = {
    .struct_size = sizeof(mortise_collective_table),
    .flags = 0,
    .num_ranks = num_ranks,
    .create = create,
    .destroy = destroy,
    .all_gather = all_gather,
    .abort = abort,
};

}  // namespace mortise::cpu
