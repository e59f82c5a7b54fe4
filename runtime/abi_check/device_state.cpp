#include "abi_check/device_state.hpp"

namespace mortise::abi_check {
namespace {

constexpr const char* kAbi = "mortise/abi.h";
constexpr const char* kLife = "A handle lives until the function that destroys it";

}  // namespace

std::shared_ptr<Device> Device::find(const mortise_device* handle) {
  return std::dynamic_pointer_cast<Device>(Instance::find(handle));
}

bool Device::add(Kind kind, const void* object, const Call* owner, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  Object added{bytes, owner == nullptr ? nullptr : owner->instance().num_held};
  if (!objects_.try_emplace({kind, reinterpret_cast<std::uintptr_t>(object)}, added).second) return false;
  if (added.num_held != nullptr) ++*added.num_held;
  return true;
}

bool Device::remove(Kind kind, const void* object) {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find({kind, reinterpret_cast<std::uintptr_t>(object)});
  if (found == objects_.end()) return false;
  if (found->second.num_held != nullptr) --*found->second.num_held;
  objects_.erase(found);
  return true;
}

bool Device::has(Kind kind, const void* object) const {
  const std::lock_guard lock(mutex_);
  return objects_.contains({kind, reinterpret_cast<std::uintptr_t>(object)});
}

// Returns the allocation that holds the byte at `data`; NULL: there is none. REQUIRES: the mutex is held.
const std::pair<const std::pair<Device::Kind, std::uintptr_t>, Device::Object>* Device::allocation_of(
    const void* data) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  for (const Kind kind : {Kind::kMemory, Kind::kHostMemory}) {
    auto behind = objects_.upper_bound({kind, address});
    if (behind == objects_.begin()) continue;
    --behind;
    const auto& [where, object] = *behind;
    if (where.first == kind && address - where.second < object.bytes) return &*behind;
  }
  return nullptr;
}

std::string Device::overrun(const void* data, std::uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto* const found = allocation_of(data);
  if (found == nullptr) return "";
  const std::uint64_t left = found->second.bytes - (reinterpret_cast<std::uintptr_t>(data) - found->first.second);
  return bytes <= left ? "" : fmt::format("takes {} bytes where its allocation has {} left", bytes, left);
}

std::string Device::memory_problem(const void* data, std::uint64_t bytes) const {
  {
    const std::lock_guard lock(mutex_);
    if (!is_host_memory_ && allocation_of(data) == nullptr) return "is in no memory that the device allocated";
  }
  return overrun(data, bytes);
}

std::optional<std::string> Device::first_numerics(std::int32_t dtype, const std::optional<std::string>& id) {
  const std::lock_guard lock(mutex_);
  return numerics_.try_emplace(dtype, id).first->second;
}

std::int32_t Device::first_slice(std::int32_t slice) {
  const std::lock_guard lock(mutex_);
  if (slice_ == 0) slice_ = slice;
  return slice_;
}

void Device::set_host_memory(bool is_host) {
  const std::lock_guard lock(mutex_);
  is_host_memory_ = is_host;
}

bool Device::is_host_memory() const {
  const std::lock_guard lock(mutex_);
  return is_host_memory_;
}

void check_live(const Call& call, const Device& device, Device::Kind kind, const void* object, const char* what) {
  call.caller_must(object == nullptr || device.has(kind, object), kAbi, kLife,
                   "{} gets {} that the device did not hand out, or that was destroyed", call.function().name, what);
}

void check_return(const Call& call, Device& device, Device::Kind kind, const void* object, const char* what) {
  call.caller_must(object == nullptr || device.remove(kind, object), kAbi, kLife,
                   "{} gets {} that the device did not hand out, or that was returned before", call.function().name,
                   what);
}

}  // namespace mortise::abi_check
