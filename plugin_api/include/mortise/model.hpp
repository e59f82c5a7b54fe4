// mortise/model.hpp: builds the component of a model from a C++ class. Not part of the ABI: compiled into the plugin,
// like plugin.hpp. C++20. Since 0.3.
//   constexpr mortise_component kMine =
//       mortise::ModelComponent<Mine>::component("mine", "... checkpoints", kOptionsSchema);
//   MORTISE_PLUGIN("example.mine", "Example", "1.0.0", "Apache-2.0", &kMine)
// The class Mine needs
//   explicit Mine(const mortise_create_args&)
//   static void check_config(std::string_view config_json)      throws Failure if it does not serve the checkpoint
//   mortise_model_dims dims() const
//   void load(const mortise_weight_reader&)
//   void activate(const mortise_activate_args&) and void deactivate()
//   mortise_tensor forward(const mortise_step&)                 returns the hidden rows
//   void head(const mortise_step&, const mortise_tensor& hidden, int32_t vocab_begin, int32_t vocab_end,
//             const mortise_tensor& logits)
// and may have
//   void tell(const mortise_host*) const   writes to the host's log what an operator should know about a new instance;
//                                          the host may be null
// model.h says on which thread each is called. guard() turns an exception into the status and message of the call.
#pragma once

#include <memory>

#include "mortise/model.h"
#include "mortise/plugin.hpp"

namespace mortise {

// The C functions and the table of one model class. An instance pointer is always a Model that `create` made. Has no
// state: every thread tag of model.h and plugin.h holds as it is.
template <typename Model>
class ModelComponent {
 public:
  // The texts must be static.
  static constexpr mortise_component component(const char* name, const char* summary, const char* options_schema) {
    return {sizeof(mortise_component),
            0,
            MORTISE_KIND_MODEL,
            0,
            MORTISE_CAP_EXACT | MORTISE_CAP_CAPTURE,
            name,
            summary,
            options_schema,
            nullptr,
            &kTable,
            supports,
            create,
            destroy,
            activate,
            deactivate,
            nullptr};
  }

 private:
  static Model& model_of(void* instance) { return *static_cast<Model*>(instance); }
  static Model& model_of(mortise_model* instance) { return *reinterpret_cast<Model*>(instance); }

  // Fills *to, up to the struct_size that its owner set.
  template <typename T>
  static void fill(T* to, T value) {
    value.struct_size = to->struct_size;
    std::memcpy(to, &value, std::min<std::size_t>(to->struct_size, sizeof(T)));
  }

  static mortise_status supports(const mortise_query* query, mortise_error* reason) {
    return guard(reason, "supports", [&] {
      const auto asked = known(query);
      if (asked.model_config.size != 0) Model::check_config(view(asked.model_config));
    });
  }
  static mortise_status create([[maybe_unused]] const mortise_host* host, const mortise_create_args* args,
                               void** instance, mortise_error* error) {
    return guard(error, "create", [&] {
      auto model = std::make_unique<Model>(known(args));
      if constexpr (requires { model->tell(host); }) model->tell(host);
      *instance = model.release();
    });
  }
  static void destroy(void* instance) { delete &model_of(instance); }
  static mortise_status activate(void* instance, const mortise_activate_args* args, mortise_error* error) {
    const mortise_status status = guard(error, "activate", [&] { model_of(instance).activate(known(args)); });
    if (status != MORTISE_OK) model_of(instance).deactivate();  // frees what activate had allocated before it failed
    return status;
  }
  static void deactivate(void* instance) { model_of(instance).deactivate(); }

  static mortise_status dims(mortise_model* model, mortise_model_dims* out, mortise_error* error) {
    return guard(error, "dims", [&] { fill(out, model_of(model).dims()); });
  }
  static mortise_status load(mortise_model* model, const mortise_weight_reader* reader, mortise_error* error) {
    return guard(error, "load", [&] { model_of(model).load(known(reader)); });
  }
  static mortise_status forward(mortise_model* model, const mortise_step* step, mortise_tensor* hidden,
                                mortise_error* error) {
    return guard(error, "forward", [&] { fill(hidden, model_of(model).forward(known(step))); });
  }
  static mortise_status head(mortise_model* model, const mortise_step* step, const mortise_tensor* hidden,
                             int32_t vocab_begin, int32_t vocab_end, const mortise_tensor* logits,
                             mortise_error* error) {
    return guard(error, "head",
                 [&] { model_of(model).head(known(step), known(hidden), vocab_begin, vocab_end, known(logits)); });
  }

  static constexpr mortise_model_table kTable = {sizeof(mortise_model_table), 0, dims, load, forward, head};
};

}  // namespace mortise
