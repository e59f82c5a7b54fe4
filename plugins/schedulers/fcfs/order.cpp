#include "schedulers/fcfs/order.hpp"

#include <algorithm>

namespace mortise::fcfs {

using scheduling::OrderEntry;

std::vector<OrderEntry> order_by_arrival(const mortise_schedule_view& view) {
  std::vector<OrderEntry> order;
  order.reserve(static_cast<std::size_t>(view.num_seqs));
  for (int32_t i = 0; i < view.num_seqs; ++i) order.push_back({i});
  const auto before = [&](const OrderEntry& a, const OrderEntry& b) {
    const int32_t i = a.index, j = b.index;
    return view.priorities[i] != view.priorities[j] ? view.priorities[i] < view.priorities[j]
                                                    : view.arrivals[i] < view.arrivals[j];
  };
  // The view is in order of arrival, and most often all priorities are equal.
  if (!std::is_sorted(order.begin(), order.end(), before)) std::stable_sort(order.begin(), order.end(), before);
  return order;
}

}  // namespace mortise::fcfs
