// runtime/conformance/model_cases.cpp: rules of a model's steps. Each asks for equal bits of the same rows under other
// conditions, or checks what a step may not do.
#include <algorithm>
#include <numeric>

#include "conformance/attention_draws.hpp"
#include "conformance/model_scene.hpp"

namespace mortise::conformance {
namespace {

std::vector<std::int32_t> draw_ids(Subject& subject, const ModelScene& scene, std::int32_t count) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < std::min(count, scene.dims().max_model_len); ++i) {
    tokens.push_back(draw_between(subject, 0, scene.dims().vocab_size - 1));
  }
  return tokens;
}

// Sequences of drawn lengths, and the rows of each in a step of its own.
struct Alone {
  explicit Alone(Subject& subject) : Alone(subject, subject.setup(), usual_sizes(), nullptr) {}
  Alone(Subject& subject, PartSetup setup, const mortise_activate_args& sizes, const DeviceWatch* watch)
      : part(subject.make_active(std::move(setup))) {
    part->deactivate();
    const Answer answer = part->activate(sizes);
    expect(answer.ok(), "activate fails: {}", answer.text());
    scene = std::make_unique<ModelScene>(subject, *part, 16, watch);
    for (const std::int32_t count :
         {1, draw_between(subject, 2, 15), draw_between(subject, 60, 90), draw_between(subject, 16, 40)}) {
      all.push_back(scene->sequences().add(draw_ids(subject, *scene, count)));
      rows.merge(scene->prefill(all.back()));
    }
  }
  std::int32_t size(std::size_t sequence) const { return scene->sequences().size(sequence); }
  std::vector<SceneRun> whole_runs() const {
    std::vector<SceneRun> runs;
    for (const std::size_t sequence : all) runs.push_back({sequence, 0, size(sequence)});
    return runs;
  }
  // Returns the last `count` rows of each sequence that has at least that many.
  std::vector<SceneRun> last_runs(std::int32_t count) const {
    std::vector<SceneRun> runs;
    for (const std::size_t sequence : all) {
      if (size(sequence) >= count) runs.push_back({sequence, size(sequence) - count, count});
    }
    return runs;
  }
  void expect_same(const ModelRows& found, const char* what) const { expect_same_rows(rows, found, what); }

  std::unique_ptr<Part> part;
  std::unique_ptr<ModelScene> scene;
  std::vector<std::size_t> all;
  ModelRows rows;
};

// --- what changes no bit ---

// The scene checks the shape of hidden, that all its numbers are finite, and that nothing around an array was written.
void hidden_is_as_promised(Subject& subject) {
  const auto part = subject.make_active();
  ModelScene scene(subject, *part);
  for (const std::int32_t count : {1, 2, 17, 64}) {
    scene.prefill(scene.sequences().add(draw_ids(subject, scene, count)));
  }
}

void tokens_matter(Subject& subject) {
  const auto part = subject.make_active();
  ModelScene scene(subject, *part);
  const std::int32_t vocab = scene.dims().vocab_size;
  if (vocab < 2) throw NotApplicable("its vocabulary has one token");
  const std::size_t one = scene.sequences().add({0}), other = scene.sequences().add({vocab - 1});
  const ModelRow first = scene.prefill(one).begin()->second, second = scene.prefill(other).begin()->second;
  expect(first.logits != second.logits, "the tokens 0 and {} give the same logits", vocab - 1);
}

void other_sequences_change_nothing(Subject& subject) {
  const Alone alone(subject);
  alone.expect_same(alone.scene->step(alone.whole_runs()), "a row changes when other sequences are in its step");
}

void order_changes_nothing(Subject& subject) {
  const Alone alone(subject);
  std::vector<SceneRun> runs = alone.whole_runs();
  std::ranges::reverse(runs);
  for (int i = 0; i < subject.rounds(2); ++i) {
    alone.expect_same(alone.scene->step(runs), "a row changes with the order of the sequences in its step");
    std::ranges::shuffle(runs, subject.random());
  }
}

void chunks_change_nothing(Subject& subject) {
  const Alone alone(subject);
  for (const std::size_t sequence : alone.all) {
    const std::int32_t size = alone.size(sequence);
    for (std::int32_t first = 0, count = 0; first < size; first += count) {
      count = std::min(draw_between(subject, 2, 40), size - first);
      alone.expect_same(alone.scene->step({{sequence, first, count}}),
                        "a row changes when its prompt is computed in chunks");
    }
  }
}

