#include "conformance/behaviour.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <sstream>

#include "conformance/attention_scene.hpp"
#include "conformance/model_scene.hpp"
#include "conformance/proposer_driver.hpp"
#include "conformance/scheduler_driver.hpp"

namespace mortise::conformance {
namespace {

std::string scheduling(Part& part, std::uint64_t seed) {
  std::string journal;
  SimulatedEngine engine(
      guarded_calls(part, &journal),
      {.num_blocks = 96, .max_lookahead = 3, .num_priorities = 2, .num_prefixes = 3, .num_groups = 2}, seed);
  for (int i = 0; i < 12; ++i) engine.submit_random();
  while (!engine.idle()) engine.step();
  engine.tell_events();
  return journal;
}

// Returns a line for each row of three steps of two sequences: where the row is, and a hash of its bits.
std::string attending(Subject& subject, Part& part, std::uint64_t seed) {
  AttentionScene scene(subject.device(), part, {}, usual_sizes().num_blocks);
  std::string journal;
  const auto note = [&](const OutputRows& rows) {
    for (const auto& [place, row] : rows) {
      journal += fmt::format("sequence {}, position {}: {:016x}\n", place.first, place.second,
                             XXH3_64bits(row.data(), row.size()));
    }
  };
  std::vector<std::int32_t> tokens(70);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>((seed + 7 * i) % 500);
  const std::size_t one = scene.add(tokens), other = scene.add({tokens.begin() + 20, tokens.end()});
  note(scene.prefill(one));
  note(scene.step({{other, 0, 30}, {one, 69, 1}}));
  note(scene.step({{one, 66, 4}, {other, 30, 20}}, {.padding = 2}));
  return journal;
}

// The same for a model, with a hash of the row's logits.
std::string modelling(Subject& subject, Part& part, std::uint64_t seed) {
  ModelScene scene(subject, part);
  std::string journal;
  const auto note = [&](const ModelRows& rows) {
    for (const auto& [place, row] : rows) {
      journal += fmt::format("sequence {}, position {}: {:016x}\n", place.first, place.second,
                             XXH3_64bits(row.logits.data(), row.logits.size() * sizeof(float)));
    }
  };
  const std::int32_t size = std::min(scene.dims().max_model_len, 24);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>((seed % 1000 + 7 * i) % static_cast<std::size_t>(scene.dims().vocab_size));
  }
  const std::size_t one = scene.sequences().add(tokens), other = scene.sequences().add(tokens);
  note(scene.prefill(one));
  note(scene.step({{other, 0, size}, {one, size - 1, 1}}));
  note(scene.step({{other, size - 1, 1}}, {.padding = 2}));
  return journal;
}

}  // namespace

std::string behaviour(Subject& subject, Part& part, std::uint64_t seed) {
  switch (part.component().kind) {
    case PartKind::kScheduler:
      return scheduling(part, seed);
    case PartKind::kProposer:
      return drafts_of_texts(part, seed);
    case PartKind::kAttention:
      return attending(subject, part, seed);
    case PartKind::kModel:
      return modelling(subject, part, seed);
    default:
      throw NotApplicable("there is no scenario for this kind");
  }
}

void expect_same(const std::string& before, const std::string& now, const char* what) {
  if (before == now) return;
  std::istringstream a(before), b(now);
  std::string left, right;
  for (int line = 1;; ++line) {
    const bool has_left = static_cast<bool>(std::getline(a, left)),
               has_right = static_cast<bool>(std::getline(b, right));
    if (has_left && has_right && left == right) continue;
    throw CaseFailed(fmt::format("{}: call {} gives '{}' and then '{}'", what, line, has_left ? left : "nothing",
                                 has_right ? right : "nothing"));
  }
}

}  // namespace mortise::conformance
