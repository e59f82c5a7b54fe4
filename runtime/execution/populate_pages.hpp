// runtime/execution/populate_pages.hpp: makes the system allocate the pages of a range of host memory before they are
// used. So no step waits for pages to be cleared, and a server's memory does not grow while it serves.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <stop_token>

namespace mortise {

// Allocates the whole pages of `memory`, some at a time, until all are there, a stop is requested, or `is_scarce`
// returns true. Keeps their contents; other threads may use the memory meanwhile. Does nothing on systems before Linux
// 5.14.
void populate_pages(std::span<std::byte> memory, const std::stop_token& stop, const std::function<bool()>& is_scarce);

}  // namespace mortise
