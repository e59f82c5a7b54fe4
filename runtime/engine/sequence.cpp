#include "engine/sequence.hpp"

#include <utility>

#include "sampling/key.hpp"

namespace mortise {

Sequence::Sequence(std::uint64_t id, std::shared_ptr<const RequestState> owner_state, std::int32_t choice,
                   const Tokenizer& tokenizer)
    : id(id),
      owner(std::move(owner_state)),
      choice(choice),
      key(noise_key(owner->seed, static_cast<std::uint32_t>(choice))),
      arrival(owner->arrival),
      group(owner->request.group),
      num_prompt(static_cast<std::int32_t>(owner->request.prompt.size())),
      max_tokens(owner->request.sampling.max_tokens),
      priority(owner->request.priority),
      score_from(owner->request.score_from),
      is_predicted(!owner->request.prediction.empty()),
      tokens(owner->request.prompt),
      edits(owner->request.sampling, owner->request.prompt),
      text(tokenizer, owner->request.sampling, owner->before),
      prediction(owner->request.prediction, owner->request.resumed) {
  usage.prompt_tokens = num_prompt;
}

FinishReason Sequence::write_text() {
  const std::size_t end = gathered.tokens.size() - (gathered.stop_token ? 1 : 0);  // an end token has no text
  try {
    while (num_written < end && !text.stopped()) gathered.text += text.push(gathered.tokens[num_written++].id);
  } catch (const Error& error) {  // only this text is wrong: other sequences continue
    gathered.error = error.what();
    return FinishReason::kError;
  }
  return text.stopped() ? FinishReason::kStop : FinishReason::kNone;
}

std::int32_t Sequence::next_scored_position() const {
  if (!score_from) return num_prompt;
  // Token i is predicted by the row at position i - 1.
  return *score_from + static_cast<std::int32_t>(scores.size()) - 1;
}

void Sequence::append(std::int32_t token) {
  tokens.push_back(token);
  edits.add_generated(token);
  if (owner->guide) guide_node = owner->guide->trie.next(guide_node, token);
  ++usage.completion_tokens;
}

void Sequence::clear_drafts() {
  drafts.clear();
  draft_distributions.clear();
  drafted_by = -1;
  max_drafts = 0;
}

}  // namespace mortise
