// runtime/chat_template/filters.hpp: the tables of filters, one for each file.
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

// The part of an item that a filter's `attribute` selects: "a.b.0" or a number. The item itself if `path` is null or
// none.
Value attribute_path(Runtime& runtime, const Value& item, const Value* path);
// A text in lower case; any other value unchanged.
Value without_case(Runtime& runtime, const Value& value);

}  // namespace mortise::jinja
