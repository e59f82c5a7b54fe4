// runtime/assembly/checkpoint_service.hpp: ext/checkpoint.h, for parts that have weights of their own.
#pragma once

#include "mortise/ext/checkpoint.h"

namespace mortise {

const mortise_checkpoint_table* checkpoint_service();

}  // namespace mortise
