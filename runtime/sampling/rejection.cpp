#include "sampling/rejection.hpp"

#include <algorithm>
#include <numeric>

#include "sampling/philox.hpp"

namespace mortise {
namespace {

enum class Purpose : std::uint32_t { kAccept = 0, kRecover = 1 };

// A number in (0, 1) with 53 bits. The counter's last word is not 0, which is the noise of tokens.
double uniform(std::uint64_t key, std::int64_t position, Purpose purpose) {
  constexpr std::uint32_t kRejection = 1;
  const auto at = static_cast<std::uint64_t>(position);
  const auto words = philox(key, {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32),
                                  static_cast<std::uint32_t>(purpose), kRejection});
  const std::uint64_t bits = static_cast<std::uint64_t>(words[0] >> 6) << 26 | words[1] >> 6;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

}  // namespace

std::int32_t rejection_sample(std::span<const double> p, std::span<const float> q, std::int32_t draft,
                              std::uint64_t key, std::int64_t position) {
  const auto drafted = static_cast<std::size_t>(draft);
  const double q_sum = q.empty() ? 1.0 : std::accumulate(q.begin(), q.end(), 0.0);
  const auto q_of = [&](std::size_t id) {
    return q.empty() ? (id == drafted ? 1.0 : 0.0) : static_cast<double>(q[id]) / q_sum;
  };
  if (uniform(key, position, Purpose::kAccept) * q_of(drafted) < p[drafted]) return draft;

  // p <= q for the draft, so its excess is 0 and it is not drawn again.
  const auto excess = [&](std::size_t id) { return std::max(0.0, p[id] - q_of(id)); };
  double total = 0;
  for (std::size_t id = 0; id < p.size(); ++id) total += excess(id);
  const double wanted = uniform(key, position, Purpose::kRecover) * total;
  double sum = 0;
  std::int32_t last = -1;  // the last token with a positive excess: rounding must not lead beyond it
  for (std::size_t id = 0; id < p.size(); ++id) {
    const double share = excess(id);
    if (share <= 0) continue;
    last = static_cast<std::int32_t>(id);
    if ((sum += share) > wanted) break;
  }
  if (last >= 0) return last;
  // p equals q up to rounding, or no token can be drawn.
  return p[drafted] > 0 ? draft : -1;
}

}  // namespace mortise
