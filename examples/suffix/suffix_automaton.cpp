#include "suffix_automaton.hpp"

#include <algorithm>

namespace suffix {
namespace {

constexpr std::size_t kFirstSlots = 64;

// splitmix64's finaliser: each bit of the key changes the low bits, which choose a slot.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

SuffixAutomaton::SuffixAutomaton(uint64_t hash_seed) : hash_seed_(hash_seed), slots_(kFirstSlots, -1) {
  new_state({.length = 0, .link = -1, .count = 0, .edges = -1, .favourite = -1});
}

// The slot of the edge, or the empty one where it belongs.
std::size_t SuffixAutomaton::slot_of(State from, int32_t token) const {
  const std::size_t mask = slots_.size() - 1;
  const uint64_t key = static_cast<uint64_t>(static_cast<uint32_t>(from)) << 32 | static_cast<uint32_t>(token);
  for (std::size_t slot = mix(key ^ hash_seed_) & mask;; slot = (slot + 1) & mask) {
    const int32_t edge = slots_[slot];
    if (edge < 0 || (edges_[edge].from == from && edges_[edge].token == token)) return slot;
  }
}

SuffixAutomaton::State SuffixAutomaton::new_state(const Node& node) {
  states_.push_back(node);
  return static_cast<State>(states_.size() - 1);
}

// REQUIRES: there is no such edge.
int32_t SuffixAutomaton::add_edge(State from, int32_t token, State to) {
  if (2 * (edges_.size() + 1) > slots_.size()) {
    slots_.assign(2 * slots_.size(), -1);
    for (std::size_t edge = 0; edge < edges_.size(); ++edge) {
      slots_[slot_of(edges_[edge].from, edges_[edge].token)] = static_cast<int32_t>(edge);
    }
  }
  const auto edge = static_cast<int32_t>(edges_.size());
  const std::size_t slot = slot_of(from, token);
  edges_.push_back({from, token, to, states_[from].edges});
  slots_[slot] = edge;
  states_[from].edges = edge;
  if (states_[from].favourite < 0) states_[from].favourite = edge;
  return edge;
}

// `from` + `token` ends at more places than the longest substring of `to`: gives it, and its suffixes in `to`, a state
// of their own.
SuffixAutomaton::State SuffixAutomaton::split(State from, int32_t token, State to) {
  Node shorter = states_[to];  // ends where `to` does, until its token is counted
  shorter.length = states_[from].length + 1;
  shorter.edges = shorter.favourite = -1;
  const State part = new_state(shorter);
  for (int32_t edge = states_[to].edges; edge >= 0; edge = edges_[edge].next) {
    const int32_t copy = add_edge(part, edges_[edge].token, edges_[edge].to);
    if (edge == states_[to].favourite) states_[part].favourite = copy;
  }
  states_[to].link = part;
  for (State state = from; state >= 0; state = states_[state].link) {
    const int32_t edge = find(state, token);
    if (edges_[edge].to != to) break;
    edges_[edge].to = part;
  }
  return part;
}

SuffixAutomaton::State SuffixAutomaton::append(State end, int32_t token) {
  ++num_tokens_;
  State state = end, result;
  if (find(end, token) >= 0) {
    result = end;  // another text has gone on in the same way
  } else {
    const int32_t length = states_[end].length + 1;
    result = new_state({.length = length, .link = kRoot, .count = 0, .edges = -1, .favourite = -1});
    for (; state >= 0 && find(state, token) < 0; state = states_[state].link) add_edge(state, token, result);
  }
  if (state >= 0) {
    State to = edges_[find(state, token)].to;
    if (states_[to].length != states_[state].length + 1) to = split(state, token, to);
    if (state == end) {
      result = to;
    } else {
      states_[result].link = to;
    }
  }
  count_token(end, result, token);
  return result;
}

// `before` + `token` and its suffixes have occurred once more.
void SuffixAutomaton::count_token(State before, State end, int32_t token) {
  int left = kMaxCounted;
  for (State state = end; state != kRoot && left > 0; state = states_[state].link, --left) ++states_[state].count;
  left = kMaxCounted;
  for (State state = before; state != kRoot && left > 0; state = states_[state].link, --left) {
    int32_t& favourite = states_[state].favourite;
    if (edges_[favourite].token == token) continue;
    const int32_t edge = find(state, token);
    if (states_[edges_[edge].to].count >= states_[edges_[favourite].to].count) favourite = edge;
  }
}

SuffixAutomaton::Place SuffixAutomaton::followed(Place place) const {
  while (place.state != kRoot && states_[place.state].favourite < 0) {
    place.state = states_[place.state].link;
    place.length = states_[place.state].length;
  }
  return place;
}

SuffixAutomaton::Place SuffixAutomaton::advance(Place place, int32_t token) const {
  for (;;) {
    if (const int32_t edge = find(place.state, token); edge >= 0) return {edges_[edge].to, place.length + 1};
    if (place.state == kRoot) return {};
    place.state = states_[place.state].link;
    place.length = states_[place.state].length;
  }
}

SuffixAutomaton::Favourite SuffixAutomaton::favourite(Place place, int32_t num_ends) const {
  const Node& node = states_[place.state];
  const Edge& edge = edges_[node.favourite];
  const int32_t count = std::max(1, states_[edge.to].count);
  return {edge.token, count, std::max(count, node.count - num_ends), edge.to};
}

uint64_t SuffixAutomaton::memory_bytes() const {
  return states_.capacity() * sizeof(Node) + edges_.capacity() * sizeof(Edge) + slots_.capacity() * sizeof(int32_t);
}

}  // namespace suffix
