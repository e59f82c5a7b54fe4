#!/bin/sh
# usage: no_shared_inline_functions.sh OBJECT...
# Of an inline function that several object files hold, the linker keeps one. If one outside the inline namespace of its
# instruction set were compiled with AVX-512, the portable path could get it, and die on machines without.
shared=$(nm -C "$@" | grep ' [WVu] ' | grep -v 'mortise::cpu::isa_')
[ -z "$shared" ] && exit 0
echo "inline functions outside the namespace of an instruction set, in files compiled per instruction set:"
echo "$shared"
exit 1
