#include "schedulers/prefix_group/request_tree.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace mortise::prefix_group {
namespace {

std::size_t common_length(std::span<const int32_t> a, std::span<const int32_t> b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

RequestTree::RequestTree(int32_t block_size) : block_size_(block_size), nodes_(1) {}

int64_t RequestTree::whole(const Node& node) const {
  return std::max<int64_t>(0, node.num_waiting - 1) * (node.depth / block_size_ * block_size_);
}

void RequestTree::set_block_size(int32_t block_size) {
  if (std::exchange(block_size_, block_size) == block_size) return;
  std::vector<NodeId> order;  // children before parents
  for (NodeId id = 0; id < static_cast<NodeId>(nodes_.size()); ++id) {
    if (id == kRoot || at(id).parent != kNoNode) order.push_back(id);
  }
  std::sort(order.begin(), order.end(), [&](NodeId a, NodeId b) { return at(a).depth > at(b).depth; });
  for (const NodeId id : order) at(id).saved_below = 0;
  for (const NodeId id : order) {
    Node& node = at(id);
    node.saved = std::max(whole(node), node.saved_below);
    if (node.parent != kNoNode) at(node.parent).saved_below += node.saved;
  }
}

NodeId RequestTree::add_node(NodeId parent, std::span<const int32_t> edge) {
  NodeId id = static_cast<NodeId>(nodes_.size());
  if (unused_.empty()) {
    nodes_.emplace_back();
  } else {
    id = unused_.back();
    unused_.pop_back();
  }
  ++num_nodes_;
  Node& node = at(id);
  node.parent = parent;
  node.edge.assign(edge.begin(), edge.end());
  node.depth = at(parent).depth + static_cast<int32_t>(edge.size());
  at(parent).children[edge.front()] = id;
  return id;
}

// Inserts a node after the first `length` tokens of the edge of `lower`. Sums above do not change: the new node has the
// same requests and a shorter prefix, so it saves no more than `lower`.
NodeId RequestTree::split(NodeId lower, std::size_t length) {
  const std::vector<int32_t> edge = std::move(at(lower).edge);
  const NodeId parent = at(lower).parent;
  const NodeId upper = add_node(parent, std::span(edge).first(length));
  Node& above = at(upper);
  Node& below = at(lower);
  below.edge.assign(edge.begin() + static_cast<std::ptrdiff_t>(length), edge.end());
  below.parent = upper;
  above.children[below.edge.front()] = lower;
  above.num_waiting = below.num_waiting;
  above.num_computing = below.num_computing;
  above.saved_below = above.saved = below.saved;
  if (!below.waiting.empty()) {
    const Ticket oldest = below.waiting.begin()->first;
    above.waiting[oldest] = lower;
    at(parent).waiting[oldest] = upper;
  }
  return upper;
}

// Changes the numbers of waiting and computing requests at `node`, and all sums on the way to the root.
void RequestTree::change(NodeId id, int32_t waiting, int32_t computing, const std::function<void(Node&)>& change_own) {
  const auto oldest_of = [](const Node& node) {
    return node.waiting.empty() ? std::nullopt : std::optional(node.waiting.begin()->first);
  };
  std::optional<Ticket> before = oldest_of(at(id));
  int64_t saved_before = at(id).saved;
  change_own(at(id));
  while (true) {
    Node& node = at(id);
    node.num_waiting += waiting;
    node.num_computing += computing;
    node.saved = std::max(whole(node), node.saved_below);
    if (node.parent == kNoNode) return;
    const std::optional<Ticket> after = oldest_of(node);
    const int64_t saved_more = node.saved - saved_before;
    Node& parent = at(node.parent);
    const std::optional<Ticket> parent_before = oldest_of(parent);
    saved_before = parent.saved;
    if (before != after) {
      if (before) parent.waiting.erase(*before);
      if (after) parent.waiting[*after] = id;
    }
    parent.saved_below += saved_more;
    before = parent_before;
    id = node.parent;
  }
}

NodeId RequestTree::insert(std::span<const int32_t> tokens, Ticket ticket) {
  NodeId id = kRoot;
  while (!tokens.empty()) {
    const auto child = at(id).children.find(tokens.front());
    if (child == at(id).children.end()) {
      id = add_node(id, tokens);
      break;
    }
    id = child->second;
    const std::size_t common = common_length(at(id).edge, tokens);
    if (common < at(id).edge.size()) id = split(id, common);
    tokens = tokens.subspan(common);
  }
  ++at(id).num_here;
  ++num_requests_;
  change(id, 1, 0, [&](Node& node) { node.waiting[ticket] = kNoNode; });
  return id;
}

int32_t RequestTree::shared_with(std::span<const int32_t> tokens) const {
  NodeId id = kRoot;
  int32_t shared = 0;
  while (!tokens.empty()) {
    const auto child = at(id).children.find(tokens.front());
    if (child == at(id).children.end()) break;
    id = child->second;
    const std::size_t common = common_length(at(id).edge, tokens);
    shared += static_cast<int32_t>(common);
    if (common < at(id).edge.size()) break;
    tokens = tokens.subspan(common);
  }
  return shared;
}

void RequestTree::start(NodeId id, Ticket ticket) {
  change(id, -1, 1, [&](Node& node) { node.waiting.erase(ticket); });
}

void RequestTree::finish(NodeId id) {
  change(id, 0, -1, [](Node& node) { --node.num_here; });
  --num_requests_;
  prune(id);
}

void RequestTree::cancel(NodeId id, Ticket ticket) {
  change(id, -1, 0, [&](Node& node) {
    node.waiting.erase(ticket);
    --node.num_here;
  });
  --num_requests_;
  prune(id);
}

void RequestTree::let_go(NodeId id) {
  --at(id).num_keepers;
  prune(id);
}

void RequestTree::free_node(NodeId id) {
  at(id) = Node();
  unused_.push_back(id);
  --num_nodes_;
}

// From `id` upwards, removes nodes that are not needed: no request ends there, no one keeps them, and they have at most
// one child.
void RequestTree::prune(NodeId id) {
  while (id != kRoot) {
    Node& node = at(id);
    if (node.num_here > 0 || node.num_keepers > 0 || node.children.size() > 1) break;
    const NodeId parent = node.parent;
    if (node.children.empty()) {
      at(parent).children.erase(node.edge.front());
      free_node(id);
      id = parent;
      continue;
    }
    Node& child = at(node.children.begin()->second);
    child.edge.insert(child.edge.begin(), node.edge.begin(), node.edge.end());
    child.parent = parent;
    at(parent).children[child.edge.front()] = node.children.begin()->second;
    if (!node.waiting.empty()) at(parent).waiting[node.waiting.begin()->first] = node.children.begin()->second;
    free_node(id);
    break;
  }
  if (empty()) {
    nodes_.resize(1);
    nodes_.shrink_to_fit();
    unused_ = {};
  }
}

bool RequestTree::is_below(NodeId node, NodeId ancestor) const {
  while (node != kNoNode && at(node).depth > at(ancestor).depth) node = at(node).parent;
  return node == ancestor;
}

NodeId RequestTree::group_of(NodeId node) const {
  NodeId group = node;
  for (NodeId id = node; id != kNoNode; id = at(id).parent) {
    const int64_t saved = whole(at(id));
    if (saved > 0 && saved >= at(id).saved_below) group = id;
  }
  return group;
}

int32_t RequestTree::common_prefix(NodeId node) const {
  while (at(node).num_here == 0 && at(node).children.size() == 1) node = at(node).children.begin()->second;
  return at(node).depth;
}

void RequestTree::mark(NodeId node, uint64_t serial, uint64_t id) {
  for (; node != kNoNode && at(node).marked != serial; node = at(node).parent) {
    at(node).marked = serial;
    at(node).marked_id = id;
  }
}

RequestTree::Shared RequestTree::shared_with_computing(NodeId node, uint64_t serial) const {
  for (; node != kRoot; node = at(node).parent) {
    if (at(node).num_computing > 0) return {at(node).depth, 0};
    if (at(node).marked == serial) return {at(node).depth, at(node).marked_id};
  }
  return {0, 0};
}

void RequestTree::visit_waiting(NodeId node, const std::function<bool(Ticket)>& visit) const {
  using Iterator = std::map<Ticket, NodeId>::const_iterator;
  std::vector<std::pair<Iterator, Iterator>> path = {{at(node).waiting.begin(), at(node).waiting.end()}};
  while (!path.empty()) {
    auto& [next, end] = path.back();
    if (next == end) {
      path.pop_back();
      continue;
    }
    const auto [ticket, child] = *next++;
    if (child != kNoNode) {
      path.emplace_back(at(child).waiting.begin(), at(child).waiting.end());
    } else if (!visit(ticket)) {
      return;
    }
  }
}

Ticket RequestTree::last_waiting(NodeId node) const {
  while (at(node).waiting.rbegin()->second != kNoNode) node = at(node).waiting.rbegin()->second;
  return at(node).waiting.rbegin()->first;
}

}  // namespace mortise::prefix_group
