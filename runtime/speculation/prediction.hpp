// runtime/speculation/prediction.hpp: what a caller expects a choice's answer to be, as drafts. Each choice follows the
// prediction for itself.
//
//   Following  the next tokens of the prediction are drafts. How many at once grows with success: kFirst, then kGrowth
//              times as many, and so on. A prediction that is known to be right until it fails (`resumed`) is drafted
//              as far as steps have room.
//   Lost       a token came that is not the predicted one. The last generated tokens are looked for in the prediction
//              ahead, as prompt lookup does; where they are found it is followed again, with kAgain drafts first. Until
//              then proposers draft.
//   Account    of drafts that may fail. It begins with a few, each token of the answer adds kShare, each draft that
//              stood kGrowth - 1 (it has saved a step, which costs more than as many rows), and each that did not takes
//              one. Nothing is drafted or looked for that it does not cover, so a prediction that keeps failing is
//              given up but for kShare drafts a token.
//
// All of this is a function of the prediction and the answer's tokens alone: steps with room for fewer drafts get them
// piece by piece, and what is counted is the same. So answers that tell the counts do not depend on what else ran.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mortise {

class Prediction {
 public:
  static constexpr std::size_t kFirst = 16;  // drafts at first
  static constexpr std::size_t kAgain = 8;   // after the prediction was found again
  static constexpr std::size_t kLeast = 4;   // that are worth a try, unless fewer are left of the prediction
  static constexpr std::size_t kGrowth = 8;
  static constexpr double kShare = 0.05;
  // What a prediction may cost at first, in drafts for each of its tokens: a short one speaks of a short answer.
  static constexpr double kFirstShare = 0.4;

  Prediction() = default;  // of a request without one
  // Borrows the tokens.
  Prediction(std::span<const std::int32_t> tokens, bool resumed);

  // For the tokens that come next. None where it is lost, over or given up.
  std::span<const std::int32_t> drafts() const { return tokens_.subspan(place_, drafts_end_ - place_); }
  // A step has committed tokens, whoever drafted them: what was generated before `num_committed` of them is known here.
  void advance(std::span<const std::int32_t> generated, std::size_t num_committed);

  // Tokens of the prediction that came where it was followed.
  std::int32_t num_accepted() const { return num_accepted_; }
  // All others: drafts that did not stand, and what was never drafted since the answer ended or went another way.
  std::int32_t num_rejected() const { return static_cast<std::int32_t>(tokens_.size()) - num_accepted_; }

 private:
  void follow(std::int32_t token);
  void find(std::span<const std::int32_t> generated);
  void draft();

  std::span<const std::int32_t> tokens_;
  std::vector<bool> stood_;  // by token: one may be followed twice, when a wrong place was found before
  std::int32_t num_accepted_ = 0;
  bool follows_ = true;
  bool is_certain_ = false;      // resumed, and nothing has failed yet
  std::size_t place_ = 0;        // of the token that is expected next, while it follows
  std::size_t drafts_end_ = 0;   // those from `place_` up to here are drafts
  std::size_t behind_ = 0;       // where looking begins
  std::size_t num_stood_ = 0;    // since the prediction was found
  std::size_t length_ = kFirst;  // drafts at once, if the account covers them
  double account_ = 0;
};

}  // namespace mortise
