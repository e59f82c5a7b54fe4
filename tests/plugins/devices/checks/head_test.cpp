// What reductions and sampling refuse, through the CPU device: arrays that do not match, edits of no token.
#include "devices/checks/head.hpp"

#include "device_fixture.hpp"
#include "draws.hpp"

namespace mortise::cpu {
namespace {

using HeadMistakes = OneDevice;

TEST_F(HeadMistakes, ReductionsNeedMatchingArrays) {
  const std::vector<float> logits(100);
  std::vector<float> state(10);
  std::vector<std::int32_t> ints(10);
  const mortise_tensor view = matrix(logits, 2, 50);
  auto args = sized<mortise_head_reduce_args>();
  const auto expect = [&](const char* text) {
    expect_invalid(table().head_reduce(device_.get(), nullptr, &args, &device_.error), text);
    args = sized<mortise_head_reduce_args>();
    args.logits = &view;
  };
  expect("logits is missing");
  args.vocab_begin = 64;
  args.max = args.sum = state.data();
  expect("vocab_begin is 64; max and sum need a multiple of 2048");
  args.max = state.data();
  expect("max and sum must be given together");
  args.lse = state.data();
  expect("lse needs max and sum");
  args.ranks = ints.data();
  expect("ranks need targets");
  args.top_n = 3;
  expect("top_n is 3");
}

TEST_F(HeadMistakes, SampleRefusesEditsThatNameNoToken) {
  const std::vector<float> logits(kRows * kVocab);
  const mortise_tensor view = matrix(logits, kRows, kVocab);
  Draws draws;
  mortise_sample_args args = draws.args(view);
  const auto expect = [&](const char* text) {
    expect_invalid(table().sample(device_.get(), nullptr, &args, &device_.error), text);
  };
  draws.edits[4].token = static_cast<std::int32_t>(kVocab);
  expect("edits[4] of row 4 is for token 5000; expected one below 5000");
  draws.edits[4].token = -1;
  expect("edits[4] of row 4 is for token -1");
  draws.edit_counts[1] = -2;
  expect("row 1 has -2 edits from 2 on");
  args.edits = nullptr;
  expect("edits is missing");
  args.edit_counts = nullptr;
  expect("edit_counts is missing");
  args.temperatures = nullptr;
  expect("temperatures is missing");
}

}  // namespace
}  // namespace mortise::cpu
