// runtime/engine/sequence.hpp: one choice of a request as it runs: its tokens, KV blocks, drafts and unsent text. Owned
// by the engine's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "delivery/channel.hpp"
#include "engine/draft_tree.hpp"
#include "engine/request.hpp"
#include "engine/text_stream.hpp"
#include "kv/kv_cache.hpp"
#include "kv/prefix_tree.hpp"
#include "sampling/choices.hpp"
#include "sampling/edits.hpp"
#include "speculation/adaptive_lengths.hpp"
#include "speculation/prediction.hpp"

namespace mortise {

// Which of the pipeline's proposers may draft for a request, and how many tokens. A value.
struct Drafters {
  std::uint32_t allowed = ~std::uint32_t{0};  // bit i: proposer i; a pipeline has at most kMaxAlternatives
  std::int32_t max_tokens = INT32_MAX;

  bool allows(std::size_t proposer) const { return (allowed >> proposer & 1u) != 0; }
};

// A request and what the engine adds to it. Its choices share it.
struct RequestState {
  RequestId id = 0;
  Request request;
  News news = News::kEachStep;
  std::shared_ptr<Channel> channel;
  std::uint64_t seed = 0;
  std::uint64_t arrival = 0;
  std::vector<std::int32_t> end_tokens;      // the model's, unless ignore_eos, and its stop_token_ids
  std::shared_ptr<const ChoiceGuide> guide;  // of the request's `choices`; null if it has none
  DecodedPrefix before;                      // of its prompt; each choice's text continues it
};

// Cached results of in_flight, which examines each waiting sequence in each step. Thousands may wait, with long
// prompts.
struct WaitingMemo {
  struct Hash {
    std::int32_t num_tokens = 0;
    std::uint64_t value = 0;
  };
  Hash next_block, prompt;  // over the first num_tokens tokens
  std::uint64_t other = 0;  // id of the sequence last compared with it; ids begin at 1
  std::int32_t num_common = 0;
};

// Invariant: num_computed <= num_tokens(), and `blocks` have room for the computed tokens. A waiting sequence has no
// blocks and num_computed 0. Engine's thread only.
class Sequence {
 public:
  Sequence(std::uint64_t id, std::shared_ptr<const RequestState> owner, std::int32_t choice,
           const Tokenizer& tokenizer);

  const Request& request() const { return owner->request; }
  std::int32_t num_tokens() const { return static_cast<std::int32_t>(tokens.size()); }
  std::int32_t num_generated() const { return num_tokens() - num_prompt; }
  bool running() const { return !blocks.empty(); }
  bool wants_tokens() const { return num_generated() < max_tokens; }

  // Returns the first position whose row must still give the log probability of the prompt token after it. If none is
  // left, the position is num_prompt - 1 or more. Rows that were scored before a preemption are not scored again.
  std::int32_t next_scored_position() const;
  bool wants_scores() const { return next_scored_position() < num_prompt - 1; }
  // Returns the number of tokens that must run before the sequence can generate or end. If it generates nothing, the
  // prompt's last token is not run.
  std::int32_t num_to_run() const { return wants_tokens() ? num_tokens() : num_prompt - 1; }

  // Returns whether this is a completion to score: it generates nothing and wants log probabilities of the end of its
  // prompt only.
  bool scores_completion() const { return max_tokens == 0 && score_from > 1; }
  // Returns the index of the first token that still needs a score. REQUIRES: wants_scores().
  std::int32_t next_scored_token() const { return next_scored_position() + 1; }
  // Returns the number of tokens whose KV exists when its next rows run.
  std::int32_t start() const { return running() ? num_computed : num_cached; }

  void append(std::int32_t token);
  void clear_drafts();
  // Adds the text of new tokens to `gathered`. Returns why the text ends the choice, or kNone: kStop at a stop string,
  // kError if the tokenizer's rules cannot be followed. The error is in `gathered`.
  FinishReason write_text();
  // Returns whether the generated tokens are one of the request's guided `choices` and no other choice continues it.
  bool choice_is_complete() const { return owner->guide && owner->guide->trie.is_complete(guide_node); }

  const std::uint64_t id;
  const std::shared_ptr<const RequestState> owner;
  const std::int32_t choice;
  const std::uint64_t key;  // of its random numbers
  const std::uint64_t arrival, group;
  FinishReason finish = FinishReason::kNone;
  // Copies from the request, stored next to the other fields that each step reads of thousands of waiting sequences.
  const std::int32_t num_prompt, max_tokens, priority;
  const std::optional<std::int32_t> score_from;
  const bool is_predicted;           // it has a prediction
  std::int32_t num_computed = 0;     // tokens with KV
  std::vector<std::int32_t> tokens;  // prompt, then generated
  std::vector<BlockId> blocks;
  KvHolder holder, pin_holder;     // of `blocks` and the forks' own blocks; of `pinned`
  bool started = false;            // has run before; if it waits now, it was preempted
  bool publishes = true;           // false: its next block cannot enter the tree, nor any after it
  std::int32_t num_published = 0;  // leading blocks that are in the prefix tree
  // While it waits: the cached prefix that it would be admitted with. SequenceKv::look_up() updates these three.
  PrefixPath prefix;
  std::int32_t num_cached = 0;          // tokens: those of whole blocks and the first of `partial_block`
  BlockId partial_block = kPrefixRoot;  // the block to copy for the latter; kPrefixRoot: none
  WaitingMemo memo;

  // Of running sequences: each step reads or writes most of these fields, up to `text`. They lie close together,
  // because a step of hundreds of sequences takes them from memory or a distant cache.
  std::vector<std::int32_t> drafts;                    // of this step, to verify
  std::vector<DraftFork> forks;                        // further paths of a draft tree
  std::vector<TokenInfo> scores;                       // of prompt tokens, from score_from on
  std::int32_t drafted_by = -1;                        // index of the proposer; -1: the prediction
  std::int32_t max_drafts = 0;                         // drafts that proposers were asked for in this step
  SequenceEdits edits;                                 // of its next row
  ChoiceTrie::Node guide_node = ChoiceTrie::kRoot;     // the node that the generated tokens reach in owner->guide
  std::chrono::steady_clock::time_point last_token{};  // time of its commit; 0: no token yet
  Usage usage;
  bool scores_sent = false;
  std::size_t num_written = 0;  // tokens of `gathered` whose text is written
  Delta gathered;               // committed, but not sent yet
  TextStream text;
  Drafters drafters;  // among the proposers that the engine has now
  DraftState draft_state;

  // [drafts, vocabulary] the distributions that the drafts were drawn from, for rejection sampling; empty: the proposer
  // drew nothing, its drafts are certain.
  std::vector<float> draft_distributions;
  std::vector<BlockId> pinned;  // blocks held for the scheduler's pin
  Prediction prediction;        // borrows the request's tokens
};

}  // namespace mortise
