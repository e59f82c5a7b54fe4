// examples/suffix/suffix.cpp: the proposer: what it keeps of each sequence, how it learns, and how it chooses drafts.
//
// Source: SuffixDecoding, Oliaro et al., arXiv:2411.04975. As there, the longest suffix of a sequence is looked up in
// the sequence's own text and in the texts that other sequences generated. The most frequent continuation in each of
// these texts is proposed. The continuation of which most tokens should be accepted wins. Unlike there, the chance of a
// proposed token is learned (confidence.hpp) instead of being its share of the continuations, and the generated texts
// of running sequences count too.
#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <unordered_map>

#include "confidence.hpp"
#include "mortise/proposer.hpp"
#include "past_texts.hpp"
#include "suffix_automaton.hpp"

namespace suffix {
namespace {

constexpr const char* kOptionsSchema = R"schema({
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "max_tokens": {"title": "maximum number of drafts for a sequence in a step", "type": "integer", "minimum": 1, "maximum": 64,
                   "default": 16},
    "min_confidence": {"title": "chance of being accepted below which nothing is drafted", "type": "number",
                       "minimum": 0, "maximum": 1, "default": 0.3},
    "past_tokens": {"title": "generated tokens of all sequences to draft from, at most; 0: a sequence's own text alone",
                    "type": "integer", "minimum": 0, "maximum": 16777216, "default": 262144}
  }
})schema";

// How many tokens of a prompt's end are stored before its answer, so that the beginning of a later answer can be
// matched.
constexpr std::size_t kPromptEnd = 16;

class Suffix {
 public:
  Suffix(const mortise_host* host, const mortise_create_args&, const mortise::Options& given)
      : max_tokens_(given.get<int32_t>("max_tokens")),
        min_confidence_(given.get<float>("min_confidence")),
        hash_seed_(host->now_ns(host)),
        past_(given.get<int64_t>("past_tokens"), hash_seed_) {}

  void bind(const mortise_proposer_bind_args&) {}

  void observe(const mortise_observation& seen) {
    try {
      for (int32_t i = 0; i < seen.num_seqs; ++i) {
        const int32_t begin = seen.token_offsets[i], end = seen.token_offsets[i + 1];
        observe(seen.seq_ids[i], seen.first_positions[i], {seen.tokens + begin, static_cast<std::size_t>(end - begin)});
      }
    } catch (const std::bad_alloc&) {
      sequences_.clear();  // what was being changed may be half done
      forget_past();
      throw;
    }
    for (int32_t i = 0; i < seen.num_ended; ++i) sequences_.erase(seen.ended_ids[i]);
  }

  void propose(const mortise_proposal_args& args) const {
    for (int32_t i = 0; i < args.num_seqs; ++i) {
      args.num_drafts[i] = 0;
      const auto at = sequences_.find(args.seq_ids[i]);
      if (at == sequences_.end() || at->second->text.num_tokens() != args.positions[i]) continue;
      int32_t* const row = args.tokens + static_cast<int64_t>(i) * args.draft_stride;
      const int32_t most = std::clamp(args.max_drafts[i], 0, max_tokens_);
      args.num_drafts[i] = draft(*at->second, {row, static_cast<std::size_t>(most)});
    }
  }

  uint64_t num_sequences() const { return sequences_.size(); }

 private:
  using Place = SuffixAutomaton::Place;

  struct Sequence {
    SuffixAutomaton text;
    SuffixAutomaton::State end = SuffixAutomaton::kRoot;  // of `text`
    PastTexts::Reader past = {};
    Confidence confidence{/*window=*/64, /*guess_weight=*/4};  // the guess is the table of all sequences
  };

  static inline const Confidence kNothingLearned{/*window=*/4096, /*guess_weight=*/8};

  // A text that proposes drafts for a sequence.
  struct Proposal {
    const SuffixAutomaton& texts;
    Source source;
    Place place;       // what matches; empty: nothing does
    int32_t num_ends;  // SuffixAutomaton::favourite
  };
  std::array<Proposal, 3> proposals(const Sequence& sequence) const {
    return {Proposal{sequence.text, Source::kOwnText, sequence.text.followed(sequence.text.whole(sequence.end)), 1},
            Proposal{past_.young(), Source::kOtherTexts, past_.in_young(sequence.past), 1},
            Proposal{past_.old(), Source::kOtherTexts, past_.in_old(sequence.past), 0}};
  }

