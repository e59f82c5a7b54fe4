#include "attention/span_cpu/plan_units.hpp"

#include <algorithm>
#include <numeric>

namespace mortise::span_cpu {
namespace {

using cpu::kSpan;

// Costs are in keys times rows. Reading a key costs about as much as its arithmetic for four rows.
constexpr int64_t kReadCost = 4;
constexpr int64_t kMergeCost = 4;        // for merging a row's partial: two or more cache lines come from memory
constexpr int64_t kTaskCost = 4096;      // some ten microseconds of work; handing out a task costs about one
constexpr int32_t kTasksPerThread = 8;   // enough that no thread waits long for the last task
constexpr int32_t kPiecesPerThread = 4;  // a row block larger than total work / (threads * this) is cut

int64_t cost_of(const RowBlock& block, int32_t first_span, int32_t end_span) {
  const int64_t keys = std::min(end_span * kSpan, block.last_position + 1) - first_span * kSpan;
  return std::max<int64_t>(keys, 1) * (kReadCost + block.num_rows * block.num_heads);
}
int64_t cost_of(const RowBlock& block) {
  return cost_of(block, block.first_span, block.end_span);
}

// Makes the units of one plan, for a single call of make_units(). Used by one thread.
class UnitMaker {
 public:
  UnitMaker(const PlanShape& shape, Plan& plan);

  void place_prefixes();
  void add_units(int32_t index, int32_t kv_head);
  void make_tasks(Round& round) const;

 private:
  int32_t pieces_of(const RowBlock& block) const;
  Partials partials_of(const SharedPrefix& prefix, int32_t row, const RowBlock& block, int32_t kv_head) const;
  void add_gathered(int32_t index, int32_t kv_head);
  void add_pieces(int32_t index, int32_t kv_head, int32_t pieces, const Partials& partials);
  void add_priors(const RowBlock& block, int32_t kv_head);
  int64_t cost_of_unit(const Unit& unit) const;
  const RowBlock& row_block_at(int32_t index) const { return plan_.row_blocks[static_cast<std::size_t>(index)]; }
  const SharedPrefix& prefix_at(int32_t index) const { return plan_.prefixes[static_cast<std::size_t>(index)]; }

