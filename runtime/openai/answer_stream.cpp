#include "openai/answer_stream.hpp"

#include <algorithm>
#include <utility>

#include "error.hpp"
#include "openai/answers.hpp"

namespace mortise {
namespace {

std::string dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Cuts the front off `delta`: the part that takes its choice from `seen` to `have`.
Delta cut_front(Delta& delta, const ChoiceProgress& seen, const ChoiceProgress& have) {
  const auto tokens = std::min<std::uint64_t>(delta.tokens.size(), have.num_tokens - seen.num_tokens);
  const auto bytes = std::min<std::uint64_t>(delta.text.size(), have.num_bytes - seen.num_bytes);
  Delta front;
  front.prompt = std::move(delta.prompt);
  delta.prompt.clear();
  const auto split = delta.tokens.begin() + static_cast<std::ptrdiff_t>(tokens);
  front.tokens.assign(std::move_iterator(delta.tokens.begin()), std::move_iterator(split));
  delta.tokens.erase(delta.tokens.begin(), split);
  front.text = delta.text.substr(0, bytes);
  delta.text.erase(0, bytes);
  return front;
}

}  // namespace

AnswerStream::AnswerStream(Engine& engine, Work work, StreamOrigin origin, std::string head,
                           std::vector<ChoiceProgress> have, AnswerObserver* observer, std::function<void()> wake)
    : engine_(engine),
      work_(std::move(work)),
      head_(std::move(head)),
      origin_(origin_text(origin)),
      progress_(std::move(have)),
      writer_(work_.chunks()),
      observer_(observer) {
  const auto now = std::chrono::steady_clock::now();
  std::size_t num_choices = 0;
  for (const Request& request : work_.requests) {
    Prompt& prompt = prompts_.emplace_back();
    prompt.channel = std::make_shared<PulledChannel>(request.sampling.n, wake);
    for (std::int32_t i = 0; i < request.sampling.n; ++i) {
      Choice& choice = prompt.choices.emplace_back();
      choice.place = {prompts_.size() - 1, num_choices++};
      choice.times.arrival = request.arrival.value_or(now);
      choice.usage.prompt_tokens = static_cast<std::int32_t>(request.prompt.size());
    }
    prompt_tokens_ += static_cast<std::int64_t>(request.prompt.size());
  }
  if (progress_.empty()) progress_.resize(num_choices);
  if (progress_.size() != num_choices) {
    fail("Last-Event-ID belongs to a stream of {} choices, but this body asks for {}", progress_.size(), num_choices);
  }
  for (Prompt& prompt : prompts_) {
    for (Choice& choice : prompt.choices) {
      choice.sent = progress_[choice.place.index];
      if (!choice.sent.ended()) ++num_open_;
      choice.open = !choice.sent.ended();
      if (!choice.open) choice.usage.completion_tokens = static_cast<std::int32_t>(choice.sent.num_tokens);
    }
  }
  try {
    bool follows = false;
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      const auto is_open = [](const Choice& choice) { return choice.open; };
      if (std::ranges::none_of(prompts_[i].choices, is_open)) continue;
      work_.requests[i].follows = std::exchange(follows, true);
      prompts_[i].request = engine_.submit(std::move(work_.requests[i]), prompts_[i].channel);
    }
  } catch (...) {
    abort();
    throw;
  }
}

AnswerStream::~AnswerStream() {
  abort();
  close_choices();
}

// Tells the observer that the choices which are still open were aborted, since no reader will see their ends.
void AnswerStream::close_choices() {
  for (Prompt& prompt : prompts_) {
    for (Choice& choice : prompt.choices) {
      if (!std::exchange(choice.open, false) || observer_ == nullptr) continue;
      Delta end;
      end.finish = FinishReason::kAborted;
      end.sent = std::chrono::steady_clock::now();
      end.usage = choice.usage;
      observer_->saw(choice.times, end);
    }
  }
  num_open_ = 0;
}

void AnswerStream::abort() {
  if (num_open_ == 0) return;
  for (const Prompt& prompt : prompts_) {
    if (prompt.request != 0) engine_.abort(prompt.request);
  }
}

StreamState AnswerStream::take(std::string& events) {
  for (Prompt& prompt : prompts_) take(prompt, events);
  if (is_cut_) return StreamState::kCut;
  if (num_open_ > 0) return StreamState::kOpen;
  if (work_.stream.usage_at_the_end) {
    events += "data: " + head_ + "\"choices\":[],\"usage\":" + dump(usage()) + "}\n\n";
  }
  events += "data: [DONE]\n\n";
  return StreamState::kWhole;
}

