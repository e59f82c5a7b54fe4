#include "attention/span_cuda/plan.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "attention/span_cuda/share.hpp"

namespace mortise::span_cuda {
namespace {

using cuda::SpanRun;

// How the query heads of a KV head are divided into tiles of up to `max_rows` rows.
struct TileShape {
  int32_t pieces, num_heads, num_tokens;  // num_heads: in all pieces, the last may have fewer
};

TileShape tile_shape(const PlanShape& shape, int32_t max_rows) {
  const int32_t group = shape.num_heads / shape.num_kv_heads;
  const int32_t pieces = ceil_div(group, max_rows), heads = ceil_div(group, pieces);
  return {pieces, heads, max_rows / heads};
}

// Appends the tiles of a sequence, each with all its spans. Tiles that read the same K and V are consecutive.
void add_tiles(const mortise_batch& batch, const PlanShape& shape, int32_t seq, int32_t max_rows,
               std::vector<SpanRun>& runs) {
  const TileShape tile = tile_shape(shape, max_rows);
  const int32_t group = shape.num_heads / shape.num_kv_heads;
  const int32_t begin = batch.cu_seqlens_q[seq], end = batch.cu_seqlens_q[seq + 1];
  for (int32_t kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) {
    for (int32_t row = begin; row < end; row += tile.num_tokens) {
      for (int32_t piece = 0; piece < tile.pieces; ++piece) {
        SpanRun run{};
        run.table = seq * batch.max_blocks;
        run.row = row;
        run.position = batch.seq_lens[seq] - (end - row);
        run.num_tokens = static_cast<int16_t>(std::min(tile.num_tokens, end - row));
        const int32_t head = piece * tile.num_heads;
        run.num_heads = static_cast<int16_t>(std::min(tile.num_heads, group - head));
        if (run.num_heads <= 0) continue;
        run.head = static_cast<int16_t>(kv_head * group + head);
        run.kv_head = static_cast<int16_t>(kv_head);
        const int32_t first_key = shape.window > 0 ? std::max(0, run.position - shape.window + 1) : 0;
        run.span_begin = first_key / cuda::kSpan;
        run.span_end = ceil_div(run.position + run.num_tokens, cuda::kSpan);
        run.partial = -1;
        runs.push_back(run);
      }
    }
  }
}

// Returns how many rows the tiles of decodes have. Tiles of half the size read the cache more often, but if there are
// few, all at a time, they are done sooner: the kernel takes 7 us for one or two spans of 8 rows, and 12 for those of
// 16 (between the other kernels of an 8B step, H200).
int32_t decode_rows(const mortise_batch& batch, const PlanShape& shape) {
  const TileShape half = tile_shape(shape, cuda::kDecodeRows / 2);
  int64_t tiles = 0, spans = 0;
  for (int32_t seq = 0; seq < batch.num_seqs; ++seq) {
    if (!is_decode(batch, shape, seq)) continue;
    const int64_t here = int64_t{ceil_div(batch.cu_seqlens_q[seq + 1] - batch.cu_seqlens_q[seq], half.num_tokens)} *
                         half.pieces * shape.num_kv_heads;
    tiles += here;
    spans += here * ceil_div(batch.seq_lens[seq], cuda::kSpan);
  }
  const bool few = tiles <= shape.num_workers && spans <= 2 * shape.num_workers;
  return few ? cuda::kDecodeRows / 2 : cuda::kDecodeRows;
}

// Appends rows that see no key. The kernel writes zeros for them.
void add_padding(const mortise_batch& batch, const PlanShape& shape, int32_t seq, std::vector<SpanRun>& padding) {
  SpanRun run{};
  run.num_heads = static_cast<int16_t>(shape.num_heads);
  run.partial = -1;
  const int32_t begin = batch.cu_seqlens_q[seq], end = batch.cu_seqlens_q[seq + 1];
  for (run.row = begin; run.row < end; run.row += run.num_tokens) {
    run.num_tokens = static_cast<int16_t>(std::min(end - run.row, 16));
    padding.push_back(run);
  }
}

constexpr int64_t kFullCost = cuda::kSpanChunks;
// The time of a span of a shared tile on a thread block, in chunks of unshared work.
constexpr int64_t kSharedSpanCost = 12;

// Returns the cost of a tile in chunks of keys. All spans count as full except the last one; so does the first span of
// a window.
int64_t cost_of(const SpanRun& tile) {
  const int64_t last_chunk = (tile.position + tile.num_tokens - 1) / cuda::kKeyChunk;
  return last_chunk + 1 - tile.span_begin * kFullCost;
}

// Returns whether most keys of the decodes lie in blocks that an earlier sequence of the batch begins with, too. Those
// are in the L2 then, which can be read faster than memory.
bool most_keys_are_in_common_blocks(const mortise_batch& batch, const PlanShape& shape) {
  if (shape.window > 0) return false;               // rows may not see the blocks that their sequences begin with
  std::unordered_map<int32_t, int32_t> first_with;  // by the first block
  int64_t common = 0, all = 0;
  for (int32_t seq = 0; seq < batch.num_seqs; ++seq) {
    if (!is_decode(batch, shape, seq)) continue;
    all += batch.seq_lens[seq];
    const int32_t* const blocks = batch.block_table + int64_t{seq} * batch.max_blocks;
    const auto [leader, is_first] = first_with.emplace(blocks[0], seq);
    if (is_first) continue;
    const int32_t length = std::min(batch.seq_lens[seq], batch.seq_lens[leader->second]) / batch.block_size;
    const int32_t* const others = batch.block_table + int64_t{leader->second} * batch.max_blocks;
    common += int64_t{std::mismatch(blocks, blocks + length, others).first - blocks} * batch.block_size;
  }
  return common * 2 > all;
}

// Divides tiles, in order, among workers, and cuts tiles where needed. Merges and partials that the plan already has
// belong to tiles of sequences with shared spans. Such a tile writes a partial per span from its `partial` on, wherever
// it is cut. Used by one thread for one plan.
class Dealer {
 public:
  Dealer(const mortise_batch& batch, const PlanShape& shape, const std::vector<SpanRun>& tiles,
         const std::vector<SpanRun>& padding, Plan& plan)
      : batch_(batch),
        shape_(shape),
        tiles_(tiles),
        padding_(padding),
        plan_(plan),
        kept_merges_(plan.merges.size()),
        kept_partials_(plan.partial_rows) {
    for (const SpanRun& tile : tiles) {
      cost_ += cost_of(tile);
      spans_ += tile.span_end - tile.span_begin;
    }
    add_loads();
  }

