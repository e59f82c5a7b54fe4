// runtime/openai/event_id.hpp: the `id` of a stream's event: all that a replica needs to go on behind it with the same
// body. A client sends it back as Last-Event-ID (HTML standard, "Server-sent events").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mortise {

// How much of a choice a client has.
struct ChoiceProgress {
  bool begun = false;  // a role, or the echoed prompt
  bool ended = false;  // the finish reason
  std::uint64_t num_tokens = 0, num_bytes = 0;
};

// What all events of a stream have in common.
struct StreamOrigin {
  std::string fingerprint;    // of the pipeline
  std::string answer_id;      // without its prefix
  std::int64_t created = 0;   // Unix seconds
  std::uint64_t seed = 0;     // of the first prompt
  bool seed_drawn = false;    // the body had none: the next prompt's is one more
  std::uint64_t prompts = 0;  // a hash of the prompts' tokens, so that another body is refused
};

struct EventId {
  StreamOrigin origin;
  std::vector<ChoiceProgress> choices;  // by index in the answer
};

// Printable ASCII without spaces: the origin's part is made once, the progress for each event.
std::string origin_text(const StreamOrigin& origin);
void append_progress(std::string& text, const std::vector<ChoiceProgress>& choices);

// Throws an Error when `text` is no such id.
EventId read_event_id(std::string_view text);

}  // namespace mortise
