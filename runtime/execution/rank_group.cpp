#include "execution/rank_group.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "error.hpp"

namespace mortise {
namespace {

// Null if the device has no collective extension.
const mortise_collective_table* table_of(const DevicePart& device) {
  return static_cast<const mortise_collective_table*>(device.value<&mortise_device_table::get_ext>(
      "get_ext", static_cast<const void*>(nullptr), MORTISE_EXT_COLLECTIVE));
}

// Whether the error only says that another rank has failed.
bool is_consequence(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const PartError& part_error) {
    return part_error.status() == MORTISE_CANCELLED;
  } catch (...) {
    return false;
  }
}

}  // namespace

std::int32_t num_ranks_of(const DevicePart& device) {
  const mortise_collective_table* const table = table_of(device);
  if (table == nullptr) return 1;
  return std::max(1, device.value_of("num_ranks", 1, [&] { return table->num_ranks(device.self); }));
}

// One run of all ranks. Shared with the threads, because a rank that hangs outlives the run and the group.
struct RankGroup::Job {
  Body body, abort;
  std::mutex mutex;  // guards the rest
  std::condition_variable returned;
  std::vector<bool> done;
  std::vector<std::exception_ptr> errors;  // by rank
  std::vector<std::int32_t> order;         // ranks that threw, the first one first
};

// The thread of one rank. Waits for the next job by `turn`, which a job increments. The destructor joins it.
struct RankGroup::Thread {
  ~Thread() {
    stop.store(true, std::memory_order_release);
    turn.fetch_add(1, std::memory_order_release);
    turn.notify_one();
    if (thread.joinable()) thread.join();
  }

  std::atomic<std::uint32_t> turn{0};
  std::atomic<bool> stop{false};
  std::shared_ptr<Job> job;  // written before `turn` changes
  std::thread thread;
};

RankGroup::RankGroup(std::vector<DevicePart> devices, std::chrono::milliseconds patience)
    : devices_(std::move(devices)), patience_(patience) {
  if (world() == 1) return;
  const DevicePart& first = devices_.front();
  table_ = table_of(first);
  if (table_ == nullptr) fail("{}: cannot exchange rows between {} devices", first.name, world());
  connect();
  try {
    start_threads();
  } catch (...) {  // the system has no more threads
    threads_.clear();
    disconnect();
    throw;
  }
}

void RankGroup::start_threads() {
  for (std::int32_t rank = 1; rank < world(); ++rank) {
    threads_.push_back(std::make_unique<Thread>());
    Thread& thread = *threads_.back();
    thread.thread = std::thread([&thread, rank] {
      for (std::uint32_t turn = 0;; ++turn) {
        thread.turn.wait(turn, std::memory_order_acquire);
        if (thread.stop.load(std::memory_order_acquire)) return;
        run_one(std::exchange(thread.job, nullptr), rank);
      }
    });
  }
}

RankGroup::~RankGroup() {
  if (hung_) {
    // The thread may come back at any time, and then it must find itself.
    for (std::unique_ptr<Thread>& thread : threads_) {
      thread->thread.detach();
      thread.release();
    }
    return;
  }
  threads_.clear();
  disconnect();
}

void RankGroup::connect() {
  std::vector<mortise_device*> handles;
  for (const DevicePart& device : devices_) handles.push_back(device.self);
  communicators_.assign(devices_.size(), nullptr);
  devices_.front().perform("create of the collective extension", [&](mortise_error* error) {
    return table_->create(handles.data(), world(), communicators_.data(), error);
  });
}

void RankGroup::disconnect() {
  for (std::size_t rank = 0; rank < communicators_.size(); ++rank) {
    devices_[rank].value_of("destroy of the collective extension", 0,
                            [&] { return table_->destroy(communicators_[rank]), 0; });
  }
  communicators_.clear();
}

// After an error. If a device has failed, it is not called again, and the ranks stay apart.
void RankGroup::connect_anew() {
  disconnect();
  if (std::ranges::any_of(devices_, [](const DevicePart& device) { return device.health->failed(); })) return;
  try {
    connect();
  } catch (const PartError& error) {
    communicators_.clear();
    spdlog::error("{}: the ranks cannot be connected again: {}", devices_.front().name, error.what());
  }
}

mortise_communicator* RankGroup::communicator(std::int32_t rank) const {
  return communicators_.empty() ? nullptr : communicators_[static_cast<std::size_t>(rank)];
}

void RankGroup::run_one(const std::shared_ptr<Job>& job, std::int32_t rank) {
  std::exception_ptr error;
  try {
    job->body(rank);
  } catch (...) {
    error = std::current_exception();
    job->abort(rank);
  }
  const std::lock_guard lock(job->mutex);
  const auto i = static_cast<std::size_t>(rank);
  job->done[i] = true;
  job->errors[i] = error;
  if (error) job->order.push_back(rank);
  job->returned.notify_all();
}

void RankGroup::wait_for_all(const std::shared_ptr<Job>& job) {
  std::unique_lock lock(job->mutex);
  const auto all_done = [&] { return std::ranges::all_of(job->done, [](bool done) { return done; }); };
  // As long as nobody has failed, the others may just be slower.
  const auto over = [&] { return all_done() || !job->order.empty(); };
  job->returned.wait(lock, over);
  if (job->returned.wait_for(lock, patience_, all_done)) return;
  hung_ = true;
  const auto rank = std::ranges::find(job->done, false) - job->done.begin();
  const DevicePart& device = devices_[static_cast<std::size_t>(rank)];
  mortise_error error = empty_error();
  const auto text = fmt::format_to_n(error.message, sizeof error.message - 1,
                                     "rank {} of {} hangs: it did not come back within {} seconds after a failure of "
                                     "another rank",
                                     rank, world(), std::chrono::duration<double>(patience_).count());
  *text.out = '\0';
  const PartError hang(device.name, "step", MORTISE_INTERNAL, error);
  device.health->fail(hang.what());
  throw hang;
}

void RankGroup::run(Body body) {
  if (hung_) fail("{}: a rank hangs, so no step can run", devices_.front().name);
  if (world() == 1) return body(0);
  if (communicators_.empty()) fail("{}: a rank has failed, so no step can run", devices_.front().name);
  const auto job = std::make_shared<Job>();
  job->body = std::move(body);
  job->abort = [table = table_, devices = devices_, communicators = communicators_](std::int32_t rank) {
    // Also if this rank's device has failed, because the others wait for it.
    const auto i = static_cast<std::size_t>(rank);
    const RunningCall running(devices[i].health->lasting_name(devices[i].name), "abort of the collective extension",
                              devices[i].health->kind_of_calls());
    mortise_error error = empty_error();
    contain_exceptions(error, [&] {
      table->abort(communicators[i]);
      return MORTISE_OK;
    });
  };
  job->done.assign(devices_.size(), false);
  job->errors.resize(devices_.size());
  for (const std::unique_ptr<Thread>& thread : threads_) {
    thread->job = job;
    thread->turn.fetch_add(1, std::memory_order_release);
    thread->turn.notify_one();
  }
  run_one(job, 0);
  wait_for_all(job);
  job->body = {};  // its owner may be what it keeps alive, and must not be destroyed on the thread of a rank
  if (job->order.empty()) return;
  connect_anew();
  const auto cause = std::ranges::find_if(
      job->order, [&](std::int32_t rank) { return !is_consequence(job->errors[static_cast<std::size_t>(rank)]); });
  std::rethrow_exception(
      job->errors[static_cast<std::size_t>(cause == job->order.end() ? job->order.front() : *cause)]);
}

}  // namespace mortise
