#include "bisect/first_difference.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

#include "counted.hpp"
#include "mortise/plugin.hpp"
#include "mortise/tensor.h"

namespace mortise {
namespace {

// The operations of each stretch, by key, in order.
using Stretches = std::map<std::int32_t, std::vector<const TracedOp*>>;

Stretches stretches_of(const RowTrace& trace) {
  Stretches stretches;
  for (const TracedOp& op : trace.ops()) {
    if (!op.is_anchor && op.stretch >= 0) stretches[op.stretch].push_back(&op);
  }
  return stretches;
}

bool same_operations(const std::vector<const TracedOp*>& a, const std::vector<const TracedOp*>& b) {
  return std::ranges::equal(a, b, [](const TracedOp* x, const TracedOp* y) { return x->key == y->key; });
}

// The layers of the attention's calls in the order of a forward. Stretch i + 1 begins after call i.
std::vector<std::int32_t> attention_layers(const RowTrace& trace) {
  std::vector<std::int32_t> layers;
  for (const TracedOp& op : trace.ops()) {
    if (op.layer < 0) continue;
    const auto index = static_cast<std::size_t>(op.stretch) - 1;
    if (layers.size() <= index) layers.resize(index + 1, -1);
    layers[index] = op.layer;
  }
  return layers;
}

std::string stretch_name(std::int32_t stretch, const std::vector<std::int32_t>& layers) {
  const auto layer_at = [&](std::int32_t index) { return layers[static_cast<std::size_t>(index)]; };
  const auto count = static_cast<std::int32_t>(layers.size());
  if (count == 0) return "in the forward";
  if (stretch == 0) return fmt::format("before the attention of layer {}", layer_at(0));
  if (stretch >= count) return fmt::format("after the attention of layer {}", layer_at(count - 1));
  if (layer_at(stretch - 1) == layer_at(stretch))
    return fmt::format("within the attention of layer {}", layer_at(stretch));
  return fmt::format("between the attention of layer {} and that of layer {}", layer_at(stretch - 1),
                     layer_at(stretch));
}

bool looks_alike(const TracedOp& a, const TracedOp& b) {
  return a.name == b.name && a.output == b.output && a.row == b.row && a.dtype == b.dtype;
}

// The layer of an operation between two calls of the attention. The layers of a model are alike, so the operations in
// front of the first layer's attention also precede that of each other layer. The end of a stretch that equals the end
// of the first stretch therefore belongs to the next layer.
std::string layer_name(const TracedOp& op, const Stretches& stretches, const std::vector<std::int32_t>& layers) {
  if (op.layer >= 0) return fmt::format("layer {}", op.layer);
  if (op.stretch < 0 || op.is_anchor) return "after the layers";
  const auto count = static_cast<std::int32_t>(layers.size());
  if (count == 0) return "no layer known";
  const auto& of_stretch = stretches.at(op.stretch);
  const auto index = static_cast<std::size_t>(std::ranges::find(of_stretch, &op) - of_stretch.begin());
  const auto own_begin = [&](const std::vector<const TracedOp*>& a, const std::vector<const TracedOp*>& b) {
    std::size_t same = 0;
    while (same < std::min(a.size(), b.size()) && looks_alike(*a[a.size() - 1 - same], *b[b.size() - 1 - same])) ++same;
    return a.size() - same;  // index of the next layer's first operation
  };
  if (op.stretch == 0) {
    const auto next = stretches.upper_bound(0);  // of the second layer
    const bool lasting = next != stretches.end() && next->first < count;
    const std::size_t begin = lasting ? own_begin(of_stretch, next->second) : 0;
    return index < begin ? "before the layers" : fmt::format("layer {}", layers[0]);
  }
  const std::int32_t last_layer = layers[static_cast<std::size_t>(op.stretch) - 1];
  if (op.stretch >= count) return fmt::format("layer {}", last_layer);
  const auto first = stretches.find(0);
  const std::size_t begin = first == stretches.end() ? of_stretch.size() : own_begin(of_stretch, first->second);
  return fmt::format("layer {}", index < begin ? last_layer : layers[static_cast<std::size_t>(op.stretch)]);
}

std::string describe_op(const TracedOp& op, const Stretches& stretches, const std::vector<std::int32_t>& layers,
                        const std::set<std::int32_t>& not_aligned) {
  std::string text = fmt::format("{}, operation `{}` ({} [1, {}])", layer_name(op, stretches, layers), op.name,
                                 op.output, fmt::join(op.row, ", "));
  if (op.stretch < 0) return text;
  if (not_aligned.contains(op.is_anchor && op.layer >= 0 ? op.stretch - 1 : op.stretch)) {
    text += fmt::format("; the difference is in it or {}, where the two models call different operations",
                        stretch_name(op.layer >= 0 ? op.stretch - 1 : op.stretch, layers));
  } else if (!op.is_anchor) {
    const auto& all = stretches.at(op.stretch);
    const auto index = std::ranges::find(all, &op) - all.begin();
    text += fmt::format(", output {} of {} {}", index + 1, all.size(), stretch_name(op.stretch, layers));
  }
  return text;
}

// Matches the operations of both traces, by the number in the old one.
class Alignment {
 public:
  Alignment(const RowTrace& before, const RowTrace& after) : stretches_(stretches_of(before)) {
    const Stretches others = stretches_of(after);
    std::set<std::int32_t> all;
    for (const auto& [stretch, ops] : stretches_) all.insert(stretch);
    for (const auto& [stretch, ops] : others) all.insert(stretch);
    for (const std::int32_t stretch : all) {
      const auto a = stretches_.find(stretch);
      const auto b = others.find(stretch);
      if (a == stretches_.end() || b == others.end() || !same_operations(a->second, b->second)) {
        not_aligned_.insert(stretch);
      }
    }
    std::map<std::string, std::uint32_t> numbers;
    for (const TracedOp& op : after.ops()) numbers.emplace(op.key, static_cast<std::uint32_t>(numbers.size()));
    for (const TracedOp& op : before.ops()) {
      const auto found = numbers.find(op.key);
      const bool aligned = found != numbers.end() && (op.is_anchor || !not_aligned_.contains(op.stretch));
      partners_.push_back(aligned ? std::optional(found->second) : std::nullopt);
    }
  }

