#include "attention/span_cuda/share.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace mortise::span_cuda {
namespace {

using cuda::kSpan;

// Approximate speeds of an H200. They decide how runs are cut, which changes no bit of the result.
constexpr double kSpanNs = 3500;             // a span of a shared tile at head_dim 128, while other blocks run
constexpr double kBytesPerNs = 4200;         // reading K and V, all multiprocessors together
constexpr double kPartialBytesPerNs = 8000;  // a partial is written once and read once

int32_t first_position(const mortise_batch& batch, int32_t seq) {
  return batch.seq_lens[seq] - (batch.cu_seqlens_q[seq + 1] - batch.cu_seqlens_q[seq]);
}
// Returns the first span that a row at `position` sees. The function below returns it for the first row of a sequence.
int32_t span_seen_at(const PlanShape& shape, int32_t position) {
  return shape.window > 0 ? std::max(0, position - shape.window + 1) / kSpan : 0;
}
int32_t first_span(const mortise_batch& batch, const PlanShape& shape, int32_t seq) {
  return span_seen_at(shape, first_position(batch, seq));
}

// Returns the decodes of each group. With `innermost`, each decode is listed only in its innermost group.
std::vector<std::vector<int32_t>> members_of_groups(const mortise_batch& batch, const PlanShape& shape,
                                                    bool innermost) {
  std::vector<std::vector<int32_t>> members(static_cast<std::size_t>(batch.num_groups));
  std::vector<int32_t> group_of(static_cast<std::size_t>(batch.num_seqs), -1);
  for (int32_t g = 0; g < batch.num_groups; ++g) {
    for (int32_t i = batch.group_offsets[g]; i < batch.group_offsets[g + 1]; ++i) {
      const int32_t seq = batch.group_seqs[i];
      if (!is_decode(batch, shape, seq)) continue;
      group_of[static_cast<std::size_t>(seq)] = g;
      members[static_cast<std::size_t>(g)].push_back(seq);
    }
  }
  if (!innermost) return members;
  for (int32_t g = 0; g < batch.num_groups; ++g) {
    auto& all = members[static_cast<std::size_t>(g)];
    all.erase(std::remove_if(all.begin(), all.end(),
                             [&](int32_t seq) { return group_of[static_cast<std::size_t>(seq)] != g; }),
              all.end());
  }
  return members;
}

// Makes a group of those members that can share it. With fewer than two the group has no spans. `begin`: the end of the
// spans of its parent group. `sequences`: the spans that are covered already.
SharedGroup make_group(const mortise_batch& batch, const PlanShape& shape, std::vector<int32_t> members, int32_t tokens,
                       int32_t begin, const std::vector<Shares::Sequence>& sequences) {
  SharedGroup group{};
  // Each row keeps at least one key of its own, so that each tile does. (A prompt may be shared to its last token.)
  for (const int32_t seq : members) tokens = std::min(tokens, first_position(batch, seq));
  const int32_t end = tokens / kSpan;
  // With a sliding window, a member must see a span of the group with each row, and outer groups must cover all earlier
  // spans that its rows see.
  const auto out = [&](int32_t seq) {
    const int32_t covered = sequences[static_cast<std::size_t>(seq)].covered;
    return span_seen_at(shape, batch.seq_lens[seq] - 1) >= end ||
           (covered != begin && first_span(batch, shape, seq) < begin);
  };
  members.erase(std::remove_if(members.begin(), members.end(), out), members.end());
  if (members.size() < 2) return group;
  int32_t first = end;
  for (const int32_t seq : members) {
    first = std::min(first, first_span(batch, shape, seq));
    group.num_rows += (batch.cu_seqlens_q[seq + 1] - batch.cu_seqlens_q[seq]) * (shape.num_heads / shape.num_kv_heads);
  }
  group.folds = first >= begin;
  group.span_begin = std::max(first, begin);
  group.span_end = std::max(end, group.span_begin);
  group.members = std::move(members);
  return group;
}

Shares share(const mortise_batch& batch, const PlanShape& shape, bool innermost) {
  Shares shares;
  shares.sequences.resize(static_cast<std::size_t>(batch.num_seqs));
  const auto members = members_of_groups(batch, shape, innermost);
  std::vector<int32_t> ends(members.size(), 0);  // end of the spans of a group, or of its parent
  for (std::size_t g = 0; g < members.size(); ++g) {
    const int32_t parent = batch.group_parents[g];
    if (!innermost && parent >= 0) ends[g] = ends[static_cast<std::size_t>(parent)];
    SharedGroup group = make_group(batch, shape, members[g], batch.group_shared_tokens[g], ends[g], shares.sequences);
    if (group.span_begin == group.span_end) continue;
    ends[g] = group.span_end;
    for (const int32_t seq : group.members) shares.sequences[static_cast<std::size_t>(seq)].covered = group.span_end;
    shares.groups.push_back(std::move(group));
  }
  return shares;
}

int32_t runs_of(const SharedGroup& group, const PlanShape& shape, int32_t spans_a_run) {
  return ceil_div(group.num_rows, cuda::kSharedRows) * shape.num_kv_heads *
         ceil_div(group.span_end - group.span_begin, spans_a_run);
}

// Estimates the time and the partials if each run has `spans_a_run` spans.
void estimate(const mortise_batch& batch, const PlanShape& shape, int32_t spans_a_run, Shares& shares) {
  shares.spans_a_run = spans_a_run;
  for (auto& sequence : shares.sequences) sequence.partials = 0;
  int64_t runs = 0, spans = 0;
  for (const SharedGroup& group : shares.groups) {
    runs += runs_of(group, shape, spans_a_run);
    spans += int64_t{runs_of(group, shape, group.span_end)} * (group.span_end - group.span_begin);
    for (const int32_t seq : group.members) {
      shares.sequences[static_cast<std::size_t>(seq)].partials += partials_of(group, spans_a_run);
    }
  }
  double own_keys = 0;
  shares.partial_rows = 0;
  for (int32_t seq = 0; seq < batch.num_seqs; ++seq) {
    const auto& sequence = shares.sequences[static_cast<std::size_t>(seq)];
    own_keys += batch.seq_lens[seq] - std::max(sequence.covered, first_span(batch, shape, seq)) * kSpan;
    if (sequence.partials == 0) continue;
    const int32_t own = ceil_div(batch.seq_lens[seq], kSpan) - sequence.covered;
    const int64_t rows = int64_t{batch.cu_seqlens_q[seq + 1] - batch.cu_seqlens_q[seq]} * shape.num_heads;
    shares.partial_rows += rows * (sequence.partials + own);
  }
  // Each thread block gets an equal share of both kinds of work. Shared work comes in whole runs, so an uneven number
  // of runs leaves blocks idle.
  const double span_ns = kSpanNs * shape.head_dim / 128.0;
  const double own_ns = own_keys * shape.num_kv_heads * shape.head_dim * 4 / kBytesPerNs;
  const double turns = runs <= shape.num_shared_blocks
                           ? spans_a_run
                           : static_cast<double>(spans) / shape.num_shared_blocks + spans_a_run * 0.5;
  const double all_ns = own_ns + static_cast<double>(spans) * span_ns / shape.num_workers;
  shares.ns = std::max(turns * span_ns, all_ns) +
              static_cast<double>(shares.partial_rows) * shape.head_dim * 8 / kPartialBytesPerNs;
}

// Finds the best length of runs for these groups. Returns false if no length fits into the memory.
bool cut(const mortise_batch& batch, const PlanShape& shape, Shares& shares) {
  int32_t longest = 0;
  for (const SharedGroup& group : shares.groups) longest = std::max(longest, group.span_end - group.span_begin);
  int64_t rows = 0;
  for (const SharedGroup& group : shares.groups) rows += group.num_rows;
  if (rows > shape.max_shared_rows) return false;
  Shares best;
  for (int32_t parts = 1; parts <= std::min(longest, 64); ++parts) {
    const int32_t spans_a_run = ceil_div(longest, parts);
    if (spans_a_run == shares.spans_a_run) continue;
    estimate(batch, shape, spans_a_run, shares);
    int64_t runs = 0;
    for (const SharedGroup& group : shares.groups) runs += runs_of(group, shape, spans_a_run);
    if (shares.partial_rows > shape.partial_rows || runs > shape.max_shared_runs) break;
    if (best.spans_a_run == 0 || shares.ns < best.ns) {
      best.spans_a_run = spans_a_run;
      best.ns = shares.ns;
    }
  }
  if (best.spans_a_run == 0) return false;
  estimate(batch, shape, best.spans_a_run, shares);
  return true;
}

// Appends the rows of a member of a group. `partials`: the number of its partials from the groups around this one.
void add_rows(const PlanShape& shape, const std::vector<cuda::SpanRun>& tiles, std::size_t begin, std::size_t end,
              const Shares::Sequence& sequence, int32_t partials, std::vector<cuda::SharedRow>& rows) {
  const std::size_t num_tiles = (end - begin) / static_cast<std::size_t>(shape.num_kv_heads);
  for (std::size_t i = begin; i < begin + num_tiles; ++i) {
    const cuda::SpanRun& tile = tiles[i];
    const int32_t tile_rows = tile.num_tokens * tile.num_heads;
    const int32_t first = tile.partial - (sequence.partials - partials) * tile_rows;
    const int32_t stride = shape.num_kv_heads == 1 ? 0 : tiles[i + num_tiles].partial - tile.partial;
    for (int32_t row = 0; row < tile_rows; ++row) {
      const int32_t token = row / tile.num_heads, head = row % tile.num_heads;
      rows.push_back({tile.row + token, tile.position + token, tile.head + head, first + row, tile_rows, stride});
    }
  }
}

void add_runs(const mortise_batch& batch, const PlanShape& shape, const SharedGroup& group, int32_t first_row,
              int32_t spans_a_run, std::vector<cuda::SharedRun>& runs) {
  cuda::SharedRun run{};
  run.table = group.members.front() * batch.max_blocks;
  run.folds = group.folds ? 1 : 0;
  for (run.kv_head = 0; run.kv_head < shape.num_kv_heads; ++run.kv_head) {
    for (int32_t row = 0; row < group.num_rows; row += cuda::kSharedRows) {
      run.first_row = first_row + row;
      run.num_rows = std::min(group.num_rows - row, cuda::kSharedRows);
      for (run.span_begin = group.span_begin; run.span_begin < group.span_end; run.span_begin = run.span_end) {
        run.span_end = std::min(run.span_begin + spans_a_run, group.span_end);
        const bool first = run.span_begin == group.span_begin;
        run.folds = group.folds && first ? 1 : 0;
        // A first run that folds writes one partial.
        run.partial = first ? 0 : run.span_begin - group.span_begin - (group.folds ? spans_a_run - 1 : 0);
        runs.push_back(run);
      }
    }
  }
}

}  // namespace