  void deal() {
    if (shape_.whole_tiles) {
      if (!deals_one_each()) deals_whole_tiles(shape_.num_workers);
      return;
    }
    // If whole tiles are nearly as even as cut ones, nothing has to be merged afterwards. Half of the workers can still
    // read at the speed of the memory, but not at that of the L2. Tiles with shared spans are merged in any case.
    if (kept_merges_ == 0) {
      if (deals_whole_tiles(shape_.num_workers)) return;
      if (most_keys_are_in_common_blocks(batch_, shape_)) {
        if (deals_equal_parts()) return;
      } else if (deals_whole_tiles(shape_.num_workers / 2)) {
        return;
      }
    }
    workers_ = kept_merges_ == 0 ? std::min<int64_t>(spans_, shape_.num_workers) : shape_.num_workers;
    if (!deal_evenly()) deal_whole_tiles();
  }

 private:
  // Gives every worker the same work, give or take a span. Returns false if the partials do not fit into their memory.
  bool deal_evenly() {
    start();
    int64_t before = 0;  // cost of the preceding tiles
    for (const SpanRun& tile : tiles_) {
      for (int32_t span = tile.span_begin; span < tile.span_end;) {
        const int32_t end = end_within(tile, end_of(worker_) - before);
        if (end <= span) {
          close();
          continue;
        }
        SpanRun run = tile;
        run.span_begin = span;
        run.span_end = end;
        if (tile.partial >= 0) {
          run.partial = tile.partial + (span - tile.span_begin) * tile.num_tokens * tile.num_heads;
        } else if (span != tile.span_begin || end != tile.span_end) {
          if (span == tile.span_begin) begin_merge(tile, run);
          run.partial = next_partial(run, tile);
        }
        plan_.runs.push_back(run);
        span = end;
      }
      before += cost_of(tile);
    }
    finish();
    return plan_.partial_rows <= shape_.partial_rows;
  }

