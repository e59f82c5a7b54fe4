// There is one stream, NULL, and it is synchronous: work has run when the call that queues it returns.
#include "devices/cpu/cpu_device.hpp"
#include "devices/cpu/ops.hpp"

namespace mortise::cpu {

mortise_status stream_create(mortise_device*, mortise_stream** stream, mortise_error*) {
  *stream = nullptr;
  return MORTISE_OK;
}
void stream_destroy(mortise_device*, mortise_stream*) {}
mortise_status stream_synchronize(mortise_device*, mortise_stream*, mortise_error*) {
  return MORTISE_OK;
}
void* stream_native(mortise_device*, mortise_stream*) {
  return nullptr;
}
mortise_status event_create(mortise_device*, mortise_event** event, mortise_error*) {
  *event = nullptr;
  return MORTISE_OK;
}
void event_destroy(mortise_device*, mortise_event*) {}
mortise_status event_record(mortise_device*, mortise_event*, mortise_stream*, mortise_error*) {
  return MORTISE_OK;
}
mortise_status event_wait(mortise_device*, mortise_event*, mortise_stream*, mortise_error*) {
  return MORTISE_OK;
}
mortise_status event_synchronize(mortise_device*, mortise_event*, mortise_error*) {
  return MORTISE_OK;
}

}  // namespace mortise::cpu
