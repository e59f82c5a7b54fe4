// runtime/chat_template/filters.hpp: the filters, a table for each file of them.
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "chat_template/runtime.hpp"

namespace mortise::jinja {

using NamedFilter = std::pair<std::string_view, Filter>;

std::span<const NamedFilter> text_filters();
std::span<const NamedFilter> number_filters();
std::span<const NamedFilter> list_filters();
std::span<const NamedFilter> selecting_filters();

// What a filter's `attribute` says of an item: "a.b.0", or a number; the item itself when it is null or none.
Value attribute_path(Runtime& runtime, const Value& item, const Value* path);
// Lower case of a text; any other value as it is.
Value without_case(Runtime& runtime, const Value& value);

}  // namespace mortise::jinja
