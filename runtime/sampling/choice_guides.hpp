// runtime/sampling/choice_guides.hpp: a cache of the guides of recent `choices`. Files and clients that classify use
// the same choices again and again, after prompts with equal ends, and tokenising thousands of choices takes longer
// than generating one.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sampling/choices.hpp"

namespace mortise {

// Invariant: a cached guide equals the one that make_choice_guide() would return. Thread-safe.
class ChoiceGuides {
 public:
  // Like make_choice_guide(), but returns a cached guide if one was made from the same input.
  std::shared_ptr<const ChoiceGuide> get(const SamplingParams& params, const ChoiceContext& context);

 private:
  // Everything that a guide depends on, except max_tokens.
  struct Key {
    std::vector<GuidedChoice> choices;
    std::vector<std::string> stop;
    std::int32_t min_tokens;
    bool skip_special_tokens;
    DecodedPrefix before;
    std::vector<std::int32_t> end_tokens;

    bool is_of(const SamplingParams& params, const ChoiceContext& context) const;
  };
  struct Kept {
    Key key;
    std::size_t num_bytes;  // size of the choices
    std::shared_ptr<const ChoiceGuide> guide;
  };
  std::shared_ptr<const ChoiceGuide> find(const SamplingParams& params, const ChoiceContext& context);
  void keep(const SamplingParams& params, const ChoiceContext& context, std::shared_ptr<const ChoiceGuide> guide);

  std::mutex mutex_;      // guards the member below
  std::list<Kept> kept_;  // most recently used first
  std::size_t num_bytes_ = 0;
};

}  // namespace mortise
