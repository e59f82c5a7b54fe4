// plugins/schedulers/prefix_group/request_tree.hpp: a radix tree over the tokens of requests. It finds how many tokens
// requests share. A request waits in the tree, then computes in it (its prompt runs, and others wait for the prefix),
// then leaves.
//
// Groups. A node whose prefix is run once for all n requests that wait below it saves
//   whole(v) = (n - 1) * prefix(v) tokens, prefix(v) depth() in whole blocks of the KV cache and its subtrees, each
//   with a longer prefix of its own, may save more together:
//   saved(v) = max(whole(v), sum of saved(c) over the children c)
// The topmost nodes where whole(v) is the larger are the groups: first-level prefixes, enlarged where that saves more
// (Zheng et al., BatchLLM, arXiv:2412.03594). A change costs as much as its path is deep.
//
// Requests are named by tickets, which grow with arrival. Memory: the distinct tokens of the requests in the tree.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

namespace mortise::prefix_group {

using Ticket = uint64_t;
using NodeId = int32_t;

inline constexpr NodeId kNoNode = -1;

// Invariant: the counts and sums of a node are those of its requests and children. One thread: the host makes one call
// at a time.
class RequestTree {
 public:
  static constexpr NodeId kRoot = 0;

  explicit RequestTree(int32_t block_size);
  // Sets the number of tokens in a block of the KV cache.
  void set_block_size(int32_t block_size);

  // Adds a request that begins to wait. Returns its node, which stays valid until the request leaves. Requests with
  // equal tokens share a node.
  NodeId insert(std::span<const int32_t> tokens, Ticket ticket);
  void start(NodeId node, Ticket ticket);   // a waiting request begins to compute
  void finish(NodeId node);                 // a computing request leaves
  void cancel(NodeId node, Ticket ticket);  // a waiting request leaves

  // A kept node stays, even without requests, until let_go() was called as often as keep().
  void keep(NodeId node) { ++nodes_[static_cast<std::size_t>(node)].num_keepers; }
  void let_go(NodeId node);

  // Returns whether no request is in the tree and no node is kept.
  bool empty() const { return num_requests_ == 0 && num_nodes_ == 1 && at(kRoot).num_keepers == 0; }
  std::size_t num_requests() const { return num_requests_; }
  std::size_t num_nodes() const { return num_nodes_; }  // the root included
  int32_t num_waiting(NodeId node) const { return at(node).num_waiting; }
  Ticket oldest(NodeId node) const { return at(node).waiting.begin()->first; }  // REQUIRES: num_waiting(node) > 0
  NodeId parent(NodeId node) const { return at(node).parent; }
  int32_t depth(NodeId node) const { return at(node).depth; }  // tokens from the root to its end
  int32_t blocks_to(NodeId node) const { return at(node).depth / block_size_ * block_size_; }  // in whole blocks
  bool is_below(NodeId node, NodeId ancestor) const;                                           // or the same node
  // Returns the most tokens that `tokens` shares with any request of the tree.
  int32_t shared_with(std::span<const int32_t> tokens) const;

  // Returns the group of a request that waits at `node`: the topmost node on its path where whole(v) is the larger, or
  // `node` itself if there is none.
  NodeId group_of(NodeId node) const;
  int64_t saved(NodeId node) const { return at(node).saved; }
  // Returns the length of the longest prefix that all requests below `node` share.
  int32_t common_prefix(NodeId node) const;

  // Notes that the request `id` at `node` will compute in the plan of `serial`. Marks the nodes from `node` up to the
  // root that this plan has not marked before.
  void mark(NodeId node, uint64_t serial, uint64_t id);
  // The most tokens that a request at `node` shares with a request that computes (`id` is 0) or that is marked in
  // `serial`.
  struct Shared {
    int32_t num_tokens;
    uint64_t id;
  };
  Shared shared_with_computing(NodeId node, uint64_t serial) const;

  // Calls `visit` for the requests that wait below `node`, until it returns false. Neighbours in the tree come
  // together; at each node the branch with the oldest request comes first.
  void visit_waiting(NodeId node, const std::function<bool(Ticket)>& visit) const;
  Ticket last_waiting(NodeId node) const;  // the last that visit_waiting() visits. REQUIRES: num_waiting(node) > 0

 private:
  struct Node {
    NodeId parent = kNoNode;
    int32_t depth = 0;
    std::vector<int32_t> edge;           // tokens from the parent's end to its own
    std::map<int32_t, NodeId> children;  // by their edge's first token
    // children by their oldest waiting request; kNoNode: the request waits at this node
    std::map<Ticket, NodeId> waiting;
    int32_t num_waiting = 0;    // requests below and here
    int32_t num_computing = 0;  // computing requests below and here
    int32_t num_here = 0;       // requests whose tokens end here, waiting or computing
    int32_t num_keepers = 0;
    int64_t saved_below = 0;  // sum over the children
    int64_t saved = 0;
    uint64_t marked = 0, marked_id = 0;  // arguments `serial` and `id` of the last mark(); 0: never marked
  };

  const Node& at(NodeId node) const { return nodes_[static_cast<std::size_t>(node)]; }
  Node& at(NodeId node) { return nodes_[static_cast<std::size_t>(node)]; }
  int64_t whole(const Node& node) const;
  NodeId add_node(NodeId parent, std::span<const int32_t> edge);
  NodeId split(NodeId node, std::size_t length);
  void change(NodeId node, int32_t waiting, int32_t computing, const std::function<void(Node&)>& change_own);
  void prune(NodeId node);
  void free_node(NodeId node);

  int32_t block_size_;
  std::vector<Node> nodes_;
  std::vector<NodeId> unused_;
  std::size_t num_nodes_ = 1, num_requests_ = 0;
};

}  // namespace mortise::prefix_group
