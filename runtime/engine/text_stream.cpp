#include "engine/text_stream.hpp"

#include <algorithm>
#include <utility>

namespace mortise {
namespace {

// Returns the length of the longest end of `text` that is a proper beginning of `stop`.
std::size_t overlap(std::string_view text, std::string_view stop) {
  for (std::size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n) {
    if (text.substr(text.size() - n) == stop.substr(0, n)) return n;
  }
  return 0;
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, const SamplingParams& params, const DecodedPrefix& before)
    : decoder_(tokenizer, params.skip_special_tokens, before), stop_(params.stop), min_tokens_(params.min_tokens) {}

std::string TextStream::push(std::int32_t token) {
  ++num_tokens_;
  return release(decoder_.push(token), /*last=*/false);
}

std::string TextStream::finish() {
  return release(decoder_.finish(), /*last=*/true);
}

bool TextStream::find_stop() {
  std::size_t cut = std::string::npos;
  for (const std::string& stop : stop_) {
    cut = std::min(cut, held_.find(stop, num_exempt_ >= stop.size() ? num_exempt_ - stop.size() + 1 : 0));
  }
  if (cut == std::string::npos) return false;
  held_.resize(cut);
  return true;
}

std::string TextStream::release(std::string fresh, bool last) {
  if (stopped_) return {};
  if (stop_.empty()) return fresh;
  held_ += fresh;
  if (num_tokens_ < min_tokens_) {
    num_exempt_ = held_.size();
  } else if (find_stop()) {
    stopped_ = true;
    return std::move(held_);
  }
  std::size_t keep = 0;
  if (!last) {
    for (const std::string& stop : stop_) keep = std::max(keep, overlap(held_, stop));
  }
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  num_exempt_ -= std::min(num_exempt_, out.size());
  return out;
}

}  // namespace mortise
