// runtime/cli/service_manager.hpp: reports the state of the service to systemd (sd_notify(3)), without systemd's
// library.
#pragma once

#include <string>

namespace mortise {

// Sends `state` ("READY=1") to the socket in $NOTIFY_SOCKET; does nothing if it is unset. A failure is only a warning,
// because the service works without it. [any thread]
void notify_service_manager(const std::string& state);

}  // namespace mortise
