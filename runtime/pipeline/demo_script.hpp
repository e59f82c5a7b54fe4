// runtime/pipeline/demo_script.hpp: the script that runs when none is given, compiled in.
#pragma once

namespace mortise {

extern const char* const kDemoScript;    // the text of scripts/demo.lua
extern const char* const kSourceFolder;  // of the source tree that this was built from

}  // namespace mortise