  std::optional<std::uint32_t> partner(std::uint32_t op) const { return partners_[op]; }
  const Stretches& stretches() const { return stretches_; }
  const std::set<std::int32_t>& not_aligned() const { return not_aligned_; }

 private:
  Stretches stretches_;
  std::set<std::int32_t> not_aligned_;
  std::vector<std::optional<std::uint32_t>> partners_;
};

// The order in which a run computes: each operation of a step, and its rows.
using Moment =
    std::tuple<std::uint64_t, std::uint32_t, std::int32_t, std::int32_t>;  // step, operation, choice, position

struct Visit {
  Moment when;
  bool equal;
  const TracedRow* before;
  const TracedRow* after;
  std::uint32_t op;
};

// Calls `visit` for each output of an operation that both rows have. If another choice computed the row for this one,
// only the forward counts, because each choice draws its own token.
template <typename Function>
void visit_row(const Alignment& alignment, const RowTrace& before, const TracedRow& a, const TracedRow& b,
               const Function& visit) {
  std::map<std::uint32_t, std::vector<std::uint64_t>> others;
  for (const auto& [op, hash] : b.hashes) others[op].push_back(hash);
  std::map<std::uint32_t, std::size_t> times;
  for (const auto& [op, hash] : a.hashes) {
    const std::optional<std::uint32_t> partner = alignment.partner(op);
    if (!partner || (a.choice != b.choice && before.ops()[op].stretch < 0)) continue;
    const auto found = others.find(*partner);
    const std::size_t time = times[op]++;
    if (found == others.end() || time >= found->second.size()) continue;
    visit(Visit{{a.step, op, a.choice, a.position}, hash == found->second[time], &a, &b, op});
  }
}

// The row of the new run that corresponds to a row of the old one. Any choice may have computed a row of the prompt.
template <typename Rows>
const TracedRow* partner_row(const RowTrace& trace, const Rows& rows, const TracedRow& row, std::size_t num_choices) {
  if (const auto same = rows.find({row.choice, row.position}); same != rows.end()) return &trace.rows()[same->second];
  for (std::size_t choice = 0; choice < num_choices; ++choice) {
    const auto other = rows.find({static_cast<std::int32_t>(choice), row.position});
    if (other != rows.end()) return &trace.rows()[other->second];
  }
  return nullptr;
}

// Whether two choices have the same tokens up to and including a position.
bool shares(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b, std::int32_t position) {
  const auto count = static_cast<std::size_t>(position) + 1;
  return a.size() >= count && b.size() >= count &&
         std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(count), b.begin());
}

double value_of(std::int32_t dtype, std::uint32_t bits) {
  switch (dtype) {
    case MORTISE_BF16:
      return std::bit_cast<float>(bits << 16);
    case MORTISE_F32:
      return std::bit_cast<float>(bits);
    case MORTISE_I8:
      return static_cast<std::int8_t>(bits);
    default:
      return static_cast<std::int32_t>(bits);
  }
}

std::string element_text(std::int32_t dtype, std::uint32_t bits) {
  const int digits = (dtype & 0xff) / 4;
  if (dtype == MORTISE_BF16 || dtype == MORTISE_F32) {
    return fmt::format("{} (0x{:0{}x})", static_cast<float>(value_of(dtype, bits)), bits, digits);
  }
  return fmt::format("{} (0x{:0{}x})", static_cast<std::int64_t>(value_of(dtype, bits)), bits, digits);
}

}  // namespace

