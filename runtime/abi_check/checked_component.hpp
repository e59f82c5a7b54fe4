// runtime/abi_check/checked_component.hpp: a component that stands between the host and another one and checks every
// call.
#pragma once

#include "loader/component.hpp"

namespace mortise {

// A component that forwards to `component`, and checks at each call that host and plugin keep the rules of plugin_api.
// A breach makes the call return INTERNAL, so it ends the instance, with a message that names who broke which rule of
// which header. Gives the same component each time, and never frees it. For a checked component gives the component
// itself. Thread-safe.
const Component& checked_component(const Component& component);

}  // namespace mortise