void decoding_changes_nothing(Subject& subject) {
  const Alone alone(subject);
  alone.expect_same(alone.scene->step(alone.last_runs(1)), "a row changes when it is decoded");
  for (std::int32_t position = 0; position < alone.size(alone.all[1]); ++position) {
    alone.expect_same(alone.scene->step({{alone.all[1], position, 1}}), "a row changes when it is decoded");
  }
}

void mixed_steps_change_nothing(Subject& subject) {
  const Alone alone(subject);
  for (int i = 0; i < subject.rounds(3); ++i) {
    std::vector<SceneRun> runs = alone.last_runs(1);
    SceneRun& chunk = runs[static_cast<std::size_t>(draw_between(subject, 1, 3))];
    chunk = {chunk.sequence, 0, alone.size(chunk.sequence)};
    alone.expect_same(alone.scene->step(runs), "a row changes when its step decodes and prefills");
  }
}

void padding_changes_nothing(Subject& subject) {
  const Alone alone(subject);
  for (const std::int32_t padding : {1, 7, 40}) {
    alone.expect_same(alone.scene->step(alone.whole_runs(), {.padding = padding}),
                      "a row changes with the padding of its step");
  }
}

void buckets_change_nothing(Subject& subject) {
  const Alone alone(subject);
  for (const std::int32_t padding : {0, 4}) {
    alone.expect_same(alone.scene->step(alone.last_runs(1), {.padding = padding, .is_bucket = true}),
                      "a row changes when the numbers of its batch are upper bounds (MORTISE_BATCH_BUCKET)");
  }
}

void repeated_steps_change_nothing(Subject& subject) {
  const Alone alone(subject);
  for (int i = 0; i < 3; ++i) {
    alone.expect_same(alone.scene->step(alone.whole_runs()), "a row changes when its step is repeated");
  }
}

// Runs the same tokens in scenes that differ in their blocks.
void blocks_change_nothing(Subject& subject) {
  const auto part = subject.make_active();
  ModelRows expected;
  std::vector<std::int32_t> tokens, blocks(ModelScene::kNumBlocks - 1);
  std::iota(blocks.begin(), blocks.end(), 1);
  for (int i = 0; i < 3; ++i) {
    ModelScene scene(subject, *part);
    if (i == 0) tokens = draw_ids(subject, scene, 80);
    scene.sequences().set_free_blocks(blocks);
    const ModelRows found = scene.prefill(scene.sequences().add(tokens));
    if (i == 0) expected = found;
    expect_same_rows(expected, found, "a row changes with the numbers of its blocks");
    std::ranges::shuffle(blocks, subject.random());
  }
}

void block_sizes_change_nothing(Subject& subject) {
  const auto part = subject.make_active();
  ModelRows expected;
  std::vector<std::int32_t> tokens;
  for (const std::int32_t block_size : {16, 32, 64}) {
    ModelScene scene(subject, *part, block_size);
    if (expected.empty()) tokens = draw_ids(subject, scene, 80);
    const ModelRows found = scene.prefill(scene.sequences().add(tokens));
    if (expected.empty()) expected = found;
    expect_same_rows(expected, found, "a row changes with the size of the blocks");
  }
}

void drafts_change_nothing(Subject& subject) {
  const Alone alone(subject);
  std::vector<SceneRun> runs;
  for (const std::size_t sequence : alone.all) {
    for (std::int32_t position = std::max(0, alone.size(sequence) - 4); position < alone.size(sequence); ++position) {
      runs.push_back({sequence, position, 1});
    }
  }
  alone.expect_same(alone.scene->step(runs), "a row changes when each draft is a run of its own");
}

void later_tokens_change_nothing(Subject& subject) {
  const auto part = subject.make_active();
  ModelScene scene(subject, *part);
  std::vector<std::int32_t> tokens = draw_ids(subject, scene, 40);
  const ModelRows expected = scene.prefill(scene.sequences().add(tokens));
  const std::size_t kept = tokens.size() / 2;
  for (std::size_t i = kept; i < tokens.size(); ++i) tokens[i] = (tokens[i] + 1) % scene.dims().vocab_size;
  const std::size_t other = scene.sequences().add(tokens);
  ModelRows found;
  for (const auto& [place, row] : scene.prefill(other)) {
    if (static_cast<std::size_t>(place.second) < kept) found[{0, place.second}] = row;
  }
  expect_same_rows(expected, found, "a row changes with the tokens that follow it");
}

// --- the head ---

