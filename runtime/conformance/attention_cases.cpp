// runtime/conformance/attention_cases.cpp: what may change no bit of an attention's output, and what its cache holds.
// Each rule asks for equal bits of the same rows under other conditions.
#include <algorithm>
#include <numeric>

#include "conformance/attention_draws.hpp"
#include "conformance/own_attention.hpp"

namespace mortise::conformance {
namespace {

// --- what changes no bit ---

// Sequences of drawn lengths, and the outputs of each in a step of its own.
struct Alone {
  explicit Alone(Subject& subject, AttentionShape shape = {}) : own(subject, std::move(shape)) {
    for (const std::int32_t count :
         {1, draw_between(subject, 2, 40), draw_between(subject, 200, 290), draw_between(subject, 20, 120)}) {
      all.push_back(own.scene().add(draw_tokens(subject, count)));
      rows.merge(own.scene().prefill(all.back()));
    }
  }
  std::vector<SceneRun> whole_runs() {
    std::vector<SceneRun> runs;
    for (const std::size_t sequence : all) runs.push_back({sequence, 0, own.scene().size(sequence)});
    return runs;
  }
  void expect_same(const OutputRows& found, const char* what) {
    expect_same_rows(own.scene().shape(), rows, found, what);
    own.expect_guards();
  }

