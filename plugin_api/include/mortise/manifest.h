/* mortise/manifest.h: lets a host read what a plugin file describes without running its code, as `mortise plugin info
 * FILE` does for a file that is not trusted yet. The C++ macro MORTISE_PLUGIN includes it. In C write
 *
 *   static const mortise_module kModule = {...};
 *   MORTISE_MANIFEST(kModule);
 *
 * at file scope. The module, its components and all their texts must be constants, which the compiler lays out in the
 * file. A host follows the pointers through the file's relocations (ELF, R_*_RELATIVE). A plugin file need not have a
 * manifest. Not part of the ABI: loading a plugin never looks at it. Since 0.6 */
#ifndef MORTISE_MANIFEST_H
#define MORTISE_MANIFEST_H

#include "mortise/plugin.h"

#define MORTISE_MANIFEST_SECTION ".mortise.module"

/* Puts the address of `module` into a section of its own. */
#define MORTISE_MANIFEST(module)                                                                                  \
  __attribute__((section(MORTISE_MANIFEST_SECTION), used)) static const mortise_module* const mortise_manifest_ = \
      &(module)

#endif
