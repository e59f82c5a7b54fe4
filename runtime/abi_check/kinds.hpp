// runtime/abi_check/kinds.hpp: the checked functions of each kind of part, as the table of a checked component.
#pragma once

#include <memory>

#include "abi_check/call.hpp"
#include "mortise/attention.h"
#include "mortise/ext/collective.h"
#include "mortise/ext/rejection.h"
#include "mortise/proposer.h"
#include "mortise/scheduler.h"

namespace mortise::abi_check {

// Return the state that the checks keep for a new instance of the component.
std::shared_ptr<Instance> make_scheduler(const Component& real);
std::shared_ptr<Instance> make_proposer(const Component& real);
std::shared_ptr<Instance> make_attention(const Component& real);
std::shared_ptr<Instance> make_model(const Component& real);
std::shared_ptr<Instance> make_device(const Component& real);

// Replaces every function in a copy of the component's table. A slot that is NULL stays so.
void check_table(mortise_scheduler_table& table);
void check_table(mortise_proposer_table& table);
void check_table(mortise_attention_table& table);
void check_table(mortise_model_table& table);
void check_table(mortise_device_table& table);
void check_operations(mortise_device_table& table);  // called by the function above

// Replaces a slot that is not NULL.
template <typename Slot>
void replace(Slot& slot, Slot by) {
  if (slot != nullptr) slot = by;
}

// Returns the table that get_ext(id) of a checked device gives in place of the device's own `table`. It is checked for
// ext/collective.h, ext/graph.h and ext/rejection.h.
const void* checked_device_extension(Instance& device, const char* id, const void* table);

extern const mortise_rejection_table kCheckedRejection;  // used by the function above
extern const mortise_collective_table kCheckedCollective;

}  // namespace mortise::abi_check
