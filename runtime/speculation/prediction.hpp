// runtime/speculation/prediction.hpp: uses a caller's prediction of an answer as drafts. Each choice of a request
// follows the prediction separately. Engine's thread only.
//
//   Following  The next tokens of the prediction are drafts. Their number grows with success: at most kFirst at first,
//              then kGrowth times as many, and so on. A `resumed` prediction is drafted as far as steps have room,
//              until it fails for the first time.
//   Lost       A token came that is not the predicted token. The last generated tokens are looked up in the rest of the
//              prediction, as prompt lookup does. If they are found, the prediction is followed from there, with kAgain
//              drafts at first. Until then proposers draft.
//   Account    A budget of drafts that may fail. It begins with a few. Each token of the answer adds kShare. Each
//              accepted draft adds kGrowth - 1, because it has saved a step, which costs more than as many rows. Each
//              rejected draft takes one. Nothing is drafted or looked up without budget, so a prediction that keeps
//              failing gets only kShare drafts per token.
//
// All of this depends on the prediction and the answer's tokens alone. A step with room for fewer drafts takes them
// piece by piece, and the counts stay the same. So answers that report the counts do not depend on what else ran.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mortise {

// The state of one choice's prediction. Invariant: drafts() is a part of the prediction, and its length depends only on
// the prediction and the generated tokens. Engine's thread only.
class Prediction {
 public:
  static constexpr std::size_t kFirst = 16;  // drafts at first
  static constexpr std::size_t kAgain = 8;   // after the prediction was found again
  static constexpr std::size_t kMin = 4;     // fewer are not worth a try, unless the prediction ends there
  static constexpr std::size_t kGrowth = 8;
  static constexpr double kShare = 0.05;
  // Drafts at first for each token of the prediction: a short prediction means a short answer, which should risk less.
  static constexpr double kFirstShare = 0.4;

  Prediction() = default;  // of a request without one
  // Borrows the tokens.
  Prediction(std::span<const std::int32_t> tokens, bool resumed);

  // Returns drafts for the next tokens. Empty if the prediction is lost, used up or given up.
  std::span<const std::int32_t> drafts() const { return tokens_.subspan(next_, drafts_end_ - next_); }
  // Called when a step has committed the last `num_committed` tokens of `generated`, with drafts from any source. All
  // tokens before were passed to earlier calls.
  void advance(std::span<const std::int32_t> generated, std::size_t num_committed);

  // Returns the number of tokens of the prediction that were generated while it was followed.
  std::int32_t num_accepted() const { return num_accepted_; }
  // Returns the number of all other tokens of the prediction: rejected drafts, and tokens never drafted because the
  // answer ended or went another way.
  std::int32_t num_rejected() const { return static_cast<std::int32_t>(tokens_.size()) - num_accepted_; }

 private:
  void follow(std::int32_t token);
  void find(std::span<const std::int32_t> generated);
  void draft();

  std::span<const std::int32_t> tokens_;
  std::vector<bool> stood_;  // by token, because a token may be followed twice after a wrong lookup
  std::int32_t num_accepted_ = 0;
  enum class State {
    kCertain,   // followed; resumed, and no draft has failed yet
    kFollowed,  // the answer agrees with it at next_
    kLost,
  };
  State state_ = State::kFollowed;
  std::size_t next_ = 0;         // index of the next expected token, while it follows
  std::size_t drafts_end_ = 0;   // the tokens from `next_` up to here are drafts
  std::size_t behind_ = 0;       // where a lookup begins
  std::size_t num_stood_ = 0;    // tokens of it that were generated since it was last found
  std::size_t length_ = kFirst;  // the most drafts in a step, if the account covers them
  double account_ = 0;
};

}  // namespace mortise