  const PlanShape& shape_;
  Plan& plan_;
  const int64_t record_;  // floats
  int64_t piece_cost_;
};

UnitMaker::UnitMaker(const PlanShape& shape, Plan& plan)
    : shape_(shape), plan_(plan), record_(static_cast<int64_t>(cpu::record_floats(shape.value_width))) {
  const auto sum = [](int64_t total, const RowBlock& block) { return total + cost_of(block); };
  const int64_t total =
      std::accumulate(plan.row_blocks.begin(), plan.row_blocks.end(), int64_t{0}, sum) * shape.num_kv_heads;
  piece_cost_ = std::max(kTaskCost, total / (shape.num_threads * kPiecesPerThread));
}

// Returns the number of pieces into which a row block is cut; 0 or 1: it is not cut.
int32_t UnitMaker::pieces_of(const RowBlock& block) const {
  if (shape_.num_threads == 1) return 1;
  return static_cast<int32_t>(std::min<int64_t>(block.end_span - block.first_span, cost_of(block) / piece_cost_));
}

// Reserves memory for the partials of shared prefixes. A prefix whose row blocks are cut, or that follows another
// prefix, has a partial per span. Any other prefix has one partial for all spans, so that little is written and merged.
void UnitMaker::place_prefixes() {
  for (SharedPrefix& prefix : plan_.prefixes) prefix.count = prefix.follows ? prefix.end_span - prefix.first_span : 1;
  const auto floats = [&](const SharedPrefix& prefix, int32_t count) {
    return int64_t{count} * prefix.num_rows * shape_.group * shape_.num_kv_heads * record_;
  };
  int64_t total = 0;
  for (const SharedPrefix& prefix : plan_.prefixes) total += floats(prefix, prefix.count);
  for (const RowBlock& block : plan_.row_blocks) {
    if (block.prefix < 0) break;  // row blocks of prefixes come first
    SharedPrefix& prefix = plan_.prefixes[static_cast<std::size_t>(block.prefix)];
    const int32_t spans = prefix.end_span - prefix.first_span;
    const int64_t more = floats(prefix, spans) - floats(prefix, prefix.count);
    if (pieces_of(block) < 2 || more == 0 || total + more > kMaxPartials) continue;
    prefix.count = spans;
    total += more;
  }
  for (SharedPrefix& prefix : plan_.prefixes) {
    prefix.partials = plan_.partial_floats;
    plan_.partial_floats += floats(prefix, prefix.count);
  }
}

// Returns the place of a prefix's partials for the rows from `row` on and the heads of a row block.
Partials UnitMaker::partials_of(const SharedPrefix& prefix, int32_t row, const RowBlock& block, int32_t kv_head) const {
  const int64_t heads_before = int64_t{kv_head} * shape_.group + block.head;
  const int64_t records = heads_before * prefix.count * prefix.num_rows + int64_t{row} * block.num_heads;
  return {prefix.partials + records * record_, int64_t{prefix.num_rows} * block.num_heads * record_, prefix.count};
}

void UnitMaker::add_pieces(int32_t index, int32_t kv_head, int32_t pieces, const Partials& partials) {
  const RowBlock& block = row_block_at(index);
  const int32_t num_spans = block.end_span - block.first_span, spans = (num_spans + pieces - 1) / pieces;
  for (int32_t span = block.first_span; span < block.end_span; span += spans) {
    const int32_t end = std::min(span + spans, block.end_span);
    const Partials own = {partials.at + (span - block.first_span) * partials.stride, partials.stride, end - span};
    plan_.rounds[0].units.push_back({index, kv_head, span, end, Result::kPartials, own, 0, 0});
  }
}

void UnitMaker::add_gathered(int32_t index, int32_t kv_head) {
  const RowBlock& block = row_block_at(index);
  const SharedPrefix& prefix = prefix_at(block.prefix);
  const Partials partials = partials_of(prefix, block.row - prefix.first_row, block, kv_head);
  if (prefix.count > 1) {
    add_pieces(index, kv_head, std::max(1, pieces_of(block)), partials);
  } else {
    const Result result = prefix.follows ? Result::kPartials : Result::kFolded;
    plan_.rounds[0].units.push_back({index, kv_head, block.first_span, block.end_span, result, partials, 0, 0});
  }
}

// Adds the partials of shared prefixes that the rows of a sequence must merge, from left to right.
void UnitMaker::add_priors(const RowBlock& block, int32_t kv_head) {
  const std::size_t first = plan_.priors.size();
  for (int32_t i = plan_.last_share[static_cast<std::size_t>(block.seq)]; i >= 0;) {
    const Share& share = plan_.shares[static_cast<std::size_t>(i)];
    const int32_t row = share.row + block.row_of_run;
    plan_.priors.push_back(partials_of(prefix_at(share.prefix), row, block, kv_head));
    i = share.before;
  }
  std::reverse(plan_.priors.begin() + static_cast<std::ptrdiff_t>(first), plan_.priors.end());
}

void UnitMaker::add_units(int32_t index, int32_t kv_head) {
  const RowBlock& block = row_block_at(index);
  if (block.prefix >= 0) return add_gathered(index, kv_head);
  Unit unit = {
      index, kv_head, block.first_span, block.end_span, Result::kOut, {}, static_cast<int32_t>(plan_.priors.size()), 0};
  add_priors(block, kv_head);
  const int32_t pieces = pieces_of(block);
  if (pieces > 1 && plan_.partial_floats < kMaxPartials) {
    const int64_t stride = int64_t{block.num_rows} * block.num_heads * record_;
    const Partials own = {plan_.partial_floats, stride, block.end_span - block.first_span};
    add_pieces(index, kv_head, pieces, own);
    plan_.partial_floats += own.count * stride;
    plan_.priors.push_back(own);
    unit.first_span = unit.end_span;  // the prior partials cover everything
  }
  unit.num_prior = static_cast<int32_t>(plan_.priors.size()) - unit.first_prior;
  plan_.rounds[unit.num_prior > 0 ? 1 : 0].units.push_back(unit);
}

int64_t UnitMaker::cost_of_unit(const Unit& unit) const {
  const RowBlock& block = row_block_at(unit.row_block);
  int64_t partials = 0;
  for (int32_t i = 0; i < unit.num_prior; ++i) {
    partials += plan_.priors[static_cast<std::size_t>(unit.first_prior + i)].count;
  }
  const int64_t merging = partials * block.num_rows * block.num_heads * kMergeCost;
  return merging + (unit.first_span < unit.end_span ? cost_of(block, unit.first_span, unit.end_span) : 0);
}

void UnitMaker::make_tasks(Round& round) const {
  int64_t total = 0;
  for (const Unit& unit : round.units) total += cost_of_unit(unit);
  const int64_t cost = std::max(kTaskCost, total / (shape_.num_threads * kTasksPerThread));
  const auto num_units = static_cast<int32_t>(round.units.size());
  int64_t sum = 0;
  int32_t begin = 0;
  for (int32_t i = 0; i < num_units; ++i) {
    sum += cost_of_unit(round.units[static_cast<std::size_t>(i)]);
    if (sum < cost && i + 1 < num_units) continue;
    round.tasks.push_back({begin, i + 1});
    begin = i + 1;
    sum = 0;
  }
}

}  // namespace

void make_units(const PlanShape& shape, Plan& plan) {
  for (Round& round : plan.rounds) {
    round.units.clear();
    round.tasks.clear();
  }
  plan.priors.clear();
  plan.partial_floats = 0;
  UnitMaker maker(shape, plan);
  maker.place_prefixes();
  const auto num_row_blocks = static_cast<int32_t>(plan.row_blocks.size());
  for (int32_t begin = 0, end; begin < num_row_blocks; begin = end) {
    // Row blocks that share K and V of a KV head are consecutive, so that these stay in the CPU's cache.
    const auto at = [&](int32_t i) -> const RowBlock& { return plan.row_blocks[static_cast<std::size_t>(i)]; };
    const auto same = [&](int32_t i) { return at(i).seq == at(begin).seq && at(i).prefix == at(begin).prefix; };
    for (end = begin + 1; end < num_row_blocks && same(end);) ++end;
    for (int32_t kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) {
      for (int32_t i = begin; i < end; ++i) maker.add_units(i, kv_head);
    }
  }
  for (Round& round : plan.rounds) maker.make_tasks(round);
}

}  // namespace mortise::span_cpu
