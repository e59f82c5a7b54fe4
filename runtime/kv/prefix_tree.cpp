#include "kv/prefix_tree.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cassert>

namespace mortise {
namespace {

// The most children that closest_child() examines. Sequences that copy a partial block usually start right after the
// sequence that left it, so the latest children are enough.
constexpr int kMaxCompared = 64;

std::uint64_t key_of(BlockId parent, std::span<const std::int32_t> tokens) {
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), static_cast<std::uint64_t>(parent));
}

}  // namespace

PrefixTree::PrefixTree(std::size_t num_blocks, std::int32_t block_size, KvObserver* observer)
    : block_size_(static_cast<std::size_t>(block_size)),
      observer_(observer),
      nodes_(num_blocks),
      tokens_(num_blocks * block_size_) {}

std::span<std::int32_t> PrefixTree::tokens_of(BlockId block) {
  return std::span(tokens_.data(), tokens_.size()).subspan(static_cast<std::size_t>(block) * block_size_, block_size_);
}

std::span<const std::int32_t> PrefixTree::tokens_of(BlockId block) const {
  return std::span(tokens_.data(), tokens_.size()).subspan(static_cast<std::size_t>(block) * block_size_, block_size_);
}

bool PrefixTree::is_there(const PrefixPath& path) const {
  // Children are removed before their parent, so if the last block is still there, the whole path is.
  return path.last == kPrefixRoot || (node(path.last).present && node(path.last).generation == path.generation);
}

bool PrefixTree::still_ends(PrefixPath& path) const {
  if (path.missed_at == 0 || !is_there(path)) return false;
  if (path.missed_at <= child_made_at(path.last)) {
    // The latest children come first. A partial block's key may have any value.
    for (BlockId child = first_child_of(path.last); child != kPrefixRoot && node(child).made_at >= path.missed_at;
         child = node(child).next) {
      if (node(child).key == path.missed_key) return false;
    }
  }
  path.missed_at = num_made_ + 1;
  return true;
}

PrefixPath PrefixTree::match(std::span<const std::int32_t> tokens, PrefixPath from) const {
  if (still_ends(from)) return from;
  if (!is_there(from)) from = {};
  from.missed_at = 0;
  const std::size_t num_full = tokens.size() / block_size_;
  while (static_cast<std::size_t>(from.num_blocks) < num_full) {
    const auto begin = static_cast<std::size_t>(from.num_blocks) * block_size_;
    const auto next = tokens.subspan(begin, block_size_);
    const std::uint64_t key = key_of(from.last, next);
    const std::optional<BlockId> child = find(from.last, next, key);
    if (!child) {
      from.missed_at = num_made_ + 1;
      from.missed_key = key;
      break;
    }
    from = path(*child, from.num_blocks + 1);
  }
  return from;
}

std::vector<BlockId> PrefixTree::blocks(const PrefixPath& path) const {
  assert(is_there(path));
  std::vector<BlockId> blocks(static_cast<std::size_t>(path.num_blocks));
  BlockId block = path.last;
  for (std::size_t i = blocks.size(); i > 0; --i) {
    blocks[i - 1] = block;
    block = parent(block);
  }
  assert(block == kPrefixRoot);
  return blocks;
}

std::optional<BlockId> PrefixTree::find(BlockId parent, std::span<const std::int32_t> tokens) const {
  return find(parent, tokens, key_of(parent, tokens));
}

std::optional<BlockId> PrefixTree::find(BlockId parent, std::span<const std::int32_t> tokens, std::uint64_t key) const {
  const auto at = table_.find(key);
  if (at == table_.end()) return std::nullopt;
  const BlockId block = at->second;
  if (node(block).parent != parent || !std::ranges::equal(tokens_of(block), tokens)) return std::nullopt;
  return block;
}

