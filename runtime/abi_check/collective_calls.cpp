// runtime/abi_check/collective_calls.cpp: the checks of mortise/ext/collective.h.
#include <algorithm>
#include <map>
#include <mutex>
#include <span>

#include "abi_check/device_state.hpp"
#include "abi_check/kinds.hpp"
#include "abi_check/step_rules.hpp"

namespace mortise::abi_check {
namespace {

constexpr const char* kHeader = "mortise/ext/collective.h";
using Kind = Device::Kind;

// What the checks remember of a communicator.
struct Rank {
  mortise_device* device = nullptr;
  const mortise_collective_table* table = nullptr;  // the device's own
  std::int32_t world = 0;
};

// The live communicators of all devices. Thread-safe.
class Communicators {
 public:
  void add(const mortise_communicator* communicator, const Rank& rank) {
    const std::lock_guard lock(mutex_);
    ranks_[communicator] = rank;
  }
  void remove(const mortise_communicator* communicator) {
    const std::lock_guard lock(mutex_);
    ranks_.erase(communicator);
  }
  // Returns a Rank without a device if there is no such communicator.
  Rank find(const mortise_communicator* communicator) {
    const std::lock_guard lock(mutex_);
    const auto found = ranks_.find(communicator);
    return found == ranks_.end() ? Rank{} : found->second;
  }

 private:
  std::mutex mutex_;
  std::map<const mortise_communicator*, Rank> ranks_;
};

Communicators& communicators_of_all() {
  static Communicators all;
  return all;
}

std::int32_t num_ranks(mortise_device* handle) {
  static constexpr Function kFunction = {"num_ranks", Tag::kAny};
  return checked_value<Device>(handle, kFunction, 1, [&](Call& call, Device& self) {
    std::int32_t ranks = 0;
    call.make([&] { ranks = self.collective.load()->num_ranks(handle); });
    call.part_must(ranks >= 1, kHeader, "Returns how many ranks the options of `device` ask for, at least 1",
                   "num_ranks returns {}", ranks);
    return ranks;
  });
}

mortise_status create(mortise_device* const* devices, std::int32_t world, mortise_communicator** communicators,
                      mortise_error* error) {
  static constexpr Function kFunction = {"collective create", Tag::kControl, State::kActive};
  mortise_device* const first = devices == nullptr || world < 1 ? nullptr : devices[0];
  return checked<Device>(first, kFunction, error, [&](Call& call, Device& self) {
    const std::span<mortise_device* const> all(devices, static_cast<std::size_t>(world));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::shared_ptr<Device> device = Device::find(all[i]);
      call.caller_must(device != nullptr && device->is_active && &device->real == &self.real, kHeader,
                       "all active and of this component", "devices[{}] is not", i);
      call.caller_must(std::count(all.begin(), all.end(), all[i]) == 1, kHeader, "one for each rank",
                       "devices[{}] is there twice", i);
    }
    const mortise_collective_table* const table = self.collective;
    const mortise_status status =
        call.make(error, [&](mortise_error* own) { return table->create(devices, world, communicators, own); });
    if (status != MORTISE_OK) return status;
    const std::span<mortise_communicator* const> made(communicators, all.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      call.part_must(made[i] != nullptr && std::count(made.begin(), made.end(), made[i]) == 1 &&
                         communicators_of_all().find(made[i]).device == nullptr,
                     kHeader, "writes one communicator for each rank", "communicators[{}] is NULL, or in use", i);
    }
    for (std::size_t i = 0; i < made.size(); ++i) communicators_of_all().add(made[i], {all[i], table, world});
    return status;
  });
}

void destroy(mortise_communicator* communicator) {
  static constexpr Function kFunction = {"collective destroy", Tag::kControl};
  if (communicator == nullptr) return;
  const Rank rank = communicators_of_all().find(communicator);
  checked_value<Device>(rank.device, kFunction, 0, [&](Call& call, Device&) {
    communicators_of_all().remove(communicator);
    call.make([&] { rank.table->destroy(communicator); });
    return 0;
  });
}

mortise_status all_gather(mortise_communicator* communicator, mortise_stream* stream, const mortise_tensor* x,
                          const std::int64_t* columns, mortise_error* error) {
  static constexpr Function kFunction = {"all_gather", Tag::kStep, State::kActive};
  const Rank rank = communicators_of_all().find(communicator);
  return checked<Device>(rank.device, kFunction, error, [&](Call& call, Device& self) {
    check_live(call, self, Kind::kStream, stream, "a stream");
    constexpr std::int64_t kRowsOfColumns[] = {-1, -1};
    check_tensor(call, &self, "x", x, kRowsOfColumns);
    call.caller_must((x->flags & MORTISE_TENSOR_READ_ONLY) == 0, "mortise/tensor.h", "writing may crash",
                     "x is read-only");
    call.check_array(columns, rank.world + 1, kHeader, "columns");
    const std::span<const std::int64_t> all(columns, static_cast<std::size_t>(rank.world) + 1);
    call.caller_must(all.front() == 0 && all.back() == x->shape[1] && std::is_sorted(all.begin(), all.end()), kHeader,
                     "columns [world + 1] ascends from 0 to N", "columns is {} where x has {}", fmt::join(all, ", "),
                     x->shape[1]);
    return call.make(error,
                     [&](mortise_error* own) { return rank.table->all_gather(communicator, stream, x, columns, own); });
  });
}

void abort(mortise_communicator* communicator) {
  static constexpr Function kFunction = {"collective abort", Tag::kAny};
  const Rank rank = communicators_of_all().find(communicator);
  checked_value<Device>(rank.device, kFunction, 0, [&](Call& call, Device&) {
    call.make([&] { rank.table->abort(communicator); });
    return 0;
  });
}

}  // namespace

const mortise_collective_table kCheckedCollective = {
    sizeof(mortise_collective_table), 0, num_ranks, create, destroy, all_gather, abort};

}  // namespace mortise::abi_check
