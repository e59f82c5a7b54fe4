#include "tokenizer/model/bpe.hpp"

#include <algorithm>
#include <functional>

#include "error.hpp"
#include "tokenizer/characters/utf8.hpp"

namespace mortise::tokenizer {
namespace {

constexpr std::int32_t kNone = -1;
constexpr char32_t kNumFrequentCharacters = 0x800;  // all characters of one or two bytes

}  // namespace

// The tokens of one piece while they are merged: a doubly linked list in an array, and a heap of candidate pairs.
// Entries of the heap become stale when a neighbour merges; they are recognised when they are popped.
class BpeModel::Word {
 public:
  void clear() { symbols_.clear(); }
  void add(std::int32_t id) {
    const auto index = static_cast<std::int32_t>(symbols_.size());
    symbols_.push_back({id, index - 1, index + 1});
  }

  void merge_all(const MergeTable& merges) {
    if (symbols_.size() < 2) return;
    symbols_.back().next = kNone;
    candidates_.clear();
    for (std::size_t i = 0; i + 1 < symbols_.size(); ++i) {
      if (const Merge* merge = merges.find(symbols_[i].id, symbols_[i + 1].id)) {
        candidates_.push_back({merge->rank, static_cast<std::int32_t>(i), merge->id});
      }
    }
    std::ranges::make_heap(candidates_, std::greater{});
    while (!candidates_.empty()) {
      std::ranges::pop_heap(candidates_, std::greater{});
      const Candidate top = candidates_.back();
      candidates_.pop_back();
      merge_one(top, merges);
    }
  }

  void append_to(std::vector<std::int32_t>& ids) const {
    for (const Symbol& symbol : symbols_) {
      if (symbol.id != kNone) ids.push_back(symbol.id);
    }
  }

 private:
  struct Symbol {
    std::int32_t id;  // kNone after it was merged into the symbol on its left
    std::int32_t previous;
    std::int32_t next;
  };
  struct Candidate {
    std::uint32_t rank;
    std::int32_t position;
    std::int32_t merged_id;
    auto operator<=>(const Candidate&) const = default;
  };

  void merge_one(const Candidate& top, const MergeTable& merges) {
    Symbol& left = symbols_[top.position];
    if (left.id == kNone || left.next == kNone) return;
    Symbol& right = symbols_[left.next];
    const Merge* current = merges.find(left.id, right.id);
    if (!current || current->id != top.merged_id) return;  // stale
    left.id = top.merged_id;
    left.next = right.next;
    right.id = kNone;
    if (left.next != kNone) symbols_[left.next].previous = top.position;
    if (left.previous != kNone) push(left.previous, merges);
    if (left.next != kNone) push(top.position, merges);
  }

  void push(std::int32_t position, const MergeTable& merges) {
    const Symbol& left = symbols_[position];
    const Merge* merge = merges.find(left.id, symbols_[left.next].id);
    if (!merge) return;
    candidates_.push_back({merge->rank, position, merge->id});
    std::ranges::push_heap(candidates_, std::greater{});
  }

