#include "chat_template/marked_text.hpp"

#include <algorithm>

namespace mortise::jinja {

std::size_t MarkedText::run_at(std::size_t at) const {
  const auto run = std::ranges::upper_bound(runs_, at, {}, &Run::end);
  return static_cast<std::size_t>(run - runs_.begin());
}

Source MarkedText::source_at(std::size_t at) const {
  return runs_[run_at(at)].source;
}

Source MarkedText::source() const {
  const bool has = std::ranges::find(runs_, Source::kCaller, &Run::source) != runs_.end();
  return has ? Source::kCaller : Source::kTemplate;
}

void MarkedText::append(std::string_view text, Source source) {
  if (text.empty()) return;
  bytes_.append(text);
  if (!runs_.empty() && runs_.back().source == source) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), source});
  }
}

void MarkedText::append(const MarkedText& text, std::size_t begin, std::size_t end) {
  if (&text == this) return append(MarkedText(text), begin, end);
  for (std::size_t run = text.run_at(begin); begin < end; ++run) {
    const std::size_t stop = std::min(end, text.runs_[run].end);
    append(std::string_view(text.bytes_).substr(begin, stop - begin), text.runs_[run].source);
    begin = stop;
  }
}

MarkedText MarkedText::substr(std::size_t begin, std::size_t end) const {
  MarkedText part;
  part.append(*this, begin, end);
  return part;
}

void MarkedText::resize(std::size_t size) {
  bytes_.resize(size);
  while (!runs_.empty() && (runs_.size() > 1 ? runs_[runs_.size() - 2].end : 0) >= size) runs_.pop_back();
  if (!runs_.empty()) runs_.back().end = size;
}

}  // namespace mortise::jinja