  // `tokens` follow the first `position` tokens of the sequence.
  void observe(uint64_t id, int32_t position, std::span<const int32_t> tokens) {
    std::unique_ptr<Sequence>& sequence = sequences_[id];
    if (position == 0) {
      if (sequence) forget_past();  // its old history is in there, and is said to be wrong
      sequence.reset(new Sequence{SuffixAutomaton(hash_seed_)});
      sequence->past = past_.begin();
      // The last token is the first one that was generated; after a swap of proposers it is any of the generated ones.
      if (tokens.empty()) return;
      const std::span<const int32_t> prompt = tokens.first(tokens.size() - 1);
      for (const int32_t token : prompt) sequence->end = sequence->text.append(sequence->end, token);
      const std::size_t known = std::min(prompt.size(), kPromptEnd);
      for (const int32_t token : prompt.last(known)) past_.append(sequence->past, token);
      tokens = tokens.last(1);
    } else if (!sequence || sequence->text.num_tokens() != position) {
      sequences_.erase(id);
      // Not INTERNAL: the host then sends the whole history, and all is well again.
      throw mortise::Failure(MORTISE_FAILED_PRECONDITION, "observe",
                             "sequence " + std::to_string(id) + " continues at position " + std::to_string(position) +
                                 ", which does not follow the tokens that the proposer knows");
    }
    for (const int32_t token : tokens) {
      learn(*sequence, token);
      sequence->end = sequence->text.append(sequence->end, token);
      past_.append(sequence->past, token);
    }
  }

  void forget_past() {
    past_.clear();
    confidence_ = kNothingLearned;
  }

  // Compares each favourite with the token that was generated, whether it was drafted or not.
  void learn(Sequence& sequence, int32_t token) {
    for (const Proposal& proposal : proposals(sequence)) {
      if (proposal.place.length == 0) continue;
      const auto favourite = proposal.texts.favourite(proposal.place, proposal.num_ends);
      const int bin = Confidence::bin(proposal.source, proposal.place.length, favourite.count, favourite.total);
      sequence.confidence.learn(bin, favourite.token == token);
      confidence_.learn(bin, favourite.token == token);
    }
  }

  // Fills `out` from the proposal of which most drafts should be accepted. Returns how many drafts it wrote.
  int32_t draft(const Sequence& sequence, std::span<int32_t> out) const {
    Drafts best, other;
    for (const Proposal& proposal : proposals(sequence)) {
      follow(sequence, proposal, out.size(), other);
      if (other.accepted > best.accepted) best = other;
    }
    std::copy_n(best.tokens.begin(), best.count, out.begin());
    return best.count;
  }

  struct Drafts {
    std::array<int32_t, 64> tokens{};  // as many as the schema allows
    int32_t count = 0;
    float accepted = 0;  // how many should be
  };

  // Drafts the favourites from a proposal's place on, until the chance that all are accepted would be too low.
  void follow(const Sequence& sequence, const Proposal& proposal, std::size_t most, Drafts& drafts) const {
    drafts.count = 0;
    drafts.accepted = 0;
    float chance = 1;  // that all drafts are accepted
    Place place = proposal.place;
    while (static_cast<std::size_t>(drafts.count) < most && place.length > 0) {
      const auto favourite = proposal.texts.favourite(place, drafts.count == 0 ? proposal.num_ends : 0);
      const int bin = Confidence::bin(proposal.source, place.length, favourite.count, favourite.total);
      chance *= sequence.confidence.of(bin, confidence_.of(bin, Confidence::first_guess(bin)));
      if (chance < min_confidence_) return;
      drafts.accepted += chance;
      drafts.tokens[static_cast<std::size_t>(drafts.count++)] = favourite.token;
      // Behind the end of a text its own beginning may follow, as in LZ77: repeating texts go on repeating.
      place = proposal.texts.followed({favourite.next, place.length + 1});
    }
  }

  const int32_t max_tokens_;
  const float min_confidence_;
  const uint64_t hash_seed_;
  std::unordered_map<uint64_t, std::unique_ptr<Sequence>> sequences_;
  PastTexts past_;
  Confidence confidence_ = kNothingLearned;  // of all sequences
};

constexpr mortise_component kSuffix = mortise::ProposerComponent<Suffix>::component(
    "suffix", "suffix automata: drafts how the longest matching suffix went on, in this text and in earlier answers",
    kOptionsSchema);

}  // namespace
}  // namespace suffix

MORTISE_PLUGIN("example.suffix", "Mortise", "0.1.0", "Apache-2.0", &suffix::kSuffix)