// Rows of hidden and all their logits.
struct Head {
  explicit Head(Subject& subject) : alone(subject) {
    alone.scene->step({{alone.all[2], 0, std::min(alone.size(alone.all[2]), 24)}});
    hidden = alone.scene->hidden();
    logits = alone.scene->head(hidden, 0, vocab());
  }
  std::int32_t vocab() const { return alone.scene->dims().vocab_size; }

  Alone alone;
  Matrix hidden, logits;
};

void columns_in_slices_are_equal(Subject& subject) {
  const Head head(subject);
  if (head.vocab() <= 64) throw NotApplicable("its vocabulary has 64 tokens or less, so that the head has one slice");
  for (int i = 0; i < subject.rounds(6); ++i) {
    const std::int32_t last = (head.vocab() - 1) / 64, from = i == 0 ? last : draw_between(subject, 0, last);
    const std::int32_t begin = from * 64, end = std::min(head.vocab(), 64 * draw_between(subject, from + 1, last + 1));
    const Matrix slice = head.alone.scene->head(head.hidden, begin, end);
    for (std::int64_t row = 0; row < slice.rows; ++row) {
      for (std::int64_t column = 0; column < slice.columns; ++column) {
        expect(slice.row(row)[column] == head.logits.row(row)[begin + column],
               "a logit changes with the slice of the vocabulary: row {}, token {} is {} in [{}, {}), and {} in all",
               row, begin + column, slice.row(row)[column], begin, end, head.logits.row(row)[begin + column]);
      }
    }
  }
}

void head_rows_are_independent(Subject& subject) {
  const Head head(subject);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(head.hidden.rows));
  std::iota(rows.begin(), rows.end(), 0);
  for (int i = 0; i < subject.rounds(3); ++i) {
    std::ranges::shuffle(rows, subject.random());
    const auto count = std::min<std::size_t>(rows.size(), static_cast<std::size_t>(draw_between(subject, 2, 9)));
    const std::vector<std::int64_t> some(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count));
    expect_equal(head.logits.rows_at(some), head.alone.scene->head(head.hidden.rows_at(some), 0, head.vocab()),
                 "logits of a row change with the other rows of the head");
  }
  for (const std::int64_t row : rows) {
    expect_equal(head.logits.rows_at({row}), head.alone.scene->head(head.hidden.rows_at({row}), 0, head.vocab()),
                 "logits of a row change when it is the only one of the head");
  }
}

void head_takes_strided_rows(Subject& subject) {
  const Head head(subject);
  for (const std::int64_t gap : {8, 64}) {
    expect_equal(head.logits, head.alone.scene->head(head.hidden, 0, head.vocab(), gap),
                 "logits change with the stride of the rows");
  }
}

void head_repeats(Subject& subject) {
  const Head head(subject);
  for (int i = 0; i < 3; ++i) {
    expect_equal(head.logits, head.alone.scene->head(head.hidden, 0, head.vocab()),
                 "logits change when the head is repeated");
  }
}

// --- state ---

void instances_agree(Subject& subject) {
  const Alone alone(subject);
  const auto other = subject.make_active();
  alone.expect_same(alone.scene->step_with(*other, alone.whole_runs()), "another instance gives different rows");
}

// The other instance has not run the earlier rows: what it needs of them is in the KV cache.
void sequences_move_to_another_instance(Subject& subject) {
  const Alone alone(subject);
  const auto other = subject.make_active();
  alone.expect_same(alone.scene->step_with(*other, alone.last_runs(1)),
                    "a row changes when another instance has computed the rows before it");
}

void attention_is_replaced(Subject& subject) {
  const Alone alone(subject);
  for (int i = 0; i < 2; ++i) {
    alone.scene->replace_attention();
    alone.expect_same(alone.scene->step(alone.last_runs(1)), "a row changes when the attention is replaced");
  }
}

void reactivation_changes_nothing(Subject& subject) {
  const Alone alone(subject);
  for (int i = 0; i < 2; ++i) {
    alone.part->deactivate();
    const Answer answer = alone.part->activate(usual_sizes());
    expect(answer.ok(), "activate after deactivate fails: {}", answer.text());
    alone.expect_same(alone.scene->step(alone.whole_runs()), "a row changes after deactivate and activate");
  }
}

void sizes_change_nothing(Subject& subject) {
  const Alone alone(subject);
  mortise_activate_args sizes = usual_sizes();
  sizes.max_num_seqs = 8;
  sizes.max_batched_tokens = 300;
  sizes.num_blocks = ModelScene::kNumBlocks;
  alone.part->deactivate();
  const Answer answer = alone.part->activate(sizes);
  expect(answer.ok(), "activate for 300 tokens fails: {}", answer.text());
  alone.expect_same(alone.scene->step(alone.whole_runs()), "a row changes with the sizes of activate");
}

