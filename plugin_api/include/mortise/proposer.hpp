// mortise/proposer.hpp: builds the component of a proposer from a C++20 class. Not part of the ABI: it is compiled into
// the plugin, like plugin.hpp. C++20. Since 0.3.
//   constexpr mortise_component kMine =
//       mortise::ProposerComponent<Mine>::component("mine", "drafts ...", kOptionsSchema);
//   MORTISE_PLUGIN("example.mine", "Example", "1.0.0", "Apache-2.0", &kMine)
// The class Mine needs
//   Mine(const mortise_host*, const mortise_create_args&, const mortise::Options&)
//   void bind(const mortise_proposer_bind_args&)
//   void observe(const mortise_observation&)
//   void propose(const mortise_proposal_args&), or propose(const mortise_step&, const mortise_proposal_args&)
//   num_sequences() const: how many sequences it keeps state for (ext/sequences.h)
// and may have
//   void activate(const mortise_activate_args&) and void deactivate()
//   int32_t max_drafts() const, if there is no option max_tokens
// proposer.h says on which thread each is called. guard() turns an exception into the status and message of the call.
#pragma once

#include "mortise/ext/sequences.h"
#include "mortise/plugin.hpp"
#include "mortise/proposer.h"

namespace mortise {

// The C functions and the table of one proposer class. An instance pointer is always a Proposer that `create` made. Has
// no state: every thread tag of proposer.h and plugin.h holds as it is.
template <typename Proposer>
class ProposerComponent {
 public:
  // The texts must be static. `capabilities` is a mask of MORTISE_CAP_*.
  static constexpr mortise_component component(const char* name, const char* summary, const char* options_schema,
                                               uint64_t capabilities = 0) {
    return {sizeof(mortise_component),
            0,
            MORTISE_KIND_PROPOSER,
            0,
            capabilities,
            name,
            summary,
            options_schema,
            nullptr,
            &kTable,
            supports,
            create,
            destroy,
            kActivates ? activate : nullptr,
            kActivates ? deactivate : nullptr,
            get_ext};
  }

 private:
  static constexpr bool kActivates = requires(Proposer & p, const mortise_activate_args& args) { p.activate(args); };
  static constexpr bool kCounts = requires(const Proposer& p) { p.max_drafts(); };

  static Proposer& self(void* instance) { return *static_cast<Proposer*>(instance); }
  static Proposer& self(mortise_proposer* instance) { return *reinterpret_cast<Proposer*>(instance); }

  static mortise_status supports(const mortise_query*, mortise_error*) { return MORTISE_OK; }
  static mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                               mortise_error* error) {
    return guard(error, "create", [&] {
      const auto given = known(args);
      *instance = new Proposer(host, given, Options(given));
    });
  }
  static void destroy(void* instance) { delete &self(instance); }
  static mortise_status activate(void* instance, const mortise_activate_args* args, mortise_error* error) {
    const mortise_status status = guard(error, "activate", [&] {
      if constexpr (kActivates) self(instance).activate(known(args));
    });
    if (status != MORTISE_OK) deactivate(instance);  // frees what activate had allocated before it failed
    return status;
  }
  static void deactivate(void* instance) {
    if constexpr (kActivates) self(instance).deactivate();
  }

  static mortise_status bind(mortise_proposer* proposer, const mortise_proposer_bind_args* args, mortise_error* error) {
    return guard(error, "bind", [&] { self(proposer).bind(known(args)); });
  }
  static mortise_status observe(mortise_proposer* proposer, const mortise_observation* seen, mortise_error* error) {
    return guard(error, "observe", [&] { self(proposer).observe(known(seen)); });
  }
  static mortise_status propose(mortise_proposer* proposer, const mortise_step* step, const mortise_proposal_args* args,
                                mortise_error* error) {
    return guard(error, "propose", [&] {
      if constexpr (requires { self(proposer).propose(known(step), known(args)); }) {
        self(proposer).propose(known(step), known(args));
      } else {
        self(proposer).propose(known(args));
      }
    });
  }
  static int32_t max_drafts(mortise_proposer* proposer) {
    if constexpr (kCounts) return self(proposer).max_drafts();
    return 0;
  }

  static uint64_t num_sequences(void* instance) { return self(instance).num_sequences(); }
  static const void* get_ext(void*, const char* id) {
    static constexpr mortise_sequences_table kSequences = {sizeof(mortise_sequences_table), 0, num_sequences};
    return std::string_view(id) == MORTISE_EXT_SEQUENCES ? &kSequences : nullptr;
  }

  static constexpr mortise_proposer_table kTable = {sizeof(mortise_proposer_table), 0, bind, observe, propose,
                                                    kCounts ? max_drafts : nullptr};
};

}  // namespace mortise
