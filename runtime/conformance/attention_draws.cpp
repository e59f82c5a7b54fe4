#include "conformance/attention_draws.hpp"

#include <algorithm>

#include "conformance/attention_reference.hpp"

namespace mortise::conformance {

std::vector<std::int32_t> draw_tokens(Subject& subject, std::int32_t count) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>(subject.random()() % 500));
  return tokens;
}

std::int32_t draw_between(Subject& subject, std::int32_t first, std::int32_t last) {
  return first + static_cast<std::int32_t>(subject.random()() % static_cast<std::uint64_t>(last - first + 1));
}

void expect_right(Subject& subject, const AttentionScene& scene, std::size_t sequence, const OutputRows& found) {
  const std::string id = subject.component().numerics_id_on(scene.device_numerics());
  if (std::ranges::find(kSpanNumerics, id) != std::end(kSpanNumerics)) {
    expect_same_rows(scene.shape(), exact_rows(scene, sequence, mortise_sum_order_of(id.c_str())), found,
                     ("an output is not that of " + id).c_str());
  } else {
    expect_near(scene, sequence, found);
  }
}

void require_capability(Subject& subject, std::uint64_t capability, const char* name) {
  if ((subject.component().capabilities & capability) == 0) throw NotApplicable(fmt::format("it lacks {}", name));
}

}  // namespace mortise::conformance