void AnswerStream::take(Prompt& prompt, std::string& events) {
  do {
    prompt.channel->take(deltas_);
    for (Delta& delta : deltas_) {
      Choice& choice = prompt.choices[static_cast<std::size_t>(delta.choice)];
      if (choice.open) take(choice, std::move(delta), events);
    }
  } while (!prompt.channel->arm());
}

void AnswerStream::take(Choice& choice, Delta&& delta, std::string& events) {
  if (observer_ != nullptr) observer_->saw(choice.times, delta);
  choice.usage.completion_tokens += static_cast<std::int32_t>(delta.tokens.size());
  const FinishReason finish = delta.finish;
  if (finish != FinishReason::kNone) {
    choice.open = false;
    choice.usage = delta.usage;
    --num_open_;
  }
  if (finish == FinishReason::kError || finish == FinishReason::kAborted) return end_early(delta, events);
  bool begins = std::exchange(choice.seen.stage, ChoiceProgress::Stage::kBegun) == ChoiceProgress::Stage::kNothing;
  const ChoiceProgress& have = choice.sent;
  if (have.begun() && (begins || choice.seen.num_tokens < have.num_tokens || choice.seen.num_bytes < have.num_bytes)) {
    // The client already has this part, but the writer must see it, too.
    const Delta front = cut_front(delta, choice.seen, have);
    choice.seen.num_tokens += front.tokens.size();
    choice.seen.num_bytes += front.text.size();
    chunks_.clear();
    writer_->write(choice.place, front, begins, chunks_);
    begins = false;
  }
  if (have.ended() || (finish == FinishReason::kNone && !begins && delta.tokens.empty() && delta.text.empty())) return;
  write(choice, delta, begins, events);
}

void AnswerStream::write(Choice& choice, const Delta& delta, bool begins, std::string& events) {
  chunks_.clear();
  writer_->write(choice.place, delta, begins, chunks_);
  choice.seen.num_tokens += delta.tokens.size();
  choice.seen.num_bytes += delta.text.size();
  ChoiceProgress& progress = progress_[choice.place.index];
  for (const ChunkChoice& chunk : chunks_) {
    if (chunk.stage != ChunkChoice::Stage::kBegun) {
      progress.num_tokens = choice.seen.num_tokens;
      progress.num_bytes = choice.seen.num_bytes;
    }
    progress.stage =
        chunk.stage == ChunkChoice::Stage::kEnded ? ChoiceProgress::Stage::kEnded : ChoiceProgress::Stage::kBegun;
    add_event(chunk.json, events);
  }
}

void AnswerStream::add_event(const nlohmann::ordered_json& choice, std::string& events) {
  if (work_.stream.event_ids) {
    events += "id: " + origin_;
    append_progress(events, progress_);
    events += '\n';
  }
  events += "data: " + head_ + "\"choices\":[" + dump(choice) + "]";
  if (work_.stream.usage_always) {
    events += ",\"usage\":" + dump(usage());
  } else if (work_.stream.usage_at_the_end) {
    events += ",\"usage\":null";
  }
  events += "}\n\n";
}

// Ends the stream because one choice has failed.
void AnswerStream::end_early(const Delta& delta, std::string& events) {
  // While the stream is read, only the engine's end aborts a choice.
  const bool aborted = delta.finish == FinishReason::kAborted;
  is_cut_ =
      aborted || (delta.code == ErrorCode::kUnavailable && engine_.health().state == EngineHealth::State::kDraining);
  if (is_cut_ && work_.stream.event_ids) {
    // A comment, which no client takes for an event. (An error event would end clients that resume after a broken
    // connection.)
    events += ": the server ends before this answer; send the body again with Last-Event-ID\n\n";
  } else if (aborted) {
    add_error(Error("the server ended before the answer did", ErrorCode::kUnavailable), events);
  } else {
    add_error(Error(delta.error, delta.code), events);
  }
  abort();
  close_choices();
}

void AnswerStream::add_error(const Error& error, std::string& events) const {
  events += "data: " + dump(error_answer(error).body) + "\n\n";
}

nlohmann::ordered_json AnswerStream::usage() const {
  UsageSum sum;
  sum.prompt = prompt_tokens_;
  std::int64_t cached = 0;
  for (const Prompt& prompt : prompts_) {
    cached += prompt.choices.front().usage.cached_tokens;
    for (const Choice& choice : prompt.choices) sum.add(choice.usage);
  }
  if (num_open_ == 0) sum.cached = cached;
  return sum.json();
}

}  // namespace mortise
