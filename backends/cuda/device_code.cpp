#include "device_code.h"

#ifdef MESHWRIGHT_DEVICE_CODE
// The file as it is: a compiler takes minutes for as many bytes written as numbers.
asm(".section .rodata\n"
    ".balign 64\n"
    "meshwright_device_code_begin:\n"
    ".incbin \"" MESHWRIGHT_DEVICE_CODE
    "\"\n"
    "meshwright_device_code_end:\n"
    ".previous\n");
extern "C" const std::byte meshwright_device_code_begin[], meshwright_device_code_end[];
#endif

namespace meshwright::cuda {

std::span<const std::byte> device_code() {
#ifdef MESHWRIGHT_DEVICE_CODE
  return {meshwright_device_code_begin, meshwright_device_code_end};
#else
  return {};
#endif
}

}  // namespace meshwright::cuda