  // Cuts each tile into equally many parts, for a worker each. So the workers read blocks that sequences have in common
  // at about the same time. Returns whether that is nearly even, and the partials fit into their memory.
  bool deals_equal_parts() {
    const auto num_tiles = static_cast<int32_t>(tiles_.size());
    if (num_tiles == 0 || num_tiles > shape_.num_workers) return false;
    const int32_t parts = shape_.num_workers / num_tiles;
    int64_t most = 0;
    for (const SpanRun& tile : tiles_) most = std::max<int64_t>(most, ceil_div(tile.span_end - tile.span_begin, parts));
    if (most * kFullCost * shape_.num_workers * 16 > cost_ * 17) return false;
    start();
    for (const SpanRun& tile : tiles_) {
      const int32_t spans = tile.span_end - tile.span_begin;
      for (int32_t part = 0; part < parts; ++part, close()) {
        SpanRun run = tile;
        run.span_begin = tile.span_begin + spans * part / parts;
        run.span_end = tile.span_begin + spans * (part + 1) / parts;
        if (run.span_begin == run.span_end) continue;
        if (run.span_end - run.span_begin < spans) {
          if (run.span_begin == tile.span_begin) begin_merge(tile, run);
          run.partial = next_partial(run, tile);
        }
        plan_.runs.push_back(run);
      }
    }
    finish();
    return plan_.partial_rows <= shape_.partial_rows;
  }

  // Gives each tile a worker of its own. Returns false if there are too few.
  bool deals_one_each() {
    if (static_cast<int64_t>(tiles_.size()) > shape_.num_workers) return false;
    start();
    for (const SpanRun& tile : tiles_) {
      plan_.runs.push_back(tile);
      close();
    }
    finish();
    return true;
  }

  // Deals whole tiles to the first `workers`. Returns whether that is nearly even.
  bool deals_whole_tiles(int64_t workers) {
    workers_ = std::min(spans_, workers);
    return deal_whole_tiles() * workers_ * 16 <= cost_ * 17;
  }

  // Deals whole tiles, which needs no partials. Returns the cost of the worker with the most work.
  int64_t deal_whole_tiles() {
    start();
    int64_t before = 0, mine = 0, most = 0;
    for (const SpanRun& tile : tiles_) {
      const int64_t cost = cost_of(tile);
      for (; worker_ + 1 < workers_ && before + cost / 2 >= end_of(worker_); mine = 0) close();
      plan_.runs.push_back(tile);
      before += cost;
      mine += cost;
      most = std::max(most, mine);
    }
    finish();
    return most;
  }

  // Computes each worker's load of shared spans, and the load that every worker reaches once the tiles are added, in
  // chunks.
  void add_loads() {
    loads_.assign(static_cast<std::size_t>(shape_.num_workers), 0);
    for (std::size_t block = 0; block + 1 < plan_.block_begin.size() && block < loads_.size(); ++block) {
      for (int32_t i = plan_.block_begin[block]; i < plan_.block_begin[block + 1]; ++i) {
        const cuda::SharedRun& run = plan_.shared_runs[static_cast<std::size_t>(i)];
        loads_[block] += (run.span_end - run.span_begin) * kSharedSpanCost;
      }
    }
    std::vector<int64_t> sorted = loads_;
    std::sort(sorted.begin(), sorted.end());
    int64_t below = 0;  // total load of the workers below the next one's load
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      below += sorted[i];
      level_ = static_cast<double>(cost_ + below) / static_cast<double>(i + 1);
      if (i + 1 < sorted.size() && level_ <= static_cast<double>(sorted[i + 1])) break;
    }
  }

