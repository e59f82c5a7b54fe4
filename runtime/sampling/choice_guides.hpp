// runtime/sampling/choice_guides.hpp: what the last requests' `choices` came to. Files and clients that classify ask
// for the same choices again and again, behind prompts that end alike; to tokenise thousands of them takes longer than
// to choose one.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sampling/choices.hpp"

namespace mortise {

// May be used by many threads at once.
class ChoiceGuides {
 public:
  // As make_choice_guide(), which it is if none is kept that was made of the same.
  std::shared_ptr<const ChoiceGuide> get(const SamplingParams& params, const ChoiceContext& context);

 private:
  // All that a guide depends on, but for max_tokens.
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
    std::size_t num_bytes;  // of the choices
    std::shared_ptr<const ChoiceGuide> guide;
  };
  std::shared_ptr<const ChoiceGuide> find(const SamplingParams& params, const ChoiceContext& context);
  void keep(const SamplingParams& params, const ChoiceContext& context, std::shared_ptr<const ChoiceGuide> guide);

  std::mutex mutex_;      // guards what follows
  std::list<Kept> kept_;  // the last used first
  std::size_t num_bytes_ = 0;
};

}  // namespace mortise
