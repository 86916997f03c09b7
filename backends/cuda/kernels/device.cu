// All kernels for the GPU: nvcc makes one file of code for several architectures of this, which is loaded when the backend starts.
#include "all.h"