void steps_allocate_nothing(Subject& subject) {
  DeviceWatch watch(subject.device());
  PartSetup setup = subject.setup();
  setup.device_table = watch.table();
  const Alone alone(subject, std::move(setup), usual_sizes(), &watch);
  watch.set_in_step(true);
  alone.scene->step(alone.whole_runs());
  alone.scene->step(alone.last_runs(1), {.padding = 3});
  watch.set_in_step(false);
  expect(watch.breaches().empty(), "{}", fmt::join(watch.breaches(), "; "));
}

void device_memory_is_freed(Subject& subject) {
  DeviceWatch watch(subject.device());
  for (int i = 0; i < 2; ++i) {
    PartSetup setup = subject.setup();
    setup.device_table = watch.table();
    const Alone alone(subject, std::move(setup), usual_sizes(), &watch);
    alone.part->destroy();
    expect(watch.num_allocations() == 0 && watch.num_weights() == 0,
           "{} allocations and {} weights of the device are not freed by destroy", watch.num_allocations(),
           watch.num_weights());
  }
  expect(watch.breaches().empty(), "{}", fmt::join(watch.breaches(), "; "));
}

constexpr Case kModelCases[] = {
    {"model.hidden", "hidden is [num_tokens, hidden_size] in bf16 or f32, and all its numbers are finite.", kOfModel,
     hidden_is_as_promised, true},
    {"model.tokens", "Logits depend on the token.", kOfModel, tokens_matter},
    {"model.batch", "No bit of a row depends on the other sequences of the step.", kOfModel,
     other_sequences_change_nothing, true},
    {"model.order", "No bit of a row depends on the order of the sequences.", kOfModel, order_changes_nothing, true},
    {"model.chunks", "No bit of a row depends on how its prompt is cut into chunks.", kOfModel, chunks_change_nothing,
     true},
    {"model.decode", "A row that is decoded has the bits that it has in a prefill.", kOfModel, decoding_changes_nothing,
     true},
    {"model.mixed", "No bit depends on whether a step prefills, decodes, or does both.", kOfModel,
     mixed_steps_change_nothing, true},
    {"model.padding", "Padding rows change no bit of real rows.", kOfModel, padding_changes_nothing, true},
    {"model.buckets", "Numbers that are upper bounds (MORTISE_BATCH_BUCKET) change no bit.", kOfModel,
     buckets_change_nothing, true},
    {"model.repeated", "The same step gives the same bits again.", kOfModel, repeated_steps_change_nothing, true},
    {"model.blocks", "No bit depends on which blocks a sequence has.", kOfModel, blocks_change_nothing, true},
    {"model.block_size", "No bit depends on the size of the blocks.", kOfModel, block_sizes_change_nothing, true},
    {"model.draft_runs", "Drafts of one sequence may come as runs of one row.", kOfModel, drafts_change_nothing, true},
    {"model.causal", "No bit of a row depends on the tokens that follow it.", kOfModel, later_tokens_change_nothing,
     true},
    {"model.head_slices", "No bit of a logit depends on vocab_begin and vocab_end.", kOfModel,
     columns_in_slices_are_equal, true},
    {"model.head_rows", "No bit of a row's logits depends on the other rows of the head.", kOfModel,
     head_rows_are_independent, true},
    {"model.head_strides", "Rows of hidden and of logits may be strided.", kOfModel, head_takes_strided_rows, true},
    {"model.head_repeated", "The head gives the same bits again.", kOfModel, head_repeats, true},
    {"model.instances", "Two instances give the same bits.", kOfModel, instances_agree, true},
    {"model.no_state", "A model keeps no state of sequences.", kOfModel, sequences_move_to_another_instance, true},
    {"model.attention_replaced", "A model keeps no table of another part beyond a step.", kOfModel,
     attention_is_replaced, true},
    {"model.reactivated", "No bit changes after deactivate and activate.", kOfModel, reactivation_changes_nothing,
     true},
    {"model.sizes", "No bit depends on the sizes of activate.", kOfModel, sizes_change_nothing, true},
    {"model.allocates", "forward and head call no [control] function of the device.", kOfModel, steps_allocate_nothing,
     true},
    {"model.device_memory", "destroy frees all device memory and weights of the instance.", kOfModel,
     device_memory_is_freed, true},
};

}  // namespace

std::span<const Case> model_cases() {
  return kModelCases;
}

}  // namespace mortise::conformance
