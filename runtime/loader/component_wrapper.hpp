// runtime/loader/component_wrapper.hpp: lets a recorder put itself between the host and the instances of a component.
#pragma once

#include <functional>

#include "loader/component.hpp"

namespace mortise {

// Returns the component to create an instance of: `component` itself, or one that forwards to it and is never freed.
// May throw an Error: the instance is then not created.
using ComponentWrapper = std::function<const Component*(const Component& component)>;

// From now on every instance is created through `wrapper`. REQUIRES: no instance is being created meanwhile.
void wrap_components(ComponentWrapper wrapper);
// The component that an instance of `component` is created of. [control]
const Component* wrapped_component(const Component& component);

}  // namespace mortise
