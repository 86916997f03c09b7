// Visibility of what libmeshwright_kernel gives to plugins: everything is hidden but what carries this mark.
#pragma once

#define MESHWRIGHT_API __attribute__((visibility("default")))
