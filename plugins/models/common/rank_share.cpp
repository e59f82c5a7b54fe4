#include "models/common/rank_share.hpp"

#include <algorithm>
#include <string>

namespace mortise::models {
namespace {

constexpr int64_t kVocabStep = 64;  // mortise_linear_args.column_begin is a multiple of it

}  // namespace

RankShare RankShare::of(const mortise_create_args& args, std::initializer_list<Divided> divided) {
  const RankShare share{args.rank, std::max(1, args.world)};
  for (const Divided& number : divided) {
    if (number.value % share.world == 0) continue;
    throw Failure(MORTISE_INVALID_ARGUMENT, "world",
                  std::to_string(share.world) + " ranks cannot divide " + number.name + " = " +
                      std::to_string(number.value) + " evenly; use a number of ranks that divides it");
  }
  return share;
}

void RankShare::check(const mortise_step& step) const {
  const bool same = world == 1 ? step.world <= 1 : step.rank == rank && step.world == world;
  if (same && (world == 1 || step.collective != nullptr)) return;
  throw Failure(MORTISE_INVALID_ARGUMENT, "step",
                "it is of rank " + std::to_string(step.rank) + " of " + std::to_string(step.world) +
                    (step.collective == nullptr ? " without a collective" : "") + "; the model was created for rank " +
                    std::to_string(rank) + " of " + std::to_string(world));
}

std::vector<int64_t> RankShare::vocab_bounds(int64_t vocab_size) const {
  const int64_t steps = (vocab_size + kVocabStep - 1) / kVocabStep;
  std::vector<int64_t> bounds;
  for (int64_t r = 0; r <= world; ++r) bounds.push_back(std::min(vocab_size, steps * r / world * kVocabStep));
  return bounds;
}

CheckpointTensor RankShare::vocab_rows(std::string name, int64_t vocab_size) const {
  const std::vector<int64_t> bounds = vocab_bounds(vocab_size);
  const auto r = static_cast<std::size_t>(rank);
  if (bounds[r] == bounds[r + 1]) {
    throw Failure(MORTISE_INVALID_ARGUMENT, "world",
                  std::to_string(world) + " ranks are too many for the " + std::to_string(vocab_size) +
                      " tokens of the vocabulary: each rank takes at least " + std::to_string(kVocabStep));
  }
  return {std::move(name), vocab_size, bounds[r], bounds[r + 1] - bounds[r]};
}

void run_head(const mortise_step& step, const RankShare& share, const mortise_tensor& hidden,
              const mortise_weight* weight, int32_t vocab_size, int32_t vocab_begin, int32_t vocab_end,
              const mortise_tensor& logits) {
  share.check(step);
  Ops ops(step);
  if (share.world == 1) return ops.linear(hidden, weight, nullptr, logits, vocab_begin, vocab_end);
  std::vector<int64_t> bounds = share.vocab_bounds(vocab_size);
  const int64_t first = bounds[static_cast<std::size_t>(share.rank)];
  for (int64_t& bound : bounds) bound = std::clamp<int64_t>(bound, vocab_begin, vocab_end);
  const int64_t begin = bounds[static_cast<std::size_t>(share.rank)],
                end = bounds[static_cast<std::size_t>(share.rank) + 1];
  for (int64_t& bound : bounds) bound -= vocab_begin;
  if (begin < end) {
    mortise_tensor own = logits;
    const int64_t skipped = (begin - vocab_begin) * dtype_bytes(logits.dtype);
    own.data = static_cast<char*>(logits.data) + skipped;
    own.bytes -= static_cast<uint64_t>(skipped);
    own.shape[1] = end - begin;
    ops.linear(hidden, weight, nullptr, own, static_cast<int32_t>(begin - first), static_cast<int32_t>(end - first));
  }
  ops.gather(logits, bounds);
}

}  // namespace mortise::models