  void start() {
    plan_.worker_begin.assign(1, 0);
    plan_.runs.clear();
    plan_.merges.resize(kept_merges_);
    plan_.partial_rows = kept_partials_;
    worker_ = 0;
    filled_ = 0;
    end_ = 0;
  }

  // Returns where a worker's share ends, as a cost: that of all tiles up to there.
  int64_t end_of(int64_t worker) {
    if (kept_merges_ == 0) return cost_ * (worker + 1) / workers_;
    for (; filled_ <= worker; ++filled_) {
      end_ += std::max(0.0, level_ - static_cast<double>(loads_[static_cast<std::size_t>(filled_)]));
    }
    return worker + 1 == workers_ ? cost_ : std::llround(end_);
  }

  // Returns the span where a worker stops if its share ends at cost `share` after the tile's start. A span belongs to
  // the worker whose share contains its middle.
  static int32_t end_within(const SpanRun& tile, int64_t share) {
    const int32_t last = tile.span_end - 1;
    const int64_t full = (std::max<int64_t>(share, 0) + kFullCost / 2 - 1) / kFullCost;
    if (full < last - tile.span_begin) return tile.span_begin + static_cast<int32_t>(full);
    const int64_t last_begin = (last - tile.span_begin) * kFullCost;
    return last_begin + (cost_of(tile) - last_begin) / 2 < share ? tile.span_end : last;
  }

  // Ends a worker's runs. Padding is dealt to the workers in turn, to idle workers first.
  void close() {
    for (auto i = static_cast<std::size_t>(shape_.num_workers - 1 - worker_); i < padding_.size();
         i += static_cast<std::size_t>(shape_.num_workers)) {
      plan_.runs.push_back(padding_[i]);
    }
    plan_.worker_begin.push_back(static_cast<int32_t>(plan_.runs.size()));
    ++worker_;
  }

  void finish() {
    while (worker_ < shape_.num_workers) close();
  }

  void begin_merge(const SpanRun& tile, const SpanRun& first) {
    cuda::SpanMerge merge{};
    merge.row = tile.row;
    merge.num_tokens = tile.num_tokens;
    merge.num_heads = tile.num_heads;
    merge.head = tile.head;
    merge.partial = static_cast<int32_t>(plan_.partial_rows);
    merge.count = 1 + tile.span_end - first.span_end;
    plan_.merges.push_back(merge);
    plan_.partial_rows += static_cast<int64_t>(merge.count) * tile.num_tokens * tile.num_heads;
  }

  // The first run of a cut tile writes one partial, the other runs write one per span.
  int32_t next_partial(const SpanRun& run, const SpanRun& tile) {
    const int32_t rows = tile.num_tokens * tile.num_heads;
    if (run.span_begin == tile.span_begin) after_first_ = run.span_end;
    const int32_t before = run.span_begin == tile.span_begin ? 0 : 1 + run.span_begin - after_first_;
    return plan_.merges.back().partial + before * rows;
  }

  const mortise_batch& batch_;
  const PlanShape& shape_;
  const std::vector<SpanRun>& tiles_;
  const std::vector<SpanRun>& padding_;
  Plan& plan_;
  const std::size_t kept_merges_;
  const int64_t kept_partials_;
  int64_t cost_ = 0, spans_ = 0, workers_ = 0, worker_ = 0;
  std::vector<int64_t> loads_;  // each worker's load of shared spans
  double level_ = 0, end_ = 0;  // level_: of all workers; end_: where the share of worker filled_ - 1 ends
  int64_t filled_ = 0;
  int32_t after_first_ = 0;  // the span after the first run of the tile that is being cut
};

// Lets the tiles of a sequence (from tile `first` on) start after its shared spans, and merge with the partials of
// these.
void begin_behind(const Shares::Sequence& shared, std::size_t first, std::vector<SpanRun>& tiles, Plan& plan) {
  for (std::size_t i = first; i < tiles.size(); ++i) {
    SpanRun& tile = tiles[i];
    const int32_t rows = tile.num_tokens * tile.num_heads;
    tile.span_begin = shared.covered;
    const int32_t count = shared.partials + tile.span_end - tile.span_begin;
    const auto partial = static_cast<int32_t>(plan.partial_rows);
    plan.merges.push_back({tile.row, tile.num_tokens, tile.num_heads, tile.head, partial, count});
    tile.partial = partial + shared.partials * rows;
    plan.partial_rows += int64_t{count} * rows;
  }
}

}  // namespace

