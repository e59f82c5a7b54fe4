// runtime/cli/service_manager.hpp: tells systemd how a service is (sd_notify(3)), without its library.
#pragma once

#include <string>

namespace mortise {

// Sends `state` ("READY=1") to the socket that $NOTIFY_SOCKET names; nothing happens without it. What cannot be sent is
// a warning: the service works all the same. [any thread]
void notify_service_manager(const std::string& state);

}  // namespace mortise
