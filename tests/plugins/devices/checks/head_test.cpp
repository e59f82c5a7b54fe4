// What reductions, sampling and verify_drafts refuse, through the CPU device: arrays that do not match, edits of no
// token.
#include "devices/checks/head.hpp"

#include "device_fixture.hpp"
#include "draws.hpp"
#include "mortise/ext/rejection.h"

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

TEST_F(HeadMistakes, DraftsAndTheirDistributionsMustFit) {
  const auto& rejection =
      *static_cast<const mortise_rejection_table*>(table().get_ext(device_.get(), MORTISE_EXT_REJECTION));
  const std::vector<float> logits(kRows * kVocab), numbers(2 * kVocab);
  const mortise_tensor view = matrix(logits, kRows, kVocab), narrow = matrix(numbers, 2, kVocab - 1),
                       distributions = matrix(numbers, 2, kVocab);
  Draws draws;
  const mortise_sample_args rows = draws.args(view);
  std::vector<std::int32_t> drafts(kRows, -1), distribution_rows(kRows, -1);
  auto args = sized<mortise_verify_drafts_args>();
  const auto expect = [&](const char* text) {
    expect_invalid(rejection.verify_drafts(device_.get(), nullptr, &args, &device_.error), text);
  };
  expect("rows is missing");
  args.rows = &rows;
  expect("drafts is missing");
  args.drafts = drafts.data();
  args.distribution_rows = distribution_rows.data();
  expect("distributions is missing");
  args.distributions = &narrow;
  expect("distributions are f32 [2, 4999], but logits are f32 [7, 5000]; expected f32 of the same vocabulary");
  args.distributions = &distributions;
  distribution_rows[3] = 2;
  expect("distribution_rows[3] is 2; expected -1, or less than 2");
  drafts[6] = static_cast<std::int32_t>(kVocab);
  expect("drafts[6] is 5000; expected -1, or less than 5000");
}

}  // namespace
}  // namespace mortise::cpu
