// runtime/assembly/checkpoint_service.hpp: implements ext/checkpoint.h for plugins that load weights of their own.
#pragma once

#include "mortise/ext/checkpoint.h"

namespace mortise {

const mortise_checkpoint_table* checkpoint_service();

}  // namespace mortise
