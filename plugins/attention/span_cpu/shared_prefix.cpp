#include "attention/span_cpu/shared_prefix.hpp"

#include <algorithm>
#include <span>

namespace mortise::span_cpu {
namespace {

using cpu::kSpan;
using cpu::kUnitRows;

std::span<const int32_t> members_of(const mortise_batch& batch, int32_t group) {
  const int32_t* offsets = batch.group_offsets + group;
  return {batch.group_seqs + offsets[0], batch.group_seqs + offsets[1]};
}

int32_t num_rows_of(const mortise_batch& batch, int32_t seq) {
  return batch.cu_seqlens_q[seq + 1] - batch.cu_seqlens_q[seq];
}

int32_t first_position(const mortise_batch& batch, int32_t seq) {
  return batch.seq_lens[seq] - num_rows_of(batch, seq);
}

}  // namespace

int32_t first_visible_span(const mortise_batch& batch, int32_t seq, int32_t window) {
  return window > 0 ? std::max(0, first_position(batch, seq) - window + 1) / kSpan : 0;
}

int32_t first_own_span(const Plan& plan, int32_t seq) {
  const int32_t last = plan.last_share[static_cast<std::size_t>(seq)];
  if (last < 0) return 0;
  return plan.prefixes[static_cast<std::size_t>(plan.shares[static_cast<std::size_t>(last)].prefix)].end_span;
}

namespace {

// The spans [first, end) of a group, and the costs of reading them once for all members and once for each.
struct Candidate {
  int32_t first_span, end_span;
  int32_t num_rows;
  int32_t units_apart;  // units for each KV head if the members are not gathered
};

int32_t num_units(int32_t num_rows, const PlanShape& shape) {
  const int32_t rows = unit_rows(num_rows, shape);
  return (num_rows + rows - 1) / rows;
}

// Returns whether a member sees a span of the group and has too few rows to fill units by itself.
bool takes_part(const mortise_batch& batch, const PlanShape& shape, const Plan& plan, int32_t seq, int32_t end_span) {
  return num_rows_of(batch, seq) * std::min(shape.group, cpu::kSpanRows) < kUnitRows &&
         first_visible_span(batch, seq, plan.window) < end_span;
}

Candidate candidate_of(const mortise_batch& batch, const PlanShape& shape, const Plan& plan, int32_t group,
                       int32_t first_span) {
  Candidate found = {0, batch.group_shared_tokens[group] / kSpan, 0, 0};
  int32_t seen_from = found.end_span;
  for (const int32_t seq : members_of(batch, group)) {
    if (!takes_part(batch, shape, plan, seq, found.end_span)) continue;
    seen_from = std::min(seen_from, first_visible_span(batch, seq, plan.window));
    found.num_rows += num_rows_of(batch, seq);
    found.units_apart += num_units(num_rows_of(batch, seq), shape);
  }
  found.first_span = std::max(first_span, seen_from);
  return found;
}

bool saves_reading(const Candidate& c, const PlanShape& shape) {
  return c.first_span < c.end_span && num_units(c.num_rows, shape) < c.units_apart;
}

void add_prefix(const mortise_batch& batch, const PlanShape& shape, int32_t group, const Candidate& c, Plan& plan) {
  SharedPrefix prefix{};
  prefix.seq = members_of(batch, group).front();
  prefix.first_span = c.first_span;
  prefix.end_span = c.end_span;
  prefix.first_row = static_cast<int32_t>(plan.gathered_rows.size());
  prefix.num_rows = c.num_rows;
  const auto index = static_cast<int32_t>(plan.prefixes.size());
  for (const int32_t seq : members_of(batch, group)) {
    if (!takes_part(batch, shape, plan, seq, c.end_span)) continue;
    int32_t& last = plan.last_share[static_cast<std::size_t>(seq)];
    prefix.follows |= last >= 0;
    plan.shares.push_back({index, static_cast<int32_t>(plan.gathered_rows.size()) - prefix.first_row, last});
    last = static_cast<int32_t>(plan.shares.size()) - 1;
    for (int32_t row = batch.cu_seqlens_q[seq]; row < batch.cu_seqlens_q[seq + 1]; ++row) {
      plan.gathered_rows.push_back(row);
      plan.gathered_positions.push_back(batch.positions[row]);
    }
  }
  plan.prefixes.push_back(prefix);
}

}  // namespace

void find_shared_prefixes(const mortise_batch& batch, const PlanShape& shape, Plan& plan) {
  // By group: where its shared spans end, including those of its parents.
  std::vector<int32_t> shared_until(static_cast<std::size_t>(batch.num_groups));
  int64_t floats = 0;
  for (int32_t group = 0; group < batch.num_groups; ++group) {
    const int32_t parent = batch.group_parents[group];
    const int32_t first_span = parent < 0 ? 0 : shared_until[static_cast<std::size_t>(parent)];
    const Candidate c = candidate_of(batch, shape, plan, group, first_span);
    const int64_t partial =
        static_cast<int64_t>(cpu::record_floats(shape.value_width)) * c.num_rows * shape.group * shape.num_kv_heads;
    const int64_t count = first_span > 0 ? c.end_span - c.first_span : 1;
    const bool taken = saves_reading(c, shape) && floats + partial * count <= kMaxPartials;
    shared_until[static_cast<std::size_t>(group)] = taken ? c.end_span : first_span;
    if (!taken) continue;
    floats += partial * count;
    add_prefix(batch, shape, group, c, plan);
  }
}

}  // namespace mortise::span_cpu