TraceComparison compare_traces(const TraceView& old_run, const TraceView& new_run) {
  const Alignment alignment(old_run.trace, new_run.trace);
  const auto old_rows = old_run.trace.valid_rows(old_run.sequences);
  const auto new_rows = new_run.trace.valid_rows(new_run.sequences);
  TraceComparison result;
  const auto visit_all = [&](const auto& visit) {
    result.num_rows = 0;
    for (const auto& [key, index] : old_rows) {
      const TracedRow& a = old_run.trace.rows()[index];
      const TracedRow* const b = partner_row(new_run.trace, new_rows, a, new_run.sequences.size());
      if (b == nullptr) continue;
      // After a token that differs, rows have different histories.
      if (!shares(old_run.sequences[static_cast<std::size_t>(a.choice)],
                  new_run.sequences[static_cast<std::size_t>(b->choice)], a.position)) {
        continue;
      }
      ++result.num_rows;
      visit_row(alignment, old_run.trace, a, *b, visit);
    }
  };
  std::optional<Visit> first;
  visit_all([&](const Visit& visit) {
    ++result.num_compared;
    if (!visit.equal && (!first || visit.when < first->when)) first = visit;
  });
  visit_all(
      [&](const Visit& visit) { result.num_equal += visit.equal && (!first || visit.when < first->when) ? 1 : 0; });

  const std::vector<std::int32_t> layers = attention_layers(old_run.trace);
  for (const std::int32_t stretch : alignment.not_aligned())
    result.not_aligned.push_back(stretch_name(stretch, layers));
  if (!first) return result;
  const TracedOp& op = old_run.trace.ops()[first->op];
  result.first = FirstDifference{.op = op,
                                 .where = describe_op(op, alignment.stretches(), layers, alignment.not_aligned()),
                                 .choice = first->before->choice,
                                 .position = first->before->position,
                                 .new_choice = first->after->choice,
                                 .old_step = first->before->step,
                                 .new_step = first->after->step};
  return result;
}

std::string describe_elements(std::int32_t dtype, std::span<const std::int64_t> row, std::span<const std::byte> before,
                              std::span<const std::byte> after) {
  const auto size = static_cast<std::size_t>(dtype_bytes(dtype));
  const std::size_t count = std::min(before.size(), after.size()) / size;
  const auto bits_at = [&](std::span<const std::byte> bytes, std::size_t i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * size, std::min(size, sizeof bits));
    return bits;
  };
  std::size_t num_different = 0;
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::memcmp(before.data() + i * size, after.data() + i * size, size) == 0) continue;
    ++num_different;
    if (!first) first = i;
  }
  if (!first) return "";
  std::string place = fmt::format("element {}", *first);
  if (row.size() == 2) {
    place += fmt::format(" (head {}, {})", *first / static_cast<std::size_t>(row[1]),
                         *first % static_cast<std::size_t>(row[1]));
  }
  return fmt::format("{}: old {}, new {}; {} of {} differ{}", place, element_text(dtype, bits_at(before, *first)),
                     element_text(dtype, bits_at(after, *first)), num_different, counted(count, "element"),
                     num_different == 1 ? "s" : "");
}

}  // namespace mortise
