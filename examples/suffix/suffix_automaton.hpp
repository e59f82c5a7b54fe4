// examples/suffix/suffix_automaton.hpp: all substrings of some texts, and how each of them went on most often.
//
// A suffix automaton (Blumer et al., 1985) of several texts that grow token by token. A state stands for the substrings
// that end at the same places; the longest of them has `length` tokens. The link of a state leads to its next shorter
// substrings, which end at more places. So the links of a text's last state are its suffixes, the longest first.
// Each state knows how often it occurs and its favourite: the edge to the token that followed most often; of equally
// frequent tokens, the latest.
#pragma once

#include <cstdint>
#include <vector>

namespace suffix {

// Invariant: a state with edges has a favourite. Not thread-safe.
class SuffixAutomaton {
 public:
  using State = int32_t;
  static constexpr State kRoot = 0;  // the empty substring: where every text begins

  // `hash_seed`: unknown to clients, so that they cannot provoke collisions. It changes no result.
  explicit SuffixAutomaton(uint64_t hash_seed);

  // Makes the text that ends in `end` longer by `token` and returns its new end. Two texts may share an end.
  // REQUIRES: `end` is kRoot or was returned by append(). Amortised O(kMaxCounted).
  State append(State end, int32_t token);

  // A place in the automaton: a substring of `length` tokens, one of those that `state` stands for.
  struct Place {
    State state = kRoot;
    int32_t length = 0;
  };
  // The whole text that ends in `end`.
  Place whole(State end) const { return {end, states_[end].length}; }
  // The longest suffix of `place` that was followed by a token somewhere; length 0 if none was.
  Place followed(Place place) const;
  // The longest suffix of `place` + `token` that occurs here.
  Place advance(Place place, int32_t token) const;

  struct Favourite {
    int32_t token;
    int32_t count;  // how often `token` followed
    int32_t total;  // how often anything did, at least `count`
    State next;     // the place after it
  };
  // How `place` went on most often. `num_ends`: of how many texts it is the end, where nothing has followed yet.
  // REQUIRES: it was returned by followed() and is not empty.
  Favourite favourite(Place place, int32_t num_ends) const;

  int64_t num_tokens() const { return num_tokens_; }
  // Heap memory. Two states and three edges for each token at most.
  uint64_t memory_bytes() const;

 private:
  // A step counts its token for this many suffixes, the longest first. Only a text that repeats itself over and over
  // has more of them; there short substrings count too little, and the long ones are those that matter.
  static constexpr int kMaxCounted = 32;

  struct Node {
    int32_t length;
    State link;         // -1: the root's
    int32_t count;      // places where it ends
    int32_t edges;      // the first of its edges; -1: none
    int32_t favourite;  // an edge; -1: none
  };
  struct Edge {
    State from;
    int32_t token;
    State to;
    int32_t next;  // the next edge of `from`; -1: none
  };

  std::size_t slot_of(State from, int32_t token) const;
  int32_t find(State from, int32_t token) const { return slots_[slot_of(from, token)]; }
  State new_state(const Node& node);
  int32_t add_edge(State from, int32_t token, State to);
  State split(State from, int32_t token, State to);
  void count_token(State before, State end, int32_t token);

  uint64_t hash_seed_;
  std::vector<Node> states_;
  std::vector<Edge> edges_;
  std::vector<int32_t> slots_;  // a hash table of edges, -1: empty; the size is a power of two, at most half is used
  int64_t num_tokens_ = 0;
};

}  // namespace suffix
