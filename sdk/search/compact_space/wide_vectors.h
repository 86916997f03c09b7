// Functions that are compiled twice, for any x86-64 and for one with AVX2, which is asked when the library is loaded.
// What they compute is the same: no operation is fused, and none is reordered.
#pragma once

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MESHWRIGHT_WIDE_VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define MESHWRIGHT_WIDE_VECTORS
#endif