bool PrefixTree::insert(BlockId parent, std::span<const std::int32_t> tokens, BlockId block) {
  assert(!contains(block) && tokens.size() == block_size_);
  assert(parent == kPrefixRoot || contains(parent));
  const std::uint64_t key = key_of(parent, tokens);
  if (!table_.emplace(key, block).second) return false;
  node(block).key = key;
  link(parent, tokens, block);
  if (observer_ != nullptr) observer_->stored(parent, tokens, block);
  return true;
}

void PrefixTree::insert_partial(BlockId parent, std::span<const std::int32_t> tokens, BlockId block) {
  assert(!contains(block) && !tokens.empty() && tokens.size() < block_size_);
  assert(parent == kPrefixRoot || contains(parent));
  link(parent, tokens, block);
}

PrefixTree::Begun PrefixTree::closest_child(BlockId parent, std::span<const std::int32_t> tokens) const {
  Begun best;
  BlockId child = first_child_of(parent);
  for (int i = 0; i < kMaxCompared && child != kPrefixRoot; ++i, child = node(child).next) {
    const auto own = tokens_of(child).first(static_cast<std::size_t>(node(child).num_tokens));
    const auto common = static_cast<std::int32_t>(std::ranges::mismatch(own, tokens).in1 - own.begin());
    if (common > best.num_tokens) best = {child, common};
  }
  return best;
}

void PrefixTree::link(BlockId parent, std::span<const std::int32_t> tokens, BlockId block) {
  Node& fresh = node(block);
  fresh.parent = parent;
  fresh.present = true;
  fresh.num_tokens = static_cast<std::int32_t>(tokens.size());
  fresh.first_child = fresh.previous = kPrefixRoot;
  BlockId& first = first_child_of(parent);
  fresh.next = first;
  if (first != kPrefixRoot) node(first).previous = block;
  first = block;
  ++fresh.generation;
  std::ranges::copy(tokens, tokens_of(block).begin());
  fresh.child_made_at = 0;
  child_made_at(parent) = fresh.made_at = ++num_made_;
  if (parent != kPrefixRoot) ++node(parent).num_children;
}

void PrefixTree::unlink(BlockId block) {
  Node& old = node(block);
  if (old.next != kPrefixRoot) node(old.next).previous = old.previous;
  (old.previous == kPrefixRoot ? first_child_of(old.parent) : node(old.previous).next) = old.next;
  if (old.parent != kPrefixRoot) --node(old.parent).num_children;
  old.present = false;
  if (old.scores == 0) return;
  scores_[old.scores - 1] = {};
  free_scores_.push_back(old.scores - 1);
  old.scores = 0;
}

void PrefixTree::erase(BlockId block) {
  Node& old = node(block);
  assert(old.present && old.num_children == 0);
  const bool is_partial = static_cast<std::size_t>(old.num_tokens) < block_size_;
  if (!is_partial) table_.erase(old.key);
  unlink(block);
  if (!is_partial && observer_ != nullptr) observer_->removed(block);
}

void PrefixTree::set_score(BlockId block, std::int32_t offset, const TokenInfo& info) {
  assert(contains(block));
  std::uint32_t& place = node(block).scores;
  if (place == 0) {
    if (free_scores_.empty()) {
      free_scores_.push_back(static_cast<std::uint32_t>(scores_.size()));
      scores_.emplace_back();
    }
    scores_[free_scores_.back()].resize(block_size_);
    place = free_scores_.back() + 1;
    free_scores_.pop_back();
  }
  TokenInfo& slot = scores_[place - 1][static_cast<std::size_t>(offset)];
  if (slot.rank == 0 || slot.top.size() < info.top.size()) slot = info;
}

const TokenInfo* PrefixTree::score(BlockId block, std::int32_t offset) const {
  const std::uint32_t place = node(block).scores;
  if (place == 0) return nullptr;
  const TokenInfo& slot = scores_[place - 1][static_cast<std::size_t>(offset)];
  return slot.rank == 0 ? nullptr : &slot;
}

}  // namespace mortise
