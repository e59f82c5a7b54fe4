#include "engine/text_stream.hpp"

#include <algorithm>
#include <utility>

namespace mortise {
namespace {

// Length of the longest end of `text` that is a proper beginning of `stop`.
std::size_t overlap(std::string_view text, std::string_view stop) {
  for (std::size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n) {
    if (text.substr(text.size() - n) == stop.substr(0, n)) return n;
  }
  return 0;
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<std::string> stop)
    : decoder_(tokenizer, /*skip_special_tokens=*/true), stop_(std::move(stop)) {}

std::string TextStream::push(std::int32_t token) {
  return release(decoder_.push(token), /*last=*/false);
}

std::string TextStream::finish() {
  return release(decoder_.finish(), /*last=*/true);
}

std::string TextStream::release(std::string_view fresh, bool last) {
  if (stopped_) return {};
  held_ += fresh;
  std::size_t cut = std::string::npos;
  for (const std::string& stop : stop_) cut = std::min(cut, held_.find(stop));
  if (cut != std::string::npos) {
    stopped_ = true;
    return held_.substr(0, cut);
  }
  std::size_t keep = 0;
  if (!last) {
    for (const std::string& stop : stop_) keep = std::max(keep, overlap(held_, stop));
  }
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return out;
}

}  // namespace mortise