int32_t partials_of(const SharedGroup& group, int32_t spans_a_run) {
  const int32_t spans = group.span_end - group.span_begin;
  return group.folds ? 1 + std::max(0, spans - spans_a_run) : spans;
}

Shares find_shares(const mortise_batch& batch, const PlanShape& shape) {
  Shares best;
  const bool nested = std::any_of(batch.group_parents, batch.group_parents + batch.num_groups,
                                  [](int32_t parent) { return parent >= 0; });
  for (const bool innermost : {false, true}) {
    if (innermost && !nested) continue;
    Shares shares = share(batch, shape, innermost);
    if (shares.groups.empty() || !cut(batch, shape, shares)) continue;
    if (best.groups.empty() || shares.ns < best.ns) best = std::move(shares);
  }
  return best;
}

void deal_shares(const mortise_batch& batch, const PlanShape& shape, const Shares& shares,
                 const std::vector<cuda::SpanRun>& tiles, const std::vector<std::size_t>& first_tile, Plan& plan) {
  plan.shared_rows.clear();
  plan.shared_runs.clear();
  plan.block_begin.assign(static_cast<std::size_t>(shape.num_shared_blocks) + 1, 0);
  if (shares.groups.empty()) return;
  std::vector<int32_t> partials(shares.sequences.size(), 0);
  std::vector<cuda::SharedRun> runs;
  for (const SharedGroup& group : shares.groups) {
    const auto first_row = static_cast<int32_t>(plan.shared_rows.size());
    for (const int32_t seq : group.members) {
      const auto s = static_cast<std::size_t>(seq);
      add_rows(shape, tiles, first_tile[s], first_tile[s + 1], shares.sequences[s], partials[s], plan.shared_rows);
      partials[s] += partials_of(group, shares.spans_a_run);
    }
    add_runs(batch, shape, group, first_row, shares.spans_a_run, runs);
  }
  // Deals the longest runs first, each to the thread block with the least work so far.
  const auto spans = [](const cuda::SharedRun& run) { return run.span_end - run.span_begin; };
  std::stable_sort(runs.begin(), runs.end(),
                   [&](const cuda::SharedRun& a, const cuda::SharedRun& b) { return spans(a) > spans(b); });
  const auto num_blocks = static_cast<std::size_t>(shape.num_shared_blocks);
  std::vector<std::vector<cuda::SharedRun>> blocks(num_blocks);
  std::vector<std::pair<int32_t, int32_t>> load;  // a heap of (spans, block), the least first
  for (int32_t block = 0; block < shape.num_shared_blocks; ++block) load.emplace_back(0, block);
  const auto more = std::greater<std::pair<int32_t, int32_t>>();
  for (const cuda::SharedRun& run : runs) {
    std::pop_heap(load.begin(), load.end(), more);
    blocks[static_cast<std::size_t>(load.back().second)].push_back(run);
    load.back().first += spans(run) + 1;
    std::push_heap(load.begin(), load.end(), more);
  }
  for (std::size_t block = 0; block < num_blocks; ++block) {
    plan.shared_runs.insert(plan.shared_runs.end(), blocks[block].begin(), blocks[block].end());
    plan.block_begin[block + 1] = static_cast<int32_t>(plan.shared_runs.size());
  }
}

}  // namespace mortise::span_cuda
