#include "loader/component_wrapper.hpp"

#include <utility>

namespace mortise {
namespace {

ComponentWrapper& installed_wrapper() {
  static auto* const wrapper = new ComponentWrapper;
  return *wrapper;
}

}  // namespace

void wrap_components(ComponentWrapper wrapper) {
  installed_wrapper() = std::move(wrapper);
}

const Component* wrapped_component(const Component& component) {
  return installed_wrapper() ? installed_wrapper()(component) : &component;
}

}  // namespace mortise
