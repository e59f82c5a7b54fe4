// runtime/loader/instance_states.hpp: finds the state that a component between the host and another one (a recorder, a
// checker) keeps for an instance.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace mortise {

// The functions of a table get the instance's handle and no context, so there is one map for each type of state in the
// process. Thread-safe. Invariant: a handle has a state from add() until remove(). An instance that has failed is never
// destroyed (abi.h), so it keeps its state.
template <typename State>
class InstanceStates {
 public:
  void add(const void* handle, std::shared_ptr<State> state) {
    const std::lock_guard lock(mutex_);
    states_[handle] = std::move(state);
  }
  // Null: no live instance has this handle.
  std::shared_ptr<State> find(const void* handle) const {
    const std::shared_lock lock(mutex_);
    const auto found = states_.find(handle);
    return found == states_.end() ? nullptr : found->second;
  }
  void remove(const void* handle) {
    const std::lock_guard lock(mutex_);
    states_.erase(handle);
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<State>> states_;
};

}  // namespace mortise
