// runtime/execution/populate_pages.hpp: has the system give a range of host memory its pages before they are used, so
// that no step waits for pages to be cleared, and a server's memory does not grow while it serves.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <stop_token>

namespace mortise {

// Whole pages of `memory`, some at a time, until all have come, a stop is asked for or `is_scarce` says true. What
// stands in them stays; others may use them meanwhile. Systems before Linux 5.14 give pages as they are used, whatever
// is asked.
void populate_pages(std::span<std::byte> memory, const std::stop_token& stop, const std::function<bool()>& is_scarce);

}  // namespace mortise