  std::vector<Symbol> symbols_;
  std::vector<Candidate> candidates_;
};

BpeModel::BpeModel(const TokenizerFile& file, const ConfigNode& node)
    : vocabulary_(file.vocabulary),
      merges_(file.merges.size()),
      ignore_merges_(node.bool_or("ignore_merges", false)),
      fuse_unk_(node.bool_or("fuse_unk", false)),
      byte_fallback_(node.bool_or("byte_fallback", false)) {
  if (!file.has_vocabulary) node.at("vocab").fail_expected("an object of tokens and ids");
  if (!file.has_merges) node.at("merges").fail_expected("an array");
  if (const auto prefix = node.find("continuing_subword_prefix")) prefix_ = prefix->as_string();
  if (const auto suffix = node.find("end_of_word_suffix")) suffix_ = suffix->as_string();
  if (const auto dropout = node.find("dropout"); dropout && !dropout->is_zero()) {
    dropout->fail_expected("null or 0 (random merges would make the ids depend on chance)");
  }
  if (const auto unk = node.find("unk_token")) {
    unk_token_ = unk->as_string();
    unk_id_ = vocabulary_.find(unk_token_);
  }
  read_merges(file);
  read_byte_tokens();
  read_frequent_characters();
}

void BpeModel::read_merges(const TokenizerFile& file) {
  const MergeList& list = file.merges;
  const auto find = [&](std::size_t i, std::string_view token) {
    const auto id = vocabulary_.find(token);
    if (!id) fail("{}: model.merges[{}]: expected tokens of model.vocab, found \"{}\"", file.path, i, token);
    return *id;
  };
  std::int32_t merged = kNone;
  std::string joined;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::int32_t left = find(i, list.left(i));
    const std::int32_t right = find(i, list.right(i));
    std::string_view text = list.merged(i);
    if (!prefix_.empty()) {
      const std::string_view right_text = list.right(i);
      if (right_text.size() < prefix_.size() || !is_valid_utf8(right_text.substr(prefix_.size()))) {
        fail("{}: model.merges[{}]: expected a right half after continuing_subword_prefix \"{}\", found \"{}\"",
             file.path, i, prefix_, right_text);
      }
      joined.assign(list.left(i)).append(right_text.substr(prefix_.size()));
      text = joined;
    }
    // Trained vocabularies usually number tokens in the order of the merges, so the next id is tried first.
    merged = vocabulary_.text(merged + 1) == text ? merged + 1 : find(i, text);
    merges_.add(left, right, {static_cast<std::uint32_t>(i), merged});
  }
}

void BpeModel::read_byte_tokens() {
  for (unsigned byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte)).value_or(kNone);
  }
}

void BpeModel::read_frequent_characters() {
  for (char32_t c = 0; c < kNumFrequentCharacters; ++c) {
    std::string character;
    append_utf8(c, character);
    frequent_character_ids_.push_back(vocabulary_.find(character).value_or(kNone));
  }
}

std::optional<std::int32_t> BpeModel::character_id(std::string_view character) const {
  if (character.empty() || character_length(character[0]) != character.size() || character.size() > 2) {
    return vocabulary_.find(character);
  }
  std::size_t at = 0;
  const std::int32_t id = frequent_character_ids_[next_code_point(character, at)];
  if (id == kNone) return std::nullopt;
  return id;
}

void BpeModel::start_word(std::string_view piece, Word& word) const {
  bool unk_pending = false;
  const bool has_affixes = !prefix_.empty() || !suffix_.empty();
  std::string affixed;
  for (std::size_t i = 0; i < piece.size();) {
    const std::string_view character = piece.substr(i, character_length(piece[i]));
    const bool is_first = i == 0;
    i += character.size();
    if (!has_affixes) {
      add_character(character, word, unk_pending);
      continue;
    }
    affixed.assign(is_first ? "" : prefix_).append(character).append(i == piece.size() ? suffix_ : "");
    add_character(affixed, word, unk_pending);
  }
  if (unk_pending) word.add(*unk_id_);
}

void BpeModel::add_character(std::string_view character, Word& word, bool& unk_pending) const {
  if (const auto id = character_id(character)) {
    if (unk_pending) word.add(*unk_id_);
    unk_pending = false;
    word.add(*id);
    return;
  }
  const auto byte_id = [this](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  if (byte_fallback_ && std::ranges::find(character, kNone, byte_id) == character.end()) {
    // A pending unk is emitted after these bytes, an oddity of `tokenizers` that is reproduced.
    for (const char byte : character) word.add(byte_id(byte));
    return;
  }
  if (unk_token_.empty()) return;
  if (!unk_id_)
    fail("the text has a character that is not a token, and unk_token '{}' is not a token either", unk_token_);
  if (unk_pending && !fuse_unk_) word.add(*unk_id_);
  unk_pending = true;
}

void BpeModel::tokenize(const PreTokenized& text, std::vector<std::int32_t>& ids) const {
  Word word;
  for (const auto& piece : text.pieces) {
    const std::string_view view = text.view(piece);
    if (ignore_merges_) {
      if (const auto id = vocabulary_.find(view)) {
        ids.push_back(*id);
        continue;
      }
    }
    word.clear();
    start_word(view, word);
    word.merge_all(merges_);
    word.append_to(ids);
  }
}

}  // namespace mortise::tokenizer
