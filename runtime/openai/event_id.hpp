// runtime/openai/event_id.hpp: the `id` of a stream's event. It holds everything that a replica needs to resume the
// stream after this event, given the same body. A client sends it back as Last-Event-ID (HTML standard, "Server-sent
// events").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mortise {

// How much of a choice a client has received. A value.
struct ChoiceProgress {
  enum class Stage {
    kNothing,
    kBegun,  // a role or the echoed prompt, and num_tokens tokens
    kEnded,  // also the finish reason
  };
  Stage stage = Stage::kNothing;
  std::uint64_t num_tokens = 0, num_bytes = 0;

  bool begun() const { return stage != Stage::kNothing; }
  bool ended() const { return stage == Stage::kEnded; }
};

// The part that all event ids of a stream have in common.
struct StreamOrigin {
  std::string fingerprint;    // of the pipeline
  std::string answer_id;      // without the prefix
  std::int64_t created = 0;   // Unix seconds
  std::uint64_t seed = 0;     // seed of the first prompt
  bool seed_drawn = false;    // the body had no seed: prompts have consecutive seeds
  std::uint64_t prompts = 0;  // hash of the prompts' tokens, so that a different body is refused
};

struct EventId {
  StreamOrigin origin;
  std::vector<ChoiceProgress> choices;  // by index in the answer
};

// Write an id as text: printable ASCII without spaces. The origin's text is made once, the progress for each event.
std::string origin_text(const StreamOrigin& origin);
void append_progress(std::string& text, const std::vector<ChoiceProgress>& choices);

// Throws an Error if `text` is not such an id.
EventId read_event_id(std::string_view text);

}  // namespace mortise
