#include "sampling/choice_guides.hpp"

#include <algorithm>
#include <utility>

namespace mortise {
namespace {

// Limits the choices' bytes; their guides take about ten times as much. One request may have 4 MiB.
constexpr std::size_t kMaxBytes = std::size_t{8} << 20;
constexpr std::size_t kMaxGuides = 16;  // a look-up compares with all of them

}  // namespace

bool ChoiceGuides::Key::is_of(const SamplingParams& params, const ChoiceContext& context) const {
  return before.ids == context.before.ids && before.text == context.before.text && min_tokens == params.min_tokens &&
         skip_special_tokens == params.skip_special_tokens && std::ranges::equal(end_tokens, context.end_tokens) &&
         stop == params.stop && choices == params.choices;
}

std::shared_ptr<const ChoiceGuide> ChoiceGuides::get(const SamplingParams& params, const ChoiceContext& context) {
  std::shared_ptr<const ChoiceGuide> guide = find(params, context);
  if (guide != nullptr) return guide;
  guide = std::make_shared<const ChoiceGuide>(make_choice_guide(params, context));
  keep(params, context, guide);
  return guide;
}

std::shared_ptr<const ChoiceGuide> ChoiceGuides::find(const SamplingParams& params, const ChoiceContext& context) {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find_if(kept_, [&](const Kept& kept) { return kept.key.is_of(params, context); });
  // If a choice is too long for this request, make_choice_guide() names it in an Error.
  if (at == kept_.end() || at->guide->trie.longest() > context.max_tokens) return nullptr;
  kept_.splice(kept_.begin(), kept_, at);
  return at->guide;
}

void ChoiceGuides::keep(const SamplingParams& params, const ChoiceContext& context,
                        std::shared_ptr<const ChoiceGuide> guide) {
  std::size_t num_bytes = 0;
  for (const GuidedChoice& choice : params.choices) num_bytes += mortise::num_bytes(choice) + sizeof choice;
  Key key{params.choices,    params.stop,
          params.min_tokens, params.skip_special_tokens,
          context.before,    {context.end_tokens.begin(), context.end_tokens.end()}};
  const std::lock_guard lock(mutex_);
  kept_.push_front({std::move(key), num_bytes, std::move(guide)});
  num_bytes_ += num_bytes;
  while (kept_.size() > 1 && (kept_.size() > kMaxGuides || num_bytes_ > kMaxBytes)) {
    num_bytes_ -= kept_.back().num_bytes;
    kept_.pop_back();
  }
}

}  // namespace mortise