  OwnAttention own;
  std::vector<std::size_t> all;
  OutputRows rows;
};

void other_sequences_change_nothing(Subject& subject) {
  Alone alone(subject);
  alone.expect_same(alone.own.scene().step(alone.whole_runs()), "a row changes when other sequences are in its step");
}

void order_changes_nothing(Subject& subject) {
  Alone alone(subject);
  std::vector<SceneRun> runs = alone.whole_runs();
  for (int i = 0; i < subject.rounds(3); ++i) {
    std::ranges::shuffle(runs, subject.random());
    alone.expect_same(alone.own.scene().step(runs), "a row changes with the order of the sequences in its step");
  }
}

void chunks_change_nothing(Subject& subject) {
  Alone alone(subject);
  for (int i = 0; i < subject.rounds(2); ++i) {
    for (const std::size_t sequence : alone.all) {
      const std::int32_t size = alone.own.scene().size(sequence);
      for (std::int32_t first = 0, count = 0; first < size; first += count) {
        count = std::min(draw_between(subject, 1, 90), size - first);
        alone.expect_same(alone.own.scene().step({{sequence, first, count}}),
                          "a row changes when its prompt is computed in chunks");
      }
    }
  }
}

void decoding_changes_nothing(Subject& subject) {
  Alone alone(subject);
  for (std::int32_t back = 5; back > 0; --back) {
    std::vector<SceneRun> runs;
    for (const std::size_t sequence : alone.all) {
      if (alone.own.scene().size(sequence) > 5) runs.push_back({sequence, alone.own.scene().size(sequence) - back, 1});
    }
    alone.expect_same(alone.own.scene().step(runs), "a row changes when it is decoded alone");
  }
}

void mixed_steps_change_nothing(Subject& subject) {
  Alone alone(subject);
  for (int i = 0; i < subject.rounds(4); ++i) {
    std::vector<SceneRun> runs;
    for (const std::size_t sequence : alone.all) {
      const std::int32_t size = alone.own.scene().size(sequence), first = draw_between(subject, 0, size - 1);
      runs.push_back({sequence, first, std::min(draw_between(subject, 1, 60), size - first)});
    }
    alone.expect_same(alone.own.scene().step(runs), "a row changes when its step decodes and prefills");
  }
}

void padding_changes_nothing(Subject& subject) {
  Alone alone(subject);
  for (const std::int32_t padding : {1, 7, 40}) {
    StepStyle style;
    style.padding = padding;
    alone.expect_same(alone.own.scene().step(alone.whole_runs(), style), "a row changes with the padding of its step");
  }
}

void buckets_change_nothing(Subject& subject) {
  Alone alone(subject);
  StepStyle style;
  style.is_bucket = true;
  for (const std::int32_t padding : {0, 5}) {
    style.padding = padding;
    alone.expect_same(alone.own.scene().step(alone.whole_runs(), style),
                      "a row changes when the numbers of its batch are upper bounds (MORTISE_BATCH_BUCKET)");
  }
}

void strides_change_nothing(Subject& subject) {
  Alone alone(subject);
  StepStyle style;
  style.has_packed_qkv = true;
  alone.expect_same(alone.own.scene().step(alone.whole_runs(), style), "a row changes when q, k and v are strided");
}

void repeated_steps_change_nothing(Subject& subject) {
  Alone alone(subject);
  for (int i = 0; i < 2; ++i) {
    alone.expect_same(alone.own.scene().step(alone.whole_runs()), "a row changes when its step is repeated");
  }
}

// Runs the same sequences in blocks that are handed out in another order.
void blocks_change_nothing(Subject& subject) {
  const std::vector<std::int32_t> tokens = draw_tokens(subject, 300);
  OutputRows expected;
  for (int i = 0; i < 3; ++i) {
    OwnAttention own(subject, {});
    if (i > 0) {
      std::vector<std::int32_t> blocks(OwnAttention::kNumBlocks - 1);
      std::iota(blocks.begin(), blocks.end(), 1);
      std::ranges::shuffle(blocks, subject.random());
      own.scene().set_free_blocks(blocks);
    }
    const std::size_t sequence = own.scene().add(tokens);
    const OutputRows found = own.scene().prefill(sequence);
    if (i == 0) expected = found;
    expect_same_rows(own.scene().shape(), expected, found, "a row changes with the numbers of its blocks");
  }
}

void block_sizes_change_nothing(Subject& subject) {
  const std::vector<std::int32_t> tokens = draw_tokens(subject, 300);
  OutputRows expected;
  int num_served = 0;
  for (const std::int32_t block_size : {16, 8, 32, 64, 128}) {
    AttentionShape shape;
    shape.block_size = block_size;
    try {
      OwnAttention own(subject, shape);
      const OutputRows found = own.scene().prefill(own.scene().add(tokens));
      if (num_served++ == 0) expected = found;
      expect_same_rows(shape, expected, found, "a row changes with the size of the blocks");
    } catch (const NotApplicable&) {
    }
  }
  if (num_served < 2) throw NotApplicable("it serves one size of blocks");
}

// --- what is in the cache ---

void other_steps_keep_the_cache(Subject& subject) {
  Alone alone(subject);
  AttentionScene& scene = alone.own.scene();
  for (int i = 0; i < 3; ++i) scene.prefill(scene.add(draw_tokens(subject, 150)), {.padding = 9});
  for (const std::size_t sequence : alone.all) {
    alone.expect_same(scene.step({{sequence, scene.size(sequence) - 1, 1}}),
                      "steps of other sequences change what a sequence has in the cache");
  }
}

void stale_values_do_no_harm(Subject& subject) {
  const std::vector<std::int32_t> tokens = draw_tokens(subject, 261);
  OwnAttention clean(subject, {}), used(subject, {});
  clean.scene().add({});  // so that the sequences have the same numbers
  const OutputRows expected = clean.scene().prefill(clean.scene().add(tokens));
  const std::size_t poison = used.scene().add(std::vector<std::int32_t>(600, kPoison));
  used.scene().prefill(poison);
  used.scene().end(poison);
  const std::size_t sequence = used.scene().add(tokens);
  OutputRows found;
  for (std::int32_t first = 0; first < 261; first += 100) {
    found.merge(used.scene().step({{sequence, first, std::min(100, 261 - first)}}));
  }
  expect_same_rows(used.scene().shape(), expected, found, "NaN that an ended sequence left in a block changes a row");
}

void later_rows_do_no_harm(Subject& subject) {
  std::vector<std::int32_t> tokens = draw_tokens(subject, 60);
  OwnAttention own(subject, {});
  const OutputRows expected = own.scene().prefill(own.scene().add(tokens));
  std::fill(tokens.begin() + 50, tokens.end(), kPoison);
  OwnAttention other(subject, {});
  OutputRows found = other.scene().prefill(other.scene().add(tokens));
  std::erase_if(found, [](const auto& row) { return row.first.second >= 50; });
  expect_same_rows(own.scene().shape(), expected, found, "NaN in a later row of the batch changes a row");
}

void copies_are_equal(Subject& subject) {
  Alone alone(subject);
  AttentionScene& scene = alone.own.scene();
  for (const std::size_t sequence : alone.all) {
    scene.copy_blocks(sequence);
    alone.expect_same(scene.step({{sequence, scene.size(sequence) - 1, 1}}), "a row changes on copies of its blocks");
  }
}

void shared_blocks_are_read(Subject& subject) {
  OwnAttention own(subject, {});
  AttentionScene& scene = own.scene();
  const std::size_t parent = scene.add(draw_tokens(subject, 100));
  scene.prefill(parent);
  for (const std::int32_t blocks : {1, 4, 6}) {
    const std::size_t child = scene.fork(parent, blocks, draw_tokens(subject, 30));
    expect_right(subject, scene, child, scene.step({{child, blocks * 16, 30}}));
  }
}

// Runs drafts to verify as runs of one row each, all of the same sequence (batch.h).
void drafts_in_runs_of_one_row(Subject& subject) {
  Alone alone(subject);
  AttentionScene& scene = alone.own.scene();
  std::vector<SceneRun> runs;
  for (const std::size_t sequence : alone.all) {
    const std::int32_t size = scene.size(sequence);
    for (std::int32_t position = std::max(0, size - 4); position < size; ++position) {
      runs.push_back({sequence, position, 1});
    }
  }
  alone.expect_same(scene.step(runs), "a row changes when each draft is a run of its own");
}

void drafts_in_one_run(Subject& subject) {
  require_capability(subject, MORTISE_CAP_MULTI_QUERY, "MORTISE_CAP_MULTI_QUERY");
  Alone alone(subject);
  AttentionScene& scene = alone.own.scene();
  for (const std::int32_t count : {2, 5, 9}) {
    std::vector<SceneRun> runs;
    for (const std::size_t sequence : alone.all) {
      const std::int32_t size = scene.size(sequence), rows = std::min(size, count);
      runs.push_back({sequence, size - rows, rows});
    }
    alone.expect_same(scene.step(runs), "a row changes when several rows of a sequence are verified in one step");
  }
}

// Eight sequences share 20 blocks, and half of them share 4 more.
void prefix_groups_change_nothing(Subject& subject) {
  require_capability(subject, MORTISE_CAP_CASCADE, "MORTISE_CAP_CASCADE");
  OwnAttention own(subject, {});
  AttentionScene& scene = own.scene();
  const std::size_t root = scene.add(draw_tokens(subject, 24 * 16));
  scene.prefill(root);
  std::vector<SceneRun> runs;
  for (int i = 0; i < 8; ++i) {
    const std::int32_t blocks = i < 4 ? 24 : 20;
    const std::size_t child = scene.fork(root, blocks, draw_tokens(subject, 3 + i));
    scene.step({{child, blocks * 16, 3 + i}});
    const std::int32_t rows = i % 2 == 0 ? 1 : 2;
    runs.push_back({child, scene.size(child) - rows, rows});
  }
  const OutputRows expected = scene.step(runs);
  const SceneGroup all{{0, 1, 2, 3, 4, 5, 6, 7}, 20 * 16}, half{{0, 1, 2, 3}, 24 * 16, 0}, pair{{2, 5}, 5 * 16};
  for (const auto& groups : {std::vector{all}, std::vector{all, half}, std::vector{pair}}) {
    StepStyle style;
    style.groups = groups;
    expect_same_rows(scene.shape(), expected, scene.step(runs, style),
                     "a row changes when its step names prefix groups");
  }
  own.expect_guards();
}

// --- lives ---

void instances_share_memory(Subject& subject) {
  Alone alone(subject);
  const auto second = alone.own.another_on_same_memory(subject);
  AttentionScene& scene = alone.own.scene();
  for (const std::size_t sequence : alone.all) {
    alone.expect_same(scene.step_with(*second, {{sequence, scene.size(sequence) - 1, 1}}),
                      "a row changes when another instance with this layout_id reads the blocks");
  }
}

void reactivation_keeps_the_cache(Subject& subject) {
  Alone alone(subject);
  Part& part = alone.own.part();
  part.deactivate();
  mortise_activate_args sizes = usual_sizes();
  sizes.num_blocks = OwnAttention::kNumBlocks;
  sizes.max_num_seqs = 16;
  const Answer answer = part.activate(sizes);
  expect(answer.ok(), "activate after deactivate fails: {}", answer.text());
  AttentionScene& scene = alone.own.scene();
  for (const std::size_t sequence : alone.all) {
    const std::int32_t size = scene.size(sequence), rows = std::min(size, 16);
    alone.expect_same(scene.step({{sequence, size - rows, rows}}), "a row changes after deactivate and activate");
  }
}

void steps_allocate_nothing(Subject& subject) {
  DeviceWatch watch(subject.device());
  {
    OwnAttention own(subject, {}, &watch);
    AttentionScene& scene = own.scene();
    const std::size_t one = scene.add(draw_tokens(subject, 300)), other = scene.add(draw_tokens(subject, 40));
    watch.set_in_step(true);
    scene.prefill(one);
    scene.step({{one, 299, 1}, {other, 0, 40}}, {.padding = 3});
    scene.copy_blocks(other);
    watch.set_in_step(false);
  }
  expect(watch.breaches().empty(), "{}", fmt::join(watch.breaches(), "; "));
}

void device_memory_is_freed(Subject& subject) {
  DeviceWatch watch(subject.device());
  for (int i = 0; i < 3; ++i) {
    OwnAttention own(subject, {}, &watch);
    own.scene().prefill(own.scene().add(draw_tokens(subject, 20)));
    own.part().deactivate();
    own.part().destroy();
    expect(watch.num_allocations() == 0, "{} allocations of the device are not freed by destroy",
           watch.num_allocations());
  }
  expect(watch.breaches().empty(), "{}", fmt::join(watch.breaches(), "; "));
}

constexpr Case kAttentionCases[] = {
    {"attention.batch", "No bit of a row depends on the other sequences of the step.", kOfAttention,
     other_sequences_change_nothing, true},
    {"attention.order", "No bit of a row depends on the order of the sequences.", kOfAttention, order_changes_nothing,
     true},
    {"attention.chunks", "No bit of a row depends on how its prompt is cut into chunks.", kOfAttention,
     chunks_change_nothing, true},
    {"attention.decode", "A row that is decoded has the bits that it has in a prefill.", kOfAttention,
     decoding_changes_nothing, true},
    {"attention.mixed", "No bit depends on whether a step prefills, decodes, or does both.", kOfAttention,
     mixed_steps_change_nothing, true},
    {"attention.padding", "Padding rows change no bit of real rows.", kOfAttention, padding_changes_nothing, true},
    {"attention.buckets", "Numbers that are upper bounds (MORTISE_BATCH_BUCKET) change no bit.", kOfAttention,
     buckets_change_nothing, true},
    {"attention.strides", "Rows of q, k and v may be strided.", kOfAttention, strides_change_nothing, true},
    {"attention.repeated", "The same step gives the same bits again.", kOfAttention, repeated_steps_change_nothing,
     true},
    {"attention.blocks", "No bit depends on which blocks a sequence has.", kOfAttention, blocks_change_nothing, true},
    {"attention.block_size", "No bit depends on the size of the blocks.", kOfAttention, block_sizes_change_nothing,
     true},
    {"attention.keeps_cache", "A step writes to the slots of its rows only.", kOfAttention, other_steps_keep_the_cache,
     true},
    {"attention.stale", "Values that an ended sequence left in a block change no bit, even NaN.", kOfAttention,
     stale_values_do_no_harm, true},
    {"attention.causal", "A later row of the batch changes no bit, even if it is NaN.", kOfAttention,
     later_rows_do_no_harm, true},
    {"attention.copies", "copy_blocks copies the blocks of all layers.", kOfAttention, copies_are_equal, true},
    {"attention.shared_blocks", "Sequences may share blocks.", kOfAttention, shared_blocks_are_read, true},
    {"attention.draft_runs", "Drafts of one sequence may come as runs of one row.", kOfAttention,
     drafts_in_runs_of_one_row, true},
    {"attention.multi_query", "With MORTISE_CAP_MULTI_QUERY several rows of a sequence may be decoded in one step.",
     kOfAttention, drafts_in_one_run, true},
    {"attention.cascade", "With MORTISE_CAP_CASCADE prefix groups change no bit.", kOfAttention,
     prefix_groups_change_nothing, true},
    {"attention.same_layout", "Instances with equal layout ids read each other's blocks.", kOfAttention,
     instances_share_memory, true},
    {"attention.reactivated", "The blocks keep their contents through deactivate and activate.", kOfAttention,
     reactivation_keeps_the_cache, true},
    {"attention.allocates", "append, run and copy_blocks allocate no device memory.", kOfAttention,
     steps_allocate_nothing},
    {"attention.device_memory", "destroy frees all device memory of the instance.", kOfAttention,
     device_memory_is_freed},
};

}  // namespace

std::span<const Case> attention_cases() {
  return kAttentionCases;
}

}  // namespace mortise::conformance