bool is_decode(const mortise_batch& batch, const PlanShape& shape, int32_t seq) {
  const int64_t tokens = batch.cu_seqlens_q[seq + 1] - batch.cu_seqlens_q[seq];
  if (batch.seq_lens[seq] == 0) return false;
  return !shape.prefill || tokens * (shape.num_heads / shape.num_kv_heads) < kPrefillFrom;
}

void make_plan(const mortise_batch& batch, const PlanShape& shape, Plan& plan) {
  const bool may_share = shape.num_shared_blocks > 0 && batch.num_groups > 0;
  const Shares shares = may_share ? find_shares(batch, shape) : Shares{};
  std::vector<SpanRun> tiles, padding;
  tiles.reserve(static_cast<std::size_t>(batch.num_seqs) * static_cast<std::size_t>(shape.num_kv_heads));
  std::vector<std::size_t> first_tile;  // first tile of each sequence
  plan.prefill.clear();
  plan.merges.clear();
  plan.partial_rows = 0;
  const int32_t rows = may_share ? cuda::kDecodeRows : decode_rows(batch, shape);
  for (int32_t seq = 0; seq < batch.num_seqs; ++seq) {
    first_tile.push_back(tiles.size());
    if (batch.seq_lens[seq] == 0) {
      add_padding(batch, shape, seq, padding);
    } else if (!is_decode(batch, shape, seq)) {
      add_tiles(batch, shape, seq, cuda::kPrefillRows, plan.prefill);
    } else {
      add_tiles(batch, shape, seq, rows, tiles);
      if (shares.groups.empty()) continue;
      const Shares::Sequence& shared = shares.sequences[static_cast<std::size_t>(seq)];
      if (shared.partials > 0) begin_behind(shared, first_tile.back(), tiles, plan);
    }
  }
  first_tile.push_back(tiles.size());
  deal_shares(batch, shape, shares, tiles, first_tile, plan);
  Dealer(batch, shape, tiles, padding, plan).deal();
  // The longest runs come first, so that those that start last are short.
  std::stable_sort(plan.prefill.begin(), plan.prefill.end(), [](const SpanRun& a, const SpanRun& b) {
    return a.span_end - a.span_begin > b.span_end - b.span_begin;
  });
}

cuda::SpanMergeCounts merge_counts(const Plan& plan, int32_t head_dim) {
  cuda::SpanMergeCounts counts{static_cast<int32_t>(plan.merges.size()), 0};
  for (const cuda::SpanMerge& merge : plan.merges) {
    counts.jobs = std::max(counts.jobs, cuda::span_merge_jobs(merge, head_dim));
  }
  return counts;
}

namespace {

int64_t max_tiles(const PlanShape& shape, int64_t max_tokens, int64_t max_seqs) {
  const TileShape tile = tile_shape(shape, cuda::kDecodeRows);
  return (max_tokens / tile.num_tokens + max_seqs) * tile.pieces * shape.num_kv_heads;
}

}  // namespace

int64_t max_runs(const PlanShape& shape, int64_t max_tokens, int64_t max_seqs) {
  // beside the tiles: a run for each cut, for each second half of a tile (if there are few), and for each padding row
  return max_tiles(shape, max_tokens, max_seqs) + 2 * int64_t{shape.num_workers} + max_tokens;
}

int64_t max_merges(const PlanShape& shape, int64_t max_tokens, int64_t max_seqs) {
  return shape.num_workers + (shape.num_shared_blocks > 0 ? max_tiles(shape, max_tokens, max_seqs) : 0);
}

}  // namespace mortise::span_cuda
